"""A write to memory after it was recorded, in whichever way, changes nothing; or NumPy refuses it."""

import ctypes
import itertools
import warnings
from contextlib import suppress
from functools import partial

import numpy as np
import pytest

import autodiff as ad

try:
    import torch
except ImportError:  # a peer that is not needed
    torch = None

SIZES = (1, 10, 1000, 100_000)
DTYPES = ("f8", "f4", "i8", "?")


def values(n, dtype):
    return (np.arange(n) % 7 + 1).astype(dtype)


def through(view):
    """Write through memory that somebody has."""
    view[...] = 0


def resized(a):
    """Give the memory back, and let others have it."""
    a.resize(2 * a.size + 50, refcheck=False)
    a[...] = 0
    return [np.zeros(n) for n in (50, a.size, a.size // 2 + 1)]


def reshaped(a):
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # NumPy 2.5 advises against it
        a.shape = (1, -1)
    a[...] = 0


def unlocked(a):
    a.setflags(write=True)
    a[...] = 0


#: array -> how it is written later: made before it is recorded.
BEFORE = {
    "itself": lambda a: partial(through, a), "a view": lambda a: partial(through, a[:]),
    "a view of a view": lambda a: partial(through, a[::-1][:]),
    "overlapping": lambda a: partial(through, a[: a.size // 2 + 1]),
    "a transpose": lambda a: partial(through, a.reshape(1, -1).T),
    "a reshape": lambda a: partial(through, a.reshape(-1, 1)), "bytes": lambda a: partial(through, a.view(np.uint8)),
    "a memoryview": lambda a: partial(through, np.asarray(memoryview(a))),
    "frombuffer": lambda a: partial(through, np.frombuffer(a, a.dtype)),
    "ctypes": lambda a: partial(ctypes.memset, (ctypes.c_char * a.nbytes).from_buffer(a), 0, a.nbytes),
    "out": lambda a: partial(np.logical_and, a, False, out=a[:], casting="unsafe"),
    "copyto": lambda a: partial(np.copyto, a[:], 0, casting="unsafe"), "sort": lambda a: a[::-1].sort,
    "fill": lambda a: partial(a[:].fill, 0), "resize": lambda a: partial(resized, a),
    "unlocked": lambda a: partial(unlocked, a), "shape": lambda a: partial(reshaped, a),
}  # fmt: skip
if torch is not None:
    BEFORE["torch"] = lambda a: torch.from_numpy(a).zero_
#: The same, made after it.
AFTER = ("itself", "a view", "a transpose", "a memoryview", "frombuffer", "ctypes", "out", "sort", "resize", "unlocked")

#: How an array comes by its memory: the array that is recorded, and what its memory is written through.
OWNERS = {
    "its own": lambda a: (a, a), "of another": lambda a: (a[:], a), "reversed": lambda a: (a[::-1], a),
    "of bytes": lambda a: (lambda m: (np.frombuffer(m, a.dtype), np.frombuffer(m, a.dtype)))(bytearray(a.tobytes())),
    "read-only": lambda a: (lambda v: (a.setflags(write=False), (a, v))[1])(a[:]),
}  # fmt: skip

#: How it takes part in a program: of a tensor of ones and the array.
PROGRAMS = {
    "product": lambda x, a: x * a, "reflected": lambda x, a: a * x, "where": lambda x, a: ad.where(a, x, 0.0 * x),
    "stack": lambda x, a: ad.stack([x, a])[1], "matmul": lambda x, a: (x @ a) + 0.0 * x,
    "ufunc": lambda x, a: np.multiply(x, a), "in place": lambda x, a: (lambda y: (y.__iadd__(a), y)[1])(x * 1.0),
    "set": lambda x, a: (lambda y: (y.__setitem__(slice(None), a), y)[1])(x * 1.0),
    "custom": lambda x, a: scaled(x, a), "grad": lambda x, a: ad.grad(lambda t, b: ad.sum(t * t * b))(x, a),
    "jvp": lambda x, a: ad.jvp(lambda t, b: t * b, (x, a), (x, None))[1],
    "vmap": lambda x, a: ad.vmap(lambda t, b: t * b)(x, a), "jit": lambda x, a: ad.jit(lambda t, b: t * b)(x, a),
    "checkpoint": lambda x, a: ad.checkpoint(lambda t, b: t * b)(x, a),
    "scan": lambda x, a: ad.scan(lambda c, r: (c, c * r), ad.sum(x * 0 + 1), a)[1],
    "cond": lambda x, a: ad.cond(x[0] > 0, lambda t: t * a, lambda t: t, x),
}  # fmt: skip


@ad.function
def scaled(x, a):
    """A product with a rule of its own."""


@scaled.forward(ad.Tensor, ad.Tensor)
def _(ctx, x, a):
    ctx.save_for_backward(a=a)
    return x * a


@scaled.backward(ad.Tensor, ad.Tensor)
def _(ctx, g):
    return g * ctx.saved_variables.a, None


def check(program, n, dtype, make, memory="its own", after=False):
    """The value, and a gradient, are those of when the program was recorded."""
    for is_known in (False, True):  # the second time by what was learnt
        given, written = OWNERS[memory](values(n, dtype))
        expected = PROGRAMS[program](ad.tensor(np.ones(n), requires_grad=True), ad.tensor(given)).detach().numpy()
        x = ad.tensor(np.ones(n), requires_grad=True)
        write = None if after else make(written)
        y = PROGRAMS[program](x, given)
        with suppress(ValueError, TypeError, BufferError):  # NumPy refuses
            (write or make(written))()
        assert np.array_equal(y.detach().numpy(), expected), (program, n, dtype, memory, is_known)


@pytest.mark.parametrize("how", BEFORE)
def test_memory_that_is_written_in_any_way_after_it_was_recorded(way, how):
    for n, dtype in [*itertools.product(SIZES[:2], DTYPES), (1000, "f8"), (100_000, "f4")]:
        check("product", n, dtype, BEFORE[how])


@pytest.mark.parametrize("how", AFTER)
def test_memory_that_is_written_through_what_was_made_afterwards(way, how):
    for n in SIZES:
        check("product", n, "f8", BEFORE[how], after=True)


@pytest.mark.parametrize("memory", OWNERS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_way_into_a_program(way, program, memory):
    for n in (10, 3000):
        check(program, n, "f8", BEFORE["a view"], memory)


def test_files_in_memory(way, tmp_path):
    for n in SIZES:
        values(n, "f8").tofile(tmp_path / "file")
        a, other = (np.memmap(tmp_path / "file", "f8", "r+") for _ in range(2))
        x = ad.tensor(np.ones(n), requires_grad=True)
        for _ in range(2):
            y, expected = x * np.asarray(a), a.tolist()
            other += 1
            assert y.detach().tolist() == expected


@pytest.mark.parametrize("how", BEFORE)
def test_memory_that_a_differentiated_function_writes_after_it_was_recorded(way, how):
    for n in SIZES[1:]:
        for _ in range(3):
            a = values(n, "f8")
            expected, write = a.tolist(), BEFORE[how](a)

            def f(w, a=a, write=write):
                y = ad.sum(w * a)
                write()
                return y

            assert ad.grad(f)(np.ones(n)).tolist() == expected


def test_an_array_beside_a_tensor_is_copied_by_every_transformation(way):
    def f(t, b):
        return ad.sum(t * t * b)

    for _ in range(3):
        b, expected = np.arange(1.0, 4.0), [2.0, 4.0, 6.0]
        x = ad.tensor(np.ones(3), requires_grad=True)
        found = [
            ad.grad(f)(x, b), ad.value_and_grad(f)(x, b)[1], ad.grad(f, argnums=(0, 1))(x, b)[0],
            ad.vjp(f, x, b)[1](ad.tensor(1.0))[0], ad.jacobian(f)(x, b),
        ]  # fmt: skip
        b[:] = 100.0
        for g in found:
            assert g.detach().tolist() == expected


def _keeping(save, saved, *types, host=False):
    """x * a with a rule of its own: `save(ctx, a)` keeps the array, `saved(ctx)` reads it back."""

    @ad.function
    def product(x, a): ...

    @product.forward(ad.Tensor, *types, host=host)
    def _(ctx, x, a):
        save(ctx, a)
        return x * a

    @product.backward(ad.Tensor, *types)
    def _(ctx, g):
        return g * saved(ctx), None

    return product


#: The array of a user's, as a forward keeps it for its backward.
KEPT = {
    "by name": (lambda ctx, a: ctx.save_for_backward(a=a), lambda ctx: ctx.saved_variables.a),
    "in a list": (lambda ctx, a: ctx.save_for_backward(a=[a, 1.0]), lambda ctx: ctx.saved_variables.a[0]),
    "on ctx": (lambda ctx, a: setattr(ctx, "a", a), lambda ctx: ctx.a),
    "as an input": (lambda ctx, a: None, lambda ctx: ctx.inputs[1]),
}


@pytest.mark.parametrize("route", ["recorded", "grad of a tensor", "vjp", "twice"])
@pytest.mark.parametrize("host", [False, True])
@pytest.mark.parametrize("how", KEPT)
def test_an_array_that_a_forward_keeps_is_the_one_of_that_time(how, host, route):
    for n in (3, 3000):
        product = _keeping(*KEPT[how], np.ndarray, host=host)
        for _ in range(3):
            a, x = np.full(n, 2.0), ad.tensor(np.ones(n), requires_grad=True)
            if route == "recorded":
                y = ad.sum(product(x, a))
                a[:] = 100.0
                y.backward()
                found = x.grad
            elif route == "vjp":
                pull = ad.vjp(lambda x, a=a, f=product: ad.sum(f(x, a)), x)[1]
                a[:] = 100.0
                (found,) = pull(ad.tensor(1.0))
            elif route == "twice":
                y = ad.sum(product(x, a))
                y.backward(retain_graph=True)
                a[:] = 100.0
                y.backward()
                found = x.grad / 2.0
            else:
                found = ad.grad(lambda x, a=a, f=product: ad.sum(f(x, a)))(x)
                a[:] = 100.0
            assert found.detach().numpy()[-1] == 2.0, (how, n, route)
