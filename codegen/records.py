"""Records: classes of named fields whose definition takes microseconds.

    @record(frozen=True)
    class Extent:
        position: int

`record` provides those features of `dataclasses.dataclass` that this library uses: construction by position and by
name, defaults, equality, hashing and printing by fields, `match` patterns.  The definition of a dataclass takes a
third of a millisecond, because its methods are generated as text and compiled; the library has dozens, and each
program that imports it would pay for them.  A record needs one generated method, the constructor, whose code is
compiled once for all records with as many fields.  Tracebacks and profilers show the constructor in the file of the
class.

`frozen` is a promise that type checkers enforce; instances have no guards.

    class Miss(NamedTuple):
        what: str

makes the class that `typing.NamedTuple` makes, in a third of its 110 us: its methods are not compiled for each class.
"""

from __future__ import annotations

from _collections import _tuplegetter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from inspect import get_annotations
from operator import attrgetter
from sys import modules
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

from .written import compile_function

_T = TypeVar("_T")
_C = TypeVar("_C", bound=type)


class _Factory:
    """A default value that is made anew for each instance."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def field(*, default_factory: Callable[[], Any]) -> Any:
    """A field whose default is made by a call for each instance."""
    return _Factory(default_factory)


@dataclass_transform(field_specifiers=(field,))
def record(*, frozen: bool = False, eq: bool = True, slots: bool = False) -> Callable[[_C], _C]:
    """Decorator that makes a class a record of its annotated names.

    frozen   instances do not change, and are hashable by their fields
    eq       instances are compared by their fields; otherwise by identity
    slots    instances have slots for the fields, and no other attributes
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
            cls.__init__ = _written(cls, names, defaults)
        return cls

    return made


def replace(instance: _T, /, **changes: Any) -> _T:
    """A copy of the record with some fields changed."""
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


def _written(cls: Any, names: tuple[str, ...], defaults: Mapping[str, Any]) -> Any:
    """The constructor of a record."""
    assert names[len(names) - len(defaults) :] == tuple(defaults), f"{cls.__name__}: a default before a field without"
    made = {name: default.make for name, default in defaults.items() if isinstance(default, _Factory)}
    values = tuple([_Factory if name in made else default for name, default in defaults.items()])
    if not made:
        return _renamed(_constructor(len(names)), names, values, cls)
    # The few records with such defaults get a separately compiled constructor each.
    lines = [f"self.{n} = make_{n}() if {n} is OMITTED else {n}" if n in made else f"self.{n} = {n}" for n in names]
    env = {"__name__": cls.__module__, "OMITTED": _Factory} | {f"make_{name}": make for name, make in made.items()}
    init = compile_function("__init__", f"def __init__(self, {', '.join(names)}):\n    " + "\n    ".join(lines), env)
    init.__defaults__ = values
    return init


def _constructor(count: int) -> CodeType:
    """The code of a constructor for `count` fields, with placeholders for their names."""
    names = [f"field{place}" for place in range(count)]
    lines = [f"self.{name} = {name}" for name in names] or ["pass"]
    return _compiled(f"def __init__({', '.join(['self', *names])}):\n    " + "\n    ".join(lines))


def _maker(count: int) -> CodeType:
    """The code of the function `__new__` of named tuples with `count` fields, with placeholders for their names."""
    commas = "".join([f"field{place}, " for place in range(count)])
    return _compiled(f"def __new__(_cls, {commas}):\n    return _new(_cls, ({commas}))")


@cache
def _compiled(text: str) -> CodeType:
    """The code of the function that a text defines.  Compiling it takes 30 to 100 us."""
    return next(x for x in compile(text, __file__, "exec").co_consts if isinstance(x, CodeType))


def _renamed(code: CodeType, names: tuple[str, ...], defaults: tuple, home: type, **env: Any) -> FunctionType:
    """A function of this code for the class `home`, with these names of fields and these defaults for the last ones."""
    named = {f"field{place}": name for place, name in enumerate(names)}
    code = code.replace(
        co_varnames=tuple([named.get(n, n) for n in code.co_varnames]),
        co_names=tuple([named.get(n, n) for n in code.co_names]),
        co_filename=getattr(modules.get(home.__module__), "__file__", code.co_filename),
        co_qualname=f"{home.__qualname__}.{code.co_name}",
    )
    return FunctionType(code, {"__name__": home.__module__, **env}, code.co_name, defaults)


# ------------------------------------------------------------ tuples


class _Named(type):
    """The metaclass of `NamedTuple`: makes a subclass of tuple from a class's annotated names."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        if not bases:
            return super().__new__(cls, name, bases, body)
        names = tuple(body.get("__annotations__") or get_annotations(type(name, (), dict(body))))
        defaults = {n: body[n] for n in names if n in body}
        assert len(bases) == 1 and names[len(names) - len(defaults) :] == tuple(defaults), name
        own = {n: _tuplegetter(place, f"field {place}") for place, n in enumerate(names)}
        own |= {"__slots__": (), "__match_args__": names, "_fields": names, "_field_defaults": defaults}
        made = type(name, (tuple,), _OF_TUPLES | body | own)
        new = _renamed(_maker(len(names)), names, tuple(defaults.values()), made, _new=tuple.__new__)
        made.__new__ = new  # type: ignore[method-assign]  # as a class body would
        return made


def _from(cls: Any, values: Iterable[Any]) -> Any:
    """Make an instance from an iterable of the values."""
    return cls(*values)


def _changed(self: Any, /, **changes: Any) -> Any:
    """A copy of the tuple with some values changed."""
    if unknown := [name for name in changes if name not in self._fields]:
        raise TypeError(f"Got unexpected field names: {unknown}")
    return type(self)(*[changes.get(name, value) for name, value in zip(self._fields, self, strict=True)])


def _by_name(self: Any) -> dict[str, Any]:
    """The values by name."""
    return dict(zip(self._fields, self, strict=True))


def _tuple_shown(self: Any) -> str:
    fields = ", ".join([f"{name}={value!r}" for name, value in _by_name(self).items()])
    return f"{type(self).__name__}({fields})"


_OF_TUPLES = {
    "__repr__": _tuple_shown,
    "__getnewargs__": lambda self: tuple(self),
    "_make": classmethod(_from),
    "_replace": _changed,
    "_asdict": _by_name,
}

if TYPE_CHECKING:
    from typing import NamedTuple
else:

    class NamedTuple(metaclass=_Named):
        """The base class in declarations of named tuples."""
