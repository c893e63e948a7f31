"""Containers, which are taken apart and put together: Python's own, dataclasses, and classes that users register."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from inspect import signature
from typing import Any, TypeVar

from codegen.records import NamedTuple

from .errors import DispatchError, check_callable, in_short, located
from .sending import PARTS, attach_registrations

_T = TypeVar("_T")


class Container(NamedTuple):
    """The functions that take containers of one class apart and put them together."""

    split: Callable[[Any], tuple[Sequence, Hashable]]  # gives (children, rest); rest tells their number and names
    join: Callable[[Any, Sequence], Any]  # of (rest, children)
    labels: Callable[[Any], list[str]] | None = None  # of rest: the suffix of each child, `['w']`; None: its number


def _bracketed(keys: Sequence) -> list[str]:
    return [f"[{key!r}]" for key in keys]


def _keyed(cls: Callable[[Iterable], Any]) -> Container:
    """The container for dictionaries of a class."""
    return Container(
        lambda d: (tuple(d.values()), tuple(d)),
        lambda keys, children: cls(zip(keys, children, strict=True)),
        _bracketed,
    )


CONTAINERS: dict[type, Container | None] = {
    tuple: Container(lambda t: (t, len(t)), lambda _, children: tuple(children)),
    list: Container(lambda t: (t, len(t)), lambda _, children: list(children)),
    dict: _keyed(dict),
    OrderedDict: _keyed(OrderedDict),
    defaultdict: Container(
        lambda d: (tuple(d.values()), (d.default_factory, tuple(d))),
        lambda rest, children: defaultdict(rest[0], zip(rest[1], children, strict=True)),
        lambda rest: _bracketed(rest[1]),
    ),
}


def container_of(cls: type) -> Container | None:
    """The container of a class that is not in CONTAINERS yet, where it is added; None for a class of leaves."""
    container = None
    if issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple):
        container = _named_tuple(cls)
    elif hasattr(cls, "__dataclass_fields__"):  # dataclasses.is_dataclass, without its import
        container = _data_class(cls)
    return CONTAINERS.setdefault(cls, container)


def _named_tuple(cls: Any) -> Container:
    labels = [f".{name}" for name in cls._fields]
    return Container(lambda t: (t, None), lambda _, children: cls._make(children), lambda _: labels)


def _data_class(cls: Any) -> Container:
    from dataclasses import fields as fields_of

    fields = tuple([field.name for field in fields_of(cls)])
    labels = [f".{name}" for name in fields]

    def split(instance: Any) -> tuple[Sequence, Hashable]:
        return [getattr(instance, name) for name in fields], None

    def join(_: Hashable, children: Sequence) -> Any:
        instance = object.__new__(cls)
        for name, child in zip(fields, children, strict=True):
            object.__setattr__(instance, name, child)  # also where the class is frozen
        return instance

    return Container(split, join, lambda _: labels)


def register(
    cls: type[_T],
    flatten: Callable[[_T], tuple[Sequence[Any], Hashable]],
    unflatten: Callable[[Any, Sequence[Any]], _T],
) -> type[_T]:
    """Make instances of a class containers, whose children are leaves or trees.

    flatten     a function of an instance that returns (children, rest), where rest is hashable and holds all data
                beside the children
    unflatten   a function of (rest, children) that returns the instance

    The registration is for instances of exactly this class, not of its subclasses; a later one replaces it.  Returns
    the class.  Raises DispatchError for anything but a class and two functions.

    >>> import autodiff as ad
    >>> class Line:
    ...     def __init__(self, slope, name):
    ...         self.slope, self.name = slope, name
    >>> ad.tree.register(Line, lambda x: ((x.slope,), x.name), lambda name, children: Line(*children, name))
    <class '...Line'>
    >>> ad.tree.leaves([Line(2.0, "a"), 1.0])
    [2.0, 1.0]
    """
    if not isinstance(cls, type):
        raise DispatchError(located(f"tree.register takes a class, not {cls!r}"))
    check_callable(flatten, "tree.register (flatten)")
    check_callable(unflatten, "tree.register (unflatten)")
    _check_takes(flatten, "flatten", 1, "an instance")
    _check_takes(unflatten, "unflatten", 2, "(rest, children)")
    CONTAINERS[cls] = Container(_checked(cls, flatten), unflatten)
    _REGISTERED[cls] = flatten, unflatten
    attach_registrations(cls)
    return cls


def _check_takes(function: Callable, name: str, count: int, what: str) -> None:
    """Raise DispatchError for a function that cannot be called with `count` arguments."""
    try:
        parameters = signature(function)
    except ValueError:  # some built-in functions have no signature
        return
    try:
        parameters.bind(*(None,) * count)
    except TypeError:
        raise DispatchError(located(
            f"tree.register: {name} is called with {what}, and this one takes {parameters}",
            "first flatten, then unflatten: lambda x: ((x.a, x.b), None), lambda rest, children: Class(*children)",
        )) from None


_NOT_OF_USERS = ("autodiff", "builtins", "numpy")


def unregistered(leaves: Iterable[object]) -> str:
    """A line for a message: how to register the class of the first leaf that is a user's object; "" if none is."""
    for x in leaves:
        classes = [c for c in type(x).__mro__ if c.__module__.partition(".")[0] not in _NOT_OF_USERS]
        if classes and not any(["__array__" in vars(c) for c in classes]):  # an array of another library
            return f"\n  {type(x).__name__} is not registered; say what it holds:  {registration(x)}"
    return ""


def registration(x: object) -> str:
    """The call that registers the class of x; written out where its constructor takes its attributes."""
    name, parts = type(x).__name__, [*getattr(x, "__dict__", ())]
    code = getattr(type(x).__init__, "__code__", None)
    if code is None or not parts or [*code.co_varnames[1 : code.co_argcount]] != parts:
        return f"ad.tree.register({name}, flatten, unflatten)"
    listed = "".join([f"x.{part}, " for part in parts])
    return f"ad.tree.register({name}, lambda x: (({listed.rstrip()}), None), lambda rest, parts: {name}(*parts))"


#: The functions that a class was registered with.
_REGISTERED: dict[type, tuple[Callable, Callable]] = {}


def _register_sent(cls: type, told: tuple[Callable, Callable] | None) -> None:
    if told is not None and cls not in _REGISTERED:
        register(cls, *told)


PARTS["tree"] = (_REGISTERED.get, _register_sent)


def _checked(cls: type, flatten: Callable[[Any], tuple[Sequence, Hashable]]) -> Callable[[Any], tuple]:
    """A user's `flatten` with a check of its result: an array in the place of the children would be taken for them."""

    def split(instance: Any) -> tuple[Sequence, Hashable]:
        found, told = flatten(instance), f"tree.register: flatten of {cls.__name__} returned"
        if type(found) is not tuple or len(found) != 2 or not isinstance(found[0], (tuple, list)):
            parts = ", ".join([type(x).__name__ for x in found]) if type(found) is tuple else ""
            raise DispatchError(located(
                f"{told} {f'({parts})' if parts else type(found).__name__}, not (children, rest)",
                "children is a tuple or list, of one child too: return (x.value,), x.unit",
            ))
        try:
            hash(found[1])
        except TypeError:
            raise DispatchError(located(
                f"{told} {in_short(found[1])} beside the children, which has no hash",
                "give a tuple in place of a list or dict",
            )) from None
        return found

    return split
