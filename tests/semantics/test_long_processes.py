"""What was learnt stays right, and known, when tables are full: in processes that have seen thousands of other things."""

from __future__ import annotations

import numpy as np
from watched_rules import pair, runs_of, slope

import autodiff as ad
from autodiff.tape.node import TABLE_LIMIT


def test_a_rule_stays_known_when_interning_tables_were_emptied():
    def rule(ctx, g):
        return {"x": g * ctx.saved_variables.c}

    def forward(ctx, x, c):
        ctx.save_for_backward(c=c)
        ctx.factor = 2.0
        return ad.sin(x) * 1.0

    f = pair(rule, forward)
    assert runs_of(rule, lambda: [slope(f, 0.5), slope(f, 1.5)]) == 1
    for n in range(TABLE_LIMIT + 1):  # fills the tables of all that a call records
        f(ad.tensor(np.ones((1, n)), requires_grad=True), 0.5).sum()
    assert runs_of(rule, lambda: np.testing.assert_array_equal(slope(f, 2.5), np.full(3, 2.5))) == 0, ad.explain()


def test_kinds_stay_the_same_objects_while_something_knows_them():
    x = ad.tensor(np.ones((2, 3)), requires_grad=True)
    y = ad.sin(x) + 1.0
    nodes = [y.node, *y.node.inputs, x.node]
    for n in range(TABLE_LIMIT + 1):
        ad.sin(ad.tensor(np.ones((3, n)), requires_grad=True)) + 1.0
    again = ad.sin(ad.tensor(np.ones((2, 3)), requires_grad=True)) + 1.0
    found = [again.node, *again.node.inputs, again.node.inputs[0].inputs[0]]
    assert [n.kind for n in found] == [n.kind for n in nodes]
