"""Entries of a jit function, one for a call signature: the frozen trace, and the ways to run it.

    arguments_of    the arguments of the executable, on values
    replayed        the traced nodes, recorded once more on the tape, so that gradients flow through them

A size that does not come again has no entry: a batch that grows by one at each step, sentences of every length.  A
trace with its rules and its plan takes milliseconds; a recording of the function that is known at any size
(`tape.sizes`) takes a tenth of that, so such a call runs without a trace (`run_unseen`).  Its arguments have values; if
the function looks at one, or does something that differs in a trace, it is left (`Recording.require_trace`) and traced.
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
from .transforms.arguments import applied, constant_of, plain_results

#: The result for a call that has to be traced.
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
    arguments: list[Node]  # the nodes that stood for the arguments, in order
    hidden: list[Any]  # hidden inputs: tensors and arrays, whose present contents each call uses
    captures: dict[Node, Any]  # the tensor or array of each captured node that a replay needs
    fixed: list[tuple[Any, Any]]  # tensors and arrays whose contents decided what was traced, and these contents
    enclosing: set[Node]  # nodes of an enclosing trace that the function closes over: such an entry is for one call
    outputs: list[int | None]  # for each result leaf: its position among the executable's results
    lines: Any  # where the traced nodes were recorded
    structure: Any  # the tree structure of the result
    results: list[Any]  # the result leaves: nodes, and objects that are no tensors
    tracks: bool  # True if a result tracks gradients; under no_grad: if one was computed under enable_grad
    narrow: dict[Node, list[Node]]  # ints that are used as int32, and the nodes that each depends on, in order
    choices: Choices  # the dispatch choices that the trace relied on
    native_call: Any  # the call as data for machine code; None if it has to run in Python, MISS before the second call
    missed: int  # the number of calls that no native call served, since the entry's own one was put first

    @property
    def fits(self) -> bool:
        """True if captured arrays keep their shapes and dtypes, fixed ones their values, and tensors their tracking."""
        return all(
            h.shape == n.kind.out.aval.shape and h.dtype == n.kind.out.aval.dtype
            if type(h) is np.ndarray
            else not isinstance(h, Tensor) or h.node.kind.out.requires_grad == n.kind.out.requires_grad
            for n, h in self.captures.items()
        ) and (self.has_fixed is None or self.has_fixed())

    @property
    def has_fixed(self) -> Callable[[], bool] | None:
        """A function that returns True if all that decided the trace is unchanged; None if nothing of it can change.

        Contents of arrays and tensors can change, and choices, if a class is registered with an abstract base class.
        """
        fixed, choices = self.fixed, self.choices
        if not fixed and not any([function.is_abstract for function in choices.answers]):
            return None
        return lambda: choices.are_unchanged() and all([np.array_equal(present(h), value) for h, value in fixed])

    @property
    def lost_gradient(self) -> Aval | None:
        """The aval of a tensor whose gradient is lost by a call that returns arrays; None if no gradient is lost."""
        if not any(isinstance(n, Node) and n.kind.out.requires_grad for n in self.results):
            return None
        return next((t.aval for t in self.tensors if t.node.kind.out.requires_grad), None)

    @property
    def tensors(self) -> list[Tensor]:
        """The captured tensors, which may require gradients."""
        return [h for h in self.captures.values() if isinstance(h, Tensor)]


def is_narrow(made_of: list[Node], values: Mapping[Node, Any]) -> bool:
    """True if the int of the last of these nodes fits int32.   values: of those nodes that are arguments"""
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
    """The entry of a trace, with its frozen graph.

    since    a number: pending nodes that were made before it belong to an enclosing trace
    compiles   False: the graph is not compiled
    """
    entry = SignatureEntry()
    entry.lines = state.now.lines
    entry.native_call, entry.missed = MISS, 0
    leaves, entry.structure = tree.flatten(result)
    leaves = [as_tensor(x) if isinstance(x, (np.ndarray, np.generic, AbstractTensor)) else x for x in leaves]
    check_leaves(leaves, name, "jit")
    for x in leaves:
        if isinstance(x, Tensor):
            state.now.note_hidden_input(x)
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
    """The number of references to a tensor that only `captures` holds, as `_numbers` counts them."""
    return max([sys.getrefcount(captures[n]) for captures in [{0: object()}] for n in captures])


_ALONE = _references()


def _numbers(captures: dict[Node, Any]) -> set[Node]:
    """The captured numbers of which no tensor is left outside of `captures`: no code can change their values."""
    return {n for n in captures if is_number(n) and sys.getrefcount(captures[n]) <= _ALONE}


def _places(results: list[Any]) -> tuple[list[Node], list[int | None]]:
    """The graph's outputs, and the output of each result: two arrays never share one, as users may write to them."""
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
    """The present contents of a hidden input."""
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
    """The node of a hidden input's present contents; the present trace, if any, notes it as its hidden input too."""
    if isinstance(hidden, Tensor):
        state.now.note_hidden_input(hidden)
        return hidden.node
    return as_tensor(hidden).node


def replayed(entry: SignatureEntry, values: Sequence[Any]) -> Any:
    """Record the traced nodes once more, with these values as the arguments.

    Nodes that the trace recorded under no_grad are cut; the others track as in the trace, whatever the mode is now.
    """
    with tracking():
        now: dict[Node, Node] = {node: _present_node(hidden) for node, hidden in entry.captures.items()}
        for node, value in zip(entry.arguments, values, strict=True):
            now[node] = hooked_like(node, as_tensor(value).node)  # with the hooks that the trace put on the argument
        if state.now.captures is not None:
            state.now.fixed.update({_present_node(h): h for h, _ in entry.fixed})
        roots = [*[n for n in entry.results if isinstance(n, Node)], *entry.narrow]
        replay_all(roots, now, entry.enclosing, entry.lines)
        for node in entry.narrow:
            check_narrow(now[node])
        leaves = [handle(now[x]) if isinstance(x, Node) else x for x in entry.results]
        return tree.unflatten(entry.structure, leaves)


def replay_all(results: Sequence[Node], now: dict[Node, Node], enclosing: Container[Node] = (), of: Any = None) -> None:
    """Record once more all nodes that results need, with replacements for some of them.

    now         node -> its replacement; the new nodes are added
    enclosing   nodes that are used as they are;  of: the lines of the nodes that are recorded once more
    """
    order = [node for node in needed(results, _histories(results)) if node not in now]
    stay = [node for node in order if node.value is not None or not node.inputs or node in enclosing]
    now.update(zip(stay, stay, strict=True))
    replay([node for node in order if node not in now], now, of)


def _histories(results: Sequence[Node]) -> set[Node]:
    """Boundaries, and the pending nodes that they hold for their rules."""
    boundaries = [n for n in needed(results) if type(n) is RichNode]
    return reached(boundaries, lambda node: [i for i in node.inputs if i.value is None])


# ---------------------------------------------------------------- calls without an entry


def run_unseen(f: Callable, signed: Signed) -> Any:
    """The result of a call without a trace, whose program is compiled at once; MISS if it has to be traced."""
    now = state.now
    is_plain = not now.transforming and not any([isinstance(x.value, Tensor) for x in signed.leaves])
    try:
        with within(MODE.get().others["lightly", True], unseen=new_number()):
            leaves, structure = tree.flatten(run_as_written(f, signed, shares=is_plain))
            leaves = [as_tensor(x) if isinstance(x, (np.ndarray, np.generic, AbstractTensor)) else x for x in leaves]
            nodes = [x.node for x in leaves if isinstance(x, Tensor)]
            _check(leaves)
            if now.unseen == math.inf:
                return MISS  # the function caught NeedsTrace
            if is_plain:
                if any([n.kind.out.requires_grad for n in nodes]):
                    return MISS  # an entry knows whose gradient is lost
                evaluate(nodes, what=f"jit {getattr(f, '__name__', 'f')}, as it is recorded")
                now.unseen = 0  # from here on the values are the caller's
                leaves = plain_results(leaves)
            return tree.unflatten(structure, leaves)
    except NeedsTrace:
        return MISS


def run_inside(f: Callable, signed: Signed) -> Any:
    """The result of a `jit` function that is called by one that runs without a trace."""
    result = run_as_written(f, signed)
    _check(tree.leaves(result))
    return result


def _check(leaves: Sequence[Any]) -> None:
    """Leave the function if a leaf of its result is another object: a trace checks if it may be returned."""
    if not all([isinstance(x, (AbstractTensor, np.ndarray, np.generic, *BARE)) for x in leaves]):
        state.now.require_trace()


def run_as_written(f: Callable, signed: Signed, shares: bool = False) -> Any:
    """The result of a function whose arguments are as in a trace, but have values.

    shares    True: arrays are shared with the caller, as the results are computed before the caller goes on
    """
    leaves = []
    for key, value, given in signed.leaves:
        if value is not None and key[0] not in ARRAYS and not isinstance(given, Tensor):
            given = number_like_traced(given, key[2], weak=key[0] != SCALAR)  # a trace has a number here
        leaves.append(constant_of(given, shares))
    args, kwargs = tree.unflatten(signed.structure, leaves)
    return applied(f, args, kwargs)
