"""The laws of structured types: every program gives what it gives for the dense array, and so do its gradients.

What the dense one gives is computed by the references of its operations: nothing of it is compiled.
"""

import numpy as np
import pytest
from differential.random_programs import eager

import autodiff as ad

from .kinds import DEFINITE, KINDS, NEEDS_INVERSE, PROGRAMS, SELECTING, X, cases

CASES = list(cases())
each = pytest.mark.parametrize(("kind", "program"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])


def array(x):
    return np.asarray(ad.dense(x).detach())


def held_by(kind, seed=0):
    return kind.held(np.random.default_rng(seed))


def close(a, b, tolerance=1e-12):
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, float(np.max(np.abs(b), initial=0))))


def weighted(y):
    """A number in which every element of a result counts for something else."""
    y = ad.dense(y)
    return (y * ad.cos(ad.reshape(ad.arange(y.size, dtype=ad.float64), y.shape))).sum()


@each
def test_a_program_of_a_structured_value_gives_what_it_gives_for_the_dense_one(kind, program):
    a = kind.make(held_by(kind))
    y = program(a)
    with eager():
        expected = ad.dense(program(ad.dense(a)))
    assert ad.dense(y).aval == expected.aval
    close(array(y), array(expected))


@each
def test_its_gradient_is_the_projection_of_the_dense_gradient(kind, program):
    a = kind.make(held_by(kind))
    g = ad.grad(lambda a: weighted(program(a)))(a)
    with eager():
        dense_gradient = ad.grad(lambda d: weighted(program(d)))(ad.dense(a))
        projected = ad.project(dense_gradient, a)
    assert type(g) is type(a)
    for ours, theirs in zip(ad.tree.leaves(g), ad.tree.leaves(projected), strict=True):
        close(array(ours), array(theirs), 1e-11)


@each
def test_forward_mode_agrees_with_reverse_mode(kind, program):
    x, dx = held_by(kind), held_by(kind, 1)

    def f(x):
        return weighted(program(kind.make(x)))

    with eager():  # the gradient is compiled above, and what is tangent to it below
        _, dy = ad.jvp(f, (x,), (dx,))
        close(array(dy), np.sum(array(ad.grad(f)(x)) * dx), 1e-10)


@each
def test_second_derivatives_agree_with_those_of_the_dense_program(kind, program):
    x, dx = held_by(kind), held_by(kind, 1)

    def slope(make):
        return ad.jvp(ad.grad(lambda x: weighted(program(make(x)))), (x,), (dx,))[1]

    with eager():
        expected = slope(lambda x: ad.dense(kind.make(x)))
    close(slope(kind.make), expected, 1e-9)


@each
def test_compiled_it_is_the_same(kind, program):
    a = kind.make(held_by(kind))
    f = ad.value_and_grad(lambda a: weighted(program(a)))
    for ours, theirs in zip(ad.tree.leaves(ad.jit(f)(a)), ad.tree.leaves(f(a)), strict=True):
        close(array(ours), array(theirs), 1e-12)


@pytest.mark.parametrize("name", SELECTING)
@pytest.mark.parametrize("label", [n for n in PROGRAMS if n not in ("a - 2 * a", "-a", "a @ a")])
def test_a_selecting_matrix_gives_what_the_dense_one_gives(name, label):
    a, program = SELECTING[name], PROGRAMS[label]
    if label in ("diagonal - a", "Y - a", "identity - a", "a - identity"):
        a = ad.astype(a, ad.float64)  # NumPy refuses to subtract bool from bool, and so do we
    close(array(program(a)), array(program(ad.dense(a))))


@pytest.mark.parametrize("name", SELECTING)
@pytest.mark.parametrize(
    "f", [lambda a, x: a @ x, lambda a, x: x.T @ a, lambda a, x: a @ x[:, 0], lambda a, x: x[:, 1] @ a]
)
def test_what_is_selected_from_gets_the_dense_gradient(name, f):
    a = SELECTING[name]
    for order in (lambda g: ad.grad(g), lambda g: ad.grad(lambda x: (ad.grad(g)(x) ** 2).sum())):
        ours = order(lambda x: (f(a, x) ** 3).sum())(X)
        close(ours, order(lambda x: (f(ad.dense(a), x) ** 3).sum())(X))


def test_every_kind_has_a_case_for_every_operation_that_it_names():
    names = {f"{kind}: {label}" for kind in KINDS for label in (*PROGRAMS, *NEEDS_INVERSE)}
    assert names - {c[0] for c in CASES} == {f"Fill: {label}" for label in NEEDS_INVERSE}
    assert len(DEFINITE) * 4 + len(names) - len(NEEDS_INVERSE) == len(CASES)


def test_the_library_has_no_ambiguous_methods():
    assert len(ad.ambiguities()) == 0


