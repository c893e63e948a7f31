"""The key of an object that a rule reads: of a class written in Python, all of it are its attributes and its class.

A tag that chooses a method, a frozen dataclass of options, a member of an Enum: which object it is counts (a rule may
ask whether it `is` another), its attributes as they are now, and what the methods of its class may read.
"""

from __future__ import annotations

from enum import Enum
from types import MemberDescriptorType
from typing import Any

from ..session import namespace
from ..tensor import AbstractTensor
from .reads import Key, class_key, is_fixed, objects, static_key

__all__ = ["is_object", "object_key"]

#: Attributes beyond which no key is made.
_MOST_ATTRIBUTES = 32
#: In the flags of a class: it was made by a program, as a `class` statement makes it.
_HEAP_TYPE = 1 << 9

#: The keys that objects had the last time, by where they are.
_last = namespace("object")
_UNSET = object()


def object_key(value: Any, within: tuple) -> Key:
    """(key, whether it says everything that can be read from the object), as `static_key`.

    Tensors and arrays in it no key tells, nor an object that is met for the first time or has changed since it was met:
    one that is another each time is nothing to remember a recording by.
    """
    cls = type(value)
    if not is_object(value) or any([value is other for other in within]):
        return None, False
    held = {} if isinstance(value, Enum) else _attributes(value)
    if len(held) > _MOST_ATTRIBUTES or any([isinstance(x, AbstractTensor) for x in held.values()]):
        return None, False
    within = (*within, value)
    keys = [static_key(x, within) for x in held.values()]
    of_class, is_whole = class_key(cls, within)
    if not (is_whole and all([ok for _, ok in keys])):
        return None, False
    key = (id(value), cls, tuple(held), of_class, *[k for k, _ in keys])
    if _last.get(id(value)) != key:
        _last.put(id(value), key)
        return None, False
    return key, True


def is_object(value: Any) -> bool:
    """True if something is a member of an Enum, or an instance of a class written in Python."""
    return isinstance(value, Enum) or _is_written_in_python(type(value))


def _attributes(value: Any) -> dict[str, Any]:
    """The contents of an object's dictionary and its slots."""
    held = dict(getattr(value, "__dict__", ()))
    for owner in type(value).__mro__:
        for name, slot in vars(owner).items():
            if type(slot) is MemberDescriptorType:
                try:
                    held[f"{owner.__qualname__}.{name}"] = slot.__get__(value)
                except AttributeError:  # it is not set
                    continue
    return held


def _is_written_in_python(cls: type) -> bool:
    """True if instances hold attributes and nothing else: they derive from no class of another language."""
    owners = [owner for owner in cls.__mro__ if owner is not object and owner.__module__ not in ("abc", "typing")]
    return (
        not issubclass(cls, AbstractTensor)
        and type(cls).__module__ in ("abc", "builtins")
        and all([owner.__flags__ & _HEAP_TYPE and not is_fixed(owner.__module__) for owner in owners])
    )


objects.key = object_key
