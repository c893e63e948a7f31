"""Records: classes that hold named fields, made in microseconds.

    @record(frozen=True)
    class Extent:
        position: int

They are what `dataclasses.dataclass` makes, for what this library uses of it: construction by place and by
name, defaults, equality, hashing and printing by fields, `match` patterns.  A dataclass costs a third of a
millisecond where it stands, because its methods are written as text and compiled; there are dozens, and every
program that imports the library would pay for all of them.  Here the one method that has to be written, the
constructor, is written when the first instance is made.

`frozen` is a promise, which type checkers hold; instances have no guards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import get_annotations
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

__all__ = ["field", "record", "replace"]

_T = TypeVar("_T")
_C = TypeVar("_C", bound=type)


class _Factory:
    """A default that each instance has its own of."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def field(*, default_factory: Callable[[], Any]) -> Any:
    """A field whose default is made for each instance."""
    return _Factory(default_factory)


@dataclass_transform(field_specifiers=(field,))
def record(*, frozen: bool = False, eq: bool = True, slots: bool = False) -> Callable[[_C], _C]:
    """Make a class of its annotated names.

    frozen   instances do not change, and can be keys
    eq       compared by their fields; otherwise each is itself
    slots    instances have room for the fields and nothing else
    """

    def made(cls: Any) -> Any:
        names = tuple(get_annotations(cls))
        assert not getattr(cls, "__match_args__", ()), f"{cls.__name__}: a record of another record's fields"
        defaults = {name: cls.__dict__[name] for name in names if name in cls.__dict__}
        if slots:
            body = {k: v for k, v in cls.__dict__.items() if k not in (*names, "__dict__", "__weakref__")}
            cls = type(cls)(cls.__name__, cls.__bases__, body | {"__slots__": names})
        cls.__match_args__ = names  # type: ignore[misc]  # which mypy takes to be set in a class's body alone
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = _shown
        if eq:
            _compare(cls, names, frozen)
        if "__init__" not in cls.__dict__:
            _construct(cls, names, defaults)
        return cls

    return made


def replace(instance: _T, /, **changes: Any) -> _T:
    """The same record with some fields changed."""
    cls: Any = type(instance)
    names = cls.__match_args__
    return cls(**{name: getattr(instance, name) for name in names} | changes)


def _compare(cls: Any, names: tuple[str, ...], frozen: bool) -> None:
    key = attrgetter(*names) if names else type

    def same(self: Any, other: object) -> bool:
        return key(self) == key(other) if type(other) is type(self) else NotImplemented

    cls.__eq__ = same
    cls.__hash__ = (lambda self: hash(key(self))) if frozen else None


def _shown(self: Any) -> str:
    fields = ", ".join([f"{name}={getattr(self, name)!r}" for name in type(self).__match_args__])
    return f"{type(self).__qualname__}({fields})"


def _construct(cls: Any, names: tuple[str, ...], defaults: Mapping[str, Any]) -> None:
    """Give a class its constructor, when it is first called."""

    def first(self: Any, *args: Any, **keywords: Any) -> None:
        cls.__init__ = _written(cls, names, defaults)
        cls.__init__(self, *args, **keywords)

    cls.__init__ = first


def _written(cls: Any, names: tuple[str, ...], defaults: Mapping[str, Any]) -> Any:
    """A constructor in straight lines."""
    parameters, lines = [], []
    env: dict[str, Any] = {"__name__": cls.__module__, "OMITTED": _Factory}
    for name in names:
        if name not in defaults:
            parameters.append(name)
            lines.append(f"self.{name} = {name}")
            continue
        default = defaults[name]
        if isinstance(default, _Factory):
            env[f"make_{name}"] = default.make
            parameters.append(f"{name}=OMITTED")
            lines.append(f"self.{name} = make_{name}() if {name} is OMITTED else {name}")
        else:
            env[f"default_{name}"] = default
            parameters.append(f"{name}=default_{name}")
            lines.append(f"self.{name} = {name}")
    text = f"def __init__(self, {', '.join(parameters)}):\n    " + "\n    ".join(lines or ["pass"])
    exec(text, env)  # our own text: names of fields
    return env["__init__"]
