"""Handles for arguments of a traced function that dispatch as the argument itself does: as a number, or an array.

Both are tensors, whose class is a further subclass of the class for their aval.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from codegen.ir import Aval

from .tensor import AbstractTensor, Tensor

_LATTICE = type(AbstractTensor)

#: Classes by (dtype, True for a Python number), or, for an array, by (NumPy's class of its elements, rank).
_CLASSES: dict[tuple, type] = {}
#: The operators of number arguments, by name: with numbers alone they give a number (`ops.operators`).
OPERATORS: dict[str, Any] = {}
#: Classes of Python's numbers, by the kind of their dtype.
PYTHON_NUMBERS = {"b": bool, "i": int, "f": float, "c": complex}


def _class_of(key: tuple, name: str, bases: tuple[type, ...], **attributes: Any) -> type:
    found = _CLASSES.get(key)
    if found is None:
        attributes |= {"__slots__": (), "__module__": "autodiff", "_parameters_": None}
        found = _CLASSES.setdefault(key, _LATTICE.__new__(_LATTICE, f"Traced[{name}]", bases, attributes))
    return found


def number_class(aval: Aval, weak: bool) -> type:
    """The class of a number argument of a traced function: a 0-d tensor that dispatches as the number it stands for.

    weak   True for a Python number, False for a NumPy scalar
    """
    number = PYTHON_NUMBERS[aval.dtype.kind] if weak else aval.dtype.type
    operators = OPERATORS if weak else {}
    bases = (Tensor[aval.dtype, aval.ndim],)
    return _class_of((aval.dtype, weak), number.__name__, bases, __dispatches_as__=number, **operators)


#: `has_array_methods` is True if a method of any function names NumPy's arrays.
declared = SimpleNamespace(has_array_methods=False)


class StandsForArray:
    """Marks the handles of an array argument of a traced function: tensors that dispatch as the array."""

    __slots__ = ()
    __dispatches_as__ = np.ndarray


def standing(t: Tensor, given: Any) -> Tensor:
    """The tensor that a traced function gets for an argument: it dispatches as an array if the argument is an array.

    If no method of any function names arrays, no call can tell the difference, and the tensor is returned as it is:
    recording handles of the usual class is faster.
    """
    if not declared.has_array_methods or not isinstance(given, (np.ndarray, StandsForArray)):
        return t
    aval = t.aval
    cls = _class_of((aval.dtype.type, aval.ndim), "ndarray", (StandsForArray, Tensor[aval.dtype, aval.ndim]))
    made: Tensor = object.__new__(cls)
    made.node = t.node
    made.masked = t.masked
    return made
