"""Programs: recordings without their nodes, as functions from input values to output values.

    equations    of each: its kind, and the places of its inputs (earlier equations, or inputs of the program)
    outputs      their places

A new recording is translated to a program (`program_of`), so that its nodes can be freed.  NumPy evaluates the program
by the reference of each operation; a program that repeats is lowered to the compiler's graph.  Evaluating a program and
evaluating its graph are the same computation, and give the same bits.

Where derivatives are wanted, the nodes of a trace, or of a loop's body, are recorded once more: `replay`.
"""

from __future__ import annotations

from array import array
from collections.abc import Container, Iterable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from codegen import ir
from codegen.blas import one_thread
from codegen.garbage import ignoring
from codegen.ir import Aval

from ..errors import ConcretizationError, caller
from ..mode import MODE
from ..tensor import handle
from . import machine
from .lines import Lines, at_place_of
from .modes import within
from .node import CONSTANT, Kind, Node, RichNode, rich_node
from .record import ALIASES, ARGUMENT, identity_of, record, state
from .walk import needed, value_inputs

#: If all values have more elements than this, the graph is evaluated instead: it frees a value after its last reader.
_MANY = 1 << 20

_work = attrgetter("work")


class Program:
    """Equations, each of which follows the equations that it reads.

    inputs      the aval of each input
    kinds       the kind of each equation
    wires       words: for each equation, and then for the outputs, the number of places that are read, and the places.
                The place of an equation is its number; the inputs follow the last equation
    lowered     for each equation the node in the compiler's graph, once there is a graph
    size        the number of elements of all computed values; infinite with loops or branches among the operations
    """

    __slots__ = ("_graph", "_key", "_needs_python", "inputs", "kinds", "lowered", "size", "wires")

    def __init__(self, inputs: Sequence[Aval], kinds: Sequence[Kind], wires: bytes) -> None:
        self.inputs, self.kinds, self.wires = inputs, kinds, wires
        self._key: tuple | None = None
        self._graph: ir.Graph | None = None
        self._needs_python = False  # not known yet
        self.lowered: list[ir.Node] = []
        self.size: float = sum(map(_work, kinds))

    @property
    def places(self) -> list[list[int]]:
        """The places that each equation reads, and those of the outputs."""
        words, found, at = memoryview(self.wires).cast("i").tolist(), [], 0
        while at < len(words):
            end = at + 1 + words[at]
            found.append(words[at + 1 : end])
            at = end
        return found

    @property
    def key(self) -> tuple:
        """A key that is equal for programs that compute the same equations in the same order."""
        if self._key is None:
            avals = tuple([(aval.shape, aval.dtype) for aval in self.inputs])
            self._key = (avals, tuple([kind.computation for kind in self.kinds]), self.wires)
        return self._key

    @property
    def graph(self) -> ir.Graph:
        """The compiler's graph of the program, which is made at the first use."""
        if self._graph is None:
            self._graph = self._made()
        return self._graph

    def _made(self) -> ir.Graph:
        inputs = [ir.input_node(aval) for aval in self.inputs]
        *reads, outputs = self.places
        made: list[Any] = [*[None] * len(reads), *inputs]
        for place, (kind, places) in enumerate(zip(self.kinds, reads, strict=True)):
            op, aval, operands = kind.op, kind.out.aval, [*map(made.__getitem__, places)]
            if op is CONSTANT:
                made[place] = ir.Node(ir.CONSTANT, (), kind.params, aval)
            elif op.written is None:
                made[place] = ir.Node(op, operands, kind.params, aval)
            else:
                made[place] = op.written(operands, kind.params, aval)
        self.lowered = made[: len(reads)]
        return ir.Graph.of(inputs, [made[p] for p in outputs])

    def evaluate(self, *values: Any) -> tuple[np.ndarray, ...]:
        """The outputs for these inputs, by the reference of each operation; they share no memory with other arrays.

        Raises what evaluating the graph raises.
        """
        arrays = [packed(v, aval.dtype) for v, aval in zip(values, self.inputs, strict=True)]
        native = machine.asks
        try:
            found = self._by_references(arrays) if native is None else self._by_loops(native, arrays)
        except Exception:
            found = None  # the graph is evaluated instead, and its error names the place
        if found is None:
            return ir.evaluate(self.graph, *arrays)
        taken = set(map(id, arrays))
        return tuple([ir.copy_if_shared(value, taken) for value in found])

    #: The name of the method by which an executable runs.
    call = evaluate

    def _by_references(self, arrays: Sequence[np.ndarray]) -> list[Any] | None:
        """The outputs; None if all values together need much memory."""
        if self.size > _MANY:
            return None
        *reads, outputs = self.places
        values: list[Any] = [*[None] * len(reads), *arrays]
        with ignoring(all="ignore"), one_thread():
            for place, (kind, places) in enumerate(zip(self.kinds, reads, strict=True)):
                values[place] = _value(kind, [values[p] for p in places])
        return [values[p] for p in outputs]

    def _by_loops(self, native: Any, arrays: list[np.ndarray]) -> Sequence[Any]:
        """The outputs: machine code calls NumPy's loops, and Python for operations without a loop."""
        found: Sequence[Any] | None = None
        if not self._needs_python:  # loops of plain numbers raise nothing, so no error state is set
            found = native.interpreted(self.kinds, self.wires, arrays, None)
        if found is None:
            self._needs_python = True
            with ignoring(all="ignore"), one_thread():
                found = native.interpreted(self.kinds, self.wires, arrays, self._value_at)
        return found

    def _value_at(self, place: int, *given: np.ndarray) -> np.ndarray:
        """The contiguous value of an equation for which NumPy has no loop."""
        kind = self.kinds[place]
        return packed(_value(kind, given), kind.out.aval.dtype)


def _value(kind: Kind, given: Sequence[np.ndarray]) -> np.ndarray:
    """The value of an operation on these operands, by its reference."""
    op, aval = kind.op, kind.out.aval
    assert op.reference is not None, f"{op.name} has no reference"
    if ir.ANY_LAYOUT.isdisjoint(op.traits):
        given = [np.asarray(one, order="C") for one in given]
    value = op.reference(*given, **dict(zip(op.params, kind.params, strict=True)))
    if type(value) is not np.ndarray or value.dtype is not aval.dtype:
        value = np.asarray(value, aval.dtype)
    if value.shape != aval.shape:  # machine code reads as many elements as the kind says
        raise ValueError(f"{kind} was evaluated to {value.shape}")
    return value


def packed(given: Any, dtype: np.dtype) -> np.ndarray:
    """A contiguous, aligned array of these values, whose dtype is this very dtype object."""
    found = np.asarray(given, dtype, order="C")
    if not found.flags.aligned:
        found = found.copy()
    return found if found.dtype is dtype else found.view(dtype)


def program_of(
    outputs: Sequence[Node], arguments: Sequence[Node] = (), fixed: Container[Node] = ()
) -> tuple[Program, list[Node]]:
    """The program of pending nodes, and the computed nodes that are its inputs.

    The `arguments` of a trace come first among the inputs, in order, used or not.  Numbers in `fixed` have the same
    value at each run of the program: equal numbers become one input.

    Raises ConcretizationError when an output depends on another argument of a trace.
    """
    native = machine.asks
    if native is not None and not fixed:
        found = native.program_of_pending(tuple(outputs), tuple(arguments))
        if found is not None:
            kinds, inputs, wires = found
            return Program([n.kind.out.aval for n in inputs], kinds, wires), inputs
    return placed(outputs, arguments, fixed)[:2]


def placed(
    outputs: Sequence[Node], arguments: Sequence[Node], fixed: Container[Node]
) -> tuple[Program, list[Node], dict[Node, int]]:
    """The results of `program_of`, and the place of each node in the program: input k has the place -1 - k."""
    order = needed(outputs)
    first = _first_of_equals([n for n in order if n in fixed]) if fixed else {}
    inputs: list[Node] = []
    place: dict[Node, int] = {}
    kinds: list[Kind] = []
    reads: list[list[int]] = []

    def stands(node: Node) -> int:
        """The place of a node; a node that has none becomes an input."""
        found = place.get(node)
        if found is None:
            inputs.append(node)
            found = place[node] = -len(inputs)
        return found

    for node in arguments:
        inputs.append(node)
        place[node] = -len(inputs)
    for node in order:
        if node in place:
            continue
        operands = node.inputs if type(node) is Node else value_inputs(node)
        if node.value is not None:
            continue  # its first reader makes it an input
        if first:
            operands = tuple([first.get(i, i) for i in operands])
        kind = node.kind
        if node.body is not None or kind.op in ALIASES:
            place[node] = stands(operands[0])
        elif kind.op is ARGUMENT:
            raise without_value()
        else:
            reads.append([stands(i) for i in operands])
            place[node] = len(kinds)
            kinds.append(kind)
    reads.append([stands(first.get(o, o)) for o in outputs])
    words = array("i")
    for places in reads:
        words.extend([len(places), *[p if p >= 0 else len(kinds) - 1 - p for p in places]])
    return Program([n.kind.out.aval for n in inputs], kinds, words.tobytes()), inputs, place


def is_tracing() -> bool:
    """True if this thread is tracing a function."""
    mode = MODE.get()
    return mode.closely or mode.lightly


def without_value(
    what: str = "", instead: str = "use ad.where or ad.cond instead of `if`, ad.exp and the like instead of math.exp"
) -> ConcretizationError:
    """The error for code that asks for the value of a traced argument, in the trace or later.   what: was asked for"""
    when = ": inside jit, vmap, checkpoint and loops there are no values yet"
    mend = f"{instead};\n  or mark the argument static (static_argnums), in vmap give it in_axes=None"
    if not is_tracing():
        when = " after its trace, so it never has one"
        mend = "a traced function leaves no tensors outside: let it return what is wanted"
    return ConcretizationError(
        f"the value of a traced argument was asked for{when}\n  asked at {caller()}{what}\n  {mend}"
    )


def data(node: Node) -> np.ndarray:
    """The value of a computed node as an array (a recorded number becomes 0-d)."""
    value = node.value
    return value if type(value) is np.ndarray else np.asarray(value, node.kind.out.aval.dtype)


def _first_of_equals(numbers: Iterable[Node]) -> dict[Node, Node]:
    """For each node of a number, the first node of an equal number."""
    seen: dict[tuple[Aval, bytes], Node] = {}
    # Bytes are compared: -0.0 differs from 0.0, and a nan equals itself.
    return {n: seen.setdefault((n.kind.out.aval, data(n).tobytes()), n) for n in numbers}


# ---------------------------------------------------------------- nodes recorded again


def replay(order: Iterable[Node], stands: dict[Node, Node], of: Lines | None) -> None:
    """Record nodes again.

    stands    node -> its replacement, for the nodes that are read from outside; the new nodes are added to it
    of        the lines of the trace in which the nodes were recorded
    """
    lines = state.now.lines
    for node in order:
        with at_place_of(lines, node, of):
            stands[node] = again(node, [stands[i] for i in node.inputs])


def again(node: Node, inputs: Sequence[Node]) -> Node:
    """A node recorded again on other inputs: it tracks if one of these does, unless the node is cut (`is_cut`)."""
    if node.call is None and node.body is None and node.inputs:
        mode, op, params = MODE.get(), node.kind.op, node.kind.params
        tensors = tuple([handle(i) for i in inputs])
        if not (mode.tracks and is_cut(node)):
            return hooked_like(node, record(op, tensors, params).node)
        with within(mode.off):
            return record(op, tensors, params).node
    if node.body is not None and node.kind.out.requires_grad:
        flow = inputs if node.flow is None else inputs[node.flow]
        if not MODE.get().tracks or not any([i.kind.out.requires_grad for i in flow]):
            return inputs[node.body]  # no gradient would reach the rule
    return clone(node, tuple(inputs))


def is_cut(node: Node) -> bool:
    """True for a node recorded under no_grad from operands that track: no derivative flows through it."""
    out = node.kind.out
    return (
        not out.requires_grad
        and out.flows
        and not node.kind.op.discrete
        and any([i.kind.out.requires_grad for i in node.inputs])
    )


def clone(node: Node, inputs: tuple[Node, ...]) -> RichNode:
    """A copy of a node on other inputs, with its kind, call, hooks and line."""
    new = rich_node(node.kind, inputs, call=node.call)
    new.body, new.flow, new.slot, new.line, new.hooks = node.body, node.flow, node.slot, node.line, node.hooks
    if state.now.lines is not None:
        state.now.lines.copy(new, node)
    return new


def hooked_like(node: Node, made: Node) -> Node:
    """The replacement `made` of a node, with the hooks of the node: they run for the gradients of each replay."""
    if not node.hooks or made.hooks is node.hooks or not made.kind.out.requires_grad:
        return made
    seen = identity_of(made)
    seen.hooks = node.hooks
    return seen
