"""Plans: the cached ways to compute recordings that were seen before.

    exact key  ->  Plan        an executable, how to gather its inputs, which results to store
    graph key  ->  Executable  (`codegen.compiler`), which has no leaves, rules or numbers

A plan refers to nodes only by their canonical numbers (`walk.structure`), so it serves every
recording with an equal key.  It repeats the arithmetic of rules with watched numbers (`watched`): see `Formulas`.
"""

from __future__ import annotations

import threading
from collections.abc import Container, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from codegen import ir
from codegen.forks import held_over_fork
from codegen.ir import OutOfRange
from codegen.records import NamedTuple

from ..config import config
from ..errors import caller
from ..session import per_session
from .lines import Lines, give_origins
from .machine import WHEN_REPEATED, note_repeated
from .node import Node
from .program import Program, data, placed, program_of
from .record import ALIASES, state
from .tier import AtSize, Tier, executable_of, is_evaluated
from .walk import value_inputs

if TYPE_CHECKING:
    from .watched import Watch


class Counts:
    """Counts of the session, for `ad.cache_info`."""

    __slots__ = ("asks", "hits", "misses", "rules", "runs")

    def __init__(self) -> None:
        self.asks = self.hits = self.misses = self.rules = self.runs = 0


COUNTS: Counts = per_session(Counts)


def count(plan: Plan | None) -> None:
    """Count a recording whose plan was found; None: a plan has to be made.

    Machine code for recordings pays off once a found plan is compiled, or many recordings were new.
    """
    if plan is None:
        COUNTS.misses += 1
    else:
        COUNTS.hits += 1
    is_compiled = plan is not None and not isinstance(plan.executable, Tier | AtSize)
    if WHEN_REPEATED and (is_compiled or COUNTS.misses > config.patience_now > 0):
        note_repeated()


#: Held while the `.grad` of several leaves is compared and written; in Python also while gradients are added to it.
commit_lock = held_over_fork(threading.RLock())


class Misfit(Exception):
    """Raised if a number of a rule cannot be computed from the present numbers: the rule itself has to run."""


class Formulas:
    """Formulas for the inputs of a plan (`places`) that rules computed from the numbers of their custom calls.

    Numbers that a rule computed but did not use are computed too, as this may raise.   calls: numbers of the call nodes
    """

    __slots__ = ("_work", "calls", "places")

    def __init__(self, gathered: Sequence[Any], watches: Mapping[int, Watch]) -> None:
        """`gathered`: the plan's inputs, some of which are leaves of a watch;  `watches`: by the numbers of calls."""
        inputs = {x: i for i, x in enumerate(gathered) if isinstance(x, Node)}
        self._work: list[tuple] = []
        calls, places = [], list[int]()
        for number, watch in watches.items():
            if watch.leaves or any([step.function is not None for step in watch.steps]):
                calls.append(number)
                leaves = [(step, convert, node in inputs) for node, (step, convert) in watch.leaves.items()]
                places += [inputs[node] for node in watch.leaves if node in inputs]
                self._work.append((tuple(watch.steps), leaves))
        self.calls, self.places = tuple(calls), tuple(places)

    def values(self, *numbers: Sequence[Any]) -> tuple:
        """A value for each place, given the numbers of each call.  Raises Misfit."""
        found = list[Any]()
        try:
            for given, (steps, leaves) in zip(numbers, self._work, strict=True):
                known = list[Any]()
                for function, operands, _ in steps:
                    if function is None:
                        known.append(given[operands[0][1]])
                    else:
                        known.append(function(*[x if step < 0 else known[step] for step, x in operands]))
                for at, convert, is_read in leaves:
                    value = convert(known[at])
                    if is_read:
                        found.append(value)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise Misfit from error
        return tuple(found)

    def __bool__(self) -> bool:
        return bool(self.calls)


class Plan:
    """An executable, the sources of its inputs, and the destinations of its results.

    executable  None when nothing has to be computed
    gather      one entry per input: a canonical number, or a node that the rules made (a constant of the plan)
    store       (canonical number, position among the results): results that become values of nodes
    copies      (canonical number, source): nodes that get the value of another node
    grads       the place of each gradient: a position, a node, or None if not reached;  leaves: of its leaf, or -1
    computed    for each gradient, True if it is among the results (else it is the value of a node)
    choices     the dispatch choices that the rules relied on; when one of them changes, the plan is no longer `valid`
    relied      users' methods that the rules called and that no key names;  read: the values that these methods read
    keys        the keys that the plan is cached under;  parts: the exact key, which keeps the kinds in it alive
    """

    __slots__ = (
        "__weakref__", "choices", "computed", "copies", "executable", "formulas", "gather", "grads", "keys", "leaves",
        "parts", "read", "relied", "store", "valid",
    )  # fmt: skip

    def __init__(self, executable: Any, answer: Answer) -> None:
        self.use(executable)
        _, self.gather, self.store, self.copies, self.grads, self.computed = answer
        self.choices: Any = None
        self.relied: tuple = ()
        self.read: tuple = ()
        self.valid = True
        self.keys: tuple = ()
        self.parts: Any = None
        self.leaves: tuple[int, ...] = ()
        self.formulas: Formulas | None = None

    def use(self, executable: Any) -> None:
        """Set the executable; a tier notes that the plan uses it."""
        self.executable = executable
        if isinstance(executable, Tier):
            executable.users.add(ref(self, executable.users.discard))

    def exchange(self, tier: Tier, compiled: Any) -> None:
        """Replace a tier by its compiled executable, if the plan still uses the tier."""
        if self.executable is tier:
            self.executable = compiled

    def run(self, order: Sequence[Node]) -> tuple:
        """Call the executable on the values of a recording, its nodes in canonical order.  No node changes.

        Raises Misfit if an input cannot be computed from the present numbers.
        """
        formulas = self.formulas
        computed: tuple = ()
        if formulas is not None:
            computed = formulas.values(*[order[c].call.numbers for c in formulas.calls])
        if self.executable is None:
            return ()
        values = [order[g].value if type(g) is int else g.value for g in self.gather]
        if formulas is not None:
            for place, value in zip(formulas.places, computed, strict=True):
                values[place] = value
        COUNTS.runs += 1
        try:
            return self.executable.call(*values)
        except OutOfRange as error:
            raise located_at(error, [order[number] for number, _ in self.store]) from None

    def gradients(self, results: tuple, ranks: Sequence[int], order: Sequence[Node] = ()) -> list[np.ndarray | None]:
        """The gradients of a run on a recording, none of which shares memory with another array.

        ranks    for each gradient of the plan, the number of its group, which is its place in the list
        """
        taken = set[int]()
        found: list[np.ndarray | None] = [None] * len(ranks)
        for rank, place, computed in zip(ranks, self.grads, self.computed, strict=True):
            if computed:
                found[rank] = results[place] if place not in taken else results[place].copy()
                taken.add(place)
            elif place is not None:
                found[rank] = data(order[place] if type(place) is int else place).copy()
        return found

    def commit(self, order: Sequence[Node], results: tuple) -> None:
        """Store the results of a run in the nodes whose values they are."""
        for number, position in self.store:
            set_value(order[number], results[position])
        for number, origin in self.copies:
            set_value(order[number], (order[origin] if type(origin) is int else origin).value)


def located(error: OutOfRange, graph: ir.Graph | None = None, arrays: Sequence[Any] = (), name: str = "") -> IndexError:
    """The IndexError for an index that is out of range, with the user's line that asked for the value.

    graph, arrays   the program and its arguments: for native code, the NumPy references find out which index it is
    """
    which = error.which or ("" if graph is None else _outside(graph, arrays))
    which = which and f"  {which}\n"
    return IndexError(
        f"{error}{f' in {name}' if name else ''}: index arrays are checked when a value is computed\n"
        f"{which}  asked at {caller()}\n"
        "  nothing of this run was kept; print the indices, or bring them into range with ad.clip"
    )


def located_at(error: OutOfRange, nodes: Sequence[Node]) -> IndexError:
    """The IndexError of `located` for a run that should have computed the pending ones of these nodes."""
    graph, inputs = freeze([n for n in nodes if n.value is None])
    return located(error, graph, [data(n) for n in inputs])


def _outside(graph: ir.Graph, arrays: Sequence[Any]) -> str:
    """Words for the operation, the index and the extent; empty if no index is out of range."""
    try:
        ir.evaluate(graph, *arrays)
    except OutOfRange as error:
        return error.which
    return ""


def set_value(node: Node, value: Any) -> None:
    """Give a pending node its value, and drop its inputs unless gradients may need them.

    The value is set first, and the inputs are dropped second: see `walk`.  A value from another thread stays.
    """
    if node.value is None:
        node.value = value
        if drops_inputs(node):
            node.inputs = ()


def drops_inputs(node: Node) -> bool:
    """True if an evaluated node may drop its inputs, because no gradient will flow to them."""
    return node.leaf is not None or not node.kind.out.requires_grad or node.kind.released


def source(node: Node) -> Node:
    """The node that computes the value of a node: identities, detached nodes and boundaries only pass a value on."""
    while node.kind.op in ALIASES or node.body is not None:
        inputs = value_inputs(node)
        if node.value is not None:
            break
        (node,) = inputs
    return node


class Answer(NamedTuple):
    """The program for a recording, and the fields of a `Plan` that runs this program."""

    program: Program
    gather: tuple
    store: tuple
    copies: tuple
    grads: tuple
    computed: tuple

    def plan(self, run: Any = None) -> Plan:
        """The plan that runs the program: by `run` if given, else by the program's executable or tier."""
        return Plan((run or executable_of(self.program)) if self.program.kinds else None, self)


def answer_computing(
    outputs: Sequence[Node], number: Mapping[Node, Any], gradients: Sequence[Node | None] = (),
    own: Container[int] = (),
) -> Answer:  # fmt: skip
    """The answer that computes `outputs`: each output with a number is stored, unless the number is in `own`.

    gradients    the gradients that are asked for, which are among the outputs; None for one that is not reached

    Raises ConcretizationError when an output depends on an argument of a trace.
    """
    sources = {o: source(o) for o in outputs}
    wanted = list(dict.fromkeys([s for s in sources.values() if s.value is None]))
    program, inputs = _program_with_origins(wanted, (), (), state.now.lines, ())
    # A program without operations is not run: another thread has evaluated all outputs meanwhile.
    position = {node: i for i, node in enumerate(wanted if program.kinds else ())}
    gather = tuple(number.get(node, node) for node in inputs)
    store, copies, places = [], [], {}
    for o, s in sources.items():
        if s in position:
            places[o] = position[s]
            if o in number and number[o] not in own:
                store.append((number[o], position[s]))
        elif o in number and o.value is None:
            copies.append((number[o], number.get(s, s)))
    grads = tuple([None if g is None else places.get(g, number.get(g, g)) for g in gradients])
    return Answer(program, gather, tuple(store), tuple(copies), grads, tuple([g in places for g in gradients]))


def run_once(outputs: Sequence[Node]) -> None:
    """Compute pending nodes, all or none, by a program that is not cached."""
    answer = answer_computing(outputs, {o: i for i, o in enumerate(outputs)})
    plan = answer.plan(answer.program if is_evaluated(answer.program) else None)
    plan.commit(outputs, plan.run(outputs))


def freeze(
    outputs: Sequence[Node], arguments: Sequence[Node] = (), fixed: Container[Node] = (), lines: Lines | None = None,
    seeds: Sequence[Node] = (),
) -> tuple[ir.Graph, list[Node]]:
    """The compiler's graph of pending nodes, and the computed nodes that are its inputs: see `program_of`.

    `lines` are the places where nodes were recorded, by default those of the present trace; `seeds` are cotangents
    among the inputs.
    """
    program, inputs = _program_with_origins(outputs, arguments, fixed, lines or state.now.lines, seeds)
    return program.graph, inputs


def _program_with_origins(
    outputs: Sequence[Node], arguments: Sequence[Node], fixed: Container[Node], lines: Lines | None,
    seeds: Sequence[Node],
) -> tuple[Program, list[Node]]:  # fmt: skip
    """The program of pending nodes; if there are lines, its graph gets the origins of the nodes."""
    if lines is None:
        return program_of(outputs, arguments, fixed)
    program, inputs, place = placed(outputs, arguments, fixed)
    graph = program.graph
    nodes = [*program.lowered, *graph.inputs[::-1]]
    made = {node: nodes[at] for node, at in place.items()}
    graph.origin_setter = partial(give_origins, lines, made, arguments, seeds, graph)
    if lines.is_lasting:
        graph.set_origins()  # at once, so that the graph does not keep the nodes alive
    return program, inputs


def read_only(array: np.ndarray) -> np.ndarray:
    """A read-only view of an array."""
    view = array.view()
    view.flags.writeable = False
    return view


def is_number(node: Node) -> bool:
    """True if a computed node holds a Python number."""
    return node.value is not None and type(node.value) is not np.ndarray
