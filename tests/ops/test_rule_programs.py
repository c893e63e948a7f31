"""A rule's program records what the rule records, in each direction: see `transforms.rule_programs`."""

import os
from contextlib import contextmanager, suppress

import numpy as np
import pytest

import autodiff as ad
from autodiff.ops import recorder
from autodiff.tape.ask import evaluate
from autodiff.tape.walk import history, needed, structure
from autodiff.transforms import forward, reverse, second_order
from autodiff.transforms.backward_pass import looking
from autodiff.transforms.batch import walk
from autodiff.transforms.batch.walk import NoBatchRule
from autodiff.transforms.reverse import ReversePass
from autodiff.transforms.rule_programs import RulePrograms

from .cases import all_cases, law, rng_of, taking_turns

SMOOTH = [c for c in taking_turns(all_cases()) if c.wrt]


class Direct:
    """In the place of programs: there are none."""

    for_pass = staticmethod(lambda *_: None)


def recorded(roots, seeds, leaves, tracks):
    """The gradients of leaves, and what they were recorded as; of one that tracks the cotangent is masked."""
    past = history(roots)
    run = ReversePass(past, seeds, tuple(leaves), tracks, looking(past, [seed[1] for seed in seeds], tracks))
    found = {n: (bar, masked) for n, bar, masked in run.reached()}
    gradients = [found[n][0] for n in leaves if n in found]
    parts, number, _ = structure(needed(gradients), gradients)
    return parts, [number[g] for g in gradients], [(n in found and found[n][1]) for n in leaves]


@law(SMOOTH)
def test_a_program_records_what_its_rule_records(case):
    leaves = [
        ad.tensor(x, requires_grad=i in case.wrt) for i, x in enumerate(case.point(rng_of(case)))
    ]
    y = case.f(*leaves)
    tracked = [leaves[i].node for i in case.wrt]
    # A multiple of the result is a cotangent that some rules take apart.
    for is_other, seed in enumerate((ad.ones(y.shape, dtype=y.dtype), 2.0 * y.detach())):
        seeds = [(y.node, seed.node, bool(is_other))]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reverse, "RulePrograms", Direct)
            expected = recorded([y.node], seeds, tracked, bool(is_other))
        for _ in range(3):
            assert recorded([y.node], seeds, tracked, bool(is_other)) == expected


@contextmanager
def patience(count):
    """This patience meanwhile."""
    before, ad.config.patience = ad.config.patience, count
    try:
        yield
    finally:
        ad.config.patience = before


def values(tensors):
    """The values of those that are there, computed together."""
    found = [t.detach() for t in tensors if t is not None]
    evaluate([t.node for t in found])
    return [np.asarray(t) for t in found]


@law(SMOOTH)
def test_many_cotangents_at_once_give_what_each_of_them_gives(case):
    """Single precision by machine code, the rest as a program is evaluated when it comes for the first time.

    So is what each of them gives: that machine code is right for one is another law.
    """
    leaves = [ad.tensor(x, requires_grad=i in case.wrt) for i, x in enumerate(case.point(rng_of(case)))]
    y = case.f(*leaves)
    tracked, past = tuple([leaves[i].node for i in case.wrt]), history([y.node])
    bars = [ad.tensor(np.full(y.shape, k, y.dtype)) for k in (1.0, -0.5)]
    with patience(8):
        looks = looking(past, [bar.node for bar in bars], True)
        each = [values(ReversePass(past, [(y.node, bar.node)], tracked, True, looks).cotangents()) for bar in bars]
    expected = [np.stack(found) for found in zip(*each, strict=True)]
    looks = looking(past, [bar.node for bar in bars], False)
    if looks:
        return  # the cotangents are computed one by one, and so they are where these errors are raised
    one_by_one = NoBatchRule, ad.ConcretizationError
    with patience(0 if np.float32 in case.dtypes else 8), suppress(*one_by_one):
        for _ in range(3):
            found = ReversePass(past, [(y.node, ad.stack(bars).node)], tracked, False, looks, second_order.many(2))
            gradients = values(found.cotangents())
            assert [g.shape for g in gradients] == [g.shape for g in expected]
            for g, e in zip(gradients, expected, strict=True):
                is_short = g.dtype.itemsize == 4
                near = 1e-6 * np.max(np.abs(e), initial=1.0) if is_short else 1e-12
                np.testing.assert_allclose(g, e, rtol=1e-5 if is_short else 1e-12, atol=near)


def as_recorded(found):
    """The operations that results were recorded as."""
    ends = [None if t is None else t.node for t in found]
    there = [n for n in ends if n is not None]
    parts, number, _ = structure(needed(there), there)
    return parts, [None if n is None else number[n] for n in ends]


@law(SMOOTH)
def test_a_program_of_a_tangent_records_what_the_rule_records(case):
    point = case.point(rng_of(case))
    leaves = [ad.tensor(x, requires_grad=i in case.wrt) for i, x in enumerate(point)]
    y = case.f(*leaves)
    past = history([y.node])
    for tracks in (False, True):
        dots = {leaves[i].node: ad.tensor(np.ones(leaves[i].shape, leaves[i].dtype)) for i in case.wrt}

        def run(dots=dots, tracks=tracks):
            return as_recorded(forward.TangentPass(past, dots, [y.node], tracks).results)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(forward, "RulePrograms", Direct)
            expected = run()
        for _ in range(3):
            assert run() == expected


@law(SMOOTH)
def test_a_program_of_many_examples_records_what_the_rule_records(case):
    point = case.point(rng_of(case))
    given = [ad.tensor(np.stack([x, x])) for x in point]

    def run():
        ((t, differs),) = walk.of_each(lambda made: [case.f(*made)], given, [True] * len(given), 2)
        return as_recorded([t if differs else None])

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(forward, "RulePrograms", Direct)
            expected = run()
    except (ad.Error, TypeError):
        return  # nothing says what it is for many examples
    for _ in range(3):
        assert run() == expected


def programs_of(y):
    rules = [n.kind.rules for n in history([y.node])]
    return [p for r in rules if r is not None for p in r.programs if p.template is not None]


def test_a_kind_gets_its_program_when_it_is_met_again():
    x = ad.tensor(np.linspace(0.1, 1.0, 10_061), requires_grad=True)
    for known in (0, 1, 1):
        ad.clear_cache()  # the plan would answer
        y = ad.sin(x).sum()
        y.backward(retain_graph=True)
        assert len(programs_of(y)) in ((0,) if not known else (1, 2))


@pytest.mark.skipif(os.environ.get("AUTODIFF_LAUNCHER") == "0", reason="Python goes through all nodes")
def test_machine_code_learns_the_rules_of_kinds_that_are_older_than_itself(monkeypatch):
    x = ad.tensor(np.linspace(0.1, 1.0, 10_067), requires_grad=True)

    def backward():
        (ad.tanh(x) * ad.sin(x)).sum().backward(retain_graph=True)

    recorder.uninstall()
    try:
        for _ in range(3):
            backward()
    finally:
        recorder.install()
    by_python = []
    go = reverse.ReversePass.visit_node
    monkeypatch.setattr(reverse.ReversePass, "visit_node", lambda self, at: (by_python.append(at), go(self, at)))
    for _ in range(5):
        ad.clear_cache()  # the plan would answer
        backward()
    assert len(by_python) <= 8  # of five times 4


def test_a_method_that_a_rule_would_choose_is_called():
    points = np.linspace(0.1, 1.0, 73)
    x = ad.tensor(points, requires_grad=True)
    for _ in range(3):
        ad.clear_cache()  # the plan would answer
        y = ad.sin(x).sum()
        y.backward(retain_graph=True)
    assert "cos" in {f.__name__ for p in programs_of(y) for f in p.template.choices.answers}
    x.grad = None
    method = ad.cos.method(ad.Tensor[ad.float64, 1])(lambda x: x * 0.0 + 7.0)
    try:
        ad.sin(x).sum().backward()
        assert np.all(x.grad == 7.0)
    finally:
        method.delete()
    x.grad = None
    ad.sin(x).sum().backward()
    np.testing.assert_allclose(x.grad, np.cos(points))


@pytest.mark.parametrize("program", ["jit", "vmap", "scan", "hooks", "anomaly", "eager"])
def test_gradients_are_the_same_where_rules_run_and_where_they_do_not(program):
    x = np.linspace(0.1, 1.0, 7)

    def f(x):
        return (ad.tanh(x * x) / (1.0 + ad.exp(-x)) * ad.where(x > 0.5, x, 2.0 * x)).sum()

    expected = ad.grad(f)(x)
    for _ in range(4):
        if program == "jit":
            found = ad.jit(lambda x: ad.grad(f)(x))(x)
        elif program == "vmap":
            found = ad.vmap(ad.grad(f))(np.stack([x, x]))[1]
        elif program == "scan":
            found = ad.scan(lambda c, _: (ad.grad(f)(x) + 0.0 * c, None), ad.zeros(7), ad.arange(2))[0]
        else:
            leaf = ad.tensor(x, requires_grad=True)
            if program == "hooks":
                leaf.register_hook(lambda g: g * 1.0)
            if program == "eager":
                ad.config.eager = True
            try:
                if program == "anomaly":
                    with ad.detect_anomaly():
                        f(leaf).backward()
                else:
                    f(leaf).backward()
            finally:
                ad.config.eager = False
            found = leaf.grad
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-12)


def test_there_are_none_where_extents_are_symbols():
    from codegen.symbols import watched

    assert RulePrograms.for_pass(False) is not None
    with watched():
        assert RulePrograms.for_pass(False) is None
