"""One dtype for the operands of an elementwise operation: NumPy's promotion (NEP 50).

Python numbers are weak: they take the dtype of the arrays they meet, as far as their kind allows
(a float beside an int64 array gives float64).  NumPy scalars and arrays are strong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import DTypeError, located
from ..tape import number_leaf, promoted, weak_number
from ..tape.watched import KIND_OF, WATCHED
from ..tensor import Tensor
from .conversion import DEFAULT_DTYPES, WEAK, as_tensor, cast_to

__all__ = ["common", "common_dtype"]

_F64 = np.dtype(np.float64)


def common(function: str, arguments: Sequence[tuple[str, Any]], accepts: str) -> list[Tensor]:
    """The arguments of `function`, given as (name, value), as tensors of one dtype.

    accepts   kinds of dtype that it takes ("f", "i", "b", "c"); where only floats are taken, integers and bool
              become float64

    Raises DTypeError for a dtype that it does not take, OverflowError for a Python int that does not fit.
    """
    shared = _shared_dtype(arguments)
    if shared is not None and shared.kind in accepts:
        return [x if isinstance(x, Tensor) else number_leaf(x, shared) for _, x in arguments]
    values = [x if type(x) in WEAK or type(x) in WATCHED else as_tensor(x, function, name) for name, x in arguments]
    dtype = common_dtype(values)
    if dtype.kind not in accepts:
        dtype = _admitted(function, dtype, accepts)
    outs = [x.node.kind.out for x in values if isinstance(x, Tensor)]
    leaf_of = weak_number if outs and all([out.weak for out in outs]) else number_leaf
    return [cast_to(x, dtype) if isinstance(x, Tensor) else leaf_of(x, dtype) for x in values]


def _shared_dtype(arguments: Sequence[tuple[str, Any]]) -> np.dtype | None:
    """The dtype of tensors that share one, beside Python numbers only if it is float; None for any other arguments."""
    found: np.dtype | None = None
    has_number = False
    for _, x in arguments:
        if isinstance(x, Tensor):
            out = x.node.kind.out
            dtype = out.aval.dtype
            if out.weak or (found is not None and dtype is not found):
                return None
            found = dtype
        elif type(x) is float or type(x) is int:
            has_number = True
        else:
            return None
    return None if found is None or (has_number and found.kind != "f") else found


def common_dtype(values: Sequence[Any]) -> np.dtype:
    """The dtype that NumPy promotes tensors and Python numbers to."""
    strong = [x.dtype for x in values if isinstance(x, Tensor) and not x.node.kind.out.weak]
    if strong and len(strong) == len(values) and all([d is strong[0] for d in strong]):
        return strong[0]
    weak = [_NUMBER_OF[x.dtype.kind] if isinstance(x, Tensor) else x
            for x in values if not isinstance(x, Tensor) or x.node.kind.out.weak]
    if not strong:
        return np.result_type(*[DEFAULT_DTYPES[KIND_OF.get(type(x), type(x))] for x in weak])
    dtype = strong[0] if len(strong) == 1 else np.result_type(*strong)
    for number in weak:
        dtype = promoted(number, dtype)
    return dtype


#: A number of the kind of a weak tensor: one that stands for a number argument of a traced function.
_NUMBER_OF = {"b": False, "i": 0, "f": 0.0, "c": 0j}


def _admitted(function: str, dtype: np.dtype, accepts: str) -> np.dtype:
    """The dtype to convert to where the promoted one is not taken."""
    if dtype.kind in "ib" and "i" not in accepts and "f" in accepts:
        return _F64
    kinds = {"f": "float", "i": "integer", "b": "bool", "c": "complex"}
    mend = f"ad.astype(x, ad.{'float64' if 'f' in accepts else 'int64'}) converts one"
    if dtype.kind == "c":
        mend = "ad.real(x), ad.imag(x) and ad.abs(x) are real: take what is meant"
    raise DTypeError(located(
        f"{function}: takes {' or '.join(kinds[k] for k in accepts)} arguments, got {dtype}", f"{mend}"
    ))
