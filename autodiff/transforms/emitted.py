"""Emissions: the nodes that rules recorded for a recording are put down again where it is known, without the rules.

A gradient inside of another, a directional derivative, the gradient that `create_graph` keeps: there the rules do not
end in numbers but in more tape, so no plan answers.  But what they record is decided by what they go through
(`tape.behind`) and, where a rule is a user's, by what a key says of its call (`Call.recorded_key`).  So for a recording
like one that was met before

    key         finds the emission, and the nodes that it reads                   (`behind.look`)
    emission    the nodes that the rules recorded behind these, put down at once  (`recording_program`)

    gradients = emitted(purpose, roots, results, targets, run)         # run() is what runs the rules

An emission is made when a recording is met for the second time.  It relies on the choices that dispatch made meanwhile
(`dispatch.observed`): a method that changes one of them drops it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from codegen.garbage import Paused
from codegen.lazily import later
from codegen.records import NamedTuple

from ..config import config
from ..custom.keys import users_methods
from ..dispatch import Choices, observed
from ..mode import MODE
from ..tape.behind import NOTHING, Behind, Recorded, emissions, look, remember
from ..tape.machine import native_put
from ..tape.node import CONSTANT, LEAF, Node, RichNode, new_number, put_down, rich_node
from ..tape.record import Recording, state
from ..tape.walk import by_number, reached
from ..tensor import Tensor, handle

if TYPE_CHECKING:
    from ..custom import boundary
else:  # for the first call of a user's rule
    boundary = later("autodiff.custom.boundary")

__all__ = ["LIMIT", "NEVER", "Rich", "emitted", "is_repeatable", "made_between", "put_again", "rich_of"]

#: Nodes that are read and recorded beyond which rules run each time.
LIMIT = 12_000
#: Of a key of `emissions`: rules run each time.
NEVER = object()


class Rich(NamedTuple):
    """The making of a node with room for more: an output of a call that is read back, or calls for many examples.

    fields    its body, flow and slot
    call      of calls: place of the node whose call is that of one example, how many there are, which inputs differ
    """

    fields: tuple[int | None, Any, int | None]
    call: tuple[int, int, tuple[bool, ...]] | None

    def node(self, step: tuple, nodes: Sequence[Node]) -> RichNode:
        """Put it down behind the nodes so far."""
        kind, value, picks = step
        inputs = tuple([nodes[i] for i in picks])
        body, flow, slot = self.fields
        if self.call is not None:
            place, size, mapped = self.call
            return boundary.MappedCall(nodes[place].call, size, mapped).node(inputs, flow)
        made = rich_node(kind, inputs, value)
        made.body, made.flow, made.slot = body, flow, slot
        return made


class Emission(Recorded):
    """The nodes that rules recorded.

    exact      the key, which keeps the kinds that it names
    steps      kind, value and inputs of each node, the nodes that are read being the first
    rich       which steps make a node with room for more, and how
    results    which of them all are the results; None for one that is symbolically zero
    put        from the nodes that are read to those that are results, natively; None: in Python
    """

    __slots__ = ("choices", "exact", "put", "results", "rich", "steps")

    def __init__(
        self, exact: Any, reads: list[int], steps: list[tuple], rich: dict[int, Rich], results: list[int | None],
        choices: Choices,
    ) -> None:  # fmt: skip
        self.exact, self.reads, self.steps, self.rich = exact, reads, steps, rich
        self.results, self.choices = results, choices
        self.put: Callable[[tuple], tuple] | None = None
        if not rich:
            self.put = native_put(len(reads), steps, _some(results))

    def put_in_python(self, given: tuple) -> tuple:
        """From the nodes that are read to those that are results."""
        return put_again(given, self.steps, self.rich, _some(self.results))

    def on(self, now: Recording, given: Sequence[Node]) -> list[Any]:
        """Put it down behind the nodes that it reads."""
        made = iter((self.put or self.put_in_python)(tuple(given)))
        found: list[Any] = []
        for place in self.results:
            t = None
            if place is not None:
                t = handle(next(made))
                if t.node.kind.out.small and t.node.value is None:
                    now.note_small(t)  # as `record` does
            found.append(t)
        return found


def put_again(
    given: tuple, steps: Sequence[tuple], rich: dict[int, Rich], results: Sequence[int]
) -> tuple[Node, ...]:
    """Put steps down behind the nodes that are given; those that are wanted of them all."""
    nodes = list(given)
    start = 0
    for at, one in rich.items():
        put_down(steps[start:at], nodes)
        nodes.append(one.node(steps[at], nodes))
        start = at + 1
    put_down(steps[start:], nodes)
    return tuple([nodes[i] for i in results])


def _some(results: Sequence[int | None]) -> list[int]:
    return [place for place in results if place is not None]


def emitted(
    purpose: tuple,
    roots: Sequence[Node],
    results: int,
    targets: int,
    run: Callable[[], Sequence[Tensor | None] | None],
    *,
    is_cut: bool = True,
    first: Callable[[], Any] | None = None,
    sees: type[Behind] = Behind,
) -> Any:
    """run(), or what it recorded the last time behind such nodes.

    purpose   what is done, with all that it depends on beside the roots and grad mode
    roots     first so many results, then so many targets, then what rules are given
    run       records by rules what these decide, and asks for no values
    sees      what of a recording decides what is recorded behind it
    first     what is done instead until the recording is met again, and where run() gives None
    is_cut    targets are nodes of the caller's own: no other version of a leaf is meant
    """
    now = state.now
    mode = MODE.get()
    is_watched = mode.closely or mode.anomalies or config.eager
    is_told = now.lines is not None and now.lines.is_whole  # which rule records what
    if is_told or is_watched or now.literal or not results or (is_cut and not targets):
        return (first or run)()
    purpose = (purpose, len(roots), mode.tracks, now.tracing > 0)
    found = look(sees, purpose, roots, results, targets, is_cut)
    if found is None:
        return (first or run)()
    key, entry, nodes = found
    if isinstance(entry, Emission):
        return entry.on(now, nodes)
    if entry is NOTHING:
        remember(key, None)
    if entry is not None:
        return (first or run)()
    with Paused():  # nearly all that rules record is still in use
        behind = sees.of(roots, results, targets, is_cut)
        return (first or run)() if behind is None else _learnt(now, key, behind, run, first or run)


def _learnt(now: Recording, key: Any, behind: Behind, run: Callable[[], Any], first: Callable[[], Any]) -> Any:
    """Run the rules, and learn to put down without them what they recorded."""
    asked = now.asked
    start = new_number()
    emission: Emission | None = None
    with observed() as choices:
        found = run()
    if found is not None and now.asked == asked and not users_methods(choices):
        emission = _emission(behind, found, start, choices)
    remember(key, emission or NEVER)
    if emission is not None:
        choices.on_change(lambda: emissions.pop(key))
    return first() if found is None else found


def _emission(
    behind: Behind, found: Sequence[Tensor | None], start: float, choices: Choices
) -> Emission | None:
    """The nodes from what was there to what rules found; None where it holds what cannot be put down again."""
    number = behind.number
    made = made_between([t.node for t in found if t is not None], number)
    if len(made) + len(number) > LIMIT:
        return None
    place: dict[Node, int] = {}
    calls = {n.call: n for n in behind.past if n.call is not None}
    if not all([is_repeatable(node, start, calls) for node in made]):
        return None
    read = [i for node in made for i in node.inputs if i in number]
    read += [calls[node.call.inner] for node in made if node.call is not None]
    read += [t.node for t in found if t is not None and t.node in number]
    for node in dict.fromkeys(read):
        place[node] = len(place)
    given = list(place)
    for node in made:
        place[node] = len(place)
    steps = [(node.kind, node.value, tuple([place[i] for i in node.inputs])) for node in made]
    rich = {k: rich_of(node, calls, place) for k, node in enumerate(made) if type(node) is not Node}
    results = [None if t is None else place[t.node] for t in found]
    return Emission(behind.key, [number[n] for n in given], steps, rich, results, choices)


def is_repeatable(node: Node, start: float, calls: dict[Any, Node]) -> bool:
    """True if a node that rules made can be put down again.

    start   the number from which on they made nodes;  calls: nodes of the calls that they went through
    """
    if node.number < start and node.kind.op is not CONSTANT:
        return False  # something that was there before
    if type(node) is not Node and not _has_rich(node, calls):
        return False  # with a rule or hooks of its own
    if node.value is not None and (node.inputs or node.kind.op is not LEAF):
        return False  # somebody asked for it
    return not (calls and isinstance(node.value, np.ndarray))  # an array that a rule of the user's made may be lent


def _has_rich(node: Node, calls: dict[Any, Node]) -> bool:
    """True if a node with room for more has no more than what `Rich` says."""
    if node.leaf is not None or node.retained is not None or node.hooks:
        return False
    if node.call is None:
        return node.line is None
    return type(node.call) is boundary.MappedCall and node.call.inner in calls


def rich_of(node: Node, calls: dict[Any, Node], place: dict[Node, int]) -> Rich:
    """The way to make it.   place: of nodes that are there by then"""
    call = node.call
    of = None if call is None else (place[calls[call.inner]], call.size, call.mapped)
    return Rich((node.body, node.flow, node.slot), of)


def made_between(wanted: Sequence[Node], known: dict[Node, int]) -> list[Node]:
    """The nodes between what is known and what is wanted, by creation."""
    made = reached(set(wanted).difference(known), lambda node: [i for i in node.inputs if i not in known])
    return sorted(made, key=by_number)
