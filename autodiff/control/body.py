"""Bodies: a function recorded once on arguments without values, to be run again and again.

    body = trace(f, (carry, x))           arguments, results, and what f met on the way: hidden inputs
    body.graph                            frozen, for the compiler: inputs are arguments, then hidden ones
    body.apply(carry, x, hidden)          recorded again on tensors, for derivatives

Bodies with the same nodes are one object, so that a loop in a program that repeats is the same graph each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from codegen import ir
from codegen.ir import Aval
from codegen.lowering import Move
from codegen.runtime.cache import LRU

from .. import tree
from ..custom.host import Unlearnt
from ..errors import DTypeError, ShapeError, caller
from ..ops import as_tensor
from ..tape.node import Node, RichNode, new_number, rich_node
from ..tape.plan import freeze
from ..tape.record import argument, grad_mode, record_again, state
from ..tape.tracing import tracing
from ..tensor import Tensor, handle
from ..transforms.functional import vjp
from ..transforms.modes import enable_grad

__all__ = [
    "RECOMPUTED", "Body", "Nesting", "Recorded", "Traced", "Weak", "again", "check_kept", "clone", "float_places",
    "inside_calls", "interned", "is_float", "mode_of", "placed", "recomputed", "trace",
]  # fmt: skip

_bodies = LRU(1024)

#: What makes a node of a body anew: (its number in `order`, new inputs) -> new node.
Recorded = Callable[[int, list[Node]], Node] | None

#: Functions whose calls are computed again in a backward pass: nothing in them is kept.
RECOMPUTED: set[Any] = set()


class Body(ir.Region):
    """Recorded nodes from arguments and hidden inputs to results.  Compared by identity, interned by structure.

    arguments, hidden, results   nodes of the recording it was first met in
    order                        all nodes on the way
    kept                         numbers in `order` of products and the like: what a gradient should find computed
    graph                        the same for the compiler
    splits                       by number of states and grad mode: what of it a loop does apart (see `fission`)
    """

    __slots__ = ("_keeping", "arguments", "hidden", "kept", "order", "results", "splits")

    is_interned = True

    def __init__(
        self, arguments: Sequence[Node], hidden: Sequence[Node], results: Sequence[Node], order: Sequence[Node]
    ) -> None:
        self.arguments = [_bare(n) for n in arguments]
        self.hidden = [_bare(n) for n in hidden]
        stands = dict(zip([*arguments, *hidden], [*self.arguments, *self.hidden], strict=True))
        self.order, self.results = _copied(order, results, stands)
        super().__init__(freeze(self.results, [*self.arguments, *self.hidden])[0])
        self.kept = _kept(self)
        self._keeping: Body | None = None
        self.splits: dict[tuple[int, bool], Any] = {}

    @property
    def keeping(self) -> Body:
        """The same body whose further results are the values of `kept`."""
        if self._keeping is None:
            results = [*self.results, *[self.order[k] for k in self.kept]]
            self._keeping = Body(self.arguments, self.hidden, results, self.order) if self.kept else self
        return self._keeping

    def __repr__(self) -> str:
        return f"{{{len(self.graph.nodes)} operations, {len(self.arguments)} arguments, {len(self.hidden)} hidden}}"

    def apply(self, given: Sequence[Tensor], recorded: Recorded = None) -> list[Tensor]:
        """Record the body on tensors: the arguments, then the hidden inputs.

        recorded    (number of a node in `order`, new inputs) -> new node; by default the same operation
        """
        stands = {n: t.node for n, t in zip([*self.arguments, *self.hidden], given, strict=True)}
        for number, node in enumerate(self.order):
            inputs = [stands[i] for i in node.inputs]
            stands[node] = recorded(number, inputs) if recorded else again(node, inputs)
        return [handle(stands[n]) for n in self.results]

    def moving(self, given: Sequence[Tensor], places: Sequence[int], recorded: Recorded = None) -> Callable:
        """The body as a function of a list of the inputs at `places`, where the others stay as they are given."""

        def applied(values: Sequence[Tensor]) -> list[Tensor]:
            inputs = list(given)
            for place, value in zip(places, values, strict=True):
                inputs[place] = value
            return self.apply(inputs, recorded)

        return applied

    def pull(
        self, given: Sequence[Tensor], bars: Sequence[Tensor], places: Sequence[int] | None = None,
        recorded: Recorded = None,
    ) -> list[Tensor | None]:
        """The cotangents of the inputs, from those of the float results; None for an input that is not among `places`.

        places   by default those of all float inputs
        """
        places = float_places(given) if places is None else places
        applied = self.moving(given, places, recorded)
        _, pullback = vjp(lambda values: [t for t in applied(values) if is_float(t)], [given[k] for k in places])
        (found,) = pullback(list(bars))
        return placed(found, places, len(given))


def mode_of(*bodies: Body) -> AbstractContextManager[None]:
    """The grad mode that a use of bodies is recorded in: on, also under no_grad, if one computed under enable_grad."""
    computed = [n for body in bodies for n in body.results if n.inputs]
    return enable_grad() if any([n.kind.out.requires_grad for n in computed]) else nullcontext()


def is_float(x: Any) -> bool:
    """Whether a tensor or an aval may have a derivative."""
    return x.dtype.kind in "fc"


def float_places(xs: Sequence[Any]) -> list[int]:
    """The numbers of those that may have a derivative."""
    return [k for k, x in enumerate(xs) if is_float(x)]


def placed(values: Sequence[Any], places: Sequence[int], count: int) -> list[Any]:
    """A list of `count` with these values at these places, None elsewhere."""
    found: list[Any] = [None] * count
    for place, value in zip(places, values, strict=True):
        found[place] = value
    return found


class Weak:
    """Stands for a Python number among the examples of `trace`: it takes the dtype of what it meets."""

    __slots__ = ("aval",)

    def __init__(self, aval: Aval) -> None:
        self.aval = aval


class Nesting:
    """A nesting whose leaves are tensors or None: taken apart, and put together again with other tensors."""

    __slots__ = ("_there", "structure")

    def __init__(self, structure: tree.Structure, there: Sequence[bool]) -> None:
        self.structure = structure
        self._there = tuple(there)

    @classmethod
    def of(cls, value: Any) -> tuple[list[Any], Nesting]:
        """The leaves that are not None, and the nesting."""
        leaves, structure = tree.flatten(value)
        return [x for x in leaves if x is not None], cls(structure, [x is not None for x in leaves])

    def filled(self, values: Sequence[Any]) -> Any:
        """The nesting with these in place of its tensors."""
        given = iter(values)
        return tree.unflatten(self.structure, [next(given) if there else None for there in self._there])

    def names(self, root: str) -> list[str]:
        """What each tensor is called, for messages."""
        return [n for n, there in zip(tree.names(self.structure, root), self._there, strict=True) if there]

    def parts(self) -> list[Nesting]:
        """The nestings of the children."""
        found, start = [], 0
        for child in self.structure.children:
            found.append(Nesting(child, self._there[start : start + child.size]))
            start += child.size
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Nesting) and (self.structure, self._there) == (other.structure, other._there)

    __hash__ = None  # type: ignore[assignment]  # how Python says that there is none

    def __repr__(self) -> str:
        """As the structure's, with None where nothing is."""
        there = iter(self._there)
        return "".join([c if c != "*" or next(there) else "None" for c in repr(self.structure)])


class Traced:
    """One use of a body: the body, the nesting of its result, and the hidden inputs of this use."""

    __slots__ = ("body", "hidden", "result")

    def __init__(self, body: Body, result: Nesting, hidden: list[Tensor]) -> None:
        self.body = body
        self.result = result
        self.hidden = hidden


def trace(f: Any, *examples: Any, values: Callable[[], Sequence[Any]] | None = None) -> Traced:
    """Record f on arguments like `examples`: nestings of avals (or Weak ones); anything else is passed as it is.

    values   gives arguments that f may be run on once, where a rule in it has to be known by its values first
    """
    try:
        return _traced(f, examples)
    except Unlearnt:
        if state.now.tracing or values is None:
            raise  # the outermost trace has values
    f(*values())
    return _traced(f, examples)


def _traced(f: Any, examples: Sequence[Any]) -> Traced:
    leaves, structure = tree.flatten(tuple(examples))
    since = new_number()
    made = [_argument_of(x) for x in leaves]
    arguments = [t.node for t, x in zip(made, leaves, strict=True) if isinstance(x, (Aval, Weak))]
    with _tracing(since):
        found, nesting = Nesting.of(f(*tree.unflatten(structure, made)))
        results = [as_tensor(x).node for x in found]
    order, hidden = _walk(results, arguments, since)
    return Traced(interned(arguments, hidden, results, order), nesting, [handle(n) for n in hidden])


def _argument_of(example: Any) -> Any:
    weak = isinstance(example, Weak)
    aval = example.aval if weak else example
    return argument(aval, weak=weak, requires_grad=aval.dtype.kind in "fc") if isinstance(aval, Aval) else example


@contextmanager
def _tracing(since: float) -> Iterator[None]:
    """As in `jit`: values cannot be asked for."""
    now = state.now
    literal = now.literal
    try:  # an interrupt may come at any call from here on
        now.literal = False
        with tracing(since):
            yield
    finally:
        now.literal = literal


def _walk(results: Sequence[Node], arguments: Sequence[Node], since: int) -> tuple[list[Node], list[Node]]:
    """The nodes that were recorded on the way to the results, by creation; and where they began but at arguments."""
    inside: list[Node] = []
    outside: list[Node] = []
    known = set(arguments)
    stack = list(results)
    while stack:
        node = stack.pop()
        if node in known:
            continue
        known.add(node)
        if node.number < since or node.value is not None or node.leaf is not None:
            outside.append(node)
        else:
            inside.append(node)
            stack.extend(node.inputs)
    return sorted(inside, key=lambda n: n.number), sorted(outside, key=lambda n: n.number)


def interned(
    arguments: Sequence[Node], hidden: Sequence[Node], results: Sequence[Node], order: Sequence[Node]
) -> Body:
    """The body of this structure that was met before, or a new one."""
    number = {n: i for i, n in enumerate([*arguments, *hidden, *order])}
    parts: list[Any] = [n.kind.out for n in (*arguments, *hidden)]
    pure = True
    for node in order:
        call = None
        if node.call is not None:
            call = node.call.whole_key()
            pure = pure and node.call.is_pure
        parts.append((node.kind, call, bool(node.hooks), *[number[i] for i in node.inputs]))
    if not pure or any(n.hooks for n in order):
        return Body(arguments, hidden, results, order)
    key = (len(arguments), tuple(parts), tuple([number[n] for n in results]))
    found = _bodies.get(key)
    if found is None:
        found = Body(arguments, hidden, results, order)
        _bodies.put(key, found)
    return found


def _bare(node: Node) -> Node:
    """A node without value or history that stands for an argument: a body holds nobody's data."""
    return argument(node.kind.out.aval, requires_grad=node.kind.out.requires_grad).node


def _copied(order: Sequence[Node], results: Sequence[Node], stands: dict[Node, Node]) -> tuple[list[Node], list[Node]]:
    made = []
    for node in order:
        new = clone(node, tuple([stands[i] for i in node.inputs]))
        stands[node] = new
        made.append(new)
    return made, [stands[n] for n in results]


def clone(node: Node, inputs: tuple[Node, ...]) -> Node:
    """A node of the same kind on other inputs, as it stands."""
    new = rich_node(node.kind, inputs, call=node.call)
    new.body, new.flow, new.slot, new.line, new.hooks = node.body, node.flow, node.slot, node.line, node.hooks
    return new


def _kept(body: Body) -> tuple[int, ...]:
    """Products, solves, loops and calls of the host, whose values nobody has yet; of sums of products the sum.

    Reductions are not: they are computed again along with what is elementwise.
    """
    fresh: set[Node] = {*body.results, *recomputed(body.order)}
    readers = Counter([i for node in body.order for i in node.inputs] + body.results)
    plain: set[Node] = {*body.arguments, *body.hidden}
    kept: set[Node] = set()
    for node in body.order:
        if isinstance(node.kind.op.lower, Move) and plain.issuperset(node.inputs):
            plain.add(node)
        elif node in fresh:
            continue
        elif _is_dear(node):
            kept.add(node)
        elif node.kind.op.name in _SUMS:
            terms = kept.intersection(node.inputs)
            size = sum([t.kind.out.aval.nbytes for t in terms])
            others = [i for i in node.inputs if i not in terms]
            if node.kind.out.aval.nbytes <= size and plain.issuperset(others) and all(readers[t] == 1 for t in terms):
                kept = kept - terms | {node}
    return tuple([k for k, node in enumerate(body.order) if node in kept])


def recomputed(order: Sequence[Node]) -> set[Node]:
    """The nodes that a backward pass computes again: those inside of calls of such functions."""
    return inside_calls(order, lambda call: call.function in RECOMPUTED)


def inside_calls(order: Sequence[Node], chosen: Callable[[Any], bool] = lambda call: not call.transparent) -> set[Node]:
    """The nodes between the inputs and the outputs of calls of custom functions: those calls carry the derivative."""
    found: set[Node] = set()
    for node in order:
        if isinstance(node, RichNode) and node.call is not None and chosen(node.call):
            starts = set(node.inputs[node.flow]) if node.flow is not None else set(node.inputs)
            found |= _between(node, starts)
    return found


#: Their rules read no value of theirs, so a sum stands for its terms.
_SUMS = frozenset(("add", "sub", "neg", "reshape"))


def _is_dear(node: Node) -> bool:
    op = node.kind.op
    return op.heavy and (op.pull is None or not op.keeps_mask)


def _between(node: Node, starts: set[Node]) -> set[Node]:
    """What a node is computed from, up to `starts`."""
    found: set[Node] = set()
    stack = [node]
    while stack:
        for i in stack.pop().inputs:
            if i not in starts and i not in found:
                found.add(i)
                stack.append(i)
    return found


def again(node: Node, inputs: list[Node]) -> Node:
    """A node of a body on other inputs: recorded anew, so that it tracks exactly if they do and it is not cut."""
    if node.call is None and node.body is None and node.inputs:
        return record_again(node, tuple([handle(i) for i in inputs])).node
    if node.body is not None and node.kind.out.requires_grad:
        flow = inputs if node.flow is None else inputs[node.flow]
        if not grad_mode.get() or not any([i.kind.out.requires_grad for i in flow]):
            return inputs[node.body]  # no gradient comes to the rule
    return clone(node, tuple(inputs))


def check_kept(called: str, names: Sequence[str], before: Sequence[Aval], after: Sequence[Aval]) -> None:
    """Raise ShapeError or DTypeError where a step gives another aval than it was given, saying how to mend it."""
    for name, old, new in zip(names, before, after, strict=True):
        if old == new:
            continue
        told = f"{called}: {name} is {old} before a step and {new} after it\n  called at {caller()}"
        if old.shape != new.shape:
            raise ShapeError(f"{told}\n  begin with what a step gives, or let the step keep the shape")
        raise DTypeError(f"{told}\n  let the step give ad.astype(..., ad.{old.dtype})")
