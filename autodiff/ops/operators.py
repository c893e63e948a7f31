"""Python's operators on tensors, as calls of the generic functions.

They are attached to `AbstractTensor`, so a structured or user type has all of them, and gets its own
by adding methods to the functions.  Another operand that no function could take (a class with its
own `__radd__`) is left to Python: the operator returns NotImplemented.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..custom.function import Function
from ..tensor import AbstractTensor
from ..tracebacks import shorten
from .arithmetic import abs_, add, divide, floor_divide, mod, multiply, negative, positive, subtract
from .bits import (
    bitwise_and,
    bitwise_left_shift,
    bitwise_not,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
)
from .comparison import equal, greater, greater_equal, less, less_equal, not_equal
from .power import power
from .rounding import round_

__all__ = ["BINARY", "COMPARISONS", "METHODS", "PREFIX", "attach", "attach_operators", "attach_spread"]

_ARRAYS = (AbstractTensor, np.ndarray, np.generic, bool, int, float, complex, list, tuple)

#: Classes seen to be one of `_ARRAYS`: a set look-up takes a third (tensors) to an eighth (numbers) of `isinstance`.
_taken: set[type] = {bool, int, float, np.ndarray}


def _takes(function: Function, left: Any, right: Any, other: Any) -> bool:
    """True if `function` takes `other` as one of its two arguments."""
    if isinstance(other, _ARRAYS):
        _taken.add(type(other))
        return True
    if any([hasattr(type(other), name) for name in ("__dlpack__", "__pandas_priority__")]):
        return True  # PyTorch's, JAX's and pandas': the tensor wins, for their results would have no history
    method = function.find((type(left), type(right)))
    place = 0 if other is left else 1
    return method is not None and method.signature.choices[place].names(type(other))


# Operators look into the function's dispatch cache themselves: on the warm path that is one call less.


def _forward(function: Function) -> Callable:
    call = type(function).__call__

    def operator(self, other):
        try:
            if type(other) in _taken or _takes(function, self, other, other):
                run = function._cache.get((type(self), type(other)))
                return call(function, self, other) if run is None else run(self, other)
            return NotImplemented
        except Exception as error:
            shorten(error)
            raise

    return operator


def _reflected(function: Function) -> Callable:
    call = type(function).__call__

    def operator(self, other):
        try:
            if type(other) in _taken or _takes(function, other, self, other):
                run = function._cache.get((type(other), type(self)))
                return call(function, other, self) if run is None else run(other, self)
            return NotImplemented
        except Exception as error:
            shorten(error)
            raise

    return operator


def _prefix(function: Function) -> Callable:
    call = type(function).__call__

    def operator(self):
        try:
            run = function._cache.get(type(self))
            return call(function, self) if run is None else run(self)
        except Exception as error:
            shorten(error)
            raise

    return operator


def attach(names: dict[str, Callable], cls: type = AbstractTensor) -> None:
    """Make functions methods of all tensors: `attach({"sum": sum_})` gives `t.sum(axis=0)`."""
    for name, function in names.items():
        setattr(cls, name, _method(name, function))
        METHODS[name] = function, None


def attach_spread(names: dict[str, Callable], *, is_needed: bool) -> None:
    """Attach methods that take a sequence, or its elements as arguments: t.reshape(2, 3), t.reshape((2, 3)).

    is_needed   whether no arguments mean an empty sequence, not that it is left out
    """
    for name, function in names.items():
        canonical = _gathering(is_needed)
        setattr(AbstractTensor, name, _method(name, function, canonical))
        METHODS[name] = function, canonical


def _gathering(is_needed: bool) -> Callable[[tuple], tuple]:
    """A function that gives the function's own arguments for those of such a method."""

    def canonical(args: tuple) -> tuple:
        x, *rest = args
        if len(rest) == 1 and (rest[0] is None or isinstance(rest[0], (tuple, list, np.ndarray, AbstractTensor))):
            return args
        return (x, tuple(rest)) if rest or is_needed else args

    return canonical


def _method(name: str, function: Callable, canonical: Callable[[tuple], tuple] | None = None) -> Callable:
    def method(self, *args, **keywords):
        try:
            if canonical is not None:
                return function(*canonical((self, *args)), **keywords)
            return function(self, *args, **keywords) if args or keywords else function(self)
        except Exception as error:
            shorten(error)
            raise

    method.__name__ = method.__qualname__ = name
    method.__doc__ = function.__doc__
    return method


#: What was attached: functions by the name of the operator.
BINARY: dict[str, Function] = {}
PREFIX: dict[str, Function] = {}
#: Functions by the name of the method, and what gives their arguments for those of the method (None: the same).
METHODS: dict[str, tuple[Callable, Callable[[tuple], tuple] | None]] = {}


def attach_operators(names: dict[str, Function], reflected: bool = True) -> None:
    """Attach binary operators, given as {"add": add}: `__add__` and, for other left operands, `__radd__`."""
    for name, function in names.items():
        _attach_one(f"__{name}__", _forward(function))
        if reflected:
            _attach_one(f"__r{name}__", _reflected(function))
            BINARY[name] = function


def _attach_one(name: str, operator: Callable) -> None:
    operator.__name__ = operator.__qualname__ = name
    setattr(AbstractTensor, name, operator)


attach_operators({
    "add": add,
    "sub": subtract,
    "mul": multiply,
    "truediv": divide,
    "floordiv": floor_divide,
    "mod": mod,
    "pow": power,
    "and": bitwise_and,
    "or": bitwise_or,
    "xor": bitwise_xor,
    "lshift": bitwise_left_shift,
    "rshift": bitwise_right_shift,
})
#: In the order in which Python numbers them.
COMPARISONS: dict[str, Function] = {
    "lt": less,
    "le": less_equal,
    "eq": equal,
    "ne": not_equal,
    "gt": greater,
    "ge": greater_equal,
}
attach_operators(COMPARISONS, reflected=False)
PREFIX |= {"neg": negative, "pos": positive, "abs": abs_, "invert": bitwise_not}
for _name, _function in PREFIX.items():
    _attach_one(f"__{_name}__", _prefix(_function))


def _divmod(self, other):
    quotient = AbstractTensor.__floordiv__(self, other)
    return quotient if quotient is NotImplemented else (quotient, AbstractTensor.__mod__(self, other))


def _rdivmod(self, other):
    quotient = AbstractTensor.__rfloordiv__(self, other)
    return quotient if quotient is NotImplemented else (quotient, AbstractTensor.__rmod__(self, other))


def _round(self, ndigits=None):
    return round_(self, 0 if ndigits is None else ndigits)


_attach_one("__divmod__", _divmod)
_attach_one("__rdivmod__", _rdivmod)
_attach_one("__round__", _round)
