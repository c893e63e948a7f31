"""How an operation says what its loops compute.  These few words are the whole contract with fusion.

Every function here is called with a scalar builder `k` (`codegen.kernel.scalar.Scalar`), whose
methods append scalar operations (arith, math) to the loop being built and return their result.
Indices are values of type `index`, one per dimension, made with the same builder.

    Map       out[i] depends on the inputs at i (after broadcasting): exp, add, where
    Move      out[i] is found by indexing: transpose, slice, flip, concatenate, pad, gather, iota
    Reduce    a monoid over some axes: sum, max, argmax, any
    Scan      a running monoid along one axis: cumsum
    Contract  a batched matrix product of inputs[..., m, k] and inputs[..., k, n]
    Scatter   zeros, then out[where(j)] += updates[j] for all j, in index order
    Call      the NumPy reference is called: fuses with nothing (LAPACK, FFT, host rules)
    Loop      a graph of its own runs again and again, natively where all of it can
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .ir import Aval, Graph
from .records import record

__all__ = ["Call", "Contract", "Loop", "Lowering", "Map", "Move", "Recurrence", "Reduce", "Scan", "Scatter"]


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
    """A running monoid (`add`) along the parameter `axis` (one non-negative int)."""

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
    """The operation's NumPy reference is called between two native segments."""


@record(frozen=True)
class Recurrence:
    """`length` steps `*states, *y[t] = body(*states, *x[t], *hidden)`, from the last t to the first if `is_reversed`.

    body      its inputs are `carried` states, an element of each of `scanned` arrays, and what every step reads
    keeps     whether the states before each step are results too
    """

    body: Graph
    carried: int
    scanned: int
    length: int
    is_reversed: bool
    keeps: bool

    @property
    def results(self) -> list[Aval]:
        """Last states; what steps gave, stacked; states before each step, stacked."""
        outputs = [o.aval for o in self.body.outputs]
        states = outputs[: self.carried]
        stacked = outputs[self.carried :] + (states if self.keeps else [])
        return states + [a.with_shape((self.length, *a.shape)) for a in stacked]

    def starts(self) -> list[int]:
        """Where each result begins in the vector of all results of its dtype."""
        taken: dict[Any, int] = {}
        found = []
        for aval in self.results:
            start = taken.get(aval.dtype, 0)
            found.append(start)
            taken[aval.dtype] = start + aval.size
        return found


@record(frozen=True)
class Loop(Call):
    """recurrence(**params) -> Recurrence.  Inputs: first states, arrays to go through, and what every step reads.

    An operation has one result: all results of its dtype, one after the other.  What takes one out of there is a
    `Move` with the trait "part" and the parameters `start` and `shape`.
    """

    recurrence: Callable[..., Recurrence]


Lowering = Map | Move | Reduce | Scan | Contract | Scatter | Call | Loop
