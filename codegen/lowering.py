"""Lowerings: the descriptions by which an operation declares what its loops compute.  Fusion uses nothing else.

Every function in a lowering is called with a scalar builder `k` (`codegen.kernel.scalar.Scalar`), whose
methods append scalar operations (arith, math) to the loop being built and return their result.
Indices are values of type `index`, one per dimension, made with the same builder.

    Map       out[i] depends on the inputs at i (after broadcasting): exp, add, where
    Move      out[i] is an input element at a computed index: transpose, slice, flip, concatenate, pad, gather, iota
    Reduce    a monoid over some axes: sum, max, argmax, any
    Scan      a running monoid along one axis: cumsum
    Contract  a batched matrix product of inputs[..., m, k] and inputs[..., k, n]
    Scatter   zeros, then out[target(j)] += updates[j] for all j, in index order
    Call      a call of the NumPy reference, which fuses with nothing (host rules, eigh, qr, svd)
    Dense     linear algebra, matrix by matrix: machine code if that is as fast, else a call of the reference
    Order     the positions of elements in sorted order along one axis, or the elements: argsort
    Fourier   a Fourier transform along one axis
    Nest      loops and branches, which run graphs: machine code if all graphs allow it
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
    undefined, so a move with elements outside its input must clamp the index and select.  `k.check(condition,
    status)` makes the kernel fail for a bad index.  `free` is True for a move that only re-indexes (one read,
    no select, no division), so that fusing it into a consumer always pays.
    `is_reshape` is True for a move that keeps the row-major order of elements: a stored input is then read
    in the other shape, and `element` (division and remainder) is used only for computed inputs.
    """

    element: Callable[..., Any]
    free: bool = True
    is_reshape: bool = False


@record(frozen=True)
class Reduce:
    """A monoid (add, mul, max, min, any, all, argmax, argmin) over the axes in the parameter `axis`
    (a sorted tuple of non-negative ints), which are dropped.

    max and min give nan when any element is nan; argmax and argmin give the first position of the
    extreme (or of the first nan, as NumPy does), as an i64 in the row-major order of the reduced axes.
    """

    monoid: str


@record(frozen=True)
class Scan:
    """A running monoid (`add`, `mul`, `max`, `min`) along the parameter `axis` (one non-negative int).

    The monoid `affine` has two inputs b and a, and y[t] = b[t] + a[t] * y[t-1], where y[t-1] = 0 makes the product
    zero for any a[t].  With the parameter `reverse` the scan runs from the end.
    """

    monoid: str


@record(frozen=True)
class Contract:
    """A matrix product of inputs of at least two dimensions, whose leading dimensions broadcast as in NumPy."""


@record(frozen=True)
class Scatter:
    """The output starts at zero; then, for every index j of `updates` (the last input), in
    row-major order:  out[target(k, j, *readers, **params)] += updates[j].

    `target` returns the tuple of output indices, which it checks with `k.check`.
    With `replaces` the output starts as a copy of the first input, and each update replaces an element.
    """

    target: Callable[..., Any]
    replaces: bool = False


@record(frozen=True)
class Call:
    """A call of the operation's NumPy reference in Python (`runtime.host_steps`)."""


@record(frozen=True)
class Dense(Call):
    """A program of `kernel.dense` (cholesky, triangular, solve, ...), for each matrix of a batch.

    If the program refuses a matrix (a singular one), the reference is called, which raises or gives the value.
    """

    program: str


#: The most rows of a matrix for which `Dense` programs run.  Solving a system of 300, 500, 1,000 rows takes .59, .64,
#: .86 of LAPACK's time (OpenBLAS on two threads) in f64, and .34, .31, .45 in f32 (Zen 4).
DENSE_ROWS = 1024


def factor_row_stride(columns: int) -> int:
    """The stride, in elements, between the rows of a matrix that is factorised.

    With a multiple of 64 each column would map to a few sets of the first cache: 256 rows would take longer than 300.
    """
    return columns if columns % 64 else columns + 8


@record(frozen=True)
class Order(Call):
    """A stable sort along the parameter `axis` by machine code, in rising order, or falling if `descending` is true;
    nan is larger than all numbers.  The result holds the positions of the elements, or the elements."""


#: The number of rows of a Fourier transform that machine code handles in parallel, in one vector.
LANES = 8


@record(frozen=True)
class Fourier(Call):
    """An unscaled transform along the parameter `axis`, by `runtime.fourier`, or else by a call of the reference.

    kind   "complex" from complex to complex numbers (the parameter `inverse` gives the direction), "half" from real
           numbers to half of their spectrum, "whole" from half a spectrum to the parameter `n` real numbers
    """

    kind: str


@record(frozen=True)
class Nest(Call):
    """control(**params) -> Recurrence, NestedBranch, ...: the graphs to run, by machine code if all of them allow it.

    An operation has one result: a vector of all results of its dtype, one after the other.  Each is taken out by an
    operation with a `Move` lowering, the trait "part", and the parameters `number`, `start` and `shape`.
    """

    control: Callable[..., Nested]


Lowering = Map | Move | Reduce | Scan | Contract | Scatter | Call | Dense | Order | Fourier | Nest
