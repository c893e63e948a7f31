"""Things learnt stay right, and known, when tables are full: in processes that have seen thousands of things."""

from __future__ import annotations

import numpy as np
import pytest
from watched_rules import pair, runs_of, slope

import autodiff as ad
from autodiff.session import plans
from autodiff.tape.node import TABLE_LIMIT, Alive, Out, out_of
from codegen.ir import Aval


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


def test_a_method_changes_what_a_check_answers_when_its_plan_was_forgotten(monkeypatch):
    f = pair(lambda ctx, g: {"x": ad.multiply(g, ctx.inputs.x)})
    for _ in range(5):
        np.testing.assert_array_equal(slope(f), [1.0, -2.0, 3.0])
    monkeypatch.setattr(plans, "maxsize", 1)
    for n in range(3):
        slope(f, x=np.ones(4 + n))
    added = ad.multiply.method(ad.Tensor[ad.float64, 1], ad.Tensor[ad.float64, 1])(lambda x1, x2: ad.add(x1, x2))
    try:
        np.testing.assert_array_equal(slope(f), [2.0, -1.0, 4.0])
    finally:
        added.delete()
    np.testing.assert_array_equal(slope(f), [1.0, -2.0, 3.0])


def test_a_method_changes_a_jit_call_whose_entry_was_forgotten():
    @ad.function
    def scaled(x): ...

    scaled.method(ad.Tensor)(lambda x: x * 2.0)
    f = ad.jit(lambda x, s: scaled(x) + s, static_argnames=("s",))
    x = np.ones(3)
    for _ in range(3):
        np.testing.assert_array_equal(f(x, s=0.0), np.full(3, 2.0))
    f.traced.entries.maxsize = 1
    for s in (1.0, 2.0, 3.0):
        f(x, s=s)
    scaled.method(ad.Vector)(lambda x: x * 100.0)
    np.testing.assert_array_equal(f(x, s=0.0), np.full(3, 100.0))


@pytest.mark.parametrize("kind", ["arrays", "tensors", "tracking"])
def test_a_signature_that_comes_back_is_known_without_python_again(kind):
    made = {
        "arrays": np.ones, "tensors": lambda n: ad.tensor(np.ones(n)),
        "tracking": lambda n: ad.tensor(np.ones(n), requires_grad=True),
    }[kind]  # fmt: skip
    f = ad.jit(lambda x: (x * 2.0).sum())
    first, *others = [made(n) for n in range(1, 24)]
    for x in (first, *others):
        for _ in range(3):
            f(x)
    entry = type(f.traced).entry
    assert runs_of(entry, lambda: [f(first) for _ in range(100)]) < 10
    assert runs_of(entry, lambda: [f(first) for _ in range(100)]) == 0
    both = first, others[0]  # two in turn, neither of which comes twice in a row
    for _ in range(20):
        [f(x) for x in both]
    assert runs_of(entry, lambda: [f(x) for x in both]) == 0


def test_what_is_interned_may_be_interned_in_the_midst_of_another():
    def interned():
        return out_of(Aval((3, 1, 977), np.dtype(np.float64)))

    table, key = Alive(), "key"
    first = table.intern(key, interned())  # a finaliser came first
    assert table.intern(key, Out(Aval((3,), np.dtype(np.float64)), False, False)) is first is interned()
