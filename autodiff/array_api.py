"""The functions of the Array-API standard that are no operations: dtypes, limits, the description of the namespace.

Code that is written for any array library, such as SciPy's with SCIPY_ARRAY_API=1, takes the namespace of its argument
(`x.__array_namespace__()`, which is `ad` for a tensor) and calls these functions as well as operations.

Source: Python array API standard 2024.12, "Data type functions" and "Inspection".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from codegen.ir import DTYPES

from .errors import DispatchError, DTypeError, located
from .ops import as_tensor, dtype_of
from .ops.conversion import WEAK, foreign_array
from .tensor import AbstractTensor, Tensor

__all__ = [
    "NamespaceInfo", "__array_namespace_info__", "can_cast", "finfo", "from_dlpack", "iinfo", "isdtype",
    "result_type",
]  # fmt: skip


def _dtype(x: Any, function: str) -> np.dtype:
    """The dtype of an array or tensor, or the dtype that x names, of this library or not.  Else raises DTypeError."""
    if isinstance(x, (AbstractTensor, np.ndarray, np.generic)):
        return np.dtype(x.dtype)
    try:
        return np.dtype(x if x is not None else "")  # NumPy takes None for float64
    except TypeError:
        raise DTypeError(located(
            f"{function}: {x!r} is not a dtype",
            "ad.float32, np.uint8 and t.dtype are dtypes; arrays and tensors have one",
        )) from None


def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    """The dtype of a result of these arrays, tensors, numbers and dtypes together, as NumPy's `result_type` finds it.

    Raises DTypeError for a dtype that this library does not have, DispatchError where nothing is given.

    >>> import autodiff as ad
    >>> ad.result_type(ad.tensor([1], dtype=ad.int32), ad.float32, 2.0)
    dtype('float64')
    >>> ad.result_type(ad.float32, 2.0)
    dtype('float32')
    """
    if not arrays_and_dtypes:
        raise DispatchError(located("result_type: takes one array or dtype at least"))
    # The dtype of a Python number depends on the arrays and dtypes beside it.
    found = [x if type(x) in WEAK else _dtype(x, "result_type") for x in arrays_and_dtypes]
    return dtype_of(np.result_type(*found), "result_type")


def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """True if a dtype, or that of an array or tensor, can be converted to another dtype by NumPy's rule.

    casting   NumPy's name of the rule: "no", "equiv", "safe", "same_kind" or "unsafe"

    >>> import autodiff as ad
    >>> ad.can_cast(ad.float32, ad.float64), ad.can_cast(ad.tensor([1.0]), ad.int64)
    (True, False)
    """
    if casting not in _CASTING:
        raise ValueError(located(f"can_cast: there is no rule {casting!r}", f"it is one of {', '.join(_CASTING)}"))
    return bool(np.can_cast(_dtype(from_, "can_cast"), dtype_of(to, "can_cast"), casting))


_CASTING = ("no", "equiv", "safe", "same_kind", "unsafe")


def isdtype(dtype: Any, kind: Any) -> bool:
    """True if a dtype equals another dtype, or is of a kind, or of one of several in a tuple.

    kind   a dtype, "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating",
           or "numeric"

    Raises ValueError for an unknown name of a kind, DTypeError for an object that is no dtype.

    >>> import autodiff as ad
    >>> ad.isdtype(ad.float32, "real floating"), ad.isdtype(ad.int64, ("complex floating", ad.float64))
    (True, False)
    """
    if isinstance(kind, tuple):
        return any([isdtype(dtype, k) for k in kind])
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(located(
                f"isdtype: {kind!r} is not the name of a kind",
                f"it is one of {', '.join(map(repr, _KINDS))}, a dtype, or a tuple of these",
            ))
        return _dtype(dtype, "isdtype").kind in _KINDS[kind]
    return bool(_dtype(dtype, "isdtype") == _dtype(kind, "isdtype"))


#: The standard's names of kinds of dtypes, and the letters of the same kinds in NumPy.
_KINDS = {
    "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu", "real floating": "f",
    "complex floating": "c", "numeric": "iufc",
}  # fmt: skip


def finfo(dtype: Any) -> np.finfo:
    """Limits of a float dtype, or of that of an array or tensor: eps, max, min, smallest_normal.  As NumPy's `finfo`.

    >>> import autodiff as ad
    >>> float(ad.finfo(ad.float64).eps)
    2.220446049250313e-16
    """
    found = _dtype(dtype, "finfo")
    if found.kind not in "fc":
        raise DTypeError(located(f"finfo: {found} has no floating point", "ad.iinfo is for integers"))
    return np.finfo(found)


def iinfo(dtype: Any) -> np.iinfo:
    """Limits of an integer dtype, or of that of an array or tensor: min, max, bits.  As NumPy's `iinfo`.

    >>> import autodiff as ad
    >>> ad.iinfo(ad.int32).max
    2147483647
    """
    found = _dtype(dtype, "iinfo")
    if found.kind not in "iu":
        raise DTypeError(located(f"iinfo: {found} is no integer dtype", "ad.finfo is for floats"))
    return np.iinfo(found)


def from_dlpack(x: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor with the values of an array that another library gives by DLPack: PyTorch's, JAX's, CuPy's on the CPU.

    device, copy   as in the standard: None or "cpu"; a tensor never shares memory that can be written to, so copy=False
                   raises ValueError

    Raises DispatchError for an object without `__dlpack__`, or whose memory is not the CPU's.

    >>> import autodiff as ad, numpy as np
    >>> ad.from_dlpack(np.array([1.0, 2.0]))
    f64[2] [1. 2.]
    """
    _check_device("from_dlpack", device)
    if copy is False:
        raise ValueError(located("from_dlpack: the array has to be copied, for its owner may write to it"))
    if isinstance(x, AbstractTensor):
        return as_tensor(x)
    if not hasattr(type(x), "__dlpack__"):
        raise DispatchError(located(
            f"from_dlpack: a {type(x).__name__} has no __dlpack__",
            "ad.asarray takes lists, numbers, and objects with __array__",
        ))
    return as_tensor(x if isinstance(x, np.ndarray) else foreign_array(x, "from_dlpack: ", "x"), "from_dlpack", "x")


def _check_device(function: str, device: Any) -> None:
    if device not in (None, "cpu"):
        raise ValueError(located(f"{function}: there is no device {device!r}", "tensors are on the 'cpu'"))


class NamespaceInfo:
    """The description of this namespace that the standard asks for (`ad.__array_namespace_info__()`)."""

    def capabilities(self) -> dict[str, Any]:
        """The optional features.

        A mask can be an index if its values are known, which they are except in a trace.
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """The device of every tensor."""
        return "cpu"

    def devices(self) -> list[str]:
        """All devices: the CPU."""
        return ["cpu"]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """The dtypes of tensors that are made of Python numbers alone."""
        _check_device("default_dtypes", device)
        names = {
            "real floating": "float64", "complex floating": "complex128", "integral": "int64", "indexing": "int64",
        }  # fmt: skip
        return {kind: np.dtype(name) for kind, name in names.items()}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype]:
        """The library's dtypes by name: all, or those of a kind, or of one of several kinds in a tuple."""
        _check_device("dtypes", device)
        return {d.name: d for d in DTYPES.values() if kind is None or isdtype(d, kind)}


def __array_namespace_info__() -> NamespaceInfo:
    """The description of this namespace that the Array-API standard asks for.

    >>> import autodiff as ad
    >>> sorted(ad.__array_namespace_info__().dtypes(kind="integral"))
    ['int32', 'int64']
    """
    return NamespaceInfo()
