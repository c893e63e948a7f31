"""The memory of native Python: pointers, structs and arrays, each with a stand-in for runs in plain Python.

    ptr[T]         a pointer; `ptr`: to memory of any type, such as a Python object.  It counts no references
    own[T]         a pointer that owns a reference to a Python object: the type of a local, parameter, result or field
    array[T, n]    n values in place
    fn[R, A, B]    a pointer to a function

    class Node(Struct):
        number: u32
        inputs: array[ptr[Node], 2]

Annotations are evaluated when the layout is first needed, so a struct may name itself.  The layout is that of C.
"""

from __future__ import annotations

import sys
from collections import ChainMap
from collections.abc import Mapping
from typing import Any

from ..records import record
from .numbers import Float, Vector, is_integer


@record(frozen=True)
class Reference:
    """A pointer type, `ptr` or `own`, with the type that it points to."""

    target: Any = None
    is_owned: bool = False

    def __getitem__(self, target: Any) -> Reference:
        return Reference(target, self.is_owned)

    def __call__(self, value: Any) -> Any:
        """Convert a value to this type, in plain Python."""
        if isinstance(value, Pointer) and isinstance(self.target, type) and issubclass(self.target, (Vector, Float)):
            return Pointer(value.items, value.start, self.target)
        return value

    @property
    def __name__(self) -> str:
        word = "own" if self.is_owned else "ptr"
        return f"{word}[{self.target.__name__}]" if self.target else word


ptr = Reference()
own = Reference(None, True)


@record(frozen=True)
class Array:
    item: Any
    length: int

    def __class_getitem__(cls, parts: tuple[Any, int]) -> Array:
        return cls(*parts)

    @property
    def __name__(self) -> str:
        return f"array[{self.item.__name__}, {self.length}]"


@record(frozen=True)
class FunctionPointer:
    """The type of pointers to functions with these parameters and this result: `fn[result, *params]`."""

    result: Any
    params: tuple[Any, ...]

    __name__ = "fn"

    def __call__(self, function: Any) -> Any:
        """Convert a function to this type, in plain Python."""
        return function

    def __class_getitem__(cls, kinds: Any) -> FunctionPointer:
        result, *params = kinds if isinstance(kinds, tuple) else (kinds,)
        return cls(result, tuple(params))


array: Any = Array  # Any, because type checkers refuse a number in the brackets
fn = FunctionPointer


def is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def is_pointer(kind: Any) -> bool:
    return isinstance(kind, (Reference, FunctionPointer))


def is_owned(kind: Any) -> bool:
    return isinstance(kind, Reference) and kind.is_owned


def looked_at(kind: Any) -> Any:
    """The type of a borrowed value: `ptr[T]` for `own[T]`, any other type itself."""
    return Reference(kind.target) if is_owned(kind) else kind


def size_of(kind: Any) -> int:
    """The number of bytes of a value in memory."""
    if isinstance(kind, Array):
        return size_of(kind.item) * kind.length
    if is_struct(kind):
        return kind.size()
    return 8 if is_pointer(kind) else max(getattr(kind, "bits", 1) // 8, 1)


def align_of(kind: Any) -> int:
    if isinstance(kind, Array):
        return align_of(kind.item)
    if is_struct(kind):
        return max(align_of(field.kind) for field in kind.fields().values())
    return size_of(kind.item) if isinstance(kind, type) and issubclass(kind, Vector) else size_of(kind)


def zero(kind: Any) -> Any:
    """The value that zeroed memory of a type holds, in plain Python."""
    if isinstance(kind, Array):
        return Pointer([None] * kind.length, 0, kind.item)
    return None if is_pointer(kind) else kind()


def evaluated(annotation: Any, scope: Mapping[str, Any]) -> Any:
    """The type that an annotation names, which may be a string."""
    return eval(annotation, {}, scope) if isinstance(annotation, str) else annotation


@record(frozen=True)
class Field:
    """A field of a struct: its type and byte offset."""

    name: str
    kind: Any
    offset: int


class Struct:
    """A C struct.  In plain Python an instance stands for the memory: fields are zero until they are set, and refuse
    integers that do not fit their type."""

    _scope: Mapping[str, Any]
    _fields: dict[str, Field]

    def __init_subclass__(cls) -> None:
        around = sys._getframe(1)
        cls._scope = ChainMap({cls.__name__: cls}, dict(around.f_locals), around.f_globals)

    @classmethod
    def fields(cls) -> dict[str, Field]:
        """The fields by name, in the order of the layout."""
        if "_fields" not in cls.__dict__:
            found: dict[str, Field] = {}
            end = 0
            classes = cls.__mro__[-3::-1]  # without `Struct` and `object`; base structs come first
            for name, annotation in [pair for c in classes for pair in c.__annotations__.items()]:
                kind = evaluated(annotation, cls._scope)
                start = -(-end // align_of(kind)) * align_of(kind)
                end = start + size_of(kind)
                found[name] = Field(name, kind, start)
            cls._fields = found
        return cls._fields

    @classmethod
    def size(cls) -> int:
        end = max(field.offset + size_of(field.kind) for field in cls.fields().values())
        return -(-end // align_of(cls)) * align_of(cls)

    def __getattr__(self, name: str) -> Any:
        field = type(self).fields().get(name)
        if field is None:
            raise AttributeError(name)
        value = zero(field.kind)
        if isinstance(field.kind, Array) or is_struct(field.kind):
            self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = stored(type(self).fields()[name].kind, value)


def stored(kind: Any, value: Any) -> Any:
    """The value that memory of this type holds after a store, in plain Python.  Raises OverflowError."""
    if kind is not bool and is_integer(kind):
        if kind.wrapped(int(value)) != int(value):
            raise OverflowError(f"{value} does not fit into {kind.__name__}")
        value = kind(value)
    return value


class Pointer:
    """A pointer into an array, in plain Python; `start` counts single values even if it points to vectors."""

    def __init__(self, items: list[Any], start: int, item: Any) -> None:
        self.items, self.start, self.item = items, start, item
        self.step = item.lanes if isinstance(item, type) and issubclass(item, Vector) else 1

    def _place(self, number: int) -> int:
        place = self.start + int(number) * self.step
        if not 0 <= place <= len(self.items) - self.step:
            raise IndexError(f"element {int(number)} is outside of its array")
        return place

    def __getitem__(self, number: int) -> Any:
        place = self._place(number)
        if self.step > 1:
            return self.item([zero(self.item.item) if v is None else v for v in self.items[place : place + self.step]])
        if self.items[place] is None and not is_pointer(self.item):
            self.items[place] = zero(self.item)
        return self.items[place]

    def __setitem__(self, number: int, value: Any) -> None:
        place = self._place(number)
        if self.step > 1:
            self.items[place : place + self.step] = value.values
        else:
            self.items[place] = stored(self.item, value)

    def __add__(self, number: int) -> Pointer:
        return Pointer(self.items, self.start + int(number) * self.step, self.item)

    def __int__(self) -> int:
        """A made-up address, which is never null."""
        return 64 + self.start

    def __sub__(self, number: int) -> Pointer:
        return self + -int(number)

    def __getattr__(self, name: str) -> Any:
        return getattr(self[0], name)
