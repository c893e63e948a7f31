"""`ad.vmap`: turn a function of one example into a function of many.

    in_axes   0                        for every array of every argument
              (0, None)                one entry for each argument; None for an argument that all examples share
              ({"w": None, "b": 1},)   any prefix of the arguments' nesting; an entry counts for all leaves below it
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import NoneType
from typing import Any, NoReturn

import numpy as np

from codegen.ir import DTYPES, Aval

from ... import tree
from ...containers import registration, unregistered
from ...custom.call import classes_of
from ...custom.host import Unlearnt
from ...errors import DispatchError, ShapeError, amount, in_short, located
from ...mode import MODE
from ...ops import as_tensor, stack
from ...ops.batching import to_front, with_examples
from ...ops.conversion import as_numpy
from ...ops.shaping import reshaped, transposed
from ...ops.slicing import part
from ...stand_ins import standing
from ...tape.ask import evaluate, value_of
from ...tape.leaks import check_leaves, note_lost
from ...tape.modes import tracking, within
from ...tape.node import new_number
from ...tape.record import state
from ...tape.walk import history
from ...tensor import AbstractTensor, Tensor
from ...tracebacks import border
from ..anomaly import is_watching
from ..arguments import (
    applied,
    argument_names,
    constant_of,
    is_differentiable,
    is_plain,
    name_of,
    plain_results,
    with_own_node,
)
from .walk import of_each


def vmap(f: Callable, in_axes: Any = 0, out_axes: Any = 0) -> Callable:
    """A function that applies f to many examples at once, which lie along an axis of its arguments.

    f: a... → b...     vmap(f): a[n, ...] → b[n, ...]

    in_axes    the axis of the examples in all arguments; or a tuple of one entry for each argument, or any prefix
               of their nesting.  None: all examples share the argument.  Keyword arguments have examples along axis 0
    out_axes   the axis of the examples in the results: a number, or a prefix of the result's nesting.  None: a
               result that is equal for all examples is returned once

    f is called once, on one example that has no values yet; its operations are then done for all examples.  Code in f
    that needs a value raises ConcretizationError: `ad.where` and `ad.cond` choose for each example.  vmap composes with
    all transformations: `vmap(grad(f))` gives each example's gradient.  NumPy in, NumPy out; tensors in, tensors out.

    Structured values and registered classes have the examples along an axis of every tensor that they hold
    (`vmap(ad.Diagonal)(d)` makes many of a matrix); f gets the value of one example, and methods run on that.

    Raises ShapeError if in_axes and arguments, or out_axes and results, do not fit, if arguments differ in the number
    of examples, or if a class does not accept tensors with or without that axis; DispatchError for an axis that is no
    number, and for a structured value of a class that is not registered (`ad.tree.register`).

    >>> import autodiff as ad, numpy as np
    >>> w, xs = np.array([1.0, 2.0]), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> ad.vmap(lambda w, x: (w * x).sum(), (None, 0))(w, xs)
    array([1., 2., 3.])
    >>> ad.vmap(ad.grad(lambda w, x: (w @ x) ** 2), (None, 0))(w, xs)
    array([[2., 0.],
           [0., 4.],
           [6., 6.]])
    """
    name = name_of(f, "vmap")
    _check(in_axes, "in_axes", name)
    _check(out_axes, "out_axes", name)

    def of_all(*args: Any, **kwargs: Any) -> Any:
        given = _Given(f, args, kwargs, in_axes, f"vmap of {name}")
        is_array, size = given.are_plain, given.size
        try:
            found, structure = given.mapped()
        except Unlearnt:
            if state.now.tracing or not size:
                raise  # only the outermost trace has values
            given.on_the_first()
            found, structure = given.mapped()
        axes = _spread(out_axes, structure, "out_axes")

        def named(k: int) -> str:
            return f"vmap of {name}: {tree.names(structure, 'the result')[k]}"

        with tracking():
            results = [
                _placed(x, differs, axis, size, partial(named, k))
                for k, ((x, differs), axis) in enumerate(zip(found, axes, strict=True))
            ]
        if is_array:
            evaluate([x.node for x in results if isinstance(x, Tensor)])
            past = history([x.node for x in results if isinstance(x, Tensor) and x.node.kind.out.requires_grad])
            lost = next((node.kind.out.aval for node in past if node.leaf is not None), None)
            results = plain_results(results)
            if lost is not None:
                results = note_lost(results, f"vmap of {name}", f"a tensor {lost}")
        return _rebuilt(structure, results, f"the result of vmap of {name}", _MEND_RESULT)

    return border(of_all, f)


#: Advice for a class that does not accept leaves with an axis of examples, or leaves of one example.
_MEND_RESULT = "let its unflatten take leaves with one more axis; or return ad.dense(...) of it, or its tensors"
_MEND_EXAMPLE = "in_axes=None shares it; its unflatten puts an example together from leaves without that axis"


class _Given:
    """The arguments of one call: tensors that differ between examples, moved to axis 0, and shared values.

    given, axes   the leaves of the arguments, and the axis of the examples in each (None: it has none)
    values        the leaves for all examples;  size: the number of examples
    are_plain     True for a call from plain code, whose results are arrays
    """

    def __init__(self, f: Callable, args: tuple, kwargs: dict[str, Any], in_axes: Any, name: str) -> None:
        """Raises ShapeError where in_axes is no prefix of the arguments."""
        self.f, self.name = f, name
        if isinstance(in_axes, list):
            in_axes = tuple(in_axes)
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ShapeError(located(
                f"{name}: in_axes has {len(in_axes)} entries for {amount(len(args), 'positional argument')}",
                "one for each positional argument; keyword arguments have their examples along axis 0",
            ))
        leaves, self.structure = tree.flatten((args, kwargs))
        self.given = [as_numpy(x) for x in leaves]
        places, _ = self.structure.children
        self.axes = _spread(in_axes, places, "in_axes") + [0] * (self.structure.size - places.size)
        self.are_plain = is_plain(self.given)
        self.size = self._size()
        self.mapped_at = [i for i, axis in enumerate(self.axes) if axis is not None]
        with tracking():  # under no_grad too, so that an argument that was moved still tracks
            self.values = [_shared(x, self.are_plain) for x in self.given]
            for i in self.mapped_at:
                axis, t = self.axes[i], self.values[i]
                assert axis is not None
                self.values[i] = to_front(t if isinstance(t, Tensor) else as_tensor(t), axis)

    def _size(self) -> int:
        """The number of examples; makes `axes` count from 0.  Raises ShapeError if no argument has examples."""
        sizes: dict[int, int] = {}
        for i, (x, axis) in enumerate(zip(self.given, self.axes, strict=True)):
            if axis is None:
                continue
            if not (is_differentiable(x) or isinstance(x, (bool, np.bool_))):
                self.axes[i] = None  # text, None, an object: passed on unchanged
                continue
            _refuse_unregistered(x, self.name, "an argument")
            shape = np.shape(x) if not isinstance(x, AbstractTensor) else x.shape
            if not -len(shape) <= axis < len(shape):
                self._refuse_axis(i, shape)
            self.axes[i] = axis % len(shape)
            sizes[i] = shape[axis]
        if not sizes:
            raise ShapeError(located(
                f"{self.name}: no argument has examples: in_axes is None for all of them",
                f"at least one array is mapped over{unregistered(self.given)}",
            ))
        if len(set(sizes.values())) > 1:
            named = zip(argument_names(self.f, self.structure), self.given, strict=True)
            described = [f"{x}, {_aval_of(v)}" for x, v in named]
            told = [f"\n  {described[i]}: {n} along axis {self.axes[i]}" for i, n in sizes.items()]
            raise ShapeError(located(
                f"{self.name}: the arguments differ in the number of examples{''.join(told)}",
                "in_axes says along which axis the examples are, None what all of them share",
            ))
        return next(iter(sizes.values()))

    def _refuse_axis(self, i: int, shape: tuple[int, ...]) -> NoReturn:
        x = argument_names(self.f, self.structure)[i]
        is_listed = x[-2:-1].isdigit()
        what = f"has no axis {self.axes[i]}" if shape else "has no axis to take examples from"
        raise ShapeError(located(
            f"{self.name}: {x}, {_aval_of(self.given[i])}, {what}",
            "in_axes says along which axis the examples are, None what all of them share"
            + ("; np.array(list) makes one array of numbers" if is_listed and not shape else ""),
        ))

    def mapped(self) -> tuple[list[tuple[Any, bool]], tree.Structure]:
        """The leaves of the result, each with True if it differs between examples; and their nesting."""
        f, size, structure, since = self.f, self.size, tree.LEAF, new_number()

        def on_one(made: list[Tensor]) -> list[Any]:
            nonlocal structure
            with within(MODE.get(), transforming=state.now.transforming + 1):
                result = self._call(made)
                results, structure = tree.flatten(result)
                for x in results:
                    _refuse_unregistered(x, self.name, "a result")
                check_leaves(results, getattr(f, "__name__", type(f).__name__), "vmap", since)
                return [_result(x) for x in results]

        tensors = [self.values[i] for i in self.mapped_at]
        if is_watching() and size:
            return _one_by_one(on_one, tensors, size), structure
        return of_each(on_one, tensors, [True] * len(tensors), size), structure

    def _call(self, examples: list[Tensor]) -> Any:
        one = dict(zip(self.mapped_at, examples, strict=True))
        values = [standing(one[i], self.given[i]) if i in one else with_own_node(x) for i, x in enumerate(self.values)]
        args, kwargs = _rebuilt(self.structure, values, f"an example of {self.name}", _MEND_EXAMPLE)
        return applied(self.f, args, kwargs)

    def on_the_first(self) -> None:
        """Run f on the first example: a host forward needs values to learn the avals of its results."""
        self._call(_example([self.values[i] for i in self.mapped_at], 0))


def _example(tensors: list[Tensor], i: int) -> list[Tensor]:
    return [reshaped(part(t, 0, i, i + 1), t.shape[1:]) for t in tensors]


def _one_by_one(
    on_one: Callable[[list[Tensor]], list[Any]], tensors: list[Tensor], size: int
) -> list[tuple[Any, bool]]:
    """The results of f on one example after the other, with values, as anomaly mode needs them."""
    found: list[tuple[Any, bool]] = []
    for xs in zip(*[on_one(_example(tensors, i)) for i in range(size)], strict=True):
        if isinstance(xs[0], Tensor):
            evaluate([x.node for x in xs], ends_recording=False)
            first = value_of(xs[0].node)
            differs = any([not np.array_equal(value_of(x.node), first, equal_nan=True) for x in xs])
            found.append((stack(list(xs)) if differs else xs[0], differs))
        else:
            found.append((xs[0], False))
    return found


def _shared(x: Any, is_array: bool) -> Any:
    """A leaf that all examples share; an array becomes a tensor."""
    return constant_of(x, is_array) if isinstance(x, np.ndarray) else x


def _result(x: Any) -> Any:
    """A leaf of the result: arrays and numbers as tensors, others unchanged."""
    return as_tensor(x) if is_differentiable(x) or isinstance(x, (AbstractTensor, bool, np.bool_)) else x


def _placed(x: Any, differs: bool, axis: int | None, size: int, what: Callable[[], str]) -> Any:
    """A result with its examples moved to an axis.   what(): its name in messages"""
    if not isinstance(x, Tensor):
        return x
    if axis is None:
        if differs:
            raise ShapeError(located(
                f"{what()}, {x.aval.with_shape(x.shape[1:])}, differs between examples, and out_axes is None for it",
                "give it an axis, or return what is the same for all of them",
            ))
        return x
    (x,) = with_examples(size, (x,), (differs,))
    if not -x.ndim <= axis < x.ndim:
        one = x.aval.with_shape(x.shape[1:])
        raise ShapeError(located(f"{what()}, {one}, has no place {axis} for the axis of its examples (out_axes)"))
    axis %= x.ndim
    return transposed(x, (*range(1, axis + 1), 0, *range(axis + 1, x.ndim)))


# ---------------------------------------------------------------- arguments and axes


def _check(axes: Any, which: str, name: str) -> None:
    """Raise DispatchError if `in_axes` or `out_axes` hold something that is no axis."""
    for axis in tree.leaves(axes):
        if axis is not None and (not isinstance(axis, int) or isinstance(axis, bool)):
            raise DispatchError(located(
                f"vmap of {name}: {which} holds {in_short(axis)}",
                "an axis is a number, or None for what all examples share"
                + ("; arguments come behind: ad.vmap(f)(x)" if which == "in_axes" else ""),
            ))


def _spread(axes: Any, structure: tree.Structure, what: str) -> list[int | None]:
    """The axis for each leaf of a nesting, from `axes`, which is a prefix of that nesting."""
    found = tree.aligned(structure, axes, what, (NoneType, int))
    for k, axis in enumerate(found):
        if not isinstance(axis, (NoneType, int)):
            place = tree.names(structure, what)[k]
            raise ShapeError(located(f"the trees differ at {place}: {type(axis).__name__} and one leaf"))
    return found


def _rebuilt(structure: tree.Structure, leaves: list[Any], what: str, mend: str) -> Any:
    """A value of this nesting with new leaves.   what: its name.  Raises ShapeError if a class does not accept them."""
    try:
        return tree.unflatten(structure, leaves)
    except Exception as error:
        classes = sorted({
            cls.__name__ for cls in classes_of(structure) if cls.__module__ not in ("builtins", "collections")
        })
        if not classes:
            raise
        raise ShapeError(located(
            f"{what}: {' or '.join(classes)} does not take its leaves, {', '.join(map(_aval_of, leaves))}: "
            f"{type(error).__name__}: {error}",
            mend,
        )) from error


def _refuse_unregistered(x: Any, where: str, what: str) -> None:
    """Raise DispatchError for a structured value of an unregistered class, whose tensors are not known."""
    if isinstance(x, AbstractTensor) and not isinstance(x, Tensor):
        cls = type(x).__name__
        raise DispatchError(located(
            f"{where}: {what} is of the structured type {cls}, which is not registered: its leaves are not known",
            f"say what they are:  {registration(x)}\n  in_axes=None shares it; ad.dense(x) is a tensor",
        ))


def _aval_of(x: Any) -> str:
    if isinstance(x, Tensor):
        return str(x.aval)
    if isinstance(x, (np.ndarray, np.generic)):
        return str(Aval(x.shape, x.dtype)) if x.dtype in DTYPES.values() else f"{x.dtype}{list(x.shape)}"
    return f"the {type(x).__name__} {x!r}"
