"""Signatures: which types a method takes, and when one signature is more specific than another.

    (Matrix, Matrix, Vector | None)

A signature has one `Choice` for each parameter of the generic function's declaration that may be
given by position, and for `*xs` a last one that holds for each of them.  All signatures of one
function are therefore equally long, and everything is decided position by position.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any

from ..errors import DispatchError, caller
from ..frames import user_frame

NoneType = type(None)


def type_name(cls: type) -> str:
    """The name of a type in messages: `Tensor[float32, 2]`, `None` for its type."""
    cls = dispatched(cls)
    return "None" if cls is NoneType else cls.__name__


def pasted(cls: type) -> str:
    """A type as it can be pasted into a program that imports the library as `ad` and NumPy as `np`."""
    cls = dispatched(cls)
    name, home = type_name(cls), cls.__module__.partition(".")[0]
    if home == "autodiff":
        return "ad." + re.sub(r"\[(\w+)", lambda found: f"[ad.{_with_bool(found[1])}", name)
    return f"np.{_with_bool(name)}" if home == "numpy" else name


def _with_bool(name: str) -> str:
    """The name of a dtype or NumPy type, of which that of bool has two in different NumPys."""
    return "bool_" if name == "bool" else name


def dispatched(cls: type) -> type:
    """The class that instances of `cls` dispatch as: an argument that is a tensor in a trace may be a number still."""
    return getattr(cls, "__dispatches_as__", cls)


class Choice:
    """The types that one parameter takes: one class, or the members of a union, without those that others contain.

    The empty choice, `typing.Never`, takes nothing: for `*xs` it means "no further arguments".  `issubclass` works
    between choices, for multipledispatch's ordering.
    """

    __slots__ = ("_hash", "members")

    def __init__(self, members: Iterable[type]) -> None:
        self.members = _largest(tuple(dict.fromkeys(members)))
        self._hash = hash(frozenset(self.members))

    def takes(self, cls: type) -> bool:
        """True if an argument of this class fits."""
        cls = dispatched(cls)
        return any(issubclass(cls, member) for member in self.members)

    def names(self, cls: type) -> bool:
        """True if an argument of this class fits a member that says more than `object`."""
        cls = dispatched(cls)
        return any(member is not object and issubclass(cls, member) for member in self.members)

    def within(self, other: Choice) -> bool:
        """True if the other takes whatever this takes."""
        return all(map(other.takes, self.members))

    def __subclasscheck__(self, other: Choice) -> bool:
        return other.within(self)

    def meet(self, other: Choice) -> Choice:
        """The choice of what both take: empty when nothing known does."""
        return Choice(m for a, b in product(self.members, other.members) for m in meets(a, b))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Choice) and set(self.members) == set(other.members)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return _NAMES.get(self) or " | ".join(map(type_name, self.members)) or "Never"

    def pasted(self) -> str:
        """The union as it can be pasted: see `pasted`."""
        name = _NAMES.get(self)
        return f"ad.{name}" if name else " | ".join(map(pasted, self.members)) or "typing.Never"


def _largest(classes: Sequence[type]) -> tuple[type, ...]:
    """The classes that are not strictly below another of them; some ABCs contain each other."""
    return tuple(a for a in classes if not any(issubclass(a, b) and not issubclass(b, a) for b in classes))


#: Unions that have a name of their own.
_NAMES: dict[Choice, str] = {}


class NamedUnion(type):
    """The metaclass of a class that stands for several others, its `members`: `Number`.

    In signatures it is the union of them, in messages its name; nothing is an instance of it alone.
    """

    members: tuple[type, ...]

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        _NAMES[Choice(cls.members)] = name

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.members)

    def __subclasscheck__(cls, other: type) -> bool:
        return other is cls or issubclass(other, cls.members)

    def __call__(cls, *_args: Any, **_keywords: Any) -> Any:
        raise TypeError(f"ad.{cls.__name__} stands for {', '.join(map(type_name, cls.members))}: call one of these")


#: The choice of a parameter without a type: any object.
ANY = Choice((object,))


def meets(a: type, b: type) -> tuple[type, ...]:
    """The largest known classes below both: one of the two, one that a metaclass names, or those that exist.

    `__meet__(a, b) -> type | None` of a metaclass makes Tensor[float32, 2] of Tensor[float32] and Tensor[..., 2].
    """
    if issubclass(a, b):
        return (a,)
    if issubclass(b, a):
        return (b,)
    for cls, other in ((a, b), (b, a)):
        hook = getattr(type(cls), "__meet__", None)
        found = hook(cls, other) if hook else None
        if found is not None:
            return (found,)
    return _largest([cls for cls in _subclasses(a) if issubclass(cls, b)])


def _subclasses(cls: type) -> dict[type, None]:
    """All existing subclasses."""
    direct: list[type] = type.__subclasses__(cls)
    found = dict.fromkeys(direct)
    for sub in direct:
        found |= _subclasses(sub)
    return found


class Signature:
    """A choice of types for each parameter that dispatches; `variadic` when the last is for `*xs`.

    Immutable and hashable.  `a <= b`: a is at least as specific as b.
    """

    __slots__ = ("choices", "variadic")

    def __init__(self, choices: Iterable[Choice], variadic: bool = False) -> None:
        self.choices = tuple(choices)
        self.variadic = variadic

    def spread(self, count: int) -> tuple[Choice, ...]:
        """One choice for each of `count` arguments."""
        if not self.variadic:
            return self.choices
        fixed = self.choices[:-1]
        return fixed + self.choices[-1:] * (count - len(fixed))

    def takes(self, classes: Sequence[type]) -> bool:
        """True if arguments of these classes fit."""
        choices = self.spread(len(classes))
        return len(choices) == len(classes) and all(map(Choice.takes, choices, classes))

    def __le__(self, other: Signature) -> bool:
        return all(map(Choice.within, self.choices, other.choices))

    def __lt__(self, other: Signature) -> bool:
        return self <= other and not other <= self

    def meet(self, other: Signature) -> Signature | None:
        """The signature of all calls that fit both; None when no known types do.

        No argument at all fits any `*xs`, so there an empty meet still has one call: that without.
        """
        choices = [*map(Choice.meet, self.choices, other.choices)]
        fixed = choices[:-1] if self.variadic else choices
        return Signature(choices, self.variadic) if all(c.members for c in fixed) else None

    def single(self) -> Iterator[Signature]:
        """Signatures without unions for the same calls."""
        for members in product(*[choice.members or (None,) for choice in self.choices]):
            yield Signature([Choice(() if m is None else (m,)) for m in members], self.variadic)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Signature) and self.choices == other.choices

    def __hash__(self) -> int:
        return hash(self.choices)

    def __repr__(self) -> str:
        texts = [str(choice) for choice in self.choices]
        if self.variadic:
            texts[-1] = f"*{texts[-1]}"
        return f"({', '.join(texts)})"


# ---------------------------------------------------------------- reading types


def choice_of(spec: Any, where: str) -> Choice:
    """The choice that a type, a union, a tuple of types or None stands for.

    Raises DispatchError, beginning with `where`, for what is no such thing: list[int], Literal, ...
    """
    members: list[type] = []
    waiting: list[Any] = [spec]
    while waiting:
        part = waiting.pop(0)
        if part is None:
            members.append(NoneType)
        elif part is typing.Any or part is inspect.Parameter.empty:
            members.append(object)
        elif part is typing.Never or part is typing.NoReturn:
            continue
        elif isinstance(part, NamedUnion):
            members += part.members
        elif isinstance(part, type) and not isinstance(part, types.GenericAlias):
            members.append(part)
        elif isinstance(part, tuple):
            waiting[:0] = part
        elif isinstance(part, types.UnionType) or typing.get_origin(part) is typing.Union:
            waiting[:0] = typing.get_args(part)
        else:
            raise DispatchError(
                f"{where}: {part!r} is not a type that a call can be dispatched on\n"
                f"  registered at {caller()}\n"
                f"  use classes and unions of them: list, ad.Vector | None"
            )
    return Choice(members)


def annotated_types(function: Callable, parameters: Sequence[inspect.Parameter], where: str) -> list[Choice]:
    """The choices that the annotations of these parameters name; no annotation means `object`."""
    choices = []
    for parameter in parameters:
        spec = parameter.annotation
        place = f"{where}, parameter {parameter.name!r}"
        # Twice: text under `from __future__ import annotations` is quoted text.
        for _ in range(2):
            spec = _evaluate(spec, inspect.unwrap(function), place) if isinstance(spec, str) else spec
        choices.append(choice_of(spec, place))
    return choices


def _evaluate(text: str, function: Callable, where: str) -> Any:
    """The object that an annotation written as text means: in its module, its closure, or the frame around it."""
    code = getattr(function, "__code__", None)
    frame = user_frame()
    names = dict(frame.f_locals) if frame is not None and code in frame.f_code.co_consts else {}
    for name, cell in zip(code.co_freevars if code else (), getattr(function, "__closure__", None) or (), strict=True):
        # A cell is still empty when its name is bound further down.
        with contextlib.suppress(ValueError):
            names[name] = cell.cell_contents
    try:
        return eval(text, getattr(function, "__globals__", {}), names)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise DispatchError(
            f"{where}: cannot make out the annotation {text!r}: {error}\n  registered at {caller()}"
        ) from error
