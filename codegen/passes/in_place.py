"""In place: a value takes the memory of one that is read for the last time in the step that makes it.

    t1 = relu(t0 + b)        nobody reads t0 later: each element is loaded, then stored where it was

A step's arguments are never the same memory, so the two become one argument of the kernel.  That is
right where every load comes before the store of the same element, which is read off the loops:

    in one loop       the load stands before the store, at the same index
    in a row          the load's loop runs before the store's, over the same elements of the row

Each element of a value is stored once, so no iteration loads what another one has stored.  Only what is scattered is
stored again, where several iterations may meet: there what is read has to be read by the copy before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

from ..ir import Graph, Node
from ..kernel.nest import Block, Function, Operation, Value, is_parallel
from ..lowering import Call, Move, Scatter
from ..program import Gemm, Kernel
from ..records import record
from .fuse import Fused
from .recur import RESULT

__all__ = ["Draft", "argument_names", "renamed", "same_memory", "share_memory"]

#: A step before buffers have numbers: its work, and what it works on, nodes and temporaries.
Draft = tuple[Any, tuple[Any, ...]]


def share_memory(graph: Graph, drafts: Sequence[Draft]) -> list[Draft]:
    """The steps with values that share memory given one name: the last one's."""
    last: dict[Hashable, int] = {}
    for step, (_, values) in enumerate(drafts):
        last.update(dict.fromkeys(values, step))
    # The host's arrays have shapes, and so have those of loops and branches; for all others memory is flat.
    lasting: set[Hashable] = {*graph.inputs, *graph.outputs}
    several = _written_by_several(drafts)
    lasting.update([v for work, values in drafts if not isinstance(work, Kernel | Gemm) for v in values])
    taken_by: dict[Hashable, Hashable] = {}
    found: list[Draft] = []
    for step, (work, values) in enumerate(drafts):
        if isinstance(work, Kernel):
            made = {_size(values[j]) for j in work.function.writes if values[j] not in several}
            # A single number is read before a loop and written after it: then threads could not share the loop.
            least = 2 if any(map(is_parallel, work.function.body.operations)) else 1
            ending = [
                v for v in values
                if isinstance(v, Node) and last[v] == step and _size(v) in made and v not in lasting
                and v.aval.size >= least
            ]
            accesses = _accesses(work.function, len(values)) if ending else []
            for old in ending:
                merged = _merged(work, values, old, accesses, several)
                if merged is not None:
                    work, values, taken_by[old] = merged
        found.append((work, values))
    return renamed(found, taken_by)


def _written_by_several(drafts: Sequence[Draft]) -> set[Hashable]:
    """What more than one kernel writes: pairs, by parts."""
    times = Counter(values[j] for work, values in drafts if isinstance(work, Kernel) for j in work.function.writes)
    return {value for value, count in times.items() if count > 1}


def same_memory(graph: Graph, fused: Fused) -> dict[Node, Node]:
    """For each value that is only another stored one in another shape, that one: they can be one buffer.

    Not for what a user gives or is given, for what the host sees (its arrays have shapes; loops and branches have
    places in memory), or where one kernel reads both.
    """
    fixed = {*graph.inputs, *graph.outputs}
    for unit in fused.units:
        if unit.node is not None and isinstance(unit.node.op.lower, Call) and unit.node.op is not RESULT:
            fixed.update(unit.node.inputs, [unit.node])
    found: dict[Node, Node] = {}
    taken: set[Node] = set()
    for unit in fused.units:
        if unit.group is None or len(unit.roots) != 1:
            continue
        (node,) = unit.roots
        x = node
        while isinstance(x.op.lower, Move) and x.op.lower.is_reshape and (x is node or x not in fused.stored):
            x = x.inputs[0]
        if x is node or x not in fused.stored or x in fixed or x in taken or x in found:
            continue
        if node in fixed and node not in graph.outputs:
            continue
        both = fused.reaches.leaf_bit(node) | fused.reaches.leaf_bit(x)
        if not any(u.leaves & both == both for u in fused.units):
            found[node] = x
            taken.add(x)
    return found


def renamed(drafts: Sequence[Draft], names: dict[Hashable, Hashable]) -> list[Draft]:
    """The steps with other names for values."""
    if not names:
        return list(drafts)
    return [(work, tuple([_name(v, names) for v in values])) for work, values in drafts]


def _name(value: Hashable, taken_by: dict[Hashable, Hashable]) -> Hashable:
    while value in taken_by:
        value = taken_by[value]
    return value


def _merged(
    kernel: Kernel, values: tuple[Hashable, ...], old: Node, accesses: list[list[_Access]], several: set[Hashable]
) -> tuple[Kernel, tuple[Hashable, ...], Hashable] | None:
    """The kernel with `old` and a value that it writes as one argument: kernel, its values, that value.

    `accesses` of its arguments are kept up.  What `several` steps write has memory of its own from the first of them.
    """
    function = kernel.function
    source = values.index(old)
    if source in function.writes:
        return None
    for target in sorted(function.writes):
        new = values[target]
        if not isinstance(new, Node) or _size(new) != _size(old) or new in several:
            continue
        if not _may_share(accesses[source], accesses[target], is_scattered=isinstance(new.op.lower, Scatter)):
            continue
        for access in accesses[target]:
            access.operation.operands[1] = function.arguments[source]
        keeps = [j for j in range(len(values)) if j != target]
        writes = {*function.writes, source} - {target}
        names = argument_names(len(keeps), {keeps.index(j) for j in writes})
        accesses[source] = accesses[source] + accesses[target]
        del accesses[target], function.body.arguments[target]
        merged = Function(
            function.name, function.body, (*names, *function.names[len(values) :]),
            frozenset([keeps.index(j) for j in writes]), function.calls,
            refuses=function.refuses, is_fixed=function.is_fixed,
        )
        updates = frozenset([keeps.index(j) for j in {*kernel.updates, source}])
        placed = tuple([new if j == source else values[j] for j in keeps])
        return Kernel(merged, kernel.extents, updates), placed, new
    return None


def _size(value: Any) -> tuple[int, Any]:
    """What two values have in common that may share memory."""
    return value.aval.size, value.aval.dtype


def argument_names(count: int, writes: set[int]) -> list[str]:
    """x0, y0, ... as kernels name their arguments."""
    names, reads = [], 0
    for j in range(count):
        names.append(f"y{j - reads}" if j in writes else f"x{reads}")
        reads += j not in writes
    return names


@record(frozen=True, slots=True)
class _Access:
    """A load or store, its index, and where it stands: (operation, its place in its block) from outside in."""

    operation: Operation
    index: Value
    path: tuple[tuple[Operation, int], ...]

    @property
    def is_store(self) -> bool:
        return self.operation.name == "memref.store"


def _accesses(function: Function, count: int) -> list[list[_Access]]:
    """All loads and stores of each memory argument."""
    number = {argument: j for j, argument in enumerate(function.arguments[:count])}
    found: list[list[_Access]] = [[] for _ in range(count)]
    open_blocks: list[tuple[Block, tuple[tuple[Operation, int], ...]]] = [(function.body, ())]
    while open_blocks:
        block, path = open_blocks.pop()
        for place, operation in enumerate(block.operations):
            here = (*path, (operation, place))
            open_blocks.extend([(region, here) for region in operation.regions])
            if operation.name in ("memref.load", "memref.store"):
                at = operation.name == "memref.store"
                j = number.get(operation.operands[at])
                if j is not None:
                    found[j].append(_Access(operation, operation.operands[at + 1], here))
    return found


def _may_share(old: list[_Access], new: list[_Access], *, is_scattered: bool) -> bool:
    """Whether every load of the old value comes before the store of the same element of the new one."""
    if not new or not all(a.is_store for a in new) or not old or any(a.is_store for a in old):
        return False
    if is_scattered:
        new = [min(new, key=lambda store: [place for _, place in store.path])]
    # Several rows at a time are several stores: of them, one is of the element that was loaded.
    return all(any(_comes_before(load, store) for store in new) for load in old)


def _comes_before(load: _Access, store: _Access) -> bool:
    *around_load, (_, place_of_load) = load.path
    *around_store, (_, place_of_store) = store.path
    if around_load == around_store:
        return load.index is store.index and place_of_load < place_of_store
    if len(around_load) != len(around_store) or not around_load or around_load[:-1] != around_store[:-1]:
        return False
    (loop_of_load, first), (loop_of_store, then) = around_load[-1], around_store[-1]
    if not first < then or loop_of_load.operands[:3] != loop_of_store.operands[:3]:
        return False
    return _row_start(load.index, loop_of_load) is _row_start(store.index, loop_of_store) is not None


def _row_start(index: Value, loop: Operation) -> Value | None:
    """Where a row starts whose elements a loop walks through: base of base + counter."""
    owner = index.owner
    if not isinstance(owner, Operation) or owner.name != "arith.addi":
        return None
    base, counter = owner.operands
    return base if counter is loop.regions[0].arguments[0] else None
