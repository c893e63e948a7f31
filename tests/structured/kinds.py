"""The cases of the laws of structured types: the types, and programs of one of them and dense arrays."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import autodiff as ad

la = ad.linalg
N = 4


class Kind(NamedTuple):
    """A structured type: how one is made of the array that it holds, and such an array."""

    make: Callable[[Any], Any]
    held: Callable[[np.random.Generator], np.ndarray]


def _positive(rng):
    return rng.uniform(0.5, 2.0, N)


def _regular(rng):
    return rng.uniform(-1, 1, (N, N)) + 3 * np.eye(N)


#: What a gradient flows to is the array held.
KINDS = {
    "Diagonal": Kind(ad.Diagonal, _positive),
    "UniformScaling": Kind(lambda c: ad.UniformScaling(c, N), lambda rng: np.asarray(rng.uniform(0.5, 2.0))),
    "Symmetric": Kind(ad.Symmetric, _regular),
    "LowerTriangular": Kind(ad.LowerTriangular, _regular),
    "UpperTriangular": Kind(ad.UpperTriangular, _regular),
    "Fill": Kind(lambda v: ad.Fill(v, (N, N)), lambda rng: np.asarray(rng.uniform(0.5, 2.0))),
    "Cholesky": Kind(ad.Cholesky, lambda rng: _regular(rng) + _regular(rng).T),
}
#: What holds integers has no gradient itself.
SELECTING = {
    "OneHot": ad.OneHot([2, 0, 3, 0], N),
    "Permutation": ad.Permutation([2, 0, 3, 1]),
}

X = np.random.default_rng(7).uniform(0.5, 1.5, (N, 3))
Y = np.random.default_rng(8).uniform(0.5, 1.5, (N, N))
B = np.random.default_rng(9).uniform(0.5, 1.5, (2, N, N))

#: Programs of a structured matrix.  All but those of `NEEDS_INVERSE` are defined for singular ones too.
PROGRAMS = {
    "a @ X": lambda a: a @ X,
    "a @ vector": lambda a: a @ X[:, 0],
    "a @ stack": lambda a: a @ B,
    "X.T @ a": lambda a: X.T @ a,
    "vector @ a": lambda a: X[:, 0] @ a,
    "stack @ a": lambda a: B @ a,
    "a @ a": lambda a: a @ a,
    "a.T": lambda a: a.T,
    "a.mT @ X": lambda a: a.mT @ X,
    "transpose(0, 1)": lambda a: ad.transpose(a, (0, 1)),
    "transpose(-1, 0)": lambda a: ad.transpose(a, (-1, 0)),
    "a + a": lambda a: a + a,
    "a - 2 * a": lambda a: a - 2 * a,
    "a + Y": lambda a: a + Y,
    "Y - a": lambda a: Y - a,
    "a * Y": lambda a: a * Y,
    "Y * a": lambda a: Y * a,
    "a * row": lambda a: a * Y[0],
    "a * a": lambda a: a * a,
    "2.5 * a": lambda a: 2.5 * a,
    "a * scalar": lambda a: a * ad.tensor(2.5),
    "a / 4": lambda a: a / 4,
    "-a": lambda a: -a,
    "+a": lambda a: +a,
    "a + diagonal": lambda a: a + ad.Diagonal(X[:, 0]),
    "diagonal - a": lambda a: ad.Diagonal(X[:, 0]) - a,
    "a - identity": lambda a: a - ad.UniformScaling(3.0, N),
    "identity - a": lambda a: ad.UniformScaling(3.0, N) - a,
    "a @ diagonal": lambda a: a @ ad.Diagonal(X[:, 0]),
    "diagonal @ a": lambda a: ad.Diagonal(X[:, 0]) @ a,
    "identity @ a": lambda a: ad.UniformScaling(3.0, N) @ a,
    "a @ identity": lambda a: a @ ad.UniformScaling(3.0, N),
    "a @ permutation": lambda a: a @ ad.Permutation([1, 2, 0, 3]),
    "one_hot @ a": lambda a: ad.OneHot([1, 1], N) @ a,
    "fill @ a": lambda a: ad.Fill(2.0, (3, N)) @ a,
    "a @ fill": lambda a: a @ ad.Fill(2.0, (N, 3)),
    "fill + a": lambda a: ad.Fill(2.0, (N,)) + a,
    "trace": lambda a: ad.trace(a),
    "diagonal": lambda a: ad.diagonal(a),
    "diagonal(1)": lambda a: ad.diagonal(a, 1),
    "diagonal(0, 1, 0)": lambda a: ad.diagonal(a, 0, 1, 0),
    "sum": lambda a: a.sum(),
    "sum(0)": lambda a: ad.sum(a, 0),
    "sum(-1, kept)": lambda a: ad.sum(a, -1, keepdims=True),
    "sum(())": lambda a: ad.sum(a, ()),
    "mean": lambda a: ad.mean(a, 1),
    "exp": lambda a: ad.exp(a),
    "a ** 2": lambda a: a**2,
    "maximum": lambda a: ad.maximum(a, 0.75),
    "a[1:]": lambda a: a[1:],
    "einsum": lambda a: ad.einsum("ij,jk->ki", a, X),
    "where": lambda a: ad.where(Y > 1, a, Y),
    "norm": lambda a: ad.norm(a),
    "loss": lambda a: ((a @ X - X) ** 2).sum(),
}
NEEDS_INVERSE = {
    "solve": lambda a: la.solve(a, X),
    "solve vector": lambda a: la.solve(a, X[:, 0]),
    "solve stack": lambda a: la.solve(a, B),
    "inv": lambda a: la.inv(a),
    "det": lambda a: la.det(a),
    "slogdet": lambda a: la.slogdet(a).logabsdet,
}
DEFINITE = {
    "cholesky": lambda a: la.cholesky(a),
    "cholesky used": lambda a: la.solve(la.cholesky(a), X),
}


def cases():
    """(name, kind, program) of every program that is defined for a kind."""
    for name, kind in KINDS.items():
        programs = dict(PROGRAMS)
        if name != "Fill":
            programs |= NEEDS_INVERSE
        if name in ("Diagonal", "UniformScaling", "Symmetric", "Cholesky"):
            programs |= DEFINITE
        for label, program in programs.items():
            yield f"{name}: {label}", kind, program


def energy_with_a_dense_rule():
    """A custom function of any structured matrix whose rule gives a dense gradient for it."""

    @ad.function
    def energy(a, x): ...

    @energy.forward(ad.AbstractTensor, ad.Vector)
    def _(ctx, a, x):
        ctx.save_for_backward(a=a, x=x)
        return (a @ x * x).sum()

    @energy.backward(ad.AbstractTensor, ad.Vector)
    def _(ctx, g):
        s = ctx.saved_variables
        return {"a": g * ad.outer(s.x, s.x), "x": g * (s.a @ s.x + s.a.T @ s.x)}

    return energy
