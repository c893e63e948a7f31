"""Drafts of steps: the half of planning that builds loops, from a prepared graph to the steps of its program.

    fuse      chooses the values that are computed together, and those that are stored
    in_place  chooses the values that share memory
    build     makes a function for each group

`plan` imports this module, and with it the builders of kernels, at its first use.

All kernels must compute some values with equal bits: those among which a maximum or minimum is found.

    y = max(d)          The gradient compares d == y, perhaps in another kernel, or in a later graph if y was evaluated
                        first.  If one kernel computes a product and a sum by one instruction (fma) and the other by
                        two, d differs in the last bit, and no element equals the maximum.

So each operation before an extreme is rounded separately (`exact_nodes`).  The search passes through reductions, which
a kernel may compute again, and ends at products of matrices, which are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import Any

from ..ir import Graph, Node
from ..ir.op import INPUT
from ..kernel.arguments import with_arguments
from ..kernel.build import build
from ..kernel.edges import Probed
from ..kernel.elements import Built, Placed, Temporary
from ..kernel.solo import build_product, build_scan, build_scatter
from ..lowering import Contract, Dense, Map, Move, Reduce, Scan, Scatter
from ..program import BufferProgram, HostCall, Kernel
from ..records import replace
from .fuse import Fused, fuse
from .in_place import Draft, renamed, same_memory, share_memory
from .prepare import Prepared, computed_by, gemm_of
from .reach import set_bits
from .recur import results_together
from .storage import mark_nontemporal
from .stored_parts import JOIN, PAIR, placed_parts
from .unit import Unit

#: The most operations named in a kernel's name.
_MOST_NAMED = 4

#: The most computed nodes from which a kernel's name is chosen.
_MOST_NAME_NODES = 64

#: A function that makes the program of a body of a loop or branch; the string is added to the names of its kernels.
BodyPlanner = Callable[[Graph, str], BufferProgram]


def drafted(
    prepared: Prepared, probed: Probed, prefix: str, body_planner: Callable[[str], BodyPlanner]
) -> tuple[list[Draft], dict[Any, Any]]:
    """The steps of a graph, in order, as pairs (work, values); and a dict from a value to the one that has its memory.

    prefix         the beginning of each kernel's name
    body_planner   a function from a prefix to a planner for the bodies of loops and branches
    """
    fused = fuse(prepared, probed)
    made_by = {node: unit for unit in fused.units for node in (*unit.roots, *([unit.node] if unit.node else []))}

    reshaped = same_memory(prepared.graph, fused)
    loops = results_together([unit.node for unit in fused.units if unit.node])
    shares: dict[Any, Any] = {x: node for node, x in reshaped.items()}
    placed = placed_parts(prepared.graph)
    shares |= share_memory(prepared.graph, fused, placed, shares)
    exact = exact_nodes(prepared.graph)
    drafts: list[Draft] = []
    for unit in fused.units:
        if unit.node in loops:
            if results := loops[unit.node]:
                from .nests import draft_nest  # imported only for loops and branches

                drafts.append(draft_nest(results, body_planner(f"{prefix}{len(drafts)}_")))
            continue
        if not reshaped.keys().isdisjoint(unit.roots):
            continue

        def is_stored(node: Node, unit: Unit = unit) -> bool:
            return node.op is INPUT or (node in fused.stored and made_by.get(node) is not unit)

        draft = _draft(unit, prepared, is_stored, placed, exact, f"{prefix}{len(drafts)}_{_name_words(unit, fused)}")
        if draft is not None:
            work, values = draft
            if isinstance(work, Kernel) and prepared.graph.nodes[-1].origins:  # known for `stages` or a profile
                draft = replace(work, members=_members(unit, fused)), values
            drafts.append(draft)

    return renamed(drafts, shares), shares


def _members(unit: Unit, fused: Fused) -> tuple[Node, ...]:
    """The nodes that a unit computes, in the order of the graph, followed by its roots."""
    found = dict.fromkeys([fused.reaches.nodes[j] for j in set_bits(unit.tree)])
    return tuple(found | dict.fromkeys([*unit.roots, *([unit.node] if unit.node else [])]))


def for_any_extent(drafts: Iterable[Draft]) -> Iterator[Draft]:
    """The drafts, with large extents as arguments of kernels (`kernel.arguments`), and nontemporal stores marked."""
    for work, values in drafts:
        if isinstance(work, Kernel):
            mark_nontemporal(work.function, [v.aval.nbytes for v in values])
            work = with_arguments(work, [j for j, value in enumerate(values) if isinstance(value, Temporary)])
        yield work, values


def _draft(
    unit: Unit,
    prepared: Prepared,
    is_stored: Callable[[Node], bool],
    placed: Placed,
    exact: Collection[Node],
    name: str,
) -> Draft | None:
    """The step of a unit, with the nodes and temporaries it works on; None if the unit needs no step."""
    node = unit.node
    if node is None:
        group = unit.group
        assert group is not None
        return _kernel(build(group, is_stored, name, placed, exact)) if group.roots else None
    lower = node.op.lower
    if isinstance(lower, Scatter):
        return _kernel(build_scatter(node, is_stored, name, placed, exact))
    if isinstance(lower, Scan):
        return _kernel(build_scan(node, is_stored, name, placed, exact))
    if isinstance(lower, Contract):
        product = prepared.products[node]
        if not product.is_step(node):
            return _kernel(build_product(node, product, name))
        return gemm_of(node, product), (product.a.base, product.b.base, node)
    if node.op in (PAIR, JOIN):
        return None
    computed = computed_by(node)
    if isinstance(lower, Dense):
        from ..kernel.dense import build_dense, is_native  # imported only for linear algebra

        if is_native(computed):
            return _kernel(build_dense(node, computed, lower.program, name))
    return HostCall(computed), (*node.inputs, node)


def _kernel(built: Built) -> Draft:
    return built.kernel, built.memory


def _name_words(unit: Unit, fused: Fused) -> str:
    """Operation names for a kernel's name: those of its roots, then those of the most expensive nodes it computes."""
    if unit.node is not None:
        return unit.node.op.name
    assert unit.group is not None
    words = [r.node.op.name for r in unit.group.roots]
    on_the_way = [fused.reaches.nodes[j] for j in islice(set_bits(unit.tree), _MOST_NAME_NODES)]
    words += [n.op.name for n in sorted(on_the_way, key=lambda n: -fused.reaches.weight(n))]
    return "_".join(list(dict.fromkeys(words))[:_MOST_NAMED])


# ---------------------------------------------------------------- values that every kernel must compute with equal bits


def exact_nodes(graph: Graph) -> frozenset[Node]:
    """The nodes from which a maximum or minimum of floats is computed, through elements, moves and reductions."""
    waiting = [n.inputs[0] for n in graph.nodes if _is_extreme(n)]
    found: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node not in found and isinstance(node.op.lower, (Map, Move, Reduce)):
            found.add(node)
            waiting.extend(node.inputs)
    return frozenset(found)


def _is_extreme(node: Node) -> bool:
    lower = node.op.lower
    return isinstance(lower, Reduce | Scan) and lower.monoid in ("max", "min") and node.aval.dtype.kind == "f"
