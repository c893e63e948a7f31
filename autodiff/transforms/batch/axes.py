"""`in_axes` and `out_axes`: which axis of each argument, and of each result, the examples lie along.

    in_axes   0                        every array of every argument
              (0, None)                one entry for each argument: None for what all examples share
              ({"w": None, "b": 1},)   any prefix of the arguments' nesting: an entry counts for all below it
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn

import numpy as np

from codegen.ir import DTYPES, Aval

from ... import tree
from ...containers import registration, unregistered
from ...errors import DispatchError, ShapeError, in_short, located
from ...ops.conversion import numpys
from ...ops.shaping import transposed
from ...tensor import AbstractTensor, Tensor
from ..arguments import is_differentiable

__all__ = [
    "Leaves", "checked", "examples_at", "leaves_of_arguments", "names_of", "rebuilt", "refuse_unregistered",
    "result_axes", "size_of",
]


class Leaves(NamedTuple):
    """A nesting taken apart, and for each leaf the axis of the examples (None: it has none)."""

    values: list[Any]
    axes: list[int | None]
    structure: tree.Structure


def checked(axes: Any, which: str, name: str) -> Any:
    """`in_axes` or `out_axes`, lists of arguments as tuples.  Raises DispatchError for what is no axis."""
    for axis in tree.leaves(axes):
        if axis is not None and (not isinstance(axis, int) or isinstance(axis, bool)):
            raise DispatchError(located(
                f"vmap of {name}: {which} holds {in_short(axis)}",
                "an axis is a number, or None for what all examples share"
                + ("; arguments come behind: ad.vmap(f)(x)" if which == "in_axes" else ""),
            ))
    return axes


def _spread(axes: Any, structure: tree.Structure, what: str) -> list[int | None]:
    """For each leaf of such a structure the axis that a prefix of its nesting gives it."""
    if axes is None or isinstance(axes, int):
        return [axes] * structure.size
    entries, prefix = tree.flatten(axes)
    return list(_spread_over(tuple(entries), prefix, structure, what))


@lru_cache(256)
def _spread_over(
    entries: tuple[int | None, ...], prefix: tree.Structure, structure: tree.Structure, what: str
) -> list[int | None]:
    """Spread a prefix of several entries over the leaves."""
    numbered = tree.unflatten(structure, list(range(structure.size)))
    found: list[int | None] = [None] * structure.size
    for axis, below in zip(entries, tree.flatten_up_to(prefix, numbered, what), strict=True):
        for number in tree.leaves(below):
            if number is not None:
                found[number] = axis
    return found


def rebuilt(structure: tree.Structure, leaves: list[Any], what: str, mend: str) -> Any:
    """The nesting with these leaves.  Raises ShapeError where a class does not take them, naming it.

    what   is being put together;  mend: the way out
    """
    try:
        return tree.unflatten(structure, leaves)
    except Exception as error:
        classes = sorted({cls.__name__ for cls in _classes_in(structure)})
        if not classes:
            raise
        raise ShapeError(located(
            f"{what}: {' or '.join(classes)} does not take its leaves, {', '.join(map(_aval_of, leaves))}: "
            f"{type(error).__name__}: {error}",
            mend,
        )) from error


def _classes_in(structure: tree.Structure) -> Iterator[type]:
    """The classes in a nesting that a program, or this library, defines."""
    if structure.cls is not None:
        if structure.cls.__module__ not in ("builtins", "collections"):
            yield structure.cls
        for child in structure.children:
            yield from _classes_in(child)


def leaves_of_arguments(args: tuple, kwargs: dict[str, Any], in_axes: Any, name: str) -> Leaves:
    """The leaves of (args, kwargs); keyword arguments have their examples along axis 0.

    Raises ShapeError where in_axes is no prefix of the arguments.
    """
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise ShapeError(located(
            f"vmap of {name}: in_axes has {len(in_axes)} entries for {len(args)} positional arguments",
            "one for each positional argument; keyword arguments have their examples along axis 0",
        ))
    values, structure = tree.flatten((args, kwargs))
    places, _ = structure.children
    axes = _spread(in_axes, places, "in_axes") + [0] * (structure.size - places.size)
    return Leaves([numpys(x) for x in values], axes, structure)


def result_axes(out_axes: Any, structure: tree.Structure) -> list[int | None]:
    """For each leaf of a result the axis that its examples go to.  Raises ShapeError where out_axes is no prefix."""
    return _spread(out_axes, structure, "out_axes")


# ---------------------------------------------------------------- sizes


def size_of(f: Callable, leaves: Leaves, name: str) -> int:
    """The number of examples, along every axis that is mapped.  Axes become counted from 0.

    Raises ShapeError where an argument has no such axis, sizes differ, or nothing is mapped.
    """
    sizes: dict[int, int] = {}
    for i, (x, axis) in enumerate(zip(leaves.values, leaves.axes, strict=True)):
        if axis is None:
            continue
        if not (is_differentiable(x) or isinstance(x, (bool, np.bool_))):
            leaves.axes[i] = None  # text, None, an object: handed on as it is
            continue
        refuse_unregistered(x, f"vmap of {name}", "an argument")
        shape = np.shape(x) if not isinstance(x, AbstractTensor) else x.shape
        if not -len(shape) <= axis < len(shape):
            _refuse_axis(f, leaves, name, i, shape)
        leaves.axes[i] = axis % len(shape)
        sizes[i] = shape[axis]
    if not sizes:
        raise ShapeError(located(
            f"vmap of {name}: no argument has examples: in_axes is None for all of them",
            f"at least one array is mapped over{unregistered(leaves.values)}",
        ))
    if len(set(sizes.values())) > 1:
        named = names_of(f, leaves.structure)
        described = [f"{x}, {_aval_of(v)}" for x, v in zip(named, leaves.values, strict=True)]
        told = [f"\n  {described[i]}: {n} along axis {leaves.axes[i]}" for i, n in sizes.items()]
        raise ShapeError(located(
            f"vmap of {name}: the arguments differ in the number of examples{''.join(told)}",
            "in_axes says along which axis the examples are, None what all of them share",
        ))
    return next(iter(sizes.values()))


def refuse_unregistered(x: Any, where: str, what: str) -> None:
    """Raise DispatchError for a structured value that is no tree: nobody knows what its examples are."""
    if isinstance(x, AbstractTensor) and not isinstance(x, Tensor):
        cls = type(x).__name__
        raise DispatchError(located(
            f"{where}: {what} is of the structured type {cls}, which is not registered: its leaves are not known",
            f"say what they are:  {registration(x)}\n  in_axes=None shares it; ad.dense(x) is a tensor",
        ))


def _refuse_axis(f: Callable, leaves: Leaves, name: str, i: int, shape: tuple[int, ...]) -> NoReturn:
    x = names_of(f, leaves.structure)[i]
    is_listed = "[" in x and _container(leaves.structure, i) in (list, tuple)
    what = f"has no axis {leaves.axes[i]}" if shape else "has no axis to take examples from"
    raise ShapeError(located(
        f"vmap of {name}: {x}, {_aval_of(leaves.values[i])}, {what}",
        "in_axes says along which axis the examples are, None what all of them share"
        + ("; np.array(list) makes one array of numbers" if is_listed and not shape else ""),
    ))


def _container(structure: tree.Structure, leaf: int) -> type | None:
    """The class of the innermost container of a leaf."""
    cls = None
    while structure.children:
        cls = structure.cls
        for structure in structure.children:  # noqa: B020  the child takes its place
            if leaf < structure.size:
                break
            leaf -= structure.size
    return cls


def _aval_of(x: Any) -> str:
    if isinstance(x, Tensor):
        return str(x.aval)
    if isinstance(x, (np.ndarray, np.generic)):
        return str(Aval(x.shape, x.dtype)) if x.dtype in DTYPES.values() else f"{x.dtype}{list(x.shape)}"
    return f"the {type(x).__name__} {x!r}"


def names_of(f: Callable, structure: tree.Structure) -> list[str]:
    """The name of each leaf of (args, kwargs): by the parameters of f, where they are known."""
    places, keywords = structure.children
    try:
        known = [p.name for p in inspect.signature(f).parameters.values() if p.kind <= p.POSITIONAL_OR_KEYWORD]
    except (TypeError, ValueError):
        known = []
    found = []
    for i, child in enumerate(places.children):
        found += tree.names(child, known[i] if i < len(known) else f"args[{i}]")
    for key, child in zip(keywords.rest, keywords.children, strict=True):
        found += tree.names(child, str(key))
    return found


# ---------------------------------------------------------------- moving the examples


def examples_at(t: Tensor, axis: int) -> Tensor:
    """Examples from axis 0 to this axis."""
    return transposed(t, (*range(1, axis + 1), 0, *range(axis + 1, t.ndim)))
