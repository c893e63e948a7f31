"""Handles of the arguments of a traced function that dispatch as what was given: a number, or an array.

Both are tensors, of the class that their aval has and of one more below it.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from codegen.ir import Aval

from .tensor import AbstractTensor, Tensor

_LATTICE = type(AbstractTensor)

#: By what they stand for: (dtype, whether it is a Python number), or (class of NumPy's numbers, rank) of an array.
_CLASSES: dict[tuple, type] = {}
#: Operators by name, as number arguments have them: of numbers alone they make a number (`ops.operators`).
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

    weak   a Python number; otherwise a NumPy scalar
    """
    number = PYTHON_NUMBERS[aval.dtype.kind] if weak else aval.dtype.type
    operators = OPERATORS if weak else {}
    bases = (Tensor[aval.dtype, aval.ndim],)
    return _class_of((aval.dtype, weak), number.__name__, bases, __dispatches_as__=number, **operators)


#: Its `arrays` says if a method of any function names NumPy's arrays.
named = SimpleNamespace(arrays=False)


class StandsForArray:
    """Marks the handles of an array argument of a traced function: tensors that dispatch as the array."""

    __slots__ = ()
    __dispatches_as__ = np.ndarray


def standing(t: Tensor, given: Any) -> Tensor:
    """The tensor that a function gets for what was given: it dispatches as an array if that was one.

    Only where a method names arrays anywhere: else no call could tell, and recording handles of the usual class is
    faster.
    """
    if not named.arrays or not isinstance(given, (np.ndarray, StandsForArray)):
        return t
    aval = t.aval
    cls = _class_of((aval.dtype.type, aval.ndim), "ndarray", (StandsForArray, Tensor[aval.dtype, aval.ndim]))
    made: Tensor = object.__new__(cls)
    made.node = t.node
    made.masked = t.masked
    return made
