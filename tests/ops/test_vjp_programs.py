"""A rule's program records what the rule records: see `transforms.vjp_programs`."""

import numpy as np
import pytest

import autodiff as ad
from autodiff.tape.walk import history, needed, structure
from autodiff.transforms import reverse
from autodiff.transforms.backward_pass import recording_rules
from autodiff.transforms.reverse import Cotangent, pull_back_masked
from autodiff.transforms.vjp_programs import VJPProgram, VJPPrograms

from .cases import all_cases, law, rng_of, taking_turns

SMOOTH = [c for c in taking_turns(all_cases()) if c.wrt]


class Direct:
    """In the place of programs: there are none."""

    now = staticmethod(lambda tracks: None)


def recorded(roots, seeds, leaves, tracks):
    """The gradients of leaves, and what they were recorded as."""
    with recording_rules(tracks):
        found = pull_back_masked(history(roots), seeds, leaves)
    gradients = [found[n].node for n in leaves if n in found]
    parts, number, _ = structure(needed(gradients), gradients)
    return parts, [number[g] for g in gradients], [(n in found and found[n].masked) for n in leaves]


@law(SMOOTH)
def test_a_program_records_what_its_rule_records(case):
    leaves = [
        ad.tensor(x, requires_grad=i in case.wrt) for i, x in enumerate(case.point(rng_of(case)))
    ]
    y = case.f(*leaves)
    tracked = [leaves[i].node for i in case.wrt]
    # A multiple of the result is a cotangent that some rules take apart.
    for is_other, seed in enumerate((ad.ones(y.shape, dtype=y.dtype), 2.0 * y.detach())):
        seeds = [(y.node, Cotangent(seed.node, bool(is_other)))]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reverse, "VJPPrograms", Direct)
            expected = recorded([y.node], seeds, tracked, bool(is_other))
        for _ in range(3):
            assert recorded([y.node], seeds, tracked, bool(is_other)) == expected


def programs_of(y):
    found = [getattr(p, "entry", p) for n in history([y.node]) for p in (n.kind.rules or {}).values()]
    return [p for p in found if type(p) is VJPProgram]


def test_a_kind_gets_its_program_when_it_is_met_again():
    x = ad.tensor(np.linspace(0.1, 1.0, 10_007), requires_grad=True)
    for known in (0, 1, 1):
        y = ad.sin(x).sum()
        y.backward(retain_graph=True)
        assert len(programs_of(y)) in ((0,) if not known else (1, 2))


def test_a_method_that_a_rule_would_choose_is_called():
    points = np.linspace(0.1, 1.0, 73)
    x = ad.tensor(points, requires_grad=True)
    for _ in range(3):
        y = ad.sin(x).sum()
        y.backward(retain_graph=True)
    assert "cos" in {f.__name__ for p in programs_of(y) for f in p.choices.answers}
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

    assert VJPPrograms.now(False) is not None
    with watched():
        assert VJPPrograms.now(False) is None
