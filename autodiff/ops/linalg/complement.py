"""Columns that complete orthonormal ones to a square matrix: any such, so there is no derivative, and asking raises."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Call

from ...errors import GradientError, caller
from ...tape import record
from ...tensor import Tensor
from ..batching import along
from ..joining import joined
from ..primitive import expect, primitive

__all__ = ["completed"]


def _infer(q: Aval) -> Aval:
    expect("complement", (q,), "fc")
    *batch, m, k = q.shape
    return q.with_shape((*batch, m, m - k))


def _reference(q: np.ndarray) -> np.ndarray:
    is_sound = np.isfinite(q).all((-1, -2), keepdims=True)
    found = np.linalg.qr(np.where(is_sound, q, q.dtype.type(0)), mode="complete")[0][..., q.shape[-1] :]
    return np.where(is_sound, found, q.dtype.type(np.nan))


def _refused(*_: object) -> NoReturn:
    raise GradientError(
        "the vectors that complete an orthonormal basis are any, and have no derivative\n"
        f"  called at {caller()}\n"
        "  svd(a, full_matrices=False) and qr(a) give those that have one"
    )


_complement = primitive(
    "complement",
    _reference,
    infer=_infer,
    vjp=_refused,
    jvp=_refused,
    lower=Call(),
    batch=along(),
    heavy=True,
    keeps_mask=False,
)


def completed(q: Tensor) -> Tensor:
    """Orthonormal columns with others beside them, as many as there are rows."""
    m, k = q.shape[-2:]
    return q if k == m else joined((q, record(_complement, (q,))), q.ndim - 1)
