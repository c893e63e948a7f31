"""`ad.vmap`: a function of one example becomes one of many."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np

from ... import tree
from ...custom.host import Unlearnt
from ...errors import ShapeError, located
from ...ops import as_tensor, stack
from ...ops.batching import to_front, with_examples
from ...ops.shaping import reshaped
from ...ops.slicing import part
from ...stand_ins import standing
from ...tape.ask import evaluate, value_of
from ...tape.leaks import check_leaves, note_lost
from ...tape.node import new_number
from ...tape.record import state
from ...tape.walk import history
from ...tensor import AbstractTensor, Tensor
from ...tracebacks import shorten
from ..arguments import applied, constant_of, is_differentiable, is_plain, name_of, own, plain_results
from ..modes import is_watching, tracking
from .axes import (
    Leaves,
    checked,
    examples_at,
    leaves_of_arguments,
    rebuilt,
    refuse_unregistered,
    result_axes,
    size_of,
)
from .walk import of_each

__all__ = ["vmap"]


def vmap(f: Callable, in_axes: Any = 0, out_axes: Any = 0) -> Callable:
    """A function that applies f to many examples at once, which lie along an axis of its arguments.

    f: a... → b...     vmap(f): a[n, ...] → b[n, ...]

    in_axes    the axis of the examples in all arguments; or a tuple of one entry for each argument, or any prefix
               of their nesting.  None: all examples share it.  Keyword arguments have them along axis 0
    out_axes   the axis of the examples in the results: a number, or a prefix of the result's nesting.  None: a
               result that is the same for all examples is given once

    f is called once, on one example that has no values yet; its operations are then done for all.  So where f needs
    a value it is a ConcretizationError: `ad.where` and `ad.cond` choose for each example.  It composes with all
    transformations: `vmap(grad(f))` gives each example's gradient.  NumPy in, NumPy out; with tensors, tensors.

    Structured values, and those of registered classes, have the examples along an axis of every tensor that they hold
    (`vmap(ad.Diagonal)(d)` makes many of a matrix); f gets one of them, and methods run as they are written for one.

    Raises ShapeError where in_axes and arguments, or out_axes and results, do not fit, arguments differ in the number
    of examples, or a class does not take its tensors with or without that axis; DispatchError for what is no axis, or
    a structured value of a class that is not registered (`ad.tree.register`).

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
    checked(in_axes, "in_axes", name)
    checked(out_axes, "out_axes", name)

    @wraps(f)
    def of_all(*args: Any, **kwargs: Any) -> Any:
        try:
            leaves = leaves_of_arguments(args, kwargs, in_axes, name)
            is_array = is_plain(leaves.values)
            size = size_of(f, leaves, name)
            with tracking():  # moved under no_grad as well, an argument stays what it is
                given = Given(leaves, is_array, f"vmap of {name}")
            try:
                found, structure = given.mapped(f, size)
            except Unlearnt:
                if state.now.tracing or not size:
                    raise  # the outermost trace has values
                given.on_the_first(f)
                found, structure = given.mapped(f, size)
            axes = result_axes(out_axes, structure)

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
            return rebuilt(structure, results, f"the result of vmap of {name}", _MEND_RESULT)
        except Exception as error:
            shorten(error)
            raise

    return of_all


#: The advice where a class does not take leaves with an axis of examples, or those of one example.
_MEND_RESULT = "let its unflatten take leaves with one more axis; or return ad.dense(...) of it, or its tensors"
_MEND_EXAMPLE = "in_axes=None shares it; its unflatten puts an example together from leaves without that axis"


class Given:
    """The arguments of one call: tensors that differ between examples, with these along axis 0, and the rest."""

    def __init__(self, leaves: Leaves, is_array: bool, name: str) -> None:
        self.name = name
        self.structure = leaves.structure
        self.mapped_at = [i for i, axis in enumerate(leaves.axes) if axis is not None]
        self.values = [_shared(x, is_array) for x in leaves.values]
        self.given = leaves.values
        for i in self.mapped_at:
            axis = leaves.axes[i]
            assert axis is not None
            t = self.values[i]
            self.values[i] = to_front(t if isinstance(t, Tensor) else as_tensor(t), axis)

    def mapped(self, f: Callable, size: int) -> tuple[list[tuple[Any, bool]], tree.Structure]:
        """The leaves of the result, each with whether it differs between examples; and their nesting."""
        structure, since = tree.LEAF, new_number()

        def on_one(made: list[Tensor]) -> list[Any]:
            nonlocal structure
            now = state.now
            now.transforming += 1
            try:
                result = self._call(f, made)
                results, structure = tree.flatten(result)
                for x in results:
                    refuse_unregistered(x, self.name, "a result")
                check_leaves(results, getattr(f, "__name__", type(f).__name__), "vmap", since)
                return [_result(x) for x in results]
            finally:
                now.transforming -= 1

        tensors = [self.values[i] for i in self.mapped_at]
        if is_watching() and size:
            return _one_by_one(on_one, tensors, size), structure
        return of_each(on_one, tensors, [True] * len(tensors), size), structure

    def _call(self, f: Callable, examples: list[Tensor]) -> Any:
        mapped = dict(zip(self.mapped_at, examples, strict=True))
        values = [standing(mapped[i], self.given[i]) if i in mapped else own(x) for i, x in enumerate(self.values)]
        args, kwargs = rebuilt(self.structure, values, f"an example of {self.name}", _MEND_EXAMPLE)
        return applied(f, args, kwargs)

    def on_the_first(self, f: Callable) -> None:
        """Run f on the first example: a host forward tells by its values what it returns."""
        self._call(f, _example([self.values[i] for i in self.mapped_at], 0))


def _example(tensors: list[Tensor], i: int) -> list[Tensor]:
    return [reshaped(part(t, 0, i, i + 1), t.shape[1:]) for t in tensors]


def _one_by_one(
    on_one: Callable[[list[Tensor]], list[Any]], tensors: list[Tensor], size: int
) -> list[tuple[Any, bool]]:
    """The results of one example after the other, which have values: where anomalies are looked for."""
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
    """A leaf that all examples share: arrays as tensors."""
    if isinstance(x, np.ndarray):
        return constant_of(x) if is_array else standing(as_tensor(x), x)
    return x


def _result(x: Any) -> Any:
    """A leaf of the result as a tensor, unless it is no array."""
    return as_tensor(x) if is_differentiable(x) or isinstance(x, (AbstractTensor, bool, np.bool_)) else x


def _placed(x: Any, differs: bool, axis: int | None, size: int, what: Callable[[], str]) -> Any:
    """A result with its examples along an axis; `what()` names it."""
    if not isinstance(x, Tensor):
        return x
    if axis is None:
        if differs:
            raise ShapeError(located(
                f"{what()}, {_one(x)}, differs between examples, and out_axes is None for it",
                "give it an axis, or return what is the same for all of them",
            ))
        return x
    (x,) = with_examples(size, (x,), (differs,))
    if not -x.ndim <= axis < x.ndim:
        raise ShapeError(located(f"{what()}, {_one(x)}, has no place {axis} for the axis of its examples (out_axes)"))
    return examples_at(x, axis % x.ndim)


def _one(x: Tensor) -> str:
    """A result for one example."""
    return str(x.aval.with_shape(x.shape[1:]))
