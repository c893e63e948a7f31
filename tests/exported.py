"""Functions that are exported, and their calls through a shared library."""

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import autodiff as ad

GCC = shutil.which("gcc")
needs_gcc = pytest.mark.skipif(GCC is None or sys.platform != "linux", reason="needs gcc, on Linux")
RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape)


def linked(file, folder):
    """The functions of an object file."""
    library = folder / f"{Path(file).stem}.so"
    command = [GCC, "-shared", "-Wl,--no-undefined", "-o", library, file, "-lm"]
    subprocess.run(command, check=True, capture_output=True)
    return ctypes.CDLL(str(library))


def shared_library(made, folder):
    """The exported function in a shared library, which says what it misses when it is linked."""
    library = folder / f"{made.name}.so"
    command = [GCC, "-shared", "-Wl,--no-undefined", "-o", library, made.files[0], "-lm"]
    subprocess.run(command, check=True, capture_output=True)
    function = getattr(ctypes.CDLL(str(library)), made.name)
    function.restype = ctypes.c_int64
    return function


def called(made, folder, arrays):
    """(code, results) of a call with these arrays."""
    given = [np.ascontiguousarray(a, v.aval.dtype) for a, v in zip(arrays, made.arguments, strict=True)]
    results = [np.full(v.aval.shape, 7, v.aval.dtype) for v in made.results]
    memory = np.empty(made.workspace_bytes + 64, np.uint8)
    pointers = [*[a.ctypes.data for a in (*given, *results)], memory.ctypes.data + -memory.ctypes.data % 64]
    return shared_library(made, folder)(*map(ctypes.c_void_p, pointers)), results


@ad.function
def cube(x):
    """x ** 3, with a rule of its own."""


@cube.forward(ad.Tensor)
def _(ctx, x):
    ctx.save_for_backward(x=x)
    return x * x * x


@cube.backward(ad.Tensor)
def _(ctx, grad_output):
    return grad_output * 3.0 * ctx.saved_variables.x ** 2


def dense(params, x, y):
    h = ad.tanh(x @ params["w"][0] + params["b"])
    return ad.mean((h @ params["w"][1] - y) ** 2)


def scanned(a, xs):
    return ad.sum(ad.scan(lambda c, x: (ad.sin(c * a + x), c), 0.5, xs)[1])


def gaussian(length, x, y):
    k = ad.exp(-((x[:, None] - x[None, :]) ** 2) / length**2) + 0.1 * ad.eye(20)
    c = ad.linalg.cholesky(k)
    z = ad.linalg.solve(k, y)
    return 0.5 * ad.sum(y * z) + ad.sum(ad.log(ad.diagonal(c)))


def structured(d, m):
    return ad.sum((d @ m) ** 2)


OUTSIDE = normal(12, 12)


#: name: (function, arguments).  Kernels, shared loops, products of several kinds, loops, sorts, factorisations.
PROGRAMS = {
    "elementwise": (lambda x: ad.sum(ad.exp(ad.sin(x)) * x), (normal(1000),)),
    "a custom function": (lambda x: ad.sum(cube(x) * ad.cos(x)), (normal(30),)),
    "dense network": (dense, ({"w": [normal(8, 16), normal(16)], "b": 0.5}, normal(40, 8), normal(40))),
    "a shared loop": (lambda x: ad.sum(ad.sin(x) * ad.log1p(x * x)), (normal(300_000),)),
    "a shared product": (lambda a, b: ad.sum(ad.tanh(a @ b)), (normal(150, 140), normal(140, 170))),
    "a matrix and a vector": (lambda a, b: ad.sum(ad.tanh(a @ b)), (normal(600, 700), normal(700))),
    "single precision": (lambda a: ad.sum(ad.tanh(a @ a.T)), (normal(33, 21).astype(np.float32),)),
    "scan": (scanned, (0.7, normal(50))),
    "a loop of products": (lambda x: ad.sum(ad.fori_loop(0, 5, lambda i, c: ad.tanh(c @ c), x)), (normal(20, 20),)),
    "while": (lambda x: ad.while_loop(lambda c: c < 100.0, lambda c: c * 1.5 + 1.0, ad.sum(x * x)), (normal(3),)),
    "while with products": (
        lambda x: ad.sum(ad.while_loop(lambda c: ad.sum(c) < 50.0, lambda c: c @ c + 1.0, x)), (normal(6, 6),)),
    "cond": (lambda x: ad.cond(ad.sum(x) > 0.0, lambda: ad.sum(x @ x), lambda: ad.sum(x)), (normal(9, 9),)),
    "gaussian process": (gaussian, (0.8, normal(20), normal(20))),
    "structured": (structured, (ad.Diagonal(normal(9)), normal(9, 5))),
    "sort": (lambda x: ad.sum(ad.sort(x) * ad.arange(1000.0)), (normal(1000),)),
    "sort of long rows": (lambda x: ad.sum(ad.sort(x) ** 2 * x), (normal(100_000),)),
    "an index": (lambda x, i: x[i] ** 2, (normal(5), 3)),
    "read from outside": (lambda x: ad.sum((OUTSIDE @ x) ** 2), (normal(12),)),
    "the argument is the gradient": (lambda x, w: ad.sum(x * w), (normal(6), normal(6))),
    "no elements": (lambda x: ad.sum(x * 2.0), (normal(0, 3),)),
}  # fmt: skip
