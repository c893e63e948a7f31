"""Edges of a node: an index map into each input that it reads, with the price of an element.

A node's own index is one atom per axis (`Axes.of(shape)`).  For

    y: f64[3,4] = transpose(x)        x is read at (j, i), free
    y: f64[3,4] = add(x, b: f64[4])   x at (i, j), b at (j), one flop
    y: f64[12]  = reshape(x: f64[3,4])  x at (i // 4, i - 4·(i // 4)), whose flat position is i again

The map of a move is found by running its lowering once on a probe that records the indices read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..ir import Node, dtype_name
from ..ir.op import CONSTANT
from ..lowering import Map, Move
from ..records import record
from .index import Atom, Index, constant_index, flatten, unflatten
from .instructions import INSTRUCTIONS
from .logic import SCALAR_TYPES, Element
from .nest import INDEX, ScalarType, Status, Value
from .scalar import Scalar

#: The price of a loop inside the computation of one element, in additions.
_A_LOOP = 100

#: From this price on a value costs more to compute again than to store and load.
HEAVY = 12


@record(frozen=True, slots=True)
class Edge:
    """A read of input number `input` at `index`, in terms of the reader's axes; `flat` is the flat position of `index`.

    `is_same`: reader and input have the same shape, and the index is the reader's own
    """

    input: int
    index: tuple[Index, ...]
    flat: Index
    is_same: bool


@record(frozen=True, slots=True)
class Edges:
    """All reads of a node; indices that it uses as numbers (`pinned`); its price per element (`weight`); and
    positions (axis, place) of its own index at which the result of a comparison of indices changes (`turns`)."""

    reads: tuple[Edge, ...]
    pinned: tuple[Index, ...]
    weight: int
    turns: tuple[tuple[int, int], ...] = ()


class Axes:
    """One atom per (axis, extent): indices of all arrays of a graph, equal for equal shapes."""

    def __init__(self) -> None:
        self._atoms: dict[tuple[int, int], Atom] = {}
        self._indices: dict[tuple[int, ...], tuple[Index, ...]] = {}
        self._flat: dict[tuple[int, ...], Index] = {}

    def of(self, shape: tuple[int, ...]) -> tuple[Index, ...]:
        """The index of an array of this shape: one atom per axis, 0 for axes of one element."""
        found = self._indices.get(shape)
        if found is None:
            found = self._indices[shape] = tuple([self._axis(d, n) for d, n in enumerate(shape)])
        return found

    def flat(self, shape: tuple[int, ...]) -> Index:
        """The flat position of `of(shape)`."""
        found = self._flat.get(shape)
        if found is None:
            found = self._flat[shape] = flatten(self.of(shape), shape)
        return found

    def _axis(self, axis: int, extent: int) -> Index:
        if extent <= 1:
            return constant_index(0)
        atom = self._atoms.get((axis, extent))
        if atom is None:
            atom = self._atoms[axis, extent] = Atom(0, extent - 1)
        return Index.of(atom)


def broadcast_index(index: tuple[Index, ...], shape: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[Index, ...]:
    """The index into an array of shape `wanted` that broadcasting to `shape` reads at `index`."""
    if shape == wanted:
        return index
    skipped = len(shape) - len(wanted)
    zero = constant_index(0)
    return tuple([zero if n == 1 else i for i, n in zip(index[skipped:], wanted, strict=True)])


class Reader:
    """An input of a move: read(*index) gives an element; `shape` is its shape."""

    __slots__ = ("_element", "shape")

    def __init__(self, shape: tuple[int, ...], element: Callable[..., Value]) -> None:
        self.shape = shape
        self._element = element

    def __call__(self, *index: Index) -> Value:
        return self._element(*index)


class Probed:
    """The edges of nodes; equal applications of an operation are probed once."""

    def __init__(self, axes: Axes) -> None:
        self.axes = axes
        self._known: dict[tuple, Edges] = {}
        self._of: dict[Node, Edges] = {}

    def edges(self, node: Node) -> Edges:
        """The edges of a node lowered by Map or Move (none for a constant)."""
        found = self._of.get(node)
        if found is not None:
            return found
        if node.op is CONSTANT:
            return _NONE
        key: tuple = (node.op, node.params, node.aval, tuple([i.aval for i in node.inputs]))
        if type(node.op.lower) is Move:
            # A slice that starts at a constant reads at known indices, so the constant is part of the key.
            key += tuple([(j, repr(i.params)) for j, i in enumerate(node.inputs) if i.op is CONSTANT])
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._probe(node)
        self._of[node] = found
        return found

    def _probe(self, node: Node) -> Edges:
        lower, index = node.op.lower, self.axes.of(node.aval.shape)
        inputs = [i.aval for i in node.inputs]
        if isinstance(lower, Map):
            probe = _Probe()
            lower.scalar(probe, *[probe.unknown(a.dtype) for a in inputs], **node.keywords)
            shape = node.aval.shape
            reads = tuple([self._edge(node, j, broadcast_index(index, shape, a.shape)) for j, a in enumerate(inputs)])
            return Edges(reads, (), probe.weight)
        assert isinstance(lower, Move), f"{node.op.name} is neither a map nor a move"
        if lower.is_reshape:
            return Edges((self._edge(node, 0, unflatten(self.axes.flat(node.aval.shape), inputs[0].shape)),), (), 0)
        probe = _Probe()
        reads_made: list[Edge] = []

        def reader(number: int) -> Reader:
            def read(*at: Index) -> Value:
                edge = self._edge(node, number, at)
                if edge not in reads_made:
                    reads_made.append(edge)
                x = node.inputs[number]
                return probe.number(*x.params) if x.op is CONSTANT else probe.unknown(x.aval.dtype)

            return Reader(inputs[number].shape, read)

        lower.element(probe, index, *[reader(j) for j in range(len(inputs))], **node.keywords)
        atoms = {i.terms[0][0]: axis for axis, i in enumerate(index) if i.terms}
        turns = {(atoms[atom], place) for atom, place in probe.turns if atom in atoms}
        return Edges(tuple(reads_made), tuple(dict.fromkeys(probe.pinned)), probe.weight, tuple(sorted(turns)))

    def _edge(self, node: Node, number: int, index: tuple[Index, ...]) -> Edge:
        shape, own = node.inputs[number].aval.shape, node.aval.shape
        return Edge(number, index, flatten(index, shape), shape == own and index == self.axes.of(own))


_NONE = Edges((), (), 0)


def kept_last_axes(node: Node) -> int:
    """The number of last axes of its updates that a scatter keeps: whole rows are added at one place each.

    out[i[j], k] += updates[j, k]        1: the elements of a row of updates are contiguous in the output too
    """
    return _kept(node, range(-1, -1 - node.inputs[-1].aval.ndim, -1))


def kept_first_axes(node: Node) -> int:
    """The number of first axes of its updates that a scatter keeps: each row is scattered within one row of the output.

    out[k, i[j]] += updates[k, j]        1: updates of different rows do not collide
    """
    return _kept(node, range(node.inputs[-1].aval.ndim))


def _kept(node: Node, axes: Iterable[int]) -> int:
    """The number of these axes, in this order, that index the same axis of the output and affect no other index."""
    updates, out = node.inputs[-1].aval.shape, node.aval.shape
    index = Axes().of(updates)
    probe, read = _Probe(), set()

    def reader(number: int) -> Reader:
        x = node.inputs[number].aval

        def element(*at: Index) -> Value:
            read.update([atom for i in at for atom, _ in i.terms])
            return probe.unknown(x.dtype)

        return Reader(x.shape, element)

    target = list(node.op.lower.target(probe, index, *[reader(j) for j in range(len(node.inputs))], **node.keywords))
    kept = 0
    for axis in axes:
        if not -len(out) <= axis < len(out):
            break
        place = axis % len(target)
        others = [atom for j, i in enumerate(target) if j != place for atom, _ in i.terms]
        own = index[axis]
        if out[axis] != updates[axis] or target[place] != own or any(a in read or a in others for a, _ in own.terms):
            break
        kept += 1
    return kept


class _Probe(Scalar):
    """A scalar builder whose result is discarded: it adds up prices, and notes the indices that become numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.pinned: list[Index] = []
        self.turns: list[tuple[Atom, int]] = []
        self.weight = 0

    def unknown(self, dtype) -> Value:
        """An element with an unknown value."""
        value = Value(SCALAR_TYPES[dtype_name(dtype)])
        self._depth[value] = 0
        return value

    def number(self, value: Any, dtype: str) -> Value:
        """An element with a known value."""
        found = self.constant(value, dtype)
        assert isinstance(found, Value), "an element is no position"
        return found

    def emit(self, name: str, operands: tuple[Value, ...], type: ScalarType, attributes: dict | None = None) -> Value:
        self.weight += INSTRUCTIONS[name].price
        return super().emit(name, operands, type, attributes)

    def open_loop(self, *args, **keywords):
        self.weight += _A_LOOP
        return super().open_loop(*args, **keywords)

    def value_of(self, index: Index) -> Value:
        if index.is_constant:
            return self.literal(index.constant, INDEX)
        self.pinned.append(index)
        value = Value(INDEX)
        self._depth[value] = 0
        return value

    def _compare(self, relation: str, x: Element, y: Element) -> Value:
        """The comparison as any builder makes it; the position from which on x < y is false is noted."""
        if relation in ("lt", "ge") and isinstance(x, Index) and isinstance(y, Index):
            difference = x.plus(y.times(-1))
            if len(difference.terms) == 1 and difference.terms[0][1] == 1 and difference.low < 0 <= difference.high:
                self.turns.append((difference.terms[0][0], -difference.constant))
        return super()._compare(relation, x, y)

    def fail_unless(self, condition: Value, status: Status) -> None:
        self.weight += 2

    def load(self, memory: Value, at: Index, *, stable: bool = True) -> Value:
        raise AssertionError("a lowering reads through its readers")
