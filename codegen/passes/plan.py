"""From an optimised graph to a program, on one page.

    separate  results of loops and branches stand alone
    prepare   special cases become ordinary       fuse      what is computed together, what is stored
    build     a function per group                in_place, storage   where everything lies
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from ..ir import Aval, Graph, Node
from ..ir.op import INPUT
from ..kernel.arguments import with_arguments
from ..kernel.build import build
from ..kernel.built import Built
from ..kernel.edges import Axes, Probed
from ..kernel.elements import Placed, Temporary
from ..kernel.operands import Product
from ..kernel.solo import build_product, build_scan, build_scatter
from ..lowering import Contract, Dense, Fourier, Order, Scan, Scatter
from ..program import Gemm, HostCall, Kernel, Program, Step, bodies
from ..records import record
from .both import both_sides
from .caches import let_past_caches
from .choose import choose
from .complex import by_parts, seen
from .exact import exact_nodes
from .fuse import Fused, fuse
from .in_place import Draft, renamed, same_memory, share_memory
from .inner import inner
from .joins import JOIN, placed_parts
from .pairs import PAIR
from .pipeline import optimize
from .prepare import Prepared, prepare
from .reach import bits
from .recur import results_together, separate
from .storage import place_buffers
from .turn import turn
from .unit import Unit

__all__ = ["Planned", "ends_of", "place", "plan", "planned"]

#: Operations named in a kernel's name.
_NAMED = 4

#: Computed nodes that are looked at for a name.
_LOOKED_AT = 64


@record(frozen=True)
class Planned:
    """What will run, before everything has its place in memory.

    graph      optimised, to be looked at              ends     as the steps name inputs and outputs
    drafts     steps on values, in order               avals    of all values, in a fixed order
    """

    graph: Graph
    ends: Graph
    drafts: list[Draft]
    avals: dict[Hashable, Aval]


#: Called with the products, orders and transforms that will be steps as soon as they are known.
Begin = Callable[[list[Gemm | HostCall]], None]


def plan(graph: Graph, prefix: str = "k", *, is_body: bool = False, begin: Begin | None = None) -> Program:
    """The program that computes a graph.  Nodes that no output needs are not computed.

    prefix    names of kernels begin with it, also those of the bodies of loops
    is_body   it runs inside of a step, perhaps often
    begin     is told what there is besides kernels, for this graph and for each of those bodies
    """
    found = planned(graph, prefix, is_body=is_body, begin=begin)
    return place(found, found.drafts, found.avals)


def place(found: Planned, drafts: list[Draft], avals: Mapping[Hashable, Aval]) -> Program:
    """The program of these steps on values of these avals."""
    buffers, numbers, size = place_buffers(found.ends, dict(avals), [values for _, values in drafts])
    return Program(
        name=found.graph.name,
        buffers=buffers,
        steps=tuple([Step(work, tuple([numbers[v] for v in values])) for work, values in drafts]),
        inputs=ends_of(found.ends.inputs, found.graph.inputs, avals),
        outputs=ends_of(found.ends.outputs, found.graph.outputs, avals),
        workspace_bytes=size,
        graph=found.graph,
    )


def ends_of(memory: tuple[Node, ...], nodes: tuple[Node, ...], avals: Mapping[Hashable, Aval]) -> tuple[Aval, ...]:
    """The avals of inputs or outputs, as the graph's owner sees them."""
    return tuple([seen(avals[m], node.aval.dtype) for m, node in zip(memory, nodes, strict=True)])


def planned(
    graph: Graph, prefix: str = "k", *, is_body: bool = False, begin: Begin | None = None
) -> Planned:
    """The steps of the program that computes a graph."""
    graph = Graph.of(graph.inputs, graph.outputs, graph.name)
    original, graph = graph, turn(inner(choose(by_parts(separate(both_sides(graph))))))
    probed = Probed(Axes())
    prepared = prepare(graph, probed)
    if begin is not None:
        gemms = [_gemm(node, product) for node, product in prepared.products.items() if product.is_step(node)]
        others = [n for n in prepared.graph.nodes if isinstance(n.op.lower, Fourier | Order)]
        begin([*gemms, *[HostCall(_computed(node)) for node in others]])
    fused = fuse(prepared, probed)
    made_by = {node: unit for unit in fused.units for node in (*unit.roots, *([unit.node] if unit.node else []))}

    reshaped = same_memory(prepared.graph, fused)
    loops = results_together([unit.node for unit in fused.units if unit.node])
    placed = placed_parts(prepared.graph)
    exact = exact_nodes(prepared.graph)
    drafts: list[Draft] = []
    for unit in fused.units:
        if unit.node in loops:
            if results := loops[unit.node]:
                from .nests import draft_nest  # loops and branches only

                drafts.append(draft_nest(results, _body_planner(f"{prefix}{len(drafts)}_", begin)))
            continue
        if not reshaped.keys().isdisjoint(unit.roots):
            continue

        def is_stored(node: Node, unit: Unit = unit) -> bool:
            return node.op is INPUT or (node in fused.stored and made_by.get(node) is not unit)

        draft = _draft(unit, prepared, is_stored, placed, exact, f"{prefix}{len(drafts)}_{_words(unit, fused)}")
        if draft is not None:
            drafts.append(draft)

    drafts = renamed(drafts, {x: node for node, x in reshaped.items()})
    assert _reads_are_written(drafts, prepared.graph.inputs), "a step reads what no step before it writes"
    drafts = share_memory(prepared.graph, drafts)
    if is_body:
        from .merge import merged  # bodies of loops only

        drafts = merged(drafts)
    avals: dict[Hashable, Aval] = {v: v.aval for v in (*prepared.graph.inputs, *prepared.graph.outputs)}
    avals.update({v: v.aval for _, values in drafts for v in values})
    return Planned(original, prepared.graph, list(_for_any_extent(drafts)), avals)


def _body_planner(prefix: str, begin: Begin | None) -> Callable[[Graph, str], Program]:
    """What makes the programs of a loop or branch, with names of their own for kernels."""
    return lambda body, letter: plan(optimize(body), prefix + letter, is_body=True, begin=begin)


def _for_any_extent(drafts: Iterable[Draft]) -> Iterator[Draft]:
    """The same with kernels for any extent."""
    for work, values in drafts:
        if isinstance(work, Kernel):
            let_past_caches(work.function, [v.aval.nbytes for v in values])
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
    """The step of a unit, on nodes; None when it has nothing to do."""
    node = unit.node
    if node is None:
        group = unit.group
        assert group is not None
        return _kernel(build(group, is_stored, name, placed, exact)) if group.roots else None
    lower = node.op.lower
    if isinstance(lower, Scatter):
        return _kernel(build_scatter(node, is_stored, name, exact))
    if isinstance(lower, Scan):
        return _kernel(build_scan(node, is_stored, name, exact))
    if isinstance(lower, Contract):
        product = prepared.products[node]
        if not product.is_step(node):
            return _kernel(build_product(node, product, name))
        return _gemm(node, product), (product.a.base, product.b.base, node)
    if node.op in (PAIR, JOIN):
        return None
    computed = _computed(node)
    if isinstance(lower, Dense):
        from ..kernel.dense import build_dense, is_native  # linear algebra only

        if is_native(computed):
            return _kernel(build_dense(node, computed, lower.program, name))
    return HostCall(computed), (*node.inputs, node)


def _computed(node: Node) -> Node:
    """What such a node computes."""
    computed: Node = node.params[0] if node.op.params == ("computed",) else node
    return computed


def _gemm(node: Node, product: Product) -> Gemm:
    """The step that does a product."""
    a, b = product.a, product.b
    dtype = "f32" if node.aval.dtype.itemsize == 4 else "f64"
    strides = (a.stride, b.stride, product.m * product.n) if product.batch > 1 else (0, 0, 0)
    return Gemm(dtype, product.m, product.n, product.k, a.transposed, b.transposed, product.batch, strides)


def _reads_are_written(drafts: list[Draft], inputs: tuple[Node, ...]) -> bool:
    """Whether every step reads inputs and what steps before it write (nothing writes an empty array)."""
    there: set[Hashable] = set(inputs)
    for work, values in drafts:
        written = {values[j] for j in _writes(work, len(values))}
        if any(v not in there and v not in written and v.aval.size for v in values):
            return False
        there |= written
    return True


def _writes(work: Any, count: int) -> Iterable[int]:
    """The numbers of the values that a step writes."""
    if isinstance(work, Kernel):
        return work.function.writes
    return range(work.reads if bodies(work) else count - 1, count)


def _kernel(built: Built) -> Draft:
    return built.kernel, built.memory


def _words(unit: Unit, fused: Fused) -> str:
    """What a kernel does, in a few words: its roots, then the dearest of what it computes on the way."""
    if unit.node is not None:
        return unit.node.op.name
    assert unit.group is not None
    words = [r.node.op.name for r in unit.group.roots]
    on_the_way = [fused.reaches.by_bit[j] for j in islice(bits(unit.tree), _LOOKED_AT)]
    words += [n.op.name for n in sorted(on_the_way, key=lambda n: -fused.reaches.weight(n))]
    return "_".join(list(dict.fromkeys(words))[:_NAMED])


