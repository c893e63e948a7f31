"""Build one element of a node at an index, on demand, from stored arrays.

A map reads its inputs at the same index, a move at other indices; a stored node is loaded.  Each
(node, index) is built once per loop body.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Set
from typing import Any

from ..ir import DTYPES, Aval, Node, dtype_name
from ..ir.op import CONSTANT
from ..lowering import Map, Move
from ..modes import modes
from ..program import Kernel
from ..records import record
from .edges import Reader, broadcast_index
from .index import Index, constant_index, flatten, unflatten
from .logic import SCALAR_TYPES, as_value
from .nest import I8, MemRef, NestFunction, ScalarType, Value
from .scalar import Scalar

#: Nodes stored in another node's memory: that node, the stride and place of the first element, and True if the node
#: takes over all of that memory, whose old value is read here for the last time.
Placed = Mapping[Node, tuple[Node, int, int, bool]]

#: The operations that `fast_math` affects: a program's own arithmetic; the steps of functions rely on rounding.
_PLAIN = frozenset({"add", "div", "mul", "neg", "sub"})


_TYPES = {DTYPES[name]: type for name, type in SCALAR_TYPES.items()}


def memory_type(node: Node | Temporary) -> MemRef:
    """The flat memory that holds a node's value."""
    return MemRef(node.aval.size, I8 if node.aval.dtype.kind == "b" else element_type(node))


def element_type(node: Node | Temporary) -> ScalarType:
    """The type of a node's elements in arithmetic."""
    return _TYPES[node.aval.dtype]


class Temporary:
    """Memory for a kernel's own use that is too large for the stack: one more buffer among its arguments."""

    __slots__ = ("aval",)

    def __init__(self, aval: Aval) -> None:
        self.aval = aval


class Elements:
    """Builds elements into `k`.

    is_stored   is_stored(node) is true if the node's value is read from memory
    computed_here   hook for values that this kernel itself has computed: computed_here(node, index) -> value or None
    on_computed     hook called with each computed element: on_computed(node, index, value)
    placed      nodes stored in another node's memory: parts of pairs and joins, and results computed in place
    taken       the nodes whose memory a result computed in place took over
    exact       nodes in which each operation rounds its own result (no contraction)
    """

    def __init__(
        self,
        k: Scalar,
        is_stored: Callable[[Node], bool],
        computed_here: Callable[[Node, tuple[Index, ...]], Value | None] | None = None,
        on_computed: Callable[[Node, tuple[Index, ...], Value], None] | None = None,
        placed: Placed | None = None,
        exact: Collection[Node] = (),
    ) -> None:
        self.k = k
        self.is_stored = is_stored
        self.computed_here = computed_here
        self.on_computed = on_computed
        self.placed = placed or {}
        self.exact = exact
        self.memory: dict[Node | Temporary, Value] = {}
        self.taken: set[Node] = set()

    def place(self, node: Node | Temporary) -> Value:
        """The function's argument that holds a node's value, added at its first use."""
        found = self.memory.get(node)
        if found is None:
            found = self.memory[node] = self.k.argument(memory_type(node))
        return found

    def owner(self, node: Node) -> Node:
        """The node in whose memory a value is stored: itself, its pair or join, or the node that it overwrites."""
        return self.placed[node][0] if node in self.placed else node

    def within(self, node: Node, flat: Index) -> Index:
        """The place of a value's element in the memory of its owner."""
        if node not in self.placed:
            return flat
        _, stride, first, _ = self.placed[node]
        return flat.times(stride).plus(constant_index(first))

    def target(self, node: Node) -> Value:
        """The memory that a node is written to."""
        owner = self.owner(node)
        if self.is_in_place(node):
            self.taken.add(owner)
        return self.place(owner)

    def is_in_place(self, node: Node) -> bool:
        """True if a node takes over the memory of another node."""
        return node in self.placed and self.placed[node][3]

    def store(self, value: Value, node: Node, flat: Index) -> None:
        """Write an element of a node."""
        self.k.node = node
        self.k.store(value, self.target(node), self.within(node, flat))

    def at(self, node: Node, index: tuple[Index, ...]) -> Value:
        """The element of `node` at `index`.  Chains of maps are walked without recursion, moves recurse."""
        k = self.k
        outer, wanted = k.node, [(node, index)]
        while True:
            node, index = wanted[-1]
            k.node = node
            value = k.recall((node, index)) or self._leaf(node, index)
            if value is None:
                lower = node.op.lower
                if isinstance(lower, Map):
                    shape = node.aval.shape
                    reads = [(i, broadcast_index(index, shape, i.aval.shape)) for i in node.inputs]
                    operands = [k.recall(read) for read in reads]
                    if None in operands:
                        wanted.extend([r for r, o in zip(reads, operands, strict=True) if o is None])
                        continue
                    if node in self.exact:
                        k.rounded_by_itself(True)
                    elif modes.fast_math and node.op.name in _PLAIN:
                        k.loosened(True)
                    value = lower.scalar(k, *operands, **node.keywords)
                    k.rounded_by_itself(False)
                else:
                    value = self._moved(node, index)
                k.remember((node, index), value)
                if self.on_computed is not None:
                    self.on_computed(node, index, value)
            wanted.pop()
            if not wanted:
                k.node = outer
                return value

    def _leaf(self, node: Node, index: tuple[Index, ...]) -> Value | None:
        """An element that needs no computation (computed here, constant or stored), remembered; None for any other."""
        k = self.k
        value = self.computed_here(node, index) if self.computed_here is not None else None
        if value is None:
            if node.op is CONSTANT:
                known, dtype = node.params
                value = as_value(k.constant(known, dtype))
            elif self.is_stored(node):
                value = self.load(node, index)
            else:
                return None
        assert value is not None
        k.remember((node, index), value)
        return value

    def load(self, node: Node, index: tuple[Index, ...]) -> Value:
        """Load an element that another kernel has stored."""
        if node.aval.size == 0:
            # An empty array is read only where the result is not used, so any number will do.
            return as_value(self.k.constant(0, dtype_name(node.aval.dtype)))
        return self.k.load(self.place(self.owner(node)), self.within(node, flatten(index, node.aval.shape)))

    def _moved(self, node: Node, index: tuple[Index, ...]) -> Value:
        lower = node.op.lower
        assert isinstance(lower, Move), f"{node.op.name} cannot be computed element by element"
        if lower.is_reshape:
            return self.reader(node.inputs[0])(*unflatten(flatten(index, node.aval.shape), node.inputs[0].aval.shape))
        return lower.element(self.k, index, *[self.reader(i) for i in node.inputs], **node.keywords)

    def reader(self, node: Node) -> Reader:
        """A function by which a move's lowering reads an input."""
        return Reader(node.aval.shape, lambda *index: self.at(node, index))


# ---------------------------------------------------------------- kernels that are built


@record(frozen=True)
class Built:
    """A kernel, and for each of its memory arguments the node or the kernel's `Temporary` that it holds."""

    kernel: Kernel
    memory: tuple[Hashable, ...]


def argument_names(count: int, writes: Set[int]) -> list[str]:
    """The names of a kernel's memory arguments: x0, x1, ... for those read, y0, y1, ... for those written."""
    names, reads = [], 0
    for j in range(count):
        names.append(f"y{j - reads}" if j in writes else f"x{reads}")
        reads += j not in writes
    return names


def finish(name: str, k: Scalar, elements: Elements, written: Iterable[Any]) -> Built:
    """Make a kernel of a built body; its arguments are in the order of their first use."""
    nodes, written = tuple(elements.memory), {elements.owner(node) for node in written}
    writes, updates = [frozenset(j for j, n in enumerate(nodes) if n in found) for found in (written, elements.taken)]
    function = NestFunction(name, k.finish(), tuple(argument_names(len(nodes), writes)), writes)
    return Built(Kernel(function, updates=updates), nodes)
