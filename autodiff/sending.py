"""Pickles of functions and classes: by name if the name leads to the very object, else by value.

Plain pickle writes only names.  cloudpickle, which Dask, Ray, joblib and loky use, writes functions and classes of
`__main__`, of notebooks, and without a name by value.  It then writes this library's functions with their methods, and
classes with their registrations (methods, and functions for `tree`): an attribute of a class stands for these, since
cloudpickle writes attributes.  Each object is sent with a key: if it arrives again, the first arrival is used.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from types import CellType, CodeType, FrameType, FunctionType, MethodType
from typing import Any
from weakref import ref

import numpy as np

#: The number of arrived objects that are kept, as they will probably arrive again.
_KEPT = 128


class Keys:
    """The objects that were sent or have arrived, by the keys that travel with them."""

    def __init__(self) -> None:
        self._sent: dict[str, ref] = {}
        self._arrived: dict[str, Any] = {}

    def key_of(self, x: Any) -> str:
        """The key of an object; a new key if the object is sent for the first time."""
        for key, known in (*self._arrived.items(), *[(key, found()) for key, found in self._sent.items()]):
            if known is x:
                return key
        key = os.urandom(16).hex()
        self._sent = {k: r for k, r in self._sent.items() if r() is not None}
        self._sent[key] = ref(x)
        return key

    def find(self, key: str) -> Any:
        """The object of this key; None if it was never here, or is no longer kept."""
        found = self._sent.get(key)
        return self._arrived.get(key) if found is None else found()

    def keep(self, key: str, x: Any) -> Any:
        """Keep x, which has arrived with this key, and return it."""
        self._arrived[key] = x
        while len(self._arrived) > _KEPT:
            del self._arrived[next(iter(self._arrived))]
        return x

    def has_arrived(self, x: Any) -> bool:
        """True if x has arrived from another process."""
        return any([known is x for known in self._arrived.values()])


#: The keys of all functions in this process.
keys = Keys()


def copy_is_self(x: Any, _memo: Any = None) -> Any:
    """The copy of a function, which is the function itself, as for Python's functions; it needs no name."""
    return x


def is_found(x: Any) -> bool:
    """True if the module and name of an object lead to this very object."""
    found = sys.modules.get(getattr(x, "__module__", None) or "")
    for part in x.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is x


def cloudpickle_runs() -> bool:
    """True if the present pickler is cloudpickle's.  The stack shows it, as objects get no reference to the pickler."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (frame.f_globals.get("__name__") or "").startswith("autodiff."):
        frame = frame.f_back
    return frame is not None and "cloudpickle" in (frame.f_globals.get("__name__") or "")


def goes_by_name(x: Any) -> bool:
    """True if an object should be pickled by its name, as the present pickler would pickle a function."""
    if not is_found(x):
        return False
    module = x.__module__
    if not cloudpickle_runs():
        return True
    registered = sys.modules["cloudpickle"].list_registry_pickle_by_value() if "cloudpickle" in sys.modules else ()
    return module != "__main__" and not any([f"{module}.".startswith(f"{name}.") for name in registered])


def refuse(x: Any) -> None:
    """Raise PicklingError for an object that plain pickle would have to write by value."""
    if not cloudpickle_runs():
        raise pickle.PicklingError(
            f"{x!r} is found under no name, so that pickle cannot send it\n"
            "  give it a name in a module; or send it by cloudpickle.dumps, which writes functions by value"
        )


def same(a: Any, b: Any, met: frozenset = frozenset()) -> bool:
    """True if two functions, or two values that functions read, show no difference."""
    if a is b or (id(a), id(b)) in met:
        return True
    if type(a) is not type(b):
        return False
    met |= {(id(a), id(b))}
    if isinstance(a, FunctionType):
        return a.__code__ == b.__code__ and _all_same(_read_by(a), _read_by(b), met)
    if isinstance(a, MethodType):
        return same(a.__func__, b.__func__, met) and same(a.__self__, b.__self__, met)
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.dtype.kind != "O" and a.tobytes() == b.tobytes()
    if isinstance(a, (tuple, list)):
        return _all_same(a, b, met)
    if isinstance(a, dict):
        return list(a) == list(b) and _all_same(list(a.values()), list(b.values()), met)
    if isinstance(a, (int, float, complex, str, bytes, frozenset, set, np.generic, range)):
        return repr(a) == repr(b)
    if isinstance(a, type):
        return False
    try:
        held = a.__reduce_ex__(2), b.__reduce_ex__(2)  # as pickle sees them
    except Exception:
        return False
    return isinstance(held[0], tuple) and same(*held, met)


def _all_same(a: Any, b: Any, met: frozenset) -> bool:
    return len(a) == len(b) and all([same(x, y, met) for x, y in zip(a, b, strict=True)])


_EMPTY = object()


def _read_by(f: FunctionType) -> list:
    """The values that a function reads from outside: defaults, closed-over variables, globals."""
    names: list[str] = []
    codes = [f.__code__]
    for code in codes:  # it grows by the functions inside
        names += code.co_names
        codes += [c for c in code.co_consts if isinstance(c, CodeType)]
    read = [f.__globals__.get(name, _EMPTY) for name in names]
    return [f.__defaults__, f.__kwdefaults__, [*map(_held, f.__closure__ or ())], read]


def _held(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the cell is empty
        return _EMPTY


# ---------------------------------------------------------------- classes

_NAME = "__autodiff_registered__"

#: The kinds of registrations: name -> (a function that gives those of a class, one that makes them for a class).
PARTS: dict[str, tuple[Callable[[type], Any], Callable[[type, Any], None]]] = {}


class Registered:
    """An attribute of a class that is pickled as all registrations for the class at that time."""

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def __reduce__(self) -> tuple:
        return _arrived, (self.cls, {name: told(self.cls) for name, (told, _) in PARTS.items()})


def _arrived(cls: type, parts: dict[str, Any]) -> Registered:
    for name, told in parts.items():
        PARTS[name][1](cls, told)
    return Registered(cls)


def attach_registrations(cls: type) -> None:
    """Give a class a `Registered` attribute, if cloudpickle would send the class by value."""
    module = cls.__module__
    is_sent = module == "__main__" or "<locals>" in cls.__qualname__ or not is_found(cls)
    if is_sent and module != "builtins" and not module.startswith("autodiff.") and _NAME not in cls.__dict__:
        try:
            setattr(cls, _NAME, Registered(cls))
        except (AttributeError, TypeError):  # a class that takes no attributes
            return
