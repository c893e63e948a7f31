"""Entries of a jit function, one for a call signature: the frozen trace, and the ways to run it.

    arguments_of    the arguments of the executable, on values
    replayed        the traced nodes once more onto the tape, so that gradients flow through

Sizes that do not come again have none: a batch that grows by one at each step, sentences of every length.  A trace, the
rules behind it and a plan take milliseconds, the same function as a known recording of any size (`tape.sizes`) a tenth
of that, so such a call runs as it is recorded (`run_unseen`).  The function notices nothing of it: it is given values,
but if it looks at one, or does what is done in another way in a trace, it is left (`Recording.see`) and then traced.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import numpy as np

from codegen.compiler import compile_graph
from codegen.garbage import ignoring
from codegen.ir import Aval, Graph
from codegen.records import NamedTuple

from . import tree
from .argument_leaves import ARRAYS, SCALAR, ArgumentLeaf
from .dispatch import Choices
from .mode import MODE
from .ops import as_tensor
from .tape.ask import evaluate
from .tape.leaks import BARE, check_leaves
from .tape.leaves import check_narrow, fits, number_like_traced
from .tape.misses import compiled_in_sight
from .tape.modes import tracking, within
from .tape.node import CONSTANT, Node, RichNode, new_number
from .tape.plan import data, freeze, is_number, source
from .tape.program import hooked_like, replay
from .tape.record import NeedsTrace, state
from .tape.walk import needed, reached
from .tensor import AbstractTensor, Tensor, handle
from .transforms.arguments import applied, constant_of, copied_constant, plain_results

#: The answer for a call that has to be traced.
MISS: Any = object()


class Signed(NamedTuple):
    """A call taken apart: its signature, and the leaves of its arguments."""

    key: tuple
    structure: tree.Structure
    leaves: list[ArgumentLeaf]


class SignatureEntry:
    """The entry of one call signature."""

    graph: Graph
    executable: Any  # None when nothing is computed
    arguments: list[Node]  # that stood for the arguments, in order
    hidden: list[Any]  # tensors and arrays, of which captured nodes are the present contents
    captures: dict[Node, Any]  # the same for every captured node that a replay needs
    fixed: list[tuple[Any, Any]]  # tensors and arrays whose contents decided what was traced, and these contents
    enclosing: set[Node]  # nodes of a trace around this one, which the function closes over: one call replays the entry
    outputs: list[int | None]  # for each result leaf: its position among the executable's results
    lines: Any  # where the traced nodes were recorded
    structure: Any  # of the result
    results: list[Any]  # the result leaves: nodes, and objects that are no tensors
    tracks: bool  # a result tracks gradients; under no_grad: one was computed under enable_grad
    narrow: dict[Node, list[Node]]  # ints that meet arrays of int32, and what each is made of, in order
    choices: Choices  # of dispatch that the trace relied on
    way: Any  # its call for machine code; None where it has none, MISS before it was called twice
    missed: int  # the number of calls that no way which is tried has served, since its own was put first

    @property
    def fits(self) -> bool:
        """True if arrays have the shapes and dtypes that were met, fixed ones their values, tensors track as then."""
        return all(
            h.shape == n.kind.out.aval.shape and h.dtype == n.kind.out.aval.dtype
            if type(h) is np.ndarray
            else not isinstance(h, Tensor) or h.node.kind.out.requires_grad == n.kind.out.requires_grad
            for n, h in self.captures.items()
        ) and (self.has_fixed is None or self.has_fixed())

    @property
    def has_fixed(self) -> Callable[[], bool] | None:
        """A function that tells if what decided the trace is the same still; None where nothing did that may change.

        Contents of arrays and tensors, and choices that a class registered with an abstract base class changes.
        """
        fixed, choices = self.fixed, self.choices
        if not fixed and not any([function.is_abstract for function in choices.answers]):
            return None
        return lambda: choices.are_unchanged() and all([np.array_equal(present(h), value) for h, value in fixed])

    @property
    def loses(self) -> Aval | None:
        """Of which tensor that requires grad a call that gives arrays loses the gradient; None: of none."""
        if not any(isinstance(n, Node) and n.kind.out.requires_grad for n in self.results):
            return None
        return next((t.aval for t in self.tensors if t.node.kind.out.requires_grad), None)

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors that the trace met that may require a gradient."""
        return [h for h in self.captures.values() if isinstance(h, Tensor)]


def is_narrow(made_of: list[Node], values: Mapping[Node, Any]) -> bool:
    """True if int32 has the int that the last of these nodes is, for values of those that are arguments."""
    found: dict[Node, Any] = {}
    with ignoring(all="ignore"):
        for n in made_of:
            reference: Any = n.kind.op.reference
            value = values.get(n, n.value)
            if value is None:
                value = reference(*[found[i] for i in n.inputs], **n.kind.op.keywords(n.kind.params))
            found[n] = np.asarray(value, n.kind.out.aval.dtype)
    return fits(int(found[n]))


def frozen(
    arguments: list[Node], result: Any, captures: dict[Node, Any], name: str, since: float = 0, compiles: bool = True
) -> SignatureEntry:
    """Freeze what was traced.

    since    a number: pending nodes that were made before it belong to a trace around this one
    compiles   False: the graph alone is wanted
    """
    entry = SignatureEntry()
    entry.lines = state.now.lines
    entry.way, entry.missed = MISS, 0
    leaves, entry.structure = tree.flatten(result)
    leaves = [as_tensor(x) if isinstance(x, (np.ndarray, np.generic, AbstractTensor)) else x for x in leaves]
    check_leaves(leaves, name, "jit")
    for x in leaves:
        if isinstance(x, Tensor):
            state.now.meet(x)
    entry.results = [x.node if isinstance(x, Tensor) else x for x in leaves]
    entry.arguments = arguments
    results = [n for n in entry.results if isinstance(n, Node)]
    entry.tracks = any([n.kind.out.requires_grad and (n.inputs != () or MODE.get().tracks) for n in results])
    nodes = needed(results, _histories(results))
    numbers = _numbers(captures)
    met = {n: captures[n] for n in nodes if n in captures and n not in numbers}
    # A tensor that was made in the trace, and changed in place since, holds another value now.
    entry.captures = {n: t for n, t in met.items() if not (isinstance(t, Tensor) and t.node is not n)}
    entry.enclosing = {n for n in nodes if n.number < since and n.value is None and n.kind.op is not CONSTANT}
    if entry.enclosing:
        return entry
    wanted, entry.outputs = _places(entry.results)
    graph, inputs = freeze(wanted, arguments, numbers)
    graph.name = name if name.isidentifier() else "f"
    entry.hidden = [entry.captures.get(n, n) for n in inputs[len(arguments) :]]
    entry.graph = graph
    entry.executable = compiled_in_sight(graph, compile_graph) if wanted and compiles else None
    return entry


def _references() -> int:
    """References to a tensor that nobody but `captures` has, while `_numbers` counts them."""
    return max([sys.getrefcount(captures[n]) for captures in [{0: object()}] for n in captures])


_ALONE = _references()


def _numbers(captures: dict[Node, Any]) -> set[Node]:
    """The numbers that stood in the program: nobody has their tensors, so nobody can change what they hold."""
    return {n for n in captures if is_number(n) and sys.getrefcount(captures[n]) <= _ALONE}


def _places(results: list[Any]) -> tuple[list[Node], list[int | None]]:
    """The graph's outputs, and which of them each result is: arrays that users may write to are never one."""
    wanted: list[Node] = []
    places: list[int | None] = []
    scalars: dict[Node, int] = {}
    for node in results:
        if not isinstance(node, Node):
            places.append(None)
            continue
        output = source(node)
        place = len(wanted) if output.kind.out.aval.shape else scalars.setdefault(output, len(wanted))
        places.append(place)
        if place == len(wanted):
            wanted.append(output)
    return wanted, places


def present(hidden: Any) -> Any:
    """The present contents of what a trace captured."""
    if isinstance(hidden, Tensor):
        evaluate((hidden.node,), ends_recording=False)
        return data(hidden.node)
    if isinstance(hidden, Node):
        return hidden.value
    return hidden


def arguments_of(entry: SignatureEntry, values: Sequence[Any]) -> list[Any]:
    """The arguments of the executable: these values, and the present contents of hidden inputs."""
    evaluate([v.node for v in values if isinstance(v, Tensor)])
    arrays = [data(v.node) if isinstance(v, Tensor) else v for v in values]
    return [*arrays, *[present(h) for h in entry.hidden]]


def _present_node(hidden: Any) -> Node:
    """The node of the present contents; a trace that is going on takes them for a hidden input of its own."""
    if isinstance(hidden, Tensor):
        if state.now.captures is not None:
            state.now.meet(hidden)
        return hidden.node
    return as_tensor(hidden).node


def replayed(entry: SignatureEntry, values: Sequence[Any]) -> Any:
    """Put the traced nodes onto the tape again, with these values as the arguments.

    What the trace recorded under no_grad is cut, the rest tracks as it did there, whatever the mode is here.
    """
    with tracking():
        now: dict[Node, Node] = {node: _present_node(hidden) for node, hidden in entry.captures.items()}
        for node, value in zip(entry.arguments, values, strict=True):
            now[node] = hooked_like(node, as_tensor(value).node)  # hooks on the argument while it was traced
        if state.now.captures is not None:
            state.now.fixed.update({_present_node(h): h for h, _ in entry.fixed})
        roots = [*[n for n in entry.results if isinstance(n, Node)], *entry.narrow]
        put_again(roots, now, entry.enclosing, entry.lines)
        for node in entry.narrow:
            check_narrow(now[node])
        leaves = [handle(now[x]) if isinstance(x, Node) else x for x in entry.results]
        return tree.unflatten(entry.structure, leaves)


def put_again(results: Sequence[Node], now: dict[Node, Node], enclosing: Container[Node] = (), of: Any = None) -> None:
    """Put down again all that results need, over other nodes in the place of some.

    now         the other node for each of some nodes; the new nodes are added
    enclosing   nodes that stay;  of: the lines of those that are put down
    """
    order = [node for node in needed(results, _histories(results)) if node not in now]
    stay = [node for node in order if node.value is not None or not node.inputs or node in enclosing]
    now.update(zip(stay, stay, strict=True))
    replay([node for node in order if node not in now], now, of)


def _histories(results: Sequence[Node]) -> set[Node]:
    """Boundaries and what they hold for their rules."""
    boundaries = [n for n in needed(results) if type(n) is RichNode]
    return reached(boundaries, lambda node: [i for i in node.inputs if i.value is None])


# ---------------------------------------------------------------- calls without an entry


def run_unseen(f: Callable, signed: Signed) -> Any:
    """The result of a call as it is recorded, compiled at once as that of a trace; MISS where it has to be traced."""
    now = state.now
    is_plain = not now.transforming and not any([isinstance(x.value, Tensor) for x in signed.leaves])
    try:
        with within(MODE.get().others["lightly", True], unseen=new_number(), lends=now.lends or is_plain):
            leaves, structure = tree.flatten(run_as_written(f, signed, shares=is_plain))
            leaves = [as_tensor(x) if isinstance(x, (np.ndarray, np.generic, AbstractTensor)) else x for x in leaves]
            nodes = [x.node for x in leaves if isinstance(x, Tensor)]
            _check(leaves)
            if now.unseen == math.inf:
                return MISS  # it caught what was to leave it
            if is_plain:
                if any([n.kind.out.requires_grad for n in nodes]):
                    return MISS  # an entry says whose gradient is lost
                evaluate(nodes, what=f"jit {getattr(f, '__name__', 'f')}, as it is recorded")
                now.unseen = 0  # from here on the values are the caller's
                leaves = plain_results(leaves)
            return tree.unflatten(structure, leaves)
    except NeedsTrace:
        return MISS


def run_inside(f: Callable, signed: Signed) -> Any:
    """The result of another function of `jit`, called by one that runs as it is recorded."""
    result = run_as_written(f, signed)
    _check(tree.leaves(result))
    return result


def _check(leaves: Sequence[Any]) -> None:
    """Leave the function if some leaf of a result is an object, of which a trace says if it may be one."""
    if not all([isinstance(x, (AbstractTensor, np.ndarray, np.generic, *BARE)) for x in leaves]):
        state.now.see()


def run_as_written(f: Callable, signed: Signed, shares: bool = False) -> Any:
    """The result of a function of arguments as in a trace, but for their values.

    shares    arrays are shared with the caller: the results are computed before he goes on
    """
    leaves = []
    for key, value, given in signed.leaves:
        if value is not None and key[0] not in ARRAYS and not isinstance(given, Tensor):
            given = number_like_traced(given, key[2], weak=key[0] != SCALAR)  # a number in a trace
        leaves.append(constant_of(given) if shares else copied_constant(given))
    args, kwargs = tree.unflatten(signed.structure, leaves)
    return applied(f, args, kwargs)
