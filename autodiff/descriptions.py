"""Descriptions of arguments where only shapes and dtypes count: `ad.inspect(f, "f64[256,10]")`, `ad.export(f, ...)`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from codegen.ir import DTYPES, Aval, parse_aval

from .errors import Error, located
from .tensor import Tensor

__all__ = ["aval_of"]

#: A text that can hardly be meant as an argument by itself.
_LIKE_AN_AVAL = re.compile(rf"\w+\[.*|{'|'.join(DTYPES)}")


def aval_of(x: Any, taker: str) -> Aval | None:
    """The aval that an argument of `taker` stands for; None when it is no array, and stays as it is."""
    if isinstance(x, Aval):
        return x
    if isinstance(x, str):
        try:
            return parse_aval(x)
        except ValueError as error:
            if _LIKE_AN_AVAL.fullmatch(x):
                raise Error(located(f"{taker}: {error}")) from None
            return None
    if isinstance(x, (np.ndarray, np.generic)):
        return Aval(x.shape, x.dtype)
    if isinstance(x, Tensor):
        return x.aval
    return Aval((), np.asarray(x).dtype) if type(x) in (bool, int, float, complex) else None
