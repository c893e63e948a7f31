"""Generic functions in pickles, and the methods of a class that are pickled with it.

    a function of the library     by its public name
    a function in a module        by its name
    any other function            by its declaration and methods; a function that arrives again is the same object
    a class without a module      with its methods on functions that go by name (only cloudpickle sends such classes)
"""

from __future__ import annotations

from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any

from .. import sending
from .declaration import public_name
from .method import Method, complete, is_own
from .registry import Registry
from .reliance import functions

if TYPE_CHECKING:
    from .generic import GenericFunction


def reduced(function: GenericFunction) -> Any:
    """The value of `__reduce__` for a generic function."""
    if is_own(function):
        home, _, name = public_name(function).rpartition(".")
        return (_of_library, (f"autodiff{home.removeprefix('ad')}", name)) if home else function.__qualname__
    if sending.goes_by_name(function):
        return function.__qualname__
    declared = function.__wrapped__
    if isinstance(declared, FunctionType) and not sending.is_found(declared):
        sending.refuse(function)
    methods = [_as_data(m) for m in _methods_of(function) if m.implementation is not declared]
    return _arriving, (type(function), sending.keys.key_of(function), declared), (function.changes, methods)


def _of_library(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def _methods_of(function: Registry) -> list[Method]:
    """All methods and rules, without rules that are attached to a method."""
    return [method for table in function.tables() for method in table]


def _as_data(method: Method) -> tuple:
    """A method as data to send: its types, and all arguments for registering it."""
    types = tuple([choice.members for choice in method.signature.choices])
    attached = [(rule.kind, rule.implementation, rule.host) for rule in method.rules.values()]
    return method.kind, types, method.implementation, method.host, method.out, attached


def _arriving(cls: type[GenericFunction], key: str, declared: FunctionType) -> Any:
    """The function that was sent with this key; on its first arrival, a new one with only its body as a method."""
    found = sending.keys.find(key)
    if found is None:
        found = sending.keys.keep(key, cls(declared))
        found.sent_changes = None
    return found


def arrive(function: GenericFunction, state: tuple) -> None:
    """Give an arrived function its methods.  A function that was made in this process keeps the methods it has."""
    changes, methods = state
    known = function.__dict__.get("sent_changes", changes)
    if known == changes:
        return
    for method in [m for m in _methods_of(function) if m.implementation is not function.__wrapped__]:
        method.delete()
    for one in methods:
        _add(function, *one)
    function.__dict__["sent_changes"] = changes


def _add(function: Any, kind: str, types: tuple, run: Any, host: bool, out: Any, attached: list) -> None:
    method = function._add(run, kind, types, {"host": host, "out": out})
    for rule, implementation, is_host in attached:
        function._attach(method, rule, implementation, is_host)


# ---------------------------------------------------------------- classes


def methods_naming(cls: type) -> list[tuple]:
    """The methods that name a class, on functions that go by name: (function, method as data)."""
    complete()
    return [
        (function, _as_data(method))
        for function in sorted(functions(), key=lambda f: (f.__module__, f.__qualname__))
        if is_own(function) or (sending.is_found(function) and function.__module__ != "__main__")
        for method in _methods_of(function)
        if any([cls in choice.members for choice in method.signature.choices])
    ]


def register_arrived(methods: list[tuple]) -> None:
    """Register the methods that arrived with a class, unless equal ones are registered."""
    for function, method in methods:
        kind, types, run, *_ = method
        known = [m for m in _methods_of(function) if m.kind == kind and _as_data(m)[1] == types]
        if not any([sending.same(m.implementation, run) for m in known]):
            _add(function, *method)
