"""Checks that the operations of linear algebra share: arguments that they take, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.ir import Aval

from ...errors import LinAlgError, ShapeError, caller
from ...tensor import Tensor
from ..complexes import conjugated
from ..primitive import broadcast_avals, expect, spread_to
from ..promotion import common
from ..shaping import reshaped, transposed

__all__ = [
    "adjoint", "first_refused", "flipped_axes", "hermitian_part", "matrices", "right_side", "square", "square_aval",
    "symmetric_part",
]  # fmt: skip


def square_aval(name: str, a: Aval) -> Aval:
    """The shape rule of square matrices, float or complex.  Raises ShapeError or DTypeError for others."""
    expect(name, (a,), "fc")
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ShapeError(f"{name}: takes square matrices, not {a}\n  called at {caller()}")
    return a


def matrices(name: str, a: Any) -> Tensor:
    """An argument as matrices of floats or complex numbers; integers and bool become float64.  Raises ShapeError."""
    (a,) = common(name, (("a", a),), "fc")
    if a.ndim < 2:
        raise ShapeError(f"{name}: takes matrices, not {a.aval}\n  called at {caller()}")
    return a


def square(name: str, a: Any, accepts: str = "f") -> Tensor:
    """An argument as square matrices of floats (or of other kinds too); integers and bool become float64."""
    (a,) = common(name, (("a", a),), accepts)
    square_aval(name, a.aval)
    return a


def flipped_axes(x: Tensor) -> Tensor:
    """Each matrix transposed."""
    return transposed(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def adjoint(x: Tensor) -> Tensor:
    """Each matrix transposed, and conjugated where it is complex."""
    return conjugated(flipped_axes(x))


def symmetric_part(x: Tensor) -> Tensor:
    """(x + xᵀ) / 2 of each matrix: x itself, to the last bit, where it is symmetric."""
    return (x + flipped_axes(x)) * 0.5


def hermitian_part(x: Tensor) -> Tensor:
    """(x + xᴴ) / 2 of each matrix, which is its symmetric part where it is real."""
    return (x + adjoint(x)) * 0.5


def right_side(
    name: str, a: Any, b: Any, accepts: str = "f"
) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]:
    """Matrices a [..., n, n] and b [..., n, m] with the same leading axes, and what undoes a change of b's shape.

    One axis in b is a vector, a single right-hand side for all.  Raises ShapeError where they do not fit.
    """
    a, b = common(name, (("a", a), ("b", b)), accepts)
    square_aval(name, a.aval)
    is_vector = b.ndim == 1
    if not b.ndim or b.shape[0 if is_vector else -2] != a.shape[-1]:
        raise ShapeError(
            f"{name}: {a.aval} and {b.aval} have no common size\n"
            f"  called at {caller()}\n"
            f"  the right-hand side has as many rows as the matrix: {a.shape[-1]}"
        )
    columns = reshaped(b, (*b.shape, 1)) if is_vector else b
    batch = broadcast_avals(name, (a.aval.with_shape(a.shape[:-2]), columns.aval.with_shape(columns.shape[:-2])))
    a = spread_to(a, (*batch, *a.shape[-2:]))
    columns = spread_to(columns, (*batch, *columns.shape[-2:]))
    return a, columns, lambda y: reshaped(y, y.shape[:-1]) if is_vector else y


def first_refused(name: str, a: np.ndarray, run: Callable[[np.ndarray], Any], what: str, mend: str) -> LinAlgError:
    """The error for the first of the matrices that `run` refuses."""
    which = ""
    if a.ndim > 2:
        for index in np.ndindex(a.shape[:-2]):
            try:
                run(a[index])
            except np.linalg.LinAlgError:
                which = f" {list(index)}"
                break
    n = a.shape[-1]
    return LinAlgError(f"{name}: matrix{which} of {n} rows is {what}\n  asked at {caller()}\n  {mend}")
