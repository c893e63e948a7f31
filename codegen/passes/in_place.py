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
from ..kernel.elements import argument_names
from ..kernel.nest import Block, NestFunction, Operation, Value, is_parallel
from ..lowering import Call, Move, Scatter
from ..program import Gemm, Kernel
from ..records import record
from .fuse import Fused
from .recur import RESULT

#: A step before buffers have numbers: its work, and what it works on, nodes and temporaries.
Draft = tuple[Any, tuple[Any, ...]]


def share_memory(graph: Graph, drafts: Sequence[Draft]) -> tuple[list[Draft], dict[Hashable, Hashable]]:
    """The steps with values that share memory given one name, the last one's; and which took the memory of which."""
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
            pairs = _pairs(work.function, values, ending, several) if ending else {}
            if pairs:
                taken_by.update({values[source]: values[target] for target, source in pairs.items()})
                work, values = _merged(work, values, pairs)
        found.append((work, values))
    return renamed(found, taken_by), taken_by


def _written_by_several(drafts: Sequence[Draft]) -> set[Hashable]:
    """Values that more than one kernel writes: pairs, by parts."""
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
        both = fused.reaches.leaf(node) | fused.reaches.leaf(x)
        if not any([unit.leaves & both == both for unit in fused.units]):
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


def _pairs(
    function: NestFunction, values: tuple[Hashable, ...], ending: Sequence[Node], several: set[Hashable]
) -> dict[int, int]:
    """Values that a kernel writes, and for each the ending one whose memory it takes: places among its arguments.

    A value that `several` steps write has memory of its own from the first of them.
    """
    accesses = _accesses(function, len(values))
    place: dict[Hashable, int] = {}
    for j, value in enumerate(values):
        place.setdefault(value, j)
    # By size, in the order of the arguments: a dict, from which what is taken goes.
    open_targets: dict[Any, dict[int, tuple[_Places, _Places]]] = {_size(old): {} for old in ending}
    for j in sorted(function.writes):
        new = values[j]
        if not isinstance(new, Node) or new in several or _size(new) not in open_targets:
            continue
        if accesses[j] and all([a.is_store for a in accesses[j]]):
            stores = _stores(accesses[j], is_scattered=isinstance(new.op.lower, Scatter))
            open_targets[_size(new)][j] = stores
    pairs: dict[int, int] = {}
    for old in ending:
        source, targets = place[old], open_targets[_size(old)]
        if not targets or source in function.writes or any([a.is_store for a in accesses[source]]):
            continue
        target = next((j for j, stores in targets.items() if _may_share(accesses[source], stores)), None)
        if target is not None:
            del targets[target]
            pairs[target] = source
            for access in accesses[target]:
                access.operation.operands[1] = function.arguments[source]
    return pairs


def _merged(kernel: Kernel, values: tuple[Hashable, ...], pairs: dict[int, int]) -> tuple[Kernel, tuple[Hashable, ...]]:
    """The kernel with each pair as one argument, and its values."""
    function = kernel.function
    new = {source: values[target] for target, source in pairs.items()}
    keeps = [j for j in range(len(values)) if j not in pairs]
    now = {j: k for k, j in enumerate(keeps)}
    writes = frozenset([now[pairs.get(j, j)] for j in function.writes])
    function.body.arguments[: len(values)] = [function.body.arguments[j] for j in keeps]
    merged = NestFunction(
        function.name, function.body, (*argument_names(len(keeps), writes), *function.names[len(values) :]),
        writes, refuses=function.refuses, is_fixed=function.is_fixed,
    )
    updates = frozenset([now[j] for j in {*kernel.updates, *new}])
    return Kernel(merged, kernel.extents, updates, kernel.members), tuple([new.get(j, values[j]) for j in keeps])


def _size(value: Any) -> tuple[int, Any]:
    """The number and dtype of a value's elements, equal for two that may share memory."""
    return value.aval.size, value.aval.dtype


@record(frozen=True, slots=True)
class _Access:
    """A load or store, its index, and where it stands: (operation, its place in its block) from outside in."""

    operation: Operation
    index: Value
    path: tuple[tuple[Operation, int], ...]
    is_store: bool


def _accesses(function: NestFunction, count: int) -> list[list[_Access]]:
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
                    found[j].append(_Access(operation, operation.operands[at + 1], here, at))
    return found


#: The place of the last load or store of an element, by (the loops around it, its index); or of the last loop over a
#: row, by (the loops around that loop, what it runs over, where the row starts).
_Places = dict[tuple, int]


def _stores(accesses: list[_Access], *, is_scattered: bool) -> tuple[_Places, _Places]:
    """The last store of each element, and the last loop that stores the elements of a row.

    Several rows at a time are several stores: of them, one is of the element that was loaded.
    """
    elements: _Places = {}
    rows: _Places = {}
    if is_scattered:
        accesses = [min(accesses, key=lambda store: [place for _, place in store.path])]
    for store in accesses:
        *around, (_, place) = store.path
        element = (*around, store.index)
        elements[element] = max(place, elements.get(element, -1))
        row = _row_of(store)
        if row is not None:
            rows[row] = max(around[-1][1], rows.get(row, -1))
    return elements, rows


def _may_share(loads: list[_Access], stores: tuple[_Places, _Places]) -> bool:
    """True if every load of the old value comes before the store of the same element of the new one."""
    elements, rows = stores
    for load in loads:
        *around, (_, place) = load.path
        if elements.get((*around, load.index), -1) > place:
            continue
        row = _row_of(load)
        if row is None or rows.get(row, -1) <= around[-1][1]:
            return False
    return bool(loads)


def _row_of(access: _Access) -> tuple | None:
    """The loops around an access's own, what that one runs over, and where the row starts; None outside of rows."""
    around = access.path[:-1]
    start = _row_start(access.index, around[-1][0]) if around else None
    return None if start is None else (*around[:-1], *around[-1][0].operands[:3], start)


def _row_start(index: Value, loop: Operation) -> Value | None:
    """The start of a row whose elements a loop walks through: base of base + counter."""
    owner = index.owner
    if not isinstance(owner, Operation) or owner.name != "arith.addi":
        return None
    base, counter = owner.operands
    return base if counter is loop.regions[0].arguments[0] else None
