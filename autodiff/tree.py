"""Trees: nested tuples, lists, dicts, namedtuples and dataclasses, as leaves and a structure (`ad.tree`).

    {"w": x, "layers": [(a, b), None]}   ⇄   [x, a, b, None]  and  {'w': *, 'layers': [(*, *), *]}

Containers are tuple, list, dict, OrderedDict, defaultdict, namedtuples, dataclass instances and registered classes.
Any other object is a leaf: None, too, and instances of other subclasses.  The leaves of a dict have the dict's order:
dicts with the same keys in another order have different structures, but `map` over several trees goes by key.  A
dataclass is rebuilt from its fields, without `__init__` or `__post_init__`.

A structure is hashable and compared by value, so it can be part of a cache key.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from types import NoneType
from typing import Any, TypeVar, overload

import numpy as np

from .containers import CONTAINERS, container_of, register
from .errors import DispatchError, ShapeError, check_callable, located, with_article
from .tracebacks import shorten

__all__ = [
    "LEAF", "Structure", "exactly", "flatten", "flatten_up_to", "joiner", "leaves", "map", "names", "register", "split",
    "unflatten",
]  # fmt: skip

_T = TypeVar("_T")


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


class Structure:
    """A tree without its leaves.

    cls, rest   the class of the container, and its data beside the children; None for a leaf
    exact       the key of `rest` (see `exactly`), by which structures are compared
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
        self.exact = rest if type(rest) is int else exactly(rest)
        self.children = children
        self.size = size
        self._hash: int | None = None

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Structure)
            and self.cls is other.cls
            and self.exact == other.exact
            and self.children == other.children
        )

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.cls, self.exact, self.children))
        return self._hash

    def __repr__(self) -> str:
        star = type("Leaf", (), {"__repr__": lambda _: "*"})()
        return str(unflatten(self, [star] * self.size))


def exactly(rest: Any) -> Any:
    """A key that tells apart values that Python calls equal: 1, True and 1.0, 0.0 and -0.0.

    It tells them apart in the compared fields of a dataclass, too.  Any other equal objects have equal keys.

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
    """The keys of the compared fields of a dataclass; none for other objects, and if a field has no hash."""
    params = getattr(type(x), "__dataclass_params__", None)
    if params is None or not params.eq:
        return ()
    from dataclasses import fields as fields_of

    fields = [f.name for f in fields_of(x) if (f.compare if f.hash is None else f.hash)]
    parts = tuple([exactly(getattr(x, name)) for name in fields])
    try:
        hash(parts)
    except TypeError:  # the class defines its own hash, without this field
        return ()
    return parts


#: The structure of a tree that is one leaf.
LEAF = Structure(None, None, (), 1)


# ---------------------------------------------------------------- apart and together

_UNKNOWN: Any = object()


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of a tree, in order, and its structure.

    >>> import autodiff as ad
    >>> ad.tree.flatten({"w": 1, "b": (2, None)})
    ([1, 2, None], {'w': *, 'b': (*, *)})
    """
    container = CONTAINERS.get(type(tree), _UNKNOWN)
    if container is None:
        return [tree], LEAF
    found: list = []
    structure = _flatten(tree, container, found)
    return found, structure


def split(container: Any) -> tuple[Sequence[Any], Hashable]:
    """The children of a container, and the rest: its data beside the children.

    >>> import autodiff as ad
    >>> ad.tree.split({"w": 1, "b": 2})
    ((1, 2), ('w', 'b'))
    """
    cls = type(container)
    known = CONTAINERS.get(cls) or container_of(cls)
    assert known is not None, "a leaf has no children"
    return known.split(container)


def _flatten(tree: Any, container: Any, found: list) -> Structure:
    """The structure of a tree, after appending its leaves."""
    cls = type(tree)
    if container is _UNKNOWN:
        container = container_of(cls)
    if container is None:
        found.append(tree)
        return LEAF
    children, rest = container.split(tree)
    before, get = len(found), CONTAINERS.get
    structures = []
    for child in children:
        inner = get(type(child), _UNKNOWN)
        if inner is None:
            found.append(child)
        structures.append(LEAF if inner is None else _flatten(child, inner, found))
    return Structure(cls, rest, tuple(structures), len(found) - before)


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The tree of this structure with these leaves.  Raises ShapeError when their number differs.

    >>> import autodiff as ad
    >>> leaves, structure = ad.tree.flatten([1, (2, 3)])
    >>> ad.tree.unflatten(structure, [x * 10 for x in leaves])
    [10, (20, 30)]
    """
    try:
        fits = len(leaves) == structure.size
    except (AttributeError, TypeError):
        given = ", ".join([with_article(type(x).__name__) for x in (structure, leaves)])
        raise DispatchError(located(
            f"tree.unflatten: takes a structure and a list of its leaves, not {given}",
            "both come from leaves, structure = ad.tree.flatten(tree)",
        )) from None
    if not fits:
        raise ShapeError(located(f"tree.unflatten: {structure} takes {structure.size} leaves, not {len(leaves)}"))
    return leaves[0] if structure.cls is None else _unflatten(structure, iter(leaves))


def _unflatten(structure: Structure, leaves: Iterator) -> Any:
    container: Any = CONTAINERS[structure.cls]  # type: ignore[index]  # it is no leaf
    children = [next(leaves) if child.cls is None else _unflatten(child, leaves) for child in structure.children]
    return container.join(structure.rest, children)


def exchanged(leaves: Sequence[Any], places: Sequence[int], values: Sequence[Any]) -> list[Any]:
    """A copy of a list of leaves, with other values in some places."""
    found = list(leaves)
    for place, value in zip(places, values, strict=True):
        found[place] = value
    return found


def joiner(structure: Structure) -> Callable[[Sequence[Any]], Any]:
    """A function that puts the children of a structure's outermost container together.

    >>> import autodiff as ad
    >>> ad.tree.joiner(ad.tree.flatten((1, 2))[1])([3, 4])
    (3, 4)
    """
    container: Any = CONTAINERS[structure.cls]  # type: ignore[index]  # it is no leaf
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
    labelled = zip(_labels(structure.cls, structure.rest, len(structure.children)), structure.children, strict=True)
    return [name for label, child in labelled for name in names(child, root + label)]


def _labels(cls: type, rest: Any, count: int) -> list[str]:
    container: Any = CONTAINERS[cls]
    return container.labels(rest) if container.labels else [f"[{i}]" for i in range(count)]


# ---------------------------------------------------------------- map


@overload
def map(function: Callable[[Any], Any], tree: Any) -> Any: ...
@overload
def map(function: Callable[[Any, Any], Any], tree: Any, rest: Any, /) -> Any: ...
@overload
def map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any: ...
def map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:  # the public name is ad.tree.map
    """Apply `function` to every leaf, or to corresponding leaves of several trees; gives the structure of the first.

    The children of dicts correspond by key, in any order.  Where the first tree has a leaf, the other trees may
    have any object, which is passed to `function` as it is.
    Raises ShapeError naming the first place where the trees differ.

    >>> import autodiff as ad
    >>> ad.tree.map(lambda x, dx: x + dx, {"a": 1, "b": 2}, {"b": 20, "a": 10})
    {'a': 11, 'b': 22}
    """
    try:
        check_callable(function, "tree.map")
        first, structure = flatten(tree)
        if not rest:
            return unflatten(structure, [function(leaf) for leaf in first])
        columns = [aligned(structure, other, "tree") for other in rest]
        return unflatten(structure, [function(*row) for row in zip(first, *columns, strict=True)])
    except Exception as error:
        shorten(error)
        raise


def flatten_up_to(structure: Structure, tree: Any, what: str = "tree") -> list[Any]:
    """The parts of `tree` at the places where `structure` has its leaves; None stands for a whole subtree.

    Raises ShapeError naming the first place, from `what` on, where the trees differ.

    >>> import autodiff as ad
    >>> ad.tree.flatten_up_to(ad.tree.flatten({"w": 1, "b": (2, 3)})[1], {"b": None, "w": [10]})
    [[10], None, None]
    """
    return aligned(structure, tree, what, (NoneType,))


def aligned(structure: Structure, tree: Any, place: str, spreads: tuple[type, ...] = ()) -> list:
    """The parts of `tree` where `structure` has its leaves; an instance of `spreads` stands for a whole subtree."""
    if isinstance(tree, spreads):
        return [tree] * structure.size
    if structure.cls is None:
        return [tree]
    container: Any = CONTAINERS[structure.cls]
    if type(tree) is not structure.cls:
        raise ShapeError(located(f"the trees differ at {place}: {structure.cls.__name__} and {type(tree).__name__}"))
    children, rest = container.split(tree)
    own = _labels(structure.cls, structure.rest, len(structure.children))
    is_alike = container.labels is None and len(children) == len(own)
    labels = own if is_alike else _labels(structure.cls, rest, len(children))
    by_label = dict(zip(labels, children, strict=True))
    if by_label.keys() != set(own) or (container.labels is None and rest != structure.rest):
        told = " and ".join([", ".join(found) or "nothing" for found in (own, labels)])
        raise ShapeError(located(f"the trees differ at {place}: {told} in a {structure.cls.__name__}"))
    return [
        leaf
        for label, child in zip(own, structure.children, strict=True)
        for leaf in aligned(child, by_label[label], place + label, spreads)
    ]
