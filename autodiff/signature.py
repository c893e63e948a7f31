"""What one call of a jit function looks like: the kinds of its arguments, which say whether a trace fits.

    argument                      in the signature
    array, tensor                 ("array", shape, dtype, whether it tracks)
    NumPy scalar                  ("scalar", (), dtype, False): no dimensions, and dispatches as a number
    Python number                 (its class's name, (), dtype, False): weak, its value is a run-time argument
    anything else                 ("static", its value)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from codegen.ir import DTYPES, Aval

from . import tree
from .custom.objects import is_object
from .custom.reads import static_key
from .errors import DispatchError, DTypeError, Error, caller, check_not_masked
from .ops import as_tensor
from .tape.record import grad_mode, number_like_traced
from .tape.watched import WATCHED, plain
from .tensor import AbstractTensor, Tensor

__all__ = ["SCALAR", "Leaf", "Static", "Statics", "as_value", "kind_of", "leaf_of", "why_traced"]

#: In a signature: a NumPy scalar, which is an array of no dimensions that dispatches as a number.
SCALAR = "scalar"

#: The dtypes that there are, for looking one up.
_KNOWN = dict.fromkeys(DTYPES.values())
_WEAK = {bool: np.dtype(np.bool_), int: np.dtype(np.int64), float: np.dtype(np.float64), complex: np.dtype(complex)}


class Leaf:
    """How one argument leaf enters a trace: the part of the signature it makes, and its value."""

    __slots__ = ("key", "value")

    def __init__(self, key: Any, value: Any) -> None:
        self.key = key
        self.value = value


class Static:
    """An argument whose value is part of the signature."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Statics(NamedTuple):
    """Which arguments of a function are Python values for the trace, by position and by name."""

    numbers: frozenset[int]
    names: frozenset[str]

    @classmethod
    def of(cls, f: Callable, numbers: int | Sequence[int], names: str | Sequence[str]) -> Statics:
        """A parameter that is named is meant however it is passed; DispatchError for one that f has not."""
        numbers = (numbers,) if isinstance(numbers, int) else tuple(numbers)
        names = (names,) if isinstance(names, str) else tuple(names)
        if not numbers and not names:
            return cls(frozenset(), frozenset())
        try:
            parameters = inspect.signature(f).parameters.values()
        except (TypeError, ValueError):  # of some built-in functions nobody knows them
            return cls(frozenset(numbers), frozenset(names))
        positional = [p.name for p in parameters if p.kind <= p.POSITIONAL_OR_KEYWORD]
        kinds = {p.kind for p in parameters}
        found = {positional.index(n) for n in names if n in positional}
        for i in numbers:
            if isinstance(i, int) and -len(positional) <= i < len(positional):
                found.add(i % len(positional))
            elif isinstance(i, int) and inspect.Parameter.VAR_POSITIONAL in kinds:
                found.add(i)
            else:
                raise _no_parameter(f, f"static_argnums={i!r}")
        for n in names:
            if n not in [p.name for p in parameters] and inspect.Parameter.VAR_KEYWORD not in kinds:
                raise _no_parameter(f, f"static_argnames={n!r}")
        return cls(frozenset(found), frozenset(names) | {positional[i] for i in found if 0 <= i < len(positional)})

    def marked(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """The arguments of a call, those that are meant as `Static`."""
        if not self.names and not self.numbers:
            return args, kwargs
        wanted = {i % len(args) for i in self.numbers if -len(args) <= i < len(args)}
        args = tuple([Static(a) if i in wanted else a for i, a in enumerate(args)])
        return args, {k: Static(v) if k in self.names else v for k, v in kwargs.items()}


def _no_parameter(f: Callable, wish: str) -> DispatchError:
    name = getattr(f, "__name__", "f")
    return DispatchError(f"jit: {wish}, but {name}{inspect.signature(f)} has no such parameter\n  called at {caller()}")


def leaf_of(x: Any) -> Leaf:
    """How an argument enters: arrays and tensors by aval, numbers weakly, the rest by value."""
    kind = type(x)
    if isinstance(x, (np.ndarray, np.generic)):
        check_not_masked(x)
        value = np.asarray(x)  # of np.memmap and np.matrix the array alone
        dtype = value.dtype.newbyteorder("=")
        if dtype not in _KNOWN:
            raise DTypeError(
                f"jit: an argument has dtype {value.dtype}, which this library does not have\n"
                f"  called at {caller()}\n"
                f"  dtypes are {', '.join(d.name for d in _KNOWN)}"
            )
        return Leaf((SCALAR if isinstance(x, np.generic) else "array", value.shape, dtype, False), value)
    if isinstance(x, Tensor):
        out = x.node.kind.out
        return Leaf(("array", out.shape, out.aval.dtype, x.requires_grad and grad_mode.get()), x)
    if kind in _WEAK:
        return Leaf((kind.__name__, (), _WEAK[kind], False), x)
    if isinstance(x, AbstractTensor):
        return leaf_of(as_tensor(x))
    if kind in WATCHED:
        return leaf_of(plain(x))
    value = x.value if kind is Static else x
    return Leaf(("static", _by_hash(value) if _has_objects(value) else static_key(value)[0]), None)


def _has_objects(value: Any) -> bool:
    """Whether something is compared as its class says: no plain data, nor a function, nor a class."""
    if type(value) in (tuple, frozenset):
        return any(map(_has_objects, value))
    return is_object(value) or static_key(value)[0] is None


def _by_hash(value: Any) -> Any:
    """A static value that is no plain data: compared as its class says, which by default is by identity.

    Numbers beside it, or in a namedtuple, are equal only where they are alike, as they are in plain data.
    """
    try:
        hash(value)
    except (TypeError, ValueError):  # that of a writable memoryview
        raise Error(
            f"jit: a static argument of type {type(value).__name__} cannot be hashed\n"
            f"  called at {caller()}\n"
            "  pass a tuple instead of a list, or register the class with ad.tree.register"
        ) from None
    return tree.exactly(value)


def as_value(part: Leaf, x: Any) -> Any:
    """An argument for a run outside of a trace: of the same types as in one."""
    if part.value is None:
        return x.value if isinstance(x, Static) else x
    if part.key[0] != "array":
        return number_like_traced(x, part.key[2], part.key[0] != SCALAR)
    return as_tensor(x)


def kind_of(part: Leaf, x: Any) -> tuple[str, Any]:
    """How a straight-line caller takes an argument: as a static value, an array of a rank, a number of a class."""
    if part.value is None:
        return "static", x.value if type(x) is Static else x
    return ("array", len(part.key[1])) if part.key[0] == "array" else ("number", type(x))


def why_traced(key: tuple, last: tuple | None) -> str:
    """How a call signature differs from the one that was traced before it."""
    if last is None:
        return "the first call"
    structure, parts, mode = key
    if structure != last[0]:
        return f"the arguments are nested as {structure}, before as {last[0]}"
    names = tree.names(structure)
    for name, part, was in zip(names, parts, last[1], strict=True):
        if part != was:
            return f"argument {name} is {_signed(part)}, before it was {_signed(was)}"
    if mode != last[2]:
        return "gradients are on" if mode else "gradients are off"
    return "it was traced before, and dropped: a method was registered that it would have used, or the table was full"


def _signed(part: tuple) -> str:
    if part[0] == "static":
        return f"the static value {part[1]!r}"
    kind, shape, dtype, tracks = part
    return f"{'' if kind == 'array' else f'a {kind} as '}{Aval(shape, dtype)}{' grad' if tracks else ''}"
