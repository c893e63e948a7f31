"""Plans: how a known recording is answered.

    exact key  ->  Plan        which executable, how to gather its inputs, what to store
    graph key  ->  Executable  (`codegen.compiler`); knows nothing of leaves, rules or numbers

A plan refers to nodes only by their canonical numbers (`walk.structure`), so it serves every
recording with an equal key.  What a rule did with watched numbers (`watched`) it does again: see `Formulas`.
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
from ..session import owned
from .lines import Lines, give_origins
from .machine import note_repeated
from .node import Node
from .program import Program, data, placed, program_of
from .record import ALIASES, state
from .tier import AtSize, Tier, executable_of, is_evaluated
from .walk import value_inputs

if TYPE_CHECKING:
    from .watched import Watch


class Counts:
    """Counts of this session, which `ad.cache_info` tells."""

    __slots__ = ("asks", "hits", "misses", "rules", "runs")

    def __init__(self) -> None:
        self.asks = self.hits = self.misses = self.rules = self.runs = 0


COUNTS: Counts = owned(Counts)


def count(plan: Plan | None) -> None:
    """A plan was found by its key; None: one has to be made.

    Machine code for recordings is worth it where found ones are compiled, or many new ones come.
    """
    if plan is None:
        COUNTS.misses += 1
    else:
        COUNTS.hits += 1
    is_compiled = plan is not None and not isinstance(plan.executable, Tier | AtSize)
    if is_compiled or COUNTS.misses > config.patience_now > 0:
        note_repeated()


#: Held while `.grad` of several leaves is compared and written, by Python also while what is there is added.
commit_lock = held_over_fork(threading.RLock())


class Misfit(Exception):
    """A number that a rule computed before cannot be computed from the present ones: the rule itself has to run."""


class Formulas:
    """The inputs of a plan (`places`) that are computed from the numbers of its calls, as their rules did it.

    What a rule computed and did not use is computed as well: it may raise.   calls: canonical numbers of their nodes
    """

    __slots__ = ("_work", "calls", "places")

    def __init__(self, gathered: Sequence[Any], watches: Mapping[int, Watch]) -> None:
        """`gathered`: the plan's inputs, some of them leaves of `watches`, which are given by the calls' numbers."""
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
    """executable(*gathered) -> results, and where they go.

    executable  None when nothing has to be computed
    gather      one entry per input: a canonical number, or a node that the rules made (a constant of the plan)
    store       (canonical number, position among the results): values to keep in nodes
    copies      (canonical number, source): nodes that name the value of another
    grads       where each gradient is found, None for one that is not reached;  leaves: the place of its leaf, or -1
    computed    for each of them, whether it is among the results (else it is the value of a node)
    choices     of dispatch that the rules relied on; when one changes, the plan is not `valid` any more
    relied      methods of users that the rules ran without naming them;  read: what these read then
    keys        by which it is found;  parts: the exact one, which keeps the kinds that it names
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
        """Call this from now on."""
        self.executable = executable
        if isinstance(executable, Tier):
            executable.users.add(ref(self, executable.users.discard))

    def exchange(self, tier: Tier, compiled: Any) -> None:
        """There is an executable in the place of a tier, which this may have run."""
        if self.executable is tier:
            self.executable = compiled

    def run(self, order: Sequence[Node]) -> tuple:
        """Call the executable on the values of a recording in canonical order.  Changes no node.

        Raises Misfit when there are numbers from which the inputs cannot be computed.
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
        """The gradients among the results of a run on a recording, each in memory of its own.

        ranks    which group each is of: they are given in the order of the groups
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
        """Keep the values that belong to nodes."""
        for number, position in self.store:
            settle(order[number], results[position])
        for number, origin in self.copies:
            settle(order[number], (order[origin] if type(origin) is int else origin).value)


def located(error: OutOfRange, graph: ir.Graph | None = None, arrays: Sequence[Any] = (), name: str = "") -> IndexError:
    """An index that was found to be outside, with the user's line that asked for the value.

    graph, arrays   the program and what it was called with: of native code its references say which index it is
    """
    which = error.which or ("" if graph is None else _outside(graph, arrays))
    which = which and f"  {which}\n"
    return IndexError(
        f"{error}{f' in {name}' if name else ''}: index arrays are checked when a value is computed\n"
        f"{which}  asked at {caller()}\n"
        "  nothing of this run was kept; print the indices, or bring them into range with ad.clip"
    )


def located_at(error: OutOfRange, nodes: Sequence[Node]) -> IndexError:
    """Locate nodes as above, where pending ones should have got their values."""
    graph, inputs = freeze([n for n in nodes if n.value is None])
    return located(error, graph, [data(n) for n in inputs])


def _outside(graph: ir.Graph, arrays: Sequence[Any]) -> str:
    """The operation, the index and the extent."""
    try:
        ir.evaluate(graph, *arrays)
    except OutOfRange as error:
        return error.which
    return ""


def settle(node: Node, value: Any) -> None:
    """Give a pending node its value; what leads to it is dropped unless gradients may need it.

    The value first, then the inputs: see `walk`.  What another thread has given it meanwhile stays.
    """
    if node.value is None:
        node.value = value
        if drops_inputs(node):
            node.inputs = ()


def drops_inputs(node: Node) -> bool:
    """True if a node that has its value needs what leads to it no more: no gradient will go there."""
    return node.leaf is not None or not node.kind.out.requires_grad or node.kind.released


def source(node: Node) -> Node:
    """The node whose value this one has: identities, detached values and boundaries name another's."""
    while node.kind.op in ALIASES or node.body is not None:
        inputs = value_inputs(node)
        if node.value is not None:
            break
        (node,) = inputs
    return node


class Answer(NamedTuple):
    """An answer to a recording: its program, and how that is used (see `Plan`)."""

    program: Program
    gather: tuple
    store: tuple
    copies: tuple
    grads: tuple
    computed: tuple

    def plan(self, run: Any = None) -> Plan:
        """The plan that runs this, by the program's executable, or by what stands for it (`run`)."""
        return Plan((run or executable_of(self.program)) if self.program.kinds else None, self)


def draw(
    outputs: Sequence[Node], number: Mapping[Node, Any], gradients: Sequence[Node | None] = (),
    own: Container[int] = (),
) -> Answer:  # fmt: skip
    """The answer that computes `outputs`: every one that has a number is to be stored, but for these `own` ones.

    gradients    those that are asked for, which are among the outputs, or None

    Raises ConcretizationError when an output depends on an argument of a trace.
    """
    sources = {o: source(o) for o in outputs}
    wanted = list(dict.fromkeys([s for s in sources.values() if s.value is None]))
    program, inputs = _told(wanted, (), (), state.now.lines, ())
    # Without an operation nothing is run: another thread has evaluated all since they were looked at.
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
    """Compute pending nodes, all or none, by a program that nobody keeps."""
    program, gather, store, copies, *_ = draw(outputs, {o: o for o in outputs})
    results: Sequence[Any] = ()
    if store:
        COUNTS.runs += 1
        try:
            run = program if is_evaluated(program) else executable_of(program)
            results = run.call(*[n.value for n in gather])
        except OutOfRange as error:
            raise located_at(error, [n for n, _ in store]) from None
    for node, position in store:
        settle(node, results[position])
    for node, origin in copies:
        settle(node, origin.value)


def freeze(
    outputs: Sequence[Node], arguments: Sequence[Node] = (), fixed: Container[Node] = (), lines: Lines | None = None,
    seeds: Sequence[Node] = (),
) -> tuple[ir.Graph, list[Node]]:
    """The compiler's graph of pending nodes, and the computed nodes that are its inputs: see `program_of`.

    `lines` say where nodes come from: by default those of the trace that is going on; `seeds` are cotangents among the
    inputs.
    """
    program, inputs = _told(outputs, arguments, fixed, lines or state.now.lines, seeds)
    return program.graph, inputs


def _told(
    outputs: Sequence[Node], arguments: Sequence[Node], fixed: Container[Node], lines: Lines | None,
    seeds: Sequence[Node],
) -> tuple[Program, list[Node]]:  # fmt: skip
    """The program of pending nodes, which knows where they come from if there is somebody to tell."""
    if lines is None:
        return program_of(outputs, arguments, fixed)
    program, inputs, place = placed(outputs, arguments, fixed)
    graph = program.graph
    nodes = [*program.lowered, *graph.inputs[::-1]]
    made = {node: nodes[at] for node, at in place.items()}
    graph.origin_setter = partial(give_origins, lines, made, arguments, seeds, graph)
    if lines.is_lasting:
        graph.set_origins()  # and let the nodes go
    return program, inputs


def is_number(node: Node) -> bool:
    """True if a node holds a Python number."""
    return node.value is not None and type(node.value) is not np.ndarray
