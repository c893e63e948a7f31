"""The words by which an operation says what its loops compute: the whole contract with fusion.

Every function here is called with a scalar builder `k` (`codegen.kernel.scalar.Scalar`), whose
methods append scalar operations (arith, math) to the loop being built and return their result.
Indices are values of type `index`, one per dimension, made with the same builder.

    Map       out[i] depends on the inputs at i (after broadcasting): exp, add, where
    Move      out[i] is found by indexing: transpose, slice, flip, concatenate, pad, gather, iota
    Reduce    a monoid over some axes: sum, max, argmax, any
    Scan      a running monoid along one axis: cumsum
    Contract  a batched matrix product of inputs[..., m, k] and inputs[..., k, n]
    Scatter   zeros, then out[where(j)] += updates[j] for all j, in index order
    Call      the NumPy reference is called: fuses with nothing (host rules, eigh, qr, svd)
    Dense     linear algebra, matrix by matrix: natively where that is as fast, else the reference is called
    Order     the numbers of elements in order along one axis, or the elements: argsort
    Fourier   a Fourier transform along one axis
    Nest      graphs of its own run: loops and branches, natively where all of them can
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .nested import Nested
from .records import record


@record(frozen=True)
class Map:
    """scalar(k, *elements, **params) -> element.   Map(lambda k, x: k.exp(x))

    Inputs broadcast as in NumPy; their dtypes are those of the graph (the recorder has cast them).
    """

    scalar: Callable[..., Any]


@record(frozen=True)
class Move:
    """element(k, index, *readers, **params) -> element, where readers[j](*index) reads input j.

    `readers[j].shape` is the shape of input j.
    A 0-d input (the start of a slice) is read by `readers[j]()`.  Reading outside an input is
    undefined: an element that lies outside clamps its index and selects.  `k.check(condition,
    status)` makes the kernel fail for a bad index.  `free`: it only re-indexes (one read,
    no select, no division), so that fusing it into a consumer always pays.
    `is_reshape`: the row-major order of elements stays; a stored input is then simply read in
    the other shape, and `element` (division and remainder) is used only for computed ones.
    """

    element: Callable[..., Any]
    free: bool = True
    is_reshape: bool = False


@record(frozen=True)
class Reduce:
    """monoid in add, mul, max, min, any, all, argmax, argmin, over the parameter `axis`
    (a sorted tuple of non-negative ints), the reduced axes dropped.

    max and min give nan when any element is nan; argmax and argmin give the first place of the
    extreme (of the first nan, as NumPy does), as an i64 in the row-major order of the reduced axes.
    """

    monoid: str


@record(frozen=True)
class Scan:
    """A running monoid (`add`, `mul`, `max`, `min`) along the parameter `axis` (one non-negative int).

    Or `affine`, of two inputs b and a: each result is b + a * the one before, of which a zero is strong.  With the
    parameter `reverse` it runs from the end.
    """

    monoid: str


@record(frozen=True)
class Contract:
    """matmul of inputs of at least two dimensions, the leading ones broadcast as in NumPy."""


@record(frozen=True)
class Scatter:
    """The output starts at zero; then, for every index j of `updates` (the last input), in
    row-major order:  out[target(k, j, *readers, **params)] += updates[j].

    `target` returns the tuple of output indices; it checks them with `k.check`.
    With `replaces` the output starts as the first input, and the update takes the element's place.
    """

    target: Callable[..., Any]
    replaces: bool = False


@record(frozen=True)
class Call:
    """The operation's NumPy reference is called by Python (`runtime.host_steps`)."""


@record(frozen=True)
class Dense(Call):
    """A program of `kernel.dense` (cholesky, triangular, solve, inverse, ...), for each matrix of a batch.

    Where it refuses a matrix (a singular one), the reference decides: it raises, or it gives the value.
    """

    program: str


#: Rows of a matrix up to which `Dense` programs are the faster ones.  Beside LAPACK's (OpenBLAS on two threads) a
#: system of 300, 500, 1,000 rows takes .59, .64, .86 of its time in f64, .34, .31, .45 in f32 (Zen 4).
DENSE_ROWS = 1024


def apart_in_cache(columns: int) -> int:
    """The distance, in numbers, of the rows of a matrix that is factorised.

    Of a multiple of 64 its columns would lie in a few sets of the first cache: 256 rows take longer than 300 then.
    """
    return columns if columns % 64 else columns + 8


@record(frozen=True)
class Order(Call):
    """The numbers of the elements along the parameter `axis` in rising order, or falling where `descending` is true,
    equal ones as they stand; nan is above all.  Machine code does it."""


#: The rows of a Fourier transform that are done side by side.
LANES = 8


@record(frozen=True)
class Fourier(Call):
    """The transform along the parameter `axis`, undivided: `runtime.fourier` does it, or else the reference is called.

    kind   "complex" to complex numbers (the parameter `inverse` says in which direction), real ones to the "half" of
           their spectrum, or that of a spectrum to the "whole" of the real numbers (as many as the parameter `n`)
    """

    kind: str


@record(frozen=True)
class Nest(Call):
    """control(**params) -> Recurrence, NestedBranch, ...: graphs of its own run, natively where all of them can.

    An operation has one result: all results of its dtype, one after the other.  What takes one out of there is a
    `Move` with the trait "part" and the parameters `number`, `start` and `shape`.
    """

    control: Callable[..., Nested]


Lowering = Map | Move | Reduce | Scan | Contract | Scatter | Call | Dense | Order | Fourier | Nest
