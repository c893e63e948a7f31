"""Watched numbers: stand-ins for the numbers that a rule reads, which note if the rule looks at their values.

A rule that only does arithmetic with a number, and combines it with tensors, records the same graph for
any number: the number is an argument of the graph.  A rule that looks at it (`if c > 0`, `math.cos(c)`, an axis,
text) may record another graph for another number: the value belongs to the rule's key.  An array that a rule combines
with a tensor is an argument of the graph; any other use looks at its contents, which no key can hold.

A watched number is no instance of a subclass of float, since native code would read its value unnoticed; its
`__class__` is float, for `isinstance`.  Its arithmetic is Python's, also when a plan repeats it (`plan.Formulas`).

    w = c * 2 + 1          steps   t0 = number 3    t1 = t0 * 2    t2 = t1 + 1
    g * w                  a leaf of the graph, which takes float(t2)
    if w > 0: ...          a look: number 3 counts by value
"""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from codegen.records import NamedTuple
from codegen.symbols import Symbol, SymbolicFloat

from ..tensor import AbstractTensor
from .node import Node


class WatchedStep(NamedTuple):
    """A step in the computation of a watched number or array.

    function   a function of the operands; None: the step is a number of the rule, and the constant operand its place
    operands   for each: (an earlier step, None), or (-1, a constant)
    sources    the places of the rule's numbers that the step depends on
    """

    function: Callable | None
    operands: tuple[tuple[int, Any], ...]
    sources: frozenset[int]


class Watch:
    """The numbers and arrays that one run of a rule may read, while it `is_open`.

    looked    the places of numbers that the rule has looked at;   steps: the computation of all watched values
    leaves    node of a watched value -> (its step, the function that converts the step's value for the node)
    """

    __slots__ = ("is_open", "leaves", "looked", "numbers", "steps")

    def __init__(self, numbers: Sequence[Any]) -> None:
        self.numbers = tuple(numbers)
        self.looked: set[int] = set()
        self.leaves: dict[Node, tuple[int, Callable]] = {}
        self.is_open = True
        self.steps: list[WatchedStep] = []

    def number(self, i: int) -> Any:
        """The watched number at place i."""
        return self._put(WatchedStep(None, ((-1, i),), frozenset((i,))), self.numbers[i])

    def made(self, function: Callable, given: Sequence[Any], value: Any) -> Any:
        """The watched number that one more step computes from the given numbers;  `value`: its present value."""
        operands = tuple([(x._step, None) if type(x) in WATCHED else (-1, x) for x in given])
        sources = frozenset().union(*[self.steps[step].sources for step, _ in operands if step >= 0])
        return self._put(WatchedStep(function, operands, sources), value)

    def _put(self, step: WatchedStep, value: Any) -> Any:
        self.steps.append(step)
        w: Any = _new(_CLASSES[type(value)])
        w._watch, w._step, w._value = self, len(self.steps) - 1, value
        return w

    def see(self, step: int) -> None:
        """Note that the rule looked at the value of a step."""
        self.looked |= self.steps[step].sources


_new = object.__new__


class _Seen:
    """A watched value, which enters the rule's key only if the rule looks at it."""

    __slots__ = ("_step", "_value", "_watch")

    _watch: Watch
    _step: int
    _value: Any

    def _seen(self) -> Any:
        """The value itself; the call counts as a look."""
        if self._watch.is_open:
            self._watch.see(self._step)
        return self._value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._seen(), name)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self._seen(), dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        if any(isinstance(x, AbstractTensor) for x in inputs):
            return NotImplemented  # the tensor records it
        return getattr(ufunc, method)(*seen_within(inputs), **seen_within(keywords))

    def __array_function__(self, function: Callable, types: Iterable[type], args: tuple, keywords: dict) -> Any:
        if any(issubclass(t, AbstractTensor) for t in types):
            return NotImplemented
        return function(*seen_within(args), **seen_within(keywords))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._seen().__reduce_ex__(protocol)


class Watched(_Seen):
    """A watched number; arithmetic with other numbers is no look at its value."""

    __slots__ = ()

    def __copy__(self) -> Watched:
        return self

    def __deepcopy__(self, _memo: Any) -> Watched:
        return self

    def __pow__(self, exponent: Any, modulus: Any = None) -> Any:
        if isinstance(exponent, AbstractTensor) and modulus is None:
            return NotImplemented
        if modulus is None and type(exponent) is int and exponent >= 0:  # then the kind of the result is known
            return _combined(operator.pow, self, exponent, self, exponent)
        return pow(self._seen(), plain(exponent), plain(modulus))

    def __rpow__(self, base: Any, modulus: Any = None) -> Any:
        return pow(plain(base), self._seen(), plain(modulus))


def plain(x: Any) -> Any:
    """The value of a watched number, which counts as a look; any other object is returned as it is."""
    return x._seen() if type(x) in ALL_WATCHED else x


def seen_within(x: Any) -> Any:
    """`plain` of everything in nested tuples (named ones too), lists, dicts and slices."""
    kind = type(x)
    if kind in ALL_WATCHED:
        return x._seen()
    if kind is tuple or kind is list:
        return kind([seen_within(v) for v in x])
    if kind is dict:
        return {k: seen_within(v) for k, v in x.items()}
    if kind is slice:
        return slice(seen_within(x.start), seen_within(x.stop), seen_within(x.step))
    if isinstance(x, tuple) and hasattr(x, "_make"):
        return x._make(map(seen_within, x))
    return x


# ---------------------------------------------------------------- arithmetic, which is no look


def _computed(function: Callable, operands: tuple, me: Watched) -> Any:
    """The watched result of a function of numbers, one of which is `me`."""
    if not me._watch.is_open:
        return function(*map(plain, operands))
    try:
        value = function(*[x._value if type(x) in WATCHED else x for x in operands])
    except ArithmeticError:  # a rule that catches the error learns something about the values
        for x in operands:
            plain(x)
        raise
    except TypeError:
        return NotImplemented
    return me._watch.made(function, operands, value)


def _combined(function: Callable, left: Any, right: Any, me: Watched, other: Any) -> Any:
    """function(left, right), one of which is `me` and one `other`."""
    kind = type(other)
    if kind in _NUMBERS or (kind in WATCHED and other._watch is me._watch):
        return _computed(function, (left, right), me)
    if isinstance(other, AbstractTensor):
        return NotImplemented  # the tensor records it
    return function(plain(left), plain(right))


def _attach_arithmetic(name: str) -> None:
    function = getattr(operator, name)

    def forward(self, other):
        return _combined(function, self, other, self, other)

    def reflected(self, other):
        return _combined(function, other, self, self, other)

    for prefix, method in (("", forward), ("r", reflected)):
        _attach(Watched, f"__{prefix}{name}__", method)


def _attach(cls: type, name: str, method: Callable) -> None:
    method.__name__ = method.__qualname__ = name
    setattr(cls, name, method)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod"):
    _attach_arithmetic(_name)
for _function in (operator.pos, operator.neg, operator.abs):
    _attach(Watched, f"__{_function.__name__}__", lambda self, of=_function: _computed(of, (self,), self))


# ---------------------------------------------------------------- all other uses, which are looks


def _looking(function: Callable) -> Callable:
    """`function` as a method that looks at the number, and at watched arguments."""

    def method(self, *args):
        if args and isinstance(args[0], AbstractTensor):
            return NotImplemented
        return function(self._seen(), *map(plain, args))

    return method


def _turned(function: Callable) -> Callable:
    """The operation as a method that looks, with the number as the second operand."""
    return _looking(lambda x, other: function(other, x))


def _attach_looks(cls: type, looks: dict[str, Callable], operators: Iterable[str] = ()) -> None:
    """Attach methods that look, by their names without underscores, and operators with the value on either side."""
    for name, function in looks.items():
        _attach(cls, f"__{name}__", _looking(function))
    for name in operators:
        function, word = getattr(operator, name), name.rstrip("_")
        _attach(cls, f"__{word}__", _looking(function))
        _attach(cls, f"__r{word}__", _turned(function))


_BITS = ("and_", "or_", "xor", "lshift", "rshift")
_OF_ALL: dict[str, Callable] = {
    **{name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne", "invert")},
    "bool": bool, "repr": repr, "str": str, "format": format, "divmod": divmod, "dir": dir,
}  # fmt: skip
_OF_REALS: dict[str, Callable] = {
    "float": float, "int": int, "round": round, "trunc": math.trunc, "floor": math.floor, "ceil": math.ceil,
}  # fmt: skip
_OF_ARRAYS: dict[str, Callable] = {
    "neg": operator.neg, "pos": operator.pos, "abs": abs, "float": float, "int": int, "complex": complex,
    "index": operator.index, "iter": iter, "contains": operator.contains, "getitem": operator.getitem,
    "setitem": operator.setitem, "delitem": operator.delitem, "round": round, "copy": copy.copy,
    "deepcopy": lambda x, _memo: x.copy(),
}  # fmt: skip

# For a float, the operators on bits raise Python's TypeError.
_attach_looks(Watched, _OF_ALL | {"hash": hash, "rdivmod": lambda x, other: divmod(other, x)}, _BITS)


def _class_for(kind: type, looks: dict[str, Callable]) -> type:
    namespace = {
        "__slots__": (),
        "__module__": __name__,
        "__doc__": f"A watched {kind.__name__}.",
        "__class__": property(lambda self: kind),
        "__dispatches_as__": kind,
    }
    cls = type(f"Watched[{kind.__name__}]", (Watched,), namespace)
    _attach_looks(cls, looks)
    return cls


_CLASSES: dict[type, type] = {
    float: _class_for(float, _OF_REALS),
    int: _class_for(int, {**_OF_REALS, "index": operator.index}),
    complex: _class_for(complex, {"complex": complex}),
}
#: The classes of watched numbers.
WATCHED = frozenset(_CLASSES.values())
#: Class of a watched number, or of a symbol -> class of the number it stands for.
KIND_OF = {cls: kind for kind, cls in _CLASSES.items()} | {Symbol: int, SymbolicFloat: float}
_NUMBERS = frozenset((bool, int, float, complex))

# ---------------------------------------------------------------- arrays


class WatchedArray(_Seen):
    """A watched array: dtype and shape are free to read; any use of the contents but with tensors is a look."""

    __slots__ = ()

    __class__ = property(lambda self: np.ndarray)
    __dispatches_as__ = np.ndarray
    __hash__ = None  # type: ignore[assignment]  # how Python says that there is none

    dtype = property(operator.attrgetter("_value.dtype"))
    shape = property(operator.attrgetter("_value.shape"))
    ndim = property(operator.attrgetter("_value.ndim"))
    size = property(operator.attrgetter("_value.size"))

    def __len__(self) -> int:
        return len(self._value)


_WITH_TENSORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", *_BITS)
_attach_looks(WatchedArray, _OF_ALL | _OF_ARRAYS, _WITH_TENSORS)
_attach_looks(WatchedArray, {(word := f"i{name.rstrip('_')}"): getattr(operator, word) for name in _WITH_TENSORS})

_CLASSES[np.ndarray] = WatchedArray
ALL_WATCHED = WATCHED | {WatchedArray}
