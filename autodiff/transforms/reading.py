"""Reads of a rule: a call's saved values, arguments and outputs, from nodes or from arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..custom.boundary import output_of
from ..custom.call import Call
from ..custom.context import BackwardContext
from ..custom.fields import Fields
from ..custom.historyless import without_history
from ..custom.packed import Packed, as_it_is
from ..mode import MODE
from ..ops import as_tensor, zeros_of
from ..tape.node import Node
from ..tensor import Tensor, handle

__all__ = [
    "Reading", "by_output", "context_of", "flow_of", "from_node", "from_values", "needs_of", "zeros_or_none",
]


def flow_of(node: Node) -> range:
    """The places of a call's inputs among those of its boundary."""
    start, stop, _ = node.flow.indices(len(node.inputs))
    return range(start, stop)


def needs_of(call: Call, is_wanted: Callable[[int], bool]) -> dict[str, bool]:
    """For each parameter, whether a gradient of anything in it is asked for."""
    return {
        name: any([p is not None and is_wanted(p) for p in packed.places]) for name, packed in call.arguments.items()
    }


def context_of(
    call: Call, reader: Reading, needs: dict[str, bool], is_wanted: Callable[[int], bool] = lambda _: True
) -> BackwardContext:
    """The context of one run of a rule."""
    fields = Fields(list(needs), list(needs.values()), "needs_input_grad")

    def wanted(name: str) -> Any:
        return call.arguments[name].unpack(is_wanted)

    return BackwardContext(call.function.__name__, str(call.line), reader, fields, wanted)


def by_output(call: Call, bar_at: Callable[[int], Any], zeros_at: Callable[[int], Any]) -> tuple:
    """The arguments of backward: one per element of a tuple or list output, else one in its own container.

    bar_at     cotangent of a tracked output, by slot (zeros or None if it was not used)
    zeros_at   what an output that carries no gradient gets, by its place
    Outputs that are no tensors get None.
    """
    value = call.result.unpack(lambda p: bar_at(-1 - p) if p < 0 else zeros_at(p), lambda _: None)
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


class Reading:
    """Reads of a context: values of a call, by their places.

    tensor_at    what is read for a tensor;  static: what is read for anything else
    is_released  whether a backward gave the graph up
    """

    def __init__(
        self,
        call: Call,
        tensor_at: Callable[[int], Any],
        static: Callable[[Any], Any] = as_it_is,
        is_released: Callable[[], bool] = lambda: False,
    ) -> None:
        self.call = call
        self.tensor_at = tensor_at
        self.static = static
        self.is_released = is_released

    def _value(self, packed: Packed) -> Any:
        return packed.unpack(self.tensor_at, self.static)

    def saved(self) -> tuple[Sequence[str | None], Sequence[Any]]:
        """Names and values of what forward saved."""
        return [n for n, _ in self.call.saved], [self._value(p) for _, p in self.call.saved]

    def inputs(self) -> tuple[Sequence[str], Sequence[Any]]:
        """Parameters and arguments."""
        arguments = self.call.arguments
        return list(arguments), [p.unpack(self.tensor_at, as_it_is) for p in arguments.values()]

    def outputs(self) -> Any:
        """The results of the call."""
        return self.call.result.unpack(self.tensor_at, as_it_is)

    def attribute(self, name: str) -> Any:
        """An attribute that forward set on its context; KeyError for any other."""
        return self._value(self.call.attributes[name])


def from_node(node: Node, call: Call | None = None) -> Reading:
    """Reads tensors from the inputs of a boundary, each with its own history; the rest from `call`, by default its own.

    Of a forward that asked for values, what it made and saved is historyless: only inputs and outputs
    can be differentiated through.
    """
    return Reading(
        call or node.call, partial(_handle_at, node), partial(_given_or_made, node), lambda: node.kind.released
    )


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


def from_values(call: Call, values: Sequence[Any], tracked: Sequence[Any]) -> Reading:
    """Reads values while a graph runs.

    values    by place: read-only arrays, or tensors without history
    tracked   the tracked outputs
    """
    return Reading(call, lambda place: tracked[-1 - place] if place < 0 else values[place])


def zeros_or_none(call: Call, aval: Any) -> Tensor | None:
    """The cotangent of an unused output."""
    return zeros_of(aval) if call.materialize else None
