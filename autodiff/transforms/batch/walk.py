"""From the nodes recorded for one example to nodes for all examples.

    recorded for one      x: f64[3]      y = sin(x)       z = sum(y)          w = z * c
    for size examples     X: f64[n,3]    Y = sin(X)       Z = sum(Y, 1)       W = Z * c

The walk goes over the nodes by rising creation number.  A node that depends on a tensor that differs between examples
is recorded again by the *batch rule* of its operation (`ops.batching`); the new node tracks gradients if the old one
did.  The call of a custom function becomes a call for all examples; its rule applies the rule for one example to each
(`_pull_each`, `_push_each`), and is recorded once like any other program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from codegen.records import NamedTuple

from ... import tree
from ...custom.boundary import boundary_node, outputs_of, without_history
from ...custom.call import MappedCall
from ...errors import Error, located
from ...mode import MODE
from ...ops.batching import with_examples
from ...ops.contraction import contracted
from ...ops.reductions import summed
from ...ops.shaping import reshaped, transposed
from ...tape.lines import at_place_of
from ...tape.modes import tracing, tracking, within
from ...tape.node import Kind, Node, Out, RichNode, data_node, new_number, rich_node, store_bounded
from ...tape.program import is_cut
from ...tape.record import argument, identity_of, is_masked, state
from ...tape.walk import recorded_since
from ...tensor import Tensor, handle
from ..forward import ForwardPass, push_call
from ..hooks import run_hooks
from ..rule_programs import BATCH
from ..rule_values import flow_of
from ..rules import call_rule

#: Library functions that can do the calls for many examples at once:
#: (size, arguments by name, True for each tensor in them that differs) -> the outputs for all, in their container.
CALLS: dict[Any, Callable[[int, dict[str, Any], dict[str, Any]], Any]] = {}


def of_each(
    f: Callable[[list[Tensor]], Sequence[Any]], given: Sequence[Tensor], mapped: Sequence[bool], size: int
) -> list[tuple[Any, bool]]:
    """f(one example of `given`), for every example: each result, and True if the result differs between examples.

    Tensors that are `mapped` have the examples along axis 0; f gets the others as they are.  f is called once, without
    values, and raises ConcretizationError if it evaluates a tensor that differs between examples.
    """
    since = new_number()
    with tracing(since):
        made = [_example(t) if m else t for t, m in zip(given, mapped, strict=True)]
        # The nodes are read before f runs: an in-place update in f gives a handle another node.
        pairs = [(one.node, t) for one, t, m in zip(made, given, mapped, strict=True) if m]
        results = f(made)
    ends = [r.node for r in results if isinstance(r, Tensor)]
    with tracking():  # under no_grad too: nodes that were recorded under no_grad are known as cut
        walk = BatchPass(size, recorded_since(since, ends), pairs, ends)
    found = iter(walk.results)
    return [_pair_of(r.node, next(found)) if isinstance(r, Tensor) else (r, False) for r in results]


def _pair_of(node: Node, of_all: Tensor | None) -> tuple[Tensor, bool]:
    """The tensor for a node, and True if it differs between examples.   of_all: its value for all, or None"""
    return (handle(node), False) if of_all is None else (of_all, True)


def each(
    f: Callable[[list[Tensor]], Sequence[Any]], given: Sequence[Tensor], mapped: Sequence[bool], size: int
) -> list[Tensor | None]:
    """`of_each`, with the results of all examples along axis 0; None where f gives none."""
    found = of_each(f, given, mapped, size)
    return [None if t is None else with_examples(size, (t,), (differs,))[0] for t, differs in found]


def _example(t: Tensor) -> Tensor:
    """A tensor without a value that stands for any one example of t."""
    out = t.node.kind.out
    kind = _KINDS_OF_EXAMPLES.get(out)
    if kind is None:
        one = argument(out.aval.with_shape(out.shape[1:]), requires_grad=out.requires_grad).node
        kind = store_bounded(_KINDS_OF_EXAMPLES, out, one.kind)
    node = rich_node(kind, ()) if out.requires_grad else data_node(kind, None)  # f may add hooks if it tracks
    return handle(node, t.masked)


#: The kind of an example's node, by the Out of the tensor of all examples.
_KINDS_OF_EXAMPLES: dict[Out, Kind] = {}


class NoBatchRule(Error):
    """An operation without a batch rule."""


class BatchPass(ForwardPass):
    """A pass over the nodes of one example: `results` are the tensors of all examples, None for one that all share."""

    keeps_masks = True

    def __init__(
        self, size: int, order: Sequence[Node], given: Sequence[tuple[Node, Tensor]], ends: Sequence[Node]
    ) -> None:
        self.size = size
        super().__init__(order, {n: self.hooked(n, t) for n, t in given}, ends, BATCH, MODE.get().tracks)

    def value_for(self, at: int, node: Node, there: Sequence[Any]) -> Any:
        mode, pairs = MODE.get(), list(map(_pair_of, node.inputs, there))
        with at_place_of(state.now.lines, node):
            with within(mode.off if is_cut(node) else mode, literal=True):
                if node.slot is not None:
                    found: Any = there[0][node.slot]
                elif "part" in node.kind.op.traits:  # the operation takes one of several results, by its number
                    found = there[0][node.kind.params[0]]
                elif node.call is not None:
                    found = self._called(node, pairs)
                    if node.body is not None:
                        (found,) = found
                elif node.body is not None:
                    found = self._without_history(node, pairs)
                else:
                    found = self._computed(node, pairs)
            if node.line is not None and isinstance(found, Tensor) and type(found.node) is RichNode:
                found.node.line = node.line
            return self.hooked(node, found)

    def _computed(self, node: Node, pairs: Sequence[tuple[Tensor, bool]]) -> Any:
        """The value for all examples, by the batch rule of the operation."""
        op = node.kind.op
        if op.batch is None:
            raise NoBatchRule(located(
                f"{op.name} has no batch rule: what it does to many examples is not known",
                f"state one where {op.name} is declared: batch=..., see autodiff.ops.batching",
            ))
        programs, count = self.programs, len(pairs)
        if programs is None:
            return self._by_rule(node, [x if m else None for x, m in pairs], [x for x, _ in pairs])

        def rule(given: Sequence[Any]) -> list[Any]:
            xs = [None if i is None else handle(i) for i in given]
            return [self._by_rule(node, xs[:count], xs[count + 1 :])]

        given = [*[x.node if m else None for x, m in pairs], node, *node.inputs]
        (made,) = programs.applied(node.kind, given, count, BATCH, rule)
        return made

    def _by_rule(self, node: Node, differing: Sequence[Any], xs: Sequence[Any]) -> Any:
        """The node for all examples, by the batch rule.   differing: inputs for all examples; None if shared"""
        op, mapped = node.kind.op, tuple([x is not None for x in differing])
        given = tuple([x if g is None else g for g, x in zip(differing, xs, strict=True)])
        assert op.batch is not None, op
        return op.batch(op, self.size, given, mapped, **op.keywords(node.kind.params))

    def hooked(self, node: Node, found: Any) -> Any:
        """The value that was found, with the hooks of the example's tensor, which are called for every example."""
        if not node.hooks or not found.node.kind.out.requires_grad:
            return found
        made = identity_of(found.node)
        made.hooks = {"of each example": _HooksOfEach(node.hooks, self.size)}
        return handle(made, found.masked)

    # ------------------------------------------------------------ custom functions

    def _without_history(self, node: Node, pairs: Sequence[tuple[Tensor, bool]]) -> Tensor:
        value, *sources = pairs
        (t,) = with_examples(self.size, value[:1], value[1:])
        return without_history(t, [s.node for s, _ in sources], node.kind.params[0], node.line)

    def _called(self, node: Node, pairs: list[tuple[Tensor, bool]]) -> list[Tensor]:
        """The tracked outputs of a call, for all examples; behind a boundary if gradients are tracked."""
        call = node.call
        start, stop, _ = node.flow.indices(len(pairs))
        tracks = MODE.get().tracks and any([t.node.kind.out.requires_grad for t, _ in pairs[start:stop]])
        if tracks and call.function in CALLS:
            return self._known(call, pairs)
        bodies = range(len(pairs) - len(call.avals), len(pairs))
        for place in bodies:
            t, m = pairs[place]
            pairs[place] = (with_examples(self.size, (t,), (m,))[0], True)
        if not tracks:
            return [pairs[place][0] for place in bodies]
        masked = is_masked([t for t, _ in pairs])
        many = MappedCall(call, self.size, tuple([m for _, m in pairs]), _pull_each, _push_each)
        return outputs_of(call.of_all(many), [t.node for t, _ in pairs], node.flow, masked)

    def _known(self, call: Any, pairs: Sequence[tuple[Tensor, bool]]) -> list[Tensor]:
        """The outputs of a library function that can do many calls at once (`CALLS`)."""
        values = {name: p.unpack(lambda place: pairs[place][0]) for name, p in call.arguments.items()}
        differ = {name: p.unpack(lambda place: pairs[place][1]) for name, p in call.arguments.items()}
        leaves = tree.leaves(CALLS[call.function](self.size, values, differ))
        by_place = dict(zip(call.result.places, leaves, strict=True))
        return [by_place[-1 - slot] for slot in range(len(call.avals))]


class _HooksOfEach(NamedTuple):
    """The hooks of an example's tensor as one hook on the tensor of all: each hook sees each example's gradient."""

    hooks: dict[Any, Callable]
    size: int

    def __call__(self, g: Tensor) -> Tensor:
        (changed,) = each(lambda one: [run_hooks(self.hooks, one[0])], [g], [True], self.size)
        assert changed is not None
        return changed

    def __str__(self) -> str:
        return " and ".join(map(str, self.hooks.values())) or "a hook that was removed"


def _pull_each(node: Node, cotangents: dict[int, Tensor], wanted: set[Node]) -> list[Tensor | None]:
    """The cotangents of a call's inputs, in the order of the boundary's `flow`.   cotangents: of outputs, by slot"""
    call: MappedCall = node.call.each
    slots = sorted(cotangents)
    flow = flow_of(node)

    def rule(made: list[Tensor]) -> list[Tensor | None]:
        one = boundary_node(call.inner, [t.node for t in made[len(slots) :]], node.flow)
        places = {one.inputs[p] for p in flow if node.inputs[p] in wanted}
        return call_rule(one, dict(zip(slots, made, strict=False)), places)

    given = [*[cotangents[slot] for slot in slots], *[handle(i) for i in node.inputs]]
    found = each(rule, given, [*[True] * len(slots), *call.mapped], call.size)
    return [g if g is None or call.mapped[p] else _summed(g) for p, g in zip(flow, found, strict=True)]


def _summed(g: Tensor) -> Tensor:
    """The sum over examples.  A product for each example becomes one contraction, which sums over examples too."""
    name, inputs, params = g.node.kind.op.name, g.node.inputs, g.node.kind.params
    shapes = [i.kind.out.shape for i in inputs]
    if name in ("matmul", "mul") and len(shapes[0]) == len(shapes[1]) == 3 and shapes[0][0] == shapes[1][0]:
        a, b = [handle(i) for i in inputs]
        if name == "matmul":
            return contracted(a, b, ((), ()), ((0, 2), (0, 1)))
        if a.shape[2] == b.shape[1] == 1:
            a, b = reshaped(a, a.shape[:2]), reshaped(b, (b.shape[0], b.shape[2]))
            return contracted(a, b, ((), ()), ((0,), (0,)))
    if name == "transpose" and params[0][0] == 0:
        return transposed(_summed(handle(inputs[0])), tuple([axis - 1 for axis in params[0][1:]]))
    if name == "reshape" and inputs[0].kind.out.shape[:1] == g.shape[:1]:
        return reshaped(_summed(handle(inputs[0])), g.shape[1:])
    return summed(g, (0,))


def _push_each(node: Node, tangents: dict[Node, Tensor]) -> list[Tensor | None]:
    """The tangents of the outputs of a call for all examples."""
    call: MappedCall = node.call.each
    places = [p for p, i in enumerate(node.inputs) if i in tangents]

    def rule(made: list[Tensor]) -> list[Tensor | None]:
        one = boundary_node(call.inner, [t.node for t in made[len(places) :]], node.flow)
        return push_call(one, {one.inputs[p]: t for p, t in zip(places, made, strict=False)})

    given = [*[tangents[node.inputs[p]] for p in places], *[handle(i) for i in node.inputs]]
    return each(rule, given, [*[call.mapped[p] for p in places], *call.mapped], call.size)
