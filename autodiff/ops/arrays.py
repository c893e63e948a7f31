"""Element programs: one function that is both an operation's lowering and, on arrays, its reference.

    program(k, *elements, **params)       with Python's operators, and functions that are methods of k
    reference = on_arrays(program)        elements are arrays
    lower = Map(on_elements(program))     k is the scalar builder, and elements are its values

    lambda k, x: k.maximum(x, 0.0) + k.exp(-abs(x))

A number among the operands gets the dtype of the last operand that is an element.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from codegen.garbage import ignoring
from codegen.ir import DTYPES, dtype_name
from codegen.kernel.instructions import OF_ONE
from codegen.runtime.ufunc_loops import Runs, loops_of


def with_loop(name: str, operands: int) -> Callable[[Any], Any]:
    """A decorator that names the machine-code loop for a reference (`codegen.runtime.recording_interpret`)."""

    def mark(reference: Any) -> Any:
        reference.loop, reference.nin = name, operands
        return reference

    return mark


@with_loop("choice", 3)
def where_of_arrays(condition: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The reference of `where`."""
    return np.where(condition, a, b)


class _Arrays:
    """The operations of `codegen.kernel.scalar.Scalar`, for arrays of one dtype."""

    add, sub, mul, div, neg, abs = np.add, np.subtract, np.multiply, np.divide, np.negative, np.absolute
    minimum, maximum = np.minimum, np.maximum
    lt, le, gt, ge, eq = np.less, np.less_equal, np.greater, np.greater_equal, np.equal
    logical_and, logical_or, logical_not = np.logical_and, np.logical_or, np.logical_not
    bit_and, bit_or, bit_xor = np.bitwise_and, np.bitwise_or, np.bitwise_xor
    shift_left, shift_right = np.left_shift, np.right_shift
    sqrt, floor, copysign, isnan, isinf, pow = np.sqrt, np.floor, np.copysign, np.isnan, np.isinf, np.power
    select = staticmethod(where_of_arrays)

    @staticmethod
    def constant(value: float, *, like: np.ndarray) -> Any:
        """A number in the dtype of `like`."""
        return like.dtype.type(value)

    @staticmethod
    def dtype(x: np.ndarray) -> str:
        """The short name of x's dtype."""
        return dtype_name(x.dtype)

    @staticmethod
    def cast(x: np.ndarray, dtype: str) -> Any:
        """x in another dtype."""
        return x.astype(DTYPES[dtype])

    @staticmethod
    def fma(x: Any, y: Any, z: Any) -> Any:
        """x y + z, rounded nearly once: the rounding errors of the product and of the sum are added back."""
        product = x * y
        total = product + z
        (a, b), (c, d) = [_halves(np.asarray(one, product.dtype)) for one in (x, y)]
        rest = ((a * c - product) + a * d + b * c) + b * d
        moved = total - product
        rest = rest + ((product - (total - moved)) + (z - moved))
        return np.where(np.isfinite(rest), total + rest, total)


def _halves(x: Any) -> tuple[Any, Any]:
    """Two numbers with half the digits each whose sum is x (Veltkamp)."""
    large = x * x.dtype.type(2.0**27 + 1 if x.dtype.itemsize == 8 else 2.0**12 + 1)
    high = large - (large - x)
    return high, x - high


for _name, (_file, _function, _told) in OF_ONE.items():
    setattr(_Arrays, _name, staticmethod(_function))
_ARRAYS = _Arrays()


def on_arrays(program: Callable[..., Any], *, casts: bool = False) -> Callable[..., np.ndarray]:
    """The function of arrays that an element program defines; NumPy's warnings are off.

    casts   True for a program whose elements have several dtypes
    """

    def reference(*xs: np.ndarray, **params: Any) -> np.ndarray:
        with ignoring(all="ignore"):
            return np.asarray(program(_ARRAYS, *xs, **params))

    if not casts:
        reference.in_ufuncs = cache(partial(_in_ufuncs, program))  # type: ignore[attr-defined]  # a mark on a function
    return reference


class _Element:
    """An operand of an element program, with Python's operators."""

    __slots__ = ("builder", "value")

    def __init__(self, builder: _ElementBuilder, value: Any) -> None:
        self.builder = builder
        self.value = value


class _ElementBuilder:
    """A builder whose methods take elements, and Python numbers among them."""

    def __init__(self, k: Any) -> None:
        self._k = k

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._k, name)

        def call(*operands: Any) -> Any:
            like = [x.value for x in operands if isinstance(x, _Element)][-1]
            found = method(*[
                x.value if isinstance(x, _Element) else x if isinstance(x, str) else self._k.constant(x, like=like)
                for x in operands
            ])
            return found if isinstance(found, str) else _Element(self, found)

        return call

    def constant(self, value: float, *, like: _Element) -> _Element:
        return _Element(self, self._k.constant(value, like=like.value))


def _operator(method: str, is_mirrored: bool) -> Callable[..., Any]:
    def operator(self: _Element, *other: Any) -> Any:
        return getattr(self.builder, method)(*((*other, self) if is_mirrored else (self, *other)))

    return operator


for _name, _method in {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "neg": "neg", "abs": "abs", "lt": "lt", "le": "le",
    "gt": "gt", "ge": "ge", "eq": "eq", "and": "logical_and", "or": "logical_or", "invert": "logical_not",
    "radd": "add", "rsub": "sub", "rmul": "mul", "rtruediv": "div",
}.items():  # fmt: skip
    setattr(_Element, f"__{_name}__", _operator(_method, is_mirrored=_name.startswith("r")))


def on_elements(program: Callable[..., Any]) -> Callable[..., Any]:
    """An element program as a `Map` takes it: for a builder whose values have no operators."""

    def lower(k, *xs, **params):
        builder = _ElementBuilder(k)
        return program(builder, *[_Element(builder, x) for x in xs], **params).value

    return lower


class _NoUFunc(Exception):
    """An element program has an operation that is no ufunc."""


class _UfuncRows:
    """A builder that notes each operation as a ufunc, in a row: see `codegen.runtime.ufunc_loops.Runs`."""

    def __init__(self, dtype: np.dtype, given: int) -> None:
        self._dtype, self._given = dtype, given
        self.rows: list[tuple[bytes, tuple[int, ...]]] = []
        self.constants: list[np.ndarray] = []

    def __getattr__(self, name: str) -> Callable[..., int]:
        loops = loops_of(getattr(_Arrays, name, None))
        if loops is None:
            raise _NoUFunc

        def put(*operands: int) -> int:
            if len(operands) > 3:
                raise _NoUFunc
            self.rows.append((loops, operands))
            return self._given + len(self.rows) - 1

        return put

    def constant(self, value: float, *, like: int) -> int:
        self.constants.append(np.array(value, self._dtype))
        return -len(self.constants)

    def dtype(self, x: int) -> str:
        return dtype_name(self._dtype)


def _in_ufuncs(program: Callable[..., Any], dtype: np.dtype) -> Runs:
    """An element program, for one dtype, as rows of ufuncs; no rows if it does anything else."""
    count = len(inspect.signature(program).parameters) - 1
    k = _UfuncRows(dtype, count)
    try:
        found = on_elements(program)(k, *range(count))
    except (_NoUFunc, TypeError):  # the program uses operators that elements lack, or has parameters
        return 0, (), ()
    return (count, k.rows, k.constants) if k.rows and found == count + len(k.rows) - 1 else (0, (), ())
