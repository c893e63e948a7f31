"""Python's operators and methods of tensors: each calls a generic function, found by name in the tables below.

The operators are attached to `AbstractTensor`, so structured types and users' types have all of them; a type
changes an operator by adding a method to the generic function.  For an operand that the function cannot take
(such as a class with a `__radd__`) the operator returns NotImplemented, and Python tries the operand's operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..custom.function import Function
from ..dispatch.reliance import COLLECTING
from ..dispatch.signature import dispatched
from ..stand_ins import OPERATORS
from ..tape.leaves import as_number
from ..tensor import AbstractTensor, Tensor
from ..tracebacks import shorten

#: Functions by the name of the operator.
BINARY: dict[str, Function] = {}
PREFIX: dict[str, Function] = {}
#: In the order of Python's codes for comparisons (Py_LT, Py_LE, ...).
COMPARISONS: dict[str, Function] = {}
#: By method name: the function, and a conversion of the method's arguments to the function's (None: unchanged).
METHODS: dict[str, tuple[Callable, Callable[[tuple], tuple] | None]] = {}

#: Names of functions by the name of the operator: "add" is `__add__` and the mirrored `__radd__`.
_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide", "mod": "mod",
    "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift", "matmul": "matmul",
}  # fmt: skip
_PREFIX = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}
_COMPARISONS = {
    "lt": "less", "le": "less_equal", "eq": "equal", "ne": "not_equal", "gt": "greater", "ge": "greater_equal",
}
#: Functions that are also methods, under the same name.
_METHODS = (
    "abs all any argmax argmin argsort astype broadcast_to clip conj conjugate cos cumprod cumsum diagonal dot exp "
    "expand_dims log log_softmax logsumexp max mean min prod ravel relu repeat round sigmoid sin softmax sqrt square "
    "squeeze std sum swapaxes take tanh trace var"
)
#: Names of functions by the name of the property that calls them, such as t.real.
_PROPERTIES = {"T": "transpose", "mT": "matrix_transpose", "real": "real", "imag": "imag"}
#: The docstring of t.T: unlike `transpose`, the property takes no axes.
_REVERSED = """The axes in reverse order.

    >>> import autodiff as ad
    >>> ad.ones((2, 3, 4)).T.shape
    (4, 3, 2)
    """


def attach(functions: Mapping[str, Any]) -> None:
    """Attach all operators, methods and properties to tensors.  `functions`: the public functions by name."""
    for name, of in _BINARY.items():
        _attach_one(f"__r{name}__", _operator(functions[of], is_mirrored=True))
    for table, names in ((BINARY, _BINARY), (COMPARISONS, _COMPARISONS), (PREFIX, _PREFIX)):
        for name, of in names.items():
            table[name] = functions[of]
            _attach_one(f"__{name}__", _method(name, functions[of]) if table is PREFIX else _operator(functions[of]))
    OPERATORS.update({f"__i{name}__": OPERATORS[f"__{name}__"] for name in _BINARY})  # numbers are immutable
    METHODS.update({name: (functions[name], None) for name in _METHODS.split()})
    METHODS.update({
        "flatten": (functions["ravel"], None),
        "reshape": (functions["reshape"], _gathering(is_needed=True)),
        "transpose": (functions["transpose"], _gathering(is_needed=False)),
        "__getitem__": (functions["getitem"], None),
        "__iter__": (_rows, None),
        "__contains__": (lambda x, element: bool(COMPARISONS["eq"](x, element).any()), None),
    })
    for name, (function, canonical) in METHODS.items():
        setattr(AbstractTensor, name, _method(name, function, canonical))
    for name, of in _PROPERTIES.items():
        setattr(AbstractTensor, name, property(functions[of], doc=_REVERSED if name == "T" else functions[of].__doc__))
    for name in ("real", "imag"):
        OPERATORS[name] = property(_of_numbers(functions[name]))
    OPERATORS["conjugate"] = _of_numbers(functions["conjugate"])
    for method in (_divmod, _rdivmod, _round):
        _attach_one(f"_{method.__name__}__", method)
    AbstractTensor.copy = copy  # type: ignore[attr-defined]  # attached, as all methods


def _attach_one(name: str, operator: Callable) -> None:
    operator.__name__ = operator.__qualname__ = name
    setattr(AbstractTensor, name, operator)
    OPERATORS[name] = _of_numbers(operator, name.strip("_") not in _LOGICAL)


def _of_numbers(operator: Callable, makes_ints: bool = False) -> Callable:
    """The operator for stand-ins of Python numbers in a traced function: a result of numbers alone is a number.

    makes_ints   True if bools give an int, as in Python's arithmetic; ~ of a bool is not, as of NumPy's
    """

    def of_numbers(self, *others):
        kinds = {dispatched(type(x)) for x in (self, *others)}
        if makes_ints and kinds == {bool}:
            self = as_number(METHODS["astype"][0](self, int))
        made = operator(self, *others)
        return as_number(made) if isinstance(made, Tensor) and kinds <= _NUMBERS else made

    return of_numbers


_NUMBERS = frozenset((bool, int, float, complex))
#: Operators that give a bool, not an int, for Python bools.
_LOGICAL = ("and", "rand", "or", "ror", "xor", "rxor", "invert", *_COMPARISONS)
_ARRAYS = (AbstractTensor, np.ndarray, np.generic, bool, int, float, complex, list, tuple)

#: Classes found to be in `_ARRAYS`: a set look-up takes a third (tensors) to an eighth (numbers) of `isinstance`.
_taken: set[type] = {bool, int, float, np.ndarray}


def _takes(function: Function, left: Any, right: Any, other: Any) -> bool:
    """True if `function` takes `other` as one of its two arguments."""
    if isinstance(other, _ARRAYS):
        _taken.add(type(other))
        return True
    if any([hasattr(type(other), name) for name in ("__dlpack__", "__pandas_priority__")]):
        return True  # PyTorch, JAX, pandas: our operator runs, since their results would have no history
    method = function.table.find((type(left), type(right)))
    place = 0 if other is left else 1
    return method is not None and method.signature.choices[place].names(type(other))


# Operators read the function's dispatch cache directly, which saves one Python call when the method is cached.


def _operator(function: Function, is_mirrored: bool = False) -> Callable:
    """An operator that calls `function` on (left, right).  `is_mirrored`: self is the right operand (`__radd__`)."""
    call = type(function).__call__

    def operator(self, other):
        left, right = (other, self) if is_mirrored else (self, other)
        try:
            if type(other) in _taken or _takes(function, left, right, other):
                run = None if COLLECTING else function._cache.get((type(left), type(right)))
                return call(function, left, right) if run is None else run(left, right)
            return NotImplemented
        except Exception as error:
            shorten(error)
            raise

    return operator


def _gathering(is_needed: bool) -> Callable[[tuple], tuple]:
    """A conversion that gathers a method's separate arguments into a tuple: t.reshape(2, 3) → reshape(t, (2, 3)).

    is_needed   True if no arguments mean an empty tuple, False if they mean that the tuple is left out
    """

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


def _rows(self: Any) -> Iterator:
    """The elements along the leading axis.  Raises TypeError for a 0-d tensor."""
    if not self.shape:
        raise TypeError("iteration over a 0-d tensor")
    return (self[i] for i in range(self.shape[0]))


def copy(self: Any) -> Any:
    """A new tensor with the same value, unchanged by in-place updates of this one; gradients flow through it.

    >>> import autodiff as ad
    >>> x = ad.ones(2)
    >>> y = x.copy()
    >>> y[0] = 5.0
    >>> x, y
    (f64[2] [1. 1.], f64[2] [5. 1.])
    """
    return PREFIX["pos"](self)


def _divmod(self, other):
    quotient = self.__floordiv__(other)
    return quotient if quotient is NotImplemented else (quotient, self.__mod__(other))


def _rdivmod(self, other):
    quotient = self.__rfloordiv__(other)
    return quotient if quotient is NotImplemented else (quotient, self.__rmod__(other))


def _round(self, ndigits=None):
    rounded = METHODS["round"][0](self, ndigits or 0)
    return METHODS["astype"][0](rounded, int) if ndigits is None and dispatched(type(self)) is float else rounded
