"""Reads of a rule: a call's saved values, arguments and outputs, from nodes or from arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..custom.boundary import output_of, without_history
from ..custom.call import CustomCall, as_it_is
from ..custom.context import BackwardContext
from ..custom.host_call import note_read_only
from ..custom.reads import standing, tracked_by
from ..mode import MODE
from ..ops import as_tensor, zeros_of
from ..tape.node import Node
from ..tensor import Tensor, handle

__all__ = ["by_output", "call_user", "context_of", "flow_of", "needs_of", "tensors_of", "without_known_history",
           "zeros_or_none"]  # fmt: skip


def flow_of(node: Node) -> range:
    """The places of a call's inputs among those of its boundary."""
    start, stop, _ = node.flow.indices(len(node.inputs))
    return range(start, stop)


def needs_of(call: CustomCall, is_wanted: Callable[[int], bool]) -> dict[str, bool]:
    """For each parameter, whether a gradient of anything in it is asked for."""
    return {
        name: any([p is not None and is_wanted(p) for p in packed.places]) for name, packed in call.arguments.items()
    }


def context_of(
    call: CustomCall,
    tensor_at: Callable[[int], Any],
    needs: dict[str, bool],
    is_wanted: Callable[[int], bool] = lambda _: True,
    node: Node | None = None,
) -> BackwardContext:
    """The context of one run of a rule.

    tensor_at    what is read for a tensor, by its place
    node         the boundary, where tensors are read with their histories: of a forward that asked for values, what it
                 made and saved is historyless; only inputs and outputs can be differentiated through
    """
    if node is None:
        return BackwardContext(call, tensor_at, as_it_is, lambda: False, is_wanted, needs)
    static = partial(_given_or_made, node)
    return BackwardContext(call, tensor_at, static, lambda: node.kind.released, is_wanted, needs)


def call_user(
    run: Callable, rule: Any, call: CustomCall, tensor_at: Callable[[int], Any], given: Sequence[Any], where: str
) -> Any:
    """run(*given), a rule of the user's, which reads values of a trace where they are now."""
    try:
        with standing(rule, call.reads, lambda place: as_tensor(tensor_at(place)).node):
            return run(*given)
    except Exception as error:
        error.add_note(f"in the {rule.kind} rule of {where}")
        if rule.host:
            note_read_only(error)
        raise


def without_known_history(
    found: dict[int, Tensor], rule: Any, node: Node, sources: Sequence[Node], which: str
) -> dict[int, Tensor]:
    """The results of a rule that asked for values, whose derivatives nobody knows.   which: what they are"""
    call: CustomCall = node.call
    closed = tracked_by(rule, call.reads, lambda place: tensors_of(node)(place).node)
    return {k: without_history(t, [*sources, *closed], which, call.line) for k, t in found.items()}


def by_output(call: CustomCall, bar_at: Callable[[int], Any], zeros_at: Callable[[int], Any]) -> tuple:
    """The arguments of backward: one per element of a tuple or list output, else one in its own container.

    bar_at     cotangent of a tracked output, by slot (zeros or None if it was not used)
    zeros_at   what an output that carries no gradient gets, by its place
    Outputs that are no tensors get None.
    """
    value = call.result.unpack(lambda p: bar_at(-1 - p) if p < 0 else zeros_at(p), lambda _: None)
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def tensors_of(node: Node) -> Callable[[int], Tensor]:
    """The tensors of a boundary by place, each with its own history."""
    return partial(_handle_at, node)


def _handle_at(node: Node, place: int) -> Tensor:
    """A handle: on an output behind its boundary, on an input, on an intermediate."""
    if place < 0:
        return output_of(node, -1 - place)
    source = node.inputs[place]
    if not node.call.opaque or place in flow_of(node):
        return handle(source)
    return _historyless(node, handle(source))


def _given_or_made(node: Node, value: Any) -> Any:
    """A number or array that an opaque forward saved depends on its inputs in an unknown way."""
    made = isinstance(value, (float, complex, np.floating, np.complexfloating, np.ndarray))
    if not node.call.opaque or not made or not MODE.get().tracks:
        return value
    if any(value is x for p in node.call.arguments.values() for x in p.statics):
        return value
    return _historyless(node, as_tensor(value))


def _historyless(node: Node, t: Tensor) -> Tensor:
    call = node.call
    what = f"what the forward of {call.function.__name__} ({call.method.place}) made of asked values"
    return without_history(t, [node.inputs[p] for p in flow_of(node)], what, call.line)


def zeros_or_none(call: CustomCall, aval: Any) -> Tensor | None:
    """The cotangent of an unused output."""
    return zeros_of(aval) if call.materialize else None
