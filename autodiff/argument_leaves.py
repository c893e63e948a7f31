"""The signature of a call of a jit function, which decides if a trace fits: descriptions of its arguments' leaves.

    argument                      in the signature
    array                         ("array", shape, dtype, False)
    tensor                        ("tensor", shape, dtype, True if it tracks); "array" if it stands for an array
    NumPy scalar                  ("scalar", (), dtype, False): no dimensions, and dispatches as a number
    Python number                 (the name of its class, (), dtype, False): weak, its value is a run-time argument
    anything else                 ("static", its value)

A static argument is plain data, a function or a class, or an object whose class compares and hashes it by value.  Any
other object may change without a trace noticing, so it is refused, unless the user names it static: then it counts by
identity, and the cache does not keep it alive.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from enum import Enum
from types import FunctionType, MethodType
from typing import Any, NamedTuple
from weakref import KeyedRef, ref

import numpy as np

from codegen.ir import DTYPES, KNOWN_DTYPES, Aval, parse_aval
from codegen.records import record

from . import tree
from .custom.keys import IdentityKey, is_object, static_key
from .custom.reads import is_fixed
from .dispatch.signature import dispatched
from .errors import DispatchError, DTypeError, Error, check_not_masked, check_numbers, in_short, located, with_article
from .ops import as_tensor
from .tape.leaves import fits
from .tape.misses import changed_axes
from .tape.watched import WATCHED, plain
from .tensor import AbstractTensor, Tensor
from .transforms.arguments import argument_names

#: In a signature: a NumPy scalar, which is an array of no dimensions that dispatches as a number.
SCALAR = "scalar"
#: In a signature: arrays and tensors, which are no numbers.
ARRAYS = ("array", "tensor")

_WEAK = {bool: np.dtype(np.bool_), int: np.dtype(np.int64), float: np.dtype(np.float64), complex: np.dtype(complex)}


class ArgumentLeaf(NamedTuple):
    """One argument leaf as it enters a trace."""

    key: tuple  # its part of the signature
    value: Any  # the value for the executable; None for a static argument
    given: Any  # the object that the user passed


@record(eq=False, slots=True)
class Static:
    """An argument whose value is part of the signature."""

    value: Any


class Statics(NamedTuple):
    """The arguments of a function that are Python values for the trace, by position and by name."""

    numbers: frozenset[int]
    names: frozenset[str]

    @classmethod
    def of(cls, f: Callable, numbers: int | Sequence[int], names: str | Sequence[str]) -> Statics:
        """The static arguments of f: by number or name, however they are passed.  DispatchError for unknown ones."""
        check_numbers(numbers, "static_argnums", "jit")
        numbers = (numbers,) if isinstance(numbers, int) else tuple(numbers)
        if not isinstance(names, (str, tuple, list, frozenset, set)):
            raise DispatchError(located(f"jit: static_argnames is a name or several, not {in_short(names)}"))
        names = (names,) if isinstance(names, str) else tuple(names)
        if not numbers and not names:
            return cls(frozenset(), frozenset())
        try:
            parameters = inspect.signature(f).parameters.values()
        except (TypeError, ValueError):  # some built-in functions have no signature
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
        """The arguments of a call, with the static ones wrapped as `Static`."""
        if not self.names and not self.numbers:
            return args, kwargs
        wanted = {i % len(args) for i in self.numbers if -len(args) <= i < len(args)}
        args = tuple([Static(a) if i in wanted else a for i, a in enumerate(args)])
        return args, {k: Static(v) if k in self.names else v for k, v in kwargs.items()}


def _no_parameter(f: Callable, wish: str) -> DispatchError:
    name = getattr(f, "__name__", "f")
    return DispatchError(located(f"jit: {wish}, but {name}{inspect.signature(f)} has no such parameter"))


def leaves_of(f: Callable, leaves: Sequence[Any], structure: tree.Structure) -> list[ArgumentLeaf]:
    """The leaves of the arguments of a call of f, taken apart as (args, kwargs).

    Raises DTypeError for an array of a dtype that the library does not have, DispatchError for an object that may
    change without a trace noticing.
    """
    try:
        return [_leaf_of(x) for x in leaves]
    except _RefusedError as refused:
        named = zip(argument_names(f, structure), leaves, strict=True)
        name = next((n for n, x in named if x is refused.leaf), "")
        reason = str(refused)
    function = getattr(f, "__name__", "f")
    first, _, ways_out = reason.partition("\n")
    raise DispatchError(located(f"jit: argument {name} of {function} {first}", ways_out.removeprefix("  ")))


def _leaf_of(x: Any) -> ArgumentLeaf:
    """The description of an argument's leaf: arrays and tensors by aval, numbers by class, all others by value."""
    kind = type(x)
    if isinstance(x, (np.ndarray, np.generic)):
        check_not_masked(x)
        value = np.asarray(x)  # a plain array also of np.memmap and np.matrix
        dtype = value.dtype.newbyteorder("=")
        if dtype not in KNOWN_DTYPES:
            raise DTypeError(located(
                f"jit: an argument has dtype {value.dtype}, which this library does not have",
                f"dtypes are {', '.join(d.name for d in DTYPES.values())}",
            ))
        return ArgumentLeaf((SCALAR if isinstance(x, np.generic) else "array", value.shape, dtype, False), value, x)
    if isinstance(x, Tensor):
        out = x.node.kind.out
        stands = dispatched(type(x))
        named = SCALAR if issubclass(stands, np.generic) else "array" if stands is np.ndarray else "tensor"
        named = stands.__name__ if stands in _WEAK else named
        return ArgumentLeaf((named, out.shape, out.aval.dtype, out.requires_grad), x, x)
    if kind in _WEAK:
        if kind is int and not fits(x, _WEAK[int]):
            raise OverflowError(located(f"jit: the argument {x} does not fit i64", "float(n) is a number that does"))
        return ArgumentLeaf((kind.__name__, (), _WEAK[kind], False), x, x)
    if isinstance(x, AbstractTensor) or kind in WATCHED:
        return _leaf_of(as_tensor(x) if isinstance(x, AbstractTensor) else plain(x))._replace(given=x)
    value = x.value if kind is Static else x
    try:
        return ArgumentLeaf(("static", key_of_static(value, is_named=kind is Static)), None, value)
    except _RefusedError as refused:
        refused.leaf = x
        raise


# ---------------------------------------------------------------- static arguments


def watch(part: Any, key: Any, gone: list[KeyedRef]) -> None:
    """Add a reference with the key to `gone` when an argument is freed that a part of the key has by identity.

    This runs no Python code, so no interrupt can stop it.
    """
    if isinstance(part, IdentityKey):
        if isinstance(part.held, ref):
            part.gone = KeyedRef(part.held(), gone.append, key)
    elif isinstance(part, (tuple, frozenset)):
        for each in part:
            watch(each, key, gone)


class _RefusedError(Exception):
    """The reason why an argument cannot be part of a signature; further lines of it are advice."""

    leaf: Any


def key_of_static(value: Any, is_named: bool = True) -> Any:
    """The key of a static argument: arguments with equal keys give the same trace.

    is_named   True if the user named it static: an object without a hash by value then counts by identity
    """
    kind = type(value)
    if kind in (tuple, frozenset):
        return kind, kind([key_of_static(part, is_named) for part in value])
    if isinstance(value, (np.ndarray, AbstractTensor)):
        raise _RefusedError(_STATIC_ARRAY)
    if (key := _plain_key(value)) is not None:
        return key
    if kind is MethodType:
        try:
            return kind, key_of_static(value.__func__), key_of_static(value.__self__, is_named)
        except _RefusedError:
            raise _RefusedError(_METHOD.format(type=type(value.__self__).__name__, name=value.__name__)) from None
    if any([hasattr(kind, name) for name in ("__array__", "__dlpack__")]):
        raise _RefusedError(_ARRAY.format(type=f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"))
    try:
        hash(value)
    except (TypeError, ValueError):  # ValueError: a writable memoryview
        raise _RefusedError(_UNHASHABLE.format(type=kind.__name__)) from None
    if kind.__hash__ is not object.__hash__:
        return hash(value), tree.exactly(value)  # the present hash, as the object may change
    if is_named or _is_empty(value) or (callable(value) and kind.__module__.partition(".")[0] in _FORMS):
        return IdentityKey(value)
    first = "" if is_fixed(kind.__module__) else _REGISTER.format(type=kind.__name__)
    raise _RefusedError(_FREEZES.format(type=kind.__name__, first=first))


def has_key(key: Any, value: Any) -> tuple | None:
    """() if an argument that the user named static has this key, else None."""
    if isinstance(key, IdentityKey):
        return () if IdentityKey(value) == key else None
    try:
        return () if key_of_static(value) == key else None
    except _RefusedError:
        return None


_STATIC_ARRAY = """is an array, which is never static
  take it out of static_argnums and static_argnames: arrays of one shape and dtype share a trace"""

_METHOD = """is the method {name} of an object of {type}, whose attributes would be frozen as they are at the first call
  pass the object, and call its method in the function"""

_ARRAY = """is a {type}, which would be frozen as it is now
  pass its array: np.asarray(x)"""

_UNHASHABLE = """is a static {type}, which cannot be hashed
  pass a tuple instead of a list, or register the class with ad.tree.register"""

_REGISTER = "  register {type} with ad.tree.register, or make it a dataclass: what it holds is then an argument; or\n"
_FREEZES = """is an object of {type}, whose attributes would be frozen as they are at the first call
{first}  name the parameter in static_argnames: each object is then traced once, and later changes of it are not seen;
  or close over it, which freezes all but the contents of its arrays: ad.jit(lambda x: f(obj, x))"""


def _plain_key(value: Any) -> Any:
    """The key of plain data, a function or a class; None for another object, which its class compares.

    A function that reads something that no key describes, such as a list or deeply nested closures, counts by identity.
    """
    if is_object(value):
        return None
    key, is_whole = static_key(value)
    return key if is_whole or type(value) is not FunctionType else IdentityKey(value)


def _is_empty(value: Any) -> bool:
    return type(value).__basicsize__ == object.__basicsize__ and not hasattr(value, "__dict__")


#: Modules with classes of callables that `static_key` does not know: partial functions, functions of `jit`.
_FORMS = frozenset(("autodiff", "functools", "numpy", "operator"))


def is_unchanging(value: Any) -> bool:
    """True if a static argument cannot change, so that the same object has the same value, and may be kept alive."""
    if isinstance(value, tuple) or type(value) is frozenset:
        return all(map(is_unchanging, value))
    if isinstance(value, Enum) or _is_empty(value):
        return True
    key = _plain_key(value)
    if key is not None:
        return not isinstance(key, IdentityKey)
    kind = type(value)
    return kind.__setattr__ is not object.__setattr__ and kind.__hash__ is not object.__hash__


def why_traced(f: Callable, key: tuple, last: tuple | None) -> str:
    """Words for the difference of a call signature of f from the signature that was traced before it."""
    if last is None:
        return "the first call"
    structure, parts, mode = key
    if structure != last[0]:
        names, before = argument_names(f, structure), argument_names(f, last[0])
        more, fewer = [n for n in names if n not in before], [n for n in before if n not in names]
        if told := [f"{', '.join(found)} {word}" for found, word in ((more, "is new"), (fewer, "is gone")) if found]:
            return f"the arguments are nested in another way: {'; '.join(told)}"
        return f"the arguments are nested as {structure}, before as {last[0]}"
    for name, part, was in zip(argument_names(f, structure), parts, last[1], strict=True):
        if part[1:] == was[1:] and part[0] != was[0] and part[0] in ARRAYS and was[0] in ARRAYS:
            return f"argument {name} is {with_article(part[0])}, before it was {with_article(was[0])}"
        if part != was:
            axes = "" if "static" in (part[0], was[0]) else changed_axes(part[1], was[1])
            return f"argument {name} is {_signed(part)}, before it was {_signed(was)}{axes}"
    if mode != last[2]:
        return "gradients are on" if mode else "gradients are off"
    return "it was traced before, and dropped: a method was registered that it would have used, or the table was full"


def _signed(part: tuple) -> str:
    if part[0] == "static":
        value = part[1]  # its key has the type too if equal values of other types differ
        is_typed = type(value) is tuple and value[:1] == (type(value[-1]),)
        return f"the static value {(value[1] if is_typed else value)!r}"
    kind, shape, dtype, tracks = part
    return f"{'' if kind in ARRAYS else f'a {kind} as '}{Aval(shape, dtype)}{' grad' if tracks else ''}"


# ---------------------------------------------------------------- descriptions

#: A string that looks like an aval, so that it is hardly meant as an argument.
_LIKE_AN_AVAL = re.compile(rf"\w+\[.*|{'|'.join(DTYPES)}")


def aval_of(x: Any, taker: str) -> Aval | None:
    """The aval that an argument of `taker` describes; None for an argument that is no array, and stays as it is."""
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
