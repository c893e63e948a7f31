"""Masks, counts and extents that are no arguments of a traced function are constants of the trace until they change."""

import numpy as np
import pytest

import autodiff as ad

MASK, MASK_TENSOR = np.array([True, False, True]), ad.tensor([True, False, True])
V, W = np.array([1.0, 2.0, 3.0]), np.arange(6.0).reshape(2, 3)


def scaled(x):
    x = x * 1.0
    x[MASK] = x[MASK] * 3
    return x


def squares(x):
    return x[MASK] ** 2


inner = ad.jit(squares)


@ad.function
def by_rule(x): ...


@by_rule.forward(ad.Vector)
def _(ctx, x):
    ctx.save_for_backward(x=x)
    return ad.sum(squares(x))


@by_rule.backward(ad.Vector)
def _(ctx, g):
    slope = ad.zeros(3)
    slope[MASK] = 2 * g * ctx.saved_variables.x[MASK]
    return slope


#: (a function of an array that reads `MASK`, its argument, what NumPy says).
READERS = {
    "jit": (ad.jit(squares), V, lambda x: x[MASK] ** 2),
    "jit in jit": (ad.jit(lambda x: inner(x) * 2), V, lambda x: 2 * x[MASK] ** 2),
    "beside an int": (ad.jit(lambda x: x[1, MASK]), W, lambda x: x[1, MASK]),
    "beside a slice and a new axis": (ad.jit(lambda x: x[::-1, None, MASK]), W, lambda x: x[::-1, None, MASK]),
    "beside an index array": (ad.jit(lambda x: x.T[MASK, [1]]), W, lambda x: x.T[MASK, [1]]),
    "a tensor": (ad.jit(lambda x: x[MASK_TENSOR]), V, lambda x: x[MASK]),
    "its values too": (ad.jit(lambda x: x[MASK] * ad.sum(MASK)), V, lambda x: x[MASK] * MASK.sum()),
    "vmap": (ad.vmap(squares), W, lambda x: x[:, MASK] ** 2),
    "jit of vmap": (ad.jit(ad.vmap(squares)), W, lambda x: x[:, MASK] ** 2),
    "vmap of jit": (ad.vmap(ad.jit(squares)), W, lambda x: x[:, MASK] ** 2),
    "scan in jit": (
        ad.jit(lambda x: ad.scan(lambda c, row: (c + ad.sum(row[MASK]), row[MASK]), 0.0, x)[1]), W,
        lambda x: x[:, MASK]),
    "fori_loop in jit": (
        ad.jit(lambda x: ad.fori_loop(0, 2, lambda i, c: c + ad.sum(x[MASK]), 0.0)), V, lambda x: 2 * x[MASK].sum()),
    "update": (ad.jit(scaled), V, lambda x: np.where(MASK, 3 * x, x)),
    "add_at": (ad.jit(lambda x: ad.add_at(x, (MASK,), x[MASK])), V, lambda x: np.where(MASK, 2 * x, x)),
    "jit of grad": (ad.jit(ad.grad(lambda x: ad.sum(squares(x)))), V, lambda x: 2 * x * MASK),
    "grad of jit": (ad.grad(ad.jit(lambda x: ad.sum(squares(x)))), V, lambda x: 2 * x * MASK),
    "jit of a rule": (ad.jit(ad.grad(by_rule)), V, lambda x: 2 * x * MASK),
    "grad of update": (ad.grad(lambda x: ad.sum(ad.jit(scaled)(x) ** 2)), V, lambda x: np.where(MASK, 18 * x, 2 * x)),
    "checkpoint": (ad.jit(ad.grad(lambda x: ad.checkpoint(lambda y: ad.sum(squares(y)))(x))), V,
                   lambda x: 2 * x * MASK),
    "jit of hessian": (ad.jit(ad.hessian(lambda x: ad.sum(x[MASK] ** 3))), V, lambda x: np.diag(6 * x * MASK)),
    "hessian of jit": (ad.hessian(ad.jit(lambda x: ad.sum(scaled(x) ** 3))), V,
                       lambda x: np.diag(np.where(MASK, 162 * x, 6 * x))),
}  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_a_constant_mask_indexes_on_every_route_and_its_present_contents_count(name):
    f, x, wanted = READERS[name]
    for second in (False, False, False, True, True, False):  # the third call of an entry goes by another way
        MASK[1] = MASK_TENSOR[1] = second
        for given in (x, ad.tensor(x), ad.tensor(x, requires_grad=True)):
            found = f(given)
            found = found.detach() if isinstance(found, ad.Tensor) else found
            np.testing.assert_allclose(np.asarray(found), wanted(x), rtol=1e-14)


COUNTS, EXTENTS = np.array([2, 0, 1]), np.array([1, 3])
#: (a function of an array that reads `COUNTS`, what NumPy says).
COUNTING = {
    "repeat": (lambda x: ad.repeat(x, COUNTS), lambda x: np.repeat(x, COUNTS)),
    "a method": (lambda x: x.repeat(COUNTS, 0), lambda x: x.repeat(COUNTS, 0)),
    "bincount": (lambda x: ad.bincount(COUNTS, x), lambda x: np.bincount(COUNTS, x)),
    "nonzero": (lambda x: x[ad.nonzero(COUNTS)] ** 2, lambda x: x[COUNTS != 0] ** 2),
    "where": (lambda x: x[ad.where(COUNTS > 0)], lambda x: x[COUNTS > 0]),
    "argwhere": (lambda x: ad.argwhere(COUNTS) * x[0], lambda x: np.argwhere(COUNTS) * x[0]),
    "reshape": (lambda x: ad.reshape(x, np.array([3, 1])) * x[0], lambda x: np.reshape(x, (3, 1)) * x[0]),
    "zeros": (lambda x: ad.zeros(COUNTS) + x[0], lambda x: np.zeros(COUNTS) + x[0]),
    "full_like": (lambda x: ad.full_like(x, 2.0, shape=COUNTS), lambda x: np.full_like(x, 2.0, shape=COUNTS)),
    "broadcast_to": (lambda x: ad.broadcast_to(x, EXTENTS), lambda x: np.broadcast_to(x, EXTENTS)),
    "tile": (lambda x: ad.tile(x, COUNTS), lambda x: np.tile(x, COUNTS)),
    "roll": (lambda x: ad.roll(x, COUNTS), lambda x: np.roll(x, COUNTS)),
    "split": (lambda x: ad.split(x, COUNTS[2:])[1], lambda x: np.split(x, COUNTS[2:])[1]),
    "array_split": (lambda x: ad.array_split(x, COUNTS[2:])[0], lambda x: np.array_split(x, COUNTS[2:])[0]),
    "pad": (lambda x: ad.pad(x, COUNTS[1:]), lambda x: np.pad(x, COUNTS[1:])),
}


@pytest.mark.parametrize("name", COUNTING)
def test_arrays_of_counts_and_extents_are_read_and_their_present_contents_count(name):
    f, wanted = COUNTING[name]
    traced = ad.jit(f)
    for last in (1, 1, 1, 2, 2, 1):
        COUNTS[2] = EXTENTS[0] = last
        same = np.asarray(wanted(V))
        for found in (f(ad.tensor(V)), traced(V), traced(ad.tensor(V))):
            assert np.asarray(found).shape == same.shape
            np.testing.assert_allclose(np.asarray(found), same, rtol=1e-14)
