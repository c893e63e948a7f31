"""Programs: recordings without their nodes, from some values to others.

    equations    a kind, and where its inputs stand: an earlier equation, or an input of the program
    outputs      where they stand

A recording is put down as a program when it is new (`program_of`), and the nodes can go.  It is evaluated as it is, by
the NumPy reference of each operation; what comes again is lowered to the compiler's graph.  Both are the same
computation, to the bits that evaluating the graph gives.

Where derivatives are wanted the nodes of a trace, or of the body of a loop, are put down again: `replay`.
"""

from __future__ import annotations

from array import array
from collections.abc import Container, Iterable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from codegen import ir
from codegen.blas import one_thread
from codegen.garbage import ignoring, set_in_context
from codegen.ir import Aval

from ..errors import ConcretizationError, caller
from ..mode import MODE
from ..tensor import handle
from . import machine
from .lines import Lines, belonging
from .node import CONSTANT, Kind, Node, RichNode, rich_node
from .record import ALIASES, ARGUMENT, identity_of, record, state
from .walk import needed, value_inputs

#: Elements of all values together from which on the graph is evaluated, which drops a value after its last reader.
_MANY = 1 << 20

_work = attrgetter("work")


class Program:
    """Equations, in an order in which each follows what it reads.

    inputs      avals
    kinds       of each equation
    wires       words: for each equation, and for the outputs, how many places it reads, and these.  An earlier equation
                stands at its number, the inputs behind the last one
    lowered     the nodes of its graph, once there is one, by equation
    size        the number of elements of all that is computed; infinite with loops or branches among the operations
    """

    __slots__ = ("_graph", "_key", "_needs_python", "inputs", "kinds", "lowered", "size", "wires")

    def __init__(self, inputs: Sequence[Aval], kinds: Sequence[Kind], wires: bytes) -> None:
        self.inputs, self.kinds, self.wires = inputs, kinds, wires
        self._key: tuple | None = None
        self._graph: ir.Graph | None = None
        self._needs_python = False  # not known to
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
        """Equal for programs that compute the same in the same order."""
        if self._key is None:
            avals = tuple([(aval.shape, aval.dtype) for aval in self.inputs])
            self._key = (avals, tuple([kind.told for kind in self.kinds]), self.wires)
        return self._key

    @property
    def graph(self) -> ir.Graph:
        """The compiler's graph of it."""
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
        """The outputs for these inputs, by the reference of each operation, in memory of their own.

        Raises what evaluating the graph raises.
        """
        arrays = [_packed(v, aval.dtype) for v, aval in zip(values, self.inputs, strict=True)]
        native = machine.asks
        try:
            found = self._by_references(arrays) if native is None else self._by_loops(native, arrays)
        except Exception:
            found = None  # all over again: the graph says where
        if found is None:
            return ir.evaluate(self.graph, *arrays)
        taken = set(map(id, arrays))
        return tuple([ir.copy_if_shared(value, taken) for value in found])

    #: As an executable is run.
    call = evaluate

    def _by_references(self, arrays: Sequence[np.ndarray]) -> list[Any] | None:
        """The outputs; None where all values want much memory."""
        if self.size > _MANY:
            return None
        *reads, outputs = self.places
        values: list[Any] = [*[None] * len(reads), *arrays]
        with ignoring(all="ignore"), one_thread():
            for place, (kind, places) in enumerate(zip(self.kinds, reads, strict=True)):
                values[place] = _value(kind, [values[p] for p in places])
        return [values[p] for p in outputs]

    def _by_loops(self, native: Any, arrays: list[np.ndarray]) -> Sequence[Any]:
        """The outputs: machine code calls NumPy's loops, and the rest is done here."""
        found: Sequence[Any] | None = None
        if not self._needs_python:  # loops of plain numbers raise nothing
            found = native.interpreted(self.kinds, self.wires, arrays, None)
        if found is None:
            self._needs_python = True
            with ignoring(all="ignore"), one_thread():
                found = native.interpreted(self.kinds, self.wires, arrays, self._value_at)
        return found

    def _value_at(self, place: int, *given: np.ndarray) -> np.ndarray:
        """The value of an equation that NumPy has no loop for, its elements one after the other."""
        kind = self.kinds[place]
        return _packed(_value(kind, given), kind.out.aval.dtype)


def _value(kind: Kind, given: Sequence[np.ndarray]) -> np.ndarray:
    """The value of an operation on these."""
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


def _packed(given: Any, dtype: np.dtype) -> np.ndarray:
    """The array with its elements one after the other, at addresses that loops take, and of this very dtype."""
    found = np.asarray(given, dtype, order="C")
    if not found.flags.aligned:
        found = found.copy()
    return found if found.dtype is dtype else found.view(dtype)


def program_of(
    outputs: Sequence[Node], arguments: Sequence[Node] = (), fixed: Container[Node] = ()
) -> tuple[Program, list[Node]]:
    """The program of pending nodes, and the computed nodes that are its inputs.

    With `arguments` (of a trace) these come first among the inputs, in order, used or not.  Numbers in `fixed` are the
    same whenever the program runs: equal ones are one input.

    Raises ConcretizationError when an output depends on another argument of a trace.
    """
    native = machine.asks
    if native is not None and not fixed:
        found = native.placed(tuple(outputs), tuple(arguments))
        if found is not None:
            kinds, inputs, wires = found
            return Program([n.kind.out.aval for n in inputs], kinds, wires), inputs
    return placed(outputs, arguments, fixed)[:2]


def placed(
    outputs: Sequence[Node], arguments: Sequence[Node], fixed: Container[Node]
) -> tuple[Program, list[Node], dict[Node, int]]:
    """`program_of`, and where in the program each node stands: input k at -1 - k."""
    order = needed(outputs)
    first = _first_of_equals([n for n in order if n in fixed]) if fixed else {}
    inputs: list[Node] = []
    place: dict[Node, int] = {}
    kinds: list[Kind] = []
    reads: list[list[int]] = []

    def stands(node: Node) -> int:
        """The place of a node: one that is met first here is an input."""
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
            continue  # an input, from its first reader on
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
    """An error for whoever asks for the value of an argument of a trace, in it or after it.   what: was asked for"""
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
    """For each number the first that equals it."""
    seen: dict[tuple[Aval, bytes], Node] = {}
    # By its bytes: -0.0 is not 0.0, and a nan is itself.
    return {n: seen.setdefault((n.kind.out.aval, data(n).tobytes()), n) for n in numbers}


# ---------------------------------------------------------------- nodes put down again


def replay(order: Iterable[Node], stands: dict[Node, Node], of: Lines | None) -> None:
    """Put nodes down again.

    stands    the other node for each of some nodes, those that are read first; gets that of all
    of        the lines of the trace in which they were recorded
    """
    lines = state.now.lines
    for node in order:
        with belonging(lines, node, of):
            stands[node] = again(node, [stands[i] for i in node.inputs])


def again(node: Node, inputs: Sequence[Node]) -> Node:
    """A node on other inputs: recorded anew, so that it tracks exactly if they do and it is not cut."""
    if node.call is None and node.body is None and node.inputs:
        mode, op, params = MODE.get(), node.kind.op, node.kind.params
        tensors = tuple([handle(i) for i in inputs])
        if not (mode.tracks and is_cut(node)):
            return hooked_like(node, record(op, tensors, params).node)
        try:  # an interrupt may come at any call from here on
            set_in_context(MODE, mode.off)
            return record(op, tensors, params).node
        finally:
            try:
                set_in_context(MODE, mode)
            finally:  # an interrupt may come before that
                MODE.set(mode)
    if node.body is not None and node.kind.out.requires_grad:
        flow = inputs if node.flow is None else inputs[node.flow]
        if not MODE.get().tracks or not any([i.kind.out.requires_grad for i in flow]):
            return inputs[node.body]  # no gradient comes to the rule
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
    """A node of the same kind on other inputs, as it stands."""
    new = rich_node(node.kind, inputs, call=node.call)
    new.body, new.flow, new.slot, new.line, new.hooks = node.body, node.flow, node.slot, node.line, node.hooks
    if state.now.lines is not None:
        state.now.lines.copy(new, node)
    return new


def hooked_like(node: Node, made: Node) -> Node:
    """The replacement of a node, with the hooks of that node: they see the gradients of each use."""
    if not node.hooks or made.hooks is node.hooks or not made.kind.out.requires_grad:
        return made
    seen = identity_of(made)
    seen.hooks = node.hooks
    return seen
