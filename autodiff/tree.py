"""Trees: nested tuples, lists, dicts, namedtuples and dataclasses, as leaves and a structure (`ad.tree`).

    {"w": x, "layers": [(a, b), None]}   ⇄   [x, a, b, None]  and  {'w': *, 'layers': [(*, *), *]}

What counts as what:
- Containers are tuple, list, dict, OrderedDict, defaultdict, namedtuples, dataclass instances and
  registered classes.  Other subclasses of these are leaves, as is everything else, None included:
  a gradient may be None where its argument was an array.
- A dict keeps its order, and so do its leaves.  Dicts with the same keys in another order have
  different structures, so that nothing kept for one is used for the other by mistake; `map` over
  several trees goes by key.
- A dataclass is rebuilt from its fields, without `__init__` or `__post_init__`.

A structure is hashable and compared by value, so it can be part of a cache key.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar, overload

import numpy as np

from codegen.records import NamedTuple

from .along import PARTS, take_along
from .errors import DispatchError, ShapeError, caller, check_callable

__all__ = [
    "LEAF", "Structure", "exactly", "flatten", "flatten_up_to", "joiner", "leaves", "map", "names", "register", "split",
    "unflatten",
]  # fmt: skip

_T = TypeVar("_T")


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


class _Container(NamedTuple):
    """How one class of containers is taken apart and put together.

    split   container → (children, rest): rest is hashable and says the number and names of children
    join    (rest, children) → container
    labels  rest → how each child is written after its parent, `['w']` or `.w`; None: by number
    """

    split: Callable[[Any], tuple[Sequence, Hashable]]
    join: Callable[[Any, Sequence], Any]
    labels: Callable[[Any], list[str]] | None = None


class Structure:
    """A tree without its leaves.

    cls, rest   the container, and what of it is no child; None for a leaf
    exact       what stands for `rest` where structures are compared
    children    structures of the children
    size        number of leaves

    >>> import autodiff as ad
    >>> ad.tree.flatten({"w": 1, "b": (2, 3)})[1]
    {'w': *, 'b': (*, *)}
    """

    __slots__ = ("_hash", "children", "cls", "exact", "rest", "size")

    def __init__(self, cls: type | None, rest: Any, children: tuple[Structure, ...], size: int) -> None:
        self.cls = cls
        self.rest = rest
        self.exact = exact = rest if type(rest) is int else exactly(rest)
        self.children = children
        self.size = size
        self._hash = hash((cls, exact, children))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Structure)
            and self._hash == other._hash
            and self.cls is other.cls
            and self.exact == other.exact
            and self.children == other.children
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return str(unflatten(self, [_STAR] * self.size))


def exactly(rest: Any) -> Any:
    """A key that tells apart what Python calls equal: 1, True and 1.0, 0.0 and -0.0.

    So it is with what a dataclass compares and hashes.  Any other object is alike where its class says it is equal.

    >>> import autodiff as ad
    >>> ad.tree.exactly(1) == ad.tree.exactly(True), ad.tree.exactly(0.0) == ad.tree.exactly(-0.0)
    (False, False)
    """
    cls = type(rest)
    if cls is tuple and all([type(part) is str for part in rest]):
        return rest
    if isinstance(rest, (tuple, frozenset)):
        return cls, (tuple if isinstance(rest, tuple) else frozenset)([exactly(part) for part in rest])
    if cls is int or cls is str or rest is None:
        return rest
    if isinstance(rest, (int, float, complex, np.generic)):
        return cls, repr(rest)
    return cls, rest, *_compared(rest)


def _compared(x: Any) -> tuple:
    """What a dataclass compares, field by field; of other objects, and where a field has no hash, nothing."""
    params = getattr(type(x), "__dataclass_params__", None)
    if params is None or not params.eq:
        return ()
    from dataclasses import fields as fields_of

    fields = [f.name for f in fields_of(x) if (f.compare if f.hash is None else f.hash)]
    parts = tuple([exactly(getattr(x, name)) for name in fields])
    try:
        hash(parts)
    except TypeError:  # its class has a hash of its own
        return ()
    return parts


class _Star:
    """Stands for a leaf where a structure is printed."""

    def __repr__(self) -> str:
        return "*"


_STAR = _Star()

#: The structure of a tree that is one leaf.
LEAF = Structure(None, None, (), 1)


# ---------------------------------------------------------------- containers


def _bracketed(keys: Sequence) -> list[str]:
    return [f"[{key!r}]" for key in keys]


def _dotted(fields: Sequence[str]) -> list[str]:
    return [f".{name}" for name in fields]


def _join_default_dict(rest: tuple, children: Sequence) -> defaultdict:
    factory, keys = rest
    return defaultdict(factory, zip(keys, children, strict=True))


_CONTAINERS: dict[type, _Container | None] = {
    tuple: _Container(lambda t: (t, len(t)), lambda _, children: tuple(children)),
    list: _Container(lambda t: (t, len(t)), lambda _, children: list(children)),
    dict: _Container(
        lambda d: (tuple(d.values()), tuple(d)),
        lambda keys, children: dict(zip(keys, children, strict=True)),
        _bracketed,
    ),
    OrderedDict: _Container(
        lambda d: (tuple(d.values()), tuple(d)),
        lambda keys, children: OrderedDict(zip(keys, children, strict=True)),
        _bracketed,
    ),
    defaultdict: _Container(
        lambda d: (tuple(d.values()), (d.default_factory, tuple(d))),
        _join_default_dict,
        lambda rest: _bracketed(rest[1]),
    ),
}


def _container_of(cls: type) -> _Container | None:
    """How to take a class apart that has not been met before; None for a leaf.  Remembered."""
    container = None
    if issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple):
        container = _named_tuple(cls)
    elif hasattr(cls, "__dataclass_fields__"):  # dataclasses.is_dataclass, without its import
        container = _data_class(cls)
    return _CONTAINERS.setdefault(cls, container)


def _named_tuple(cls: Any) -> _Container:
    labels = _dotted(cls._fields)
    return _Container(lambda t: (t, None), lambda _, children: cls._make(children), lambda _: labels)


def _data_class(cls: Any) -> _Container:
    from dataclasses import fields as fields_of

    fields = tuple([field.name for field in fields_of(cls)])
    labels = _dotted(fields)

    def split(instance: Any) -> tuple[Sequence, Hashable]:
        return [getattr(instance, name) for name in fields], None

    def join(_: Hashable, children: Sequence) -> Any:
        instance = object.__new__(cls)
        for name, child in zip(fields, children, strict=True):
            object.__setattr__(instance, name, child)  # also where the class is frozen
        return instance

    return _Container(split, join, lambda _: labels)


def register(
    cls: type[_T],
    flatten: Callable[[_T], tuple[Sequence[Any], Hashable]],
    unflatten: Callable[[Any, Sequence[Any]], _T],
) -> type[_T]:
    """Make instances of a class containers, whose children are leaves or trees.

    flatten     a function of an instance that returns (children, rest), where rest is hashable and holds all that
                is no child
    unflatten   a function of (rest, children) that returns the instance

    It holds for instances of exactly this class, not of its subclasses; registering again replaces.  Returns the
    class.  Raises DispatchError for anything but a class and two functions.

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
        raise DispatchError(f"tree.register takes a class, not {cls!r}\n  called at {caller()}")
    check_callable(flatten, "tree.register (flatten)")
    check_callable(unflatten, "tree.register (unflatten)")
    _CONTAINERS[cls] = _Container(_checked(cls, flatten), unflatten)
    _REGISTERED[cls] = flatten, unflatten
    take_along(cls)
    return cls


#: The functions that a class was registered with.
_REGISTERED: dict[type, tuple[Callable, Callable]] = {}


def _register_sent(cls: type, told: tuple[Callable, Callable] | None) -> None:
    if told is not None and cls not in _REGISTERED:
        register(cls, *told)


PARTS["tree"] = (_REGISTERED.get, _register_sent)


def _checked(cls: type, flatten: Callable[[Any], tuple[Sequence, Hashable]]) -> Callable[[Any], tuple]:
    """A user's `flatten` whose result is looked at: an array in the place of the children would be taken for them."""

    def split(instance: Any) -> tuple[Sequence, Hashable]:
        found = flatten(instance)
        if type(found) is tuple and len(found) == 2 and isinstance(found[0], (tuple, list)):
            return found
        given = f"({', '.join([type(x).__name__ for x in found])})" if type(found) is tuple else type(found).__name__
        raise DispatchError(
            f"tree.register: flatten of {cls.__name__} returned {given}, not (children, rest)\n"
            f"  called at {caller()}\n"
            "  children is a tuple or list, of one child too: return (x.value,), x.unit"
        )

    return split


# ---------------------------------------------------------------- apart and together

_UNKNOWN: Any = object()
#: Structures of containers that hold leaves only: most of what is met.
_FLAT: dict[tuple, Structure] = {}
_FLAT_LIMIT = 4096


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of a tree, in order, and its structure.

    >>> import autodiff as ad
    >>> ad.tree.flatten({"w": 1, "b": (2, None)})
    ([1, 2, None], {'w': *, 'b': (*, *)})
    """
    container = _CONTAINERS.get(type(tree), _UNKNOWN)
    if container is None:
        return [tree], LEAF
    found: list = []
    structure = _flatten(tree, container, found)
    return found, structure


def split(container: Any) -> tuple[Sequence[Any], Hashable]:
    """The children of a container, and the rest of it that is no child.

    >>> import autodiff as ad
    >>> ad.tree.split({"w": 1, "b": 2})
    ((1, 2), ('w', 'b'))
    """
    cls = type(container)
    known = _CONTAINERS.get(cls) or _container_of(cls)
    assert known is not None, "a leaf has no children"
    return known.split(container)


def _flatten(tree: Any, container: Any, found: list) -> Structure:
    """The structure of a tree, after appending its leaves."""
    cls = type(tree)
    if container is _UNKNOWN:
        container = _container_of(cls)
    if container is None:
        found.append(tree)
        return LEAF
    children, rest = container.split(tree)
    get = _CONTAINERS.get
    if all([get(type(child), _UNKNOWN) is None for child in children]):
        found.extend(children)
        return _flat(cls, rest, len(children))
    before = len(found)
    structures = tuple([_flatten(child, get(type(child), _UNKNOWN), found) for child in children])
    return Structure(cls, rest, structures, len(found) - before)


def _flat(cls: type, rest: Hashable, count: int) -> Structure:
    key = (cls, rest if type(rest) is int else exactly(rest), count)
    structure = _FLAT.get(key)
    if structure is None:
        if len(_FLAT) >= _FLAT_LIMIT:
            _FLAT.clear()
        structure = _FLAT[key] = Structure(cls, rest, (LEAF,) * count, count)
    return structure


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The tree of this structure with these leaves.  Raises ShapeError when their number differs.

    >>> import autodiff as ad
    >>> leaves, structure = ad.tree.flatten([1, (2, 3)])
    >>> ad.tree.unflatten(structure, [x * 10 for x in leaves])
    [10, (20, 30)]
    """
    if len(leaves) != structure.size:
        raise ShapeError(
            f"tree.unflatten: {structure} takes {structure.size} leaves, not {len(leaves)}\n  called at {caller()}"
        )
    return leaves[0] if structure.cls is None else _unflatten(structure, iter(leaves))


def _unflatten(structure: Structure, leaves: Iterator) -> Any:
    container: Any = _CONTAINERS[_class_of(structure)]
    children = [next(leaves) if child.cls is None else _unflatten(child, leaves) for child in structure.children]
    return container.join(structure.rest, children)


def _class_of(structure: Structure) -> type:
    assert structure.cls is not None, "a leaf is no container"
    return structure.cls


def joiner(structure: Structure) -> Callable[[Sequence[Any]], Any]:
    """A function that puts the children of a structure's outermost container together.

    >>> import autodiff as ad
    >>> ad.tree.joiner(ad.tree.flatten((1, 2))[1])([3, 4])
    (3, 4)
    """
    container: Any = _CONTAINERS[_class_of(structure)]
    return partial(container.join, structure.rest)


def leaves(tree: Any) -> list[Any]:
    """The leaves of a tree, in order.

    >>> import autodiff as ad
    >>> ad.tree.leaves({"w": 1, "b": (2, None)})
    [1, 2, None]
    """
    return flatten(tree)[0]


def names(structure: Structure, root: str = "") -> list[str]:
    """The name of each leaf in Python, for messages, in a tree that is called `root`: `params['w'][0]`.

    >>> import autodiff as ad
    >>> ad.tree.names(ad.tree.flatten({"w": [1, 2]})[1], "params")
    ["params['w'][0]", "params['w'][1]"]
    """
    if structure.cls is None:
        return [root]
    labelled = zip(_labels(structure), structure.children, strict=True)
    return [name for label, child in labelled for name in names(child, root + label)]


def _labels(structure: Structure) -> list[str]:
    container: Any = _CONTAINERS[_class_of(structure)]
    if container.labels is not None:
        return container.labels(structure.rest)
    return [f"[{i}]" for i in range(len(structure.children))]


# ---------------------------------------------------------------- map


@overload
def map(function: Callable[[Any], Any], tree: Any) -> Any: ...
@overload
def map(function: Callable[[Any, Any], Any], tree: Any, rest: Any, /) -> Any: ...
@overload
def map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any: ...
def map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:  # the public name is ad.tree.map
    """Apply `function` to every leaf, or to corresponding leaves of several trees; gives the structure of the first.

    Dicts correspond by key, in whatever order.  Where the first tree has a leaf, the others may
    have anything, which is passed as it is.
    Raises ShapeError naming the first place where the trees differ.

    >>> import autodiff as ad
    >>> ad.tree.map(lambda x, dx: x + dx, {"a": 1, "b": 2}, {"b": 20, "a": 10})
    {'a': 11, 'b': 22}
    """
    first, structure = flatten(tree)
    if not rest:
        return unflatten(structure, [function(leaf) for leaf in first])
    columns = [_aligned(structure, other, "tree") for other in rest]
    return unflatten(structure, [function(*row) for row in zip(first, *columns, strict=True)])


def flatten_up_to(structure: Structure, tree: Any, what: str = "tree") -> list[Any]:
    """The parts of `tree` at the places where `structure` has its leaves; None stands for a whole subtree.

    Raises ShapeError naming the first place, from `what` on, where the trees differ.

    >>> import autodiff as ad
    >>> ad.tree.flatten_up_to(ad.tree.flatten({"w": 1, "b": (2, 3)})[1], {"b": None, "w": [10]})
    [[10], None, None]
    """
    return _aligned(structure, tree, what, none_stands_for_all=True)


def _aligned(structure: Structure, tree: Any, place: str, none_stands_for_all: bool = False) -> list:
    """What stands in `tree` where `structure` has its leaves."""
    if structure.cls is None:
        return [tree]
    if tree is None and none_stands_for_all:
        return [None] * structure.size
    container: Any = _CONTAINERS[structure.cls]
    if type(tree) is not structure.cls:
        raise ShapeError(
            f"the trees differ at {place}: {structure.cls.__name__} and {type(tree).__name__}\n"
            f"  called at {caller()}"
        )
    children, rest = container.split(tree)
    own = _labels(structure)
    labels = container.labels(rest) if container.labels else [f"[{i}]" for i in range(len(children))]
    by_label = dict(zip(labels, children, strict=True))
    if by_label.keys() != set(own) or (container.labels is None and rest != structure.rest):
        raise ShapeError(
            f"the trees differ at {place}: {_told(own)} and {_told(labels)} in a {structure.cls.__name__}"
            f"\n  called at {caller()}"
        )
    labelled = zip(own, structure.children, strict=True)
    return [
        leaf
        for label, child in labelled
        for leaf in _aligned(child, by_label[label], place + label, none_stands_for_all)
    ]


def _told(labels: list[str]) -> str:
    return ", ".join(labels) or "nothing"
