"""Graphs that do not repeat: after several in a row, a new one waits to be compiled until that pays.

Episodes of random length, trees, a batch of every size: each makes a new graph shape, and compiling costs
more than running it a hundred times.  Of the last `config.patience` new shapes, fewer than half may have been
used again soon after: then a new one is evaluated operation by operation with NumPy, and compiled when

  * it is run in a loop: for the third time at the same distance (twice in a row may well be chance); or
  * evaluating it has taken as long as compiling it is expected to take.

The second is the rule of who does not know how long he will ski, and rents until that has cost as much as to
buy: whatever comes, at most twice the cost of the better choice.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from codegen.compiler import compile_graph, is_known
from codegen.ir import Evaluation, Graph
from codegen.runtime.cache import LRU

from ..config import config
from .misses import note

if TYPE_CHECKING:
    from .any_size import AnySize

__all__ = [
    "BEGUN", "WHEN_REPEATED", "Rented", "Sampled", "Waiting", "clear_streak", "executable_at", "executable_of",
    "go_on", "is_regular", "is_varied", "is_waiting",
    "note_compiled", "note_found", "note_regular", "note_repeated", "note_spent", "prices",
]


class _Prices:
    """What compiling an operation costs, as learnt here, and the clock it is measured by."""

    def __init__(self) -> None:
        #: Of this thread: how busy the machine is otherwise is no reason to compile, or not to.
        self.now: Callable[[], float] = time.thread_time
        #: 1202 operations took 199 ms (2 cores, 2026-11): a start that the first graphs outweigh.
        self.seconds, self.operations = 0.16, 1000.0

    def compiled(self, graph: Graph) -> Any:
        """Compile a graph, and learn what that costs; what was learnt before fades."""
        start = self.now()
        executable = compile_graph(graph)
        self.seconds = 0.8 * self.seconds + self.now() - start
        self.operations = 0.8 * self.operations + len(graph.nodes)
        return executable

    def of(self, graph: Graph) -> float:
        """The seconds that compiling a graph is expected to take."""
        return self.of_operations(len(graph.nodes))

    def of_operations(self, count: float) -> float:
        """The seconds that compiling so many operations is expected to take."""
        return count * self.seconds / self.operations


prices = _Prices()


class Sampled:
    """Of every so many runs one is timed, and counts for all: to ask for the time of a thread is a call of the system.

    Where other processes want the core it may be gone for milliseconds then.
    """

    EVERY = 8

    def __init__(self) -> None:
        self._runs = 0

    def begin(self) -> float | None:
        """When a run began; None: it is not timed."""
        self._runs += 1
        return None if self._runs % self.EVERY else prices.now()

    def spent(self, since: float | None) -> float:
        """The seconds to be added for it."""
        return 0.0 if since is None else self.EVERY * (prices.now() - since)


class Waiting:
    """Stands for the executable of a graph that is evaluated for the time being.

    graph       what it is, or gives, when that is first asked for
    evaluate    evaluates it; by default the evaluator of the graph
    """

    __slots__ = ("__weakref__", "_compiled", "_evaluate", "_graph", "_runs", "_seconds", "operations")

    def __init__(
        self, graph: Graph | Callable[[], Graph], operations: int, evaluate: Callable[..., tuple] | None = None
    ) -> None:
        self._graph = graph
        self.operations = operations
        self._evaluate = evaluate
        self._compiled: Any = None
        self._runs = 0
        self._seconds = 0.0

    def call(self, *values: Any) -> tuple:
        """As `Executable.call`, by the reference of each operation."""
        if self._compiled is not None:
            return self._compiled.call(*values)
        evaluate = self._evaluate
        if evaluate is None:
            graph = self._drawn()
            evaluation = Evaluation(graph)
            evaluate = self._evaluate = lambda *values: evaluation(*_arrays(graph, values))
        results: tuple = evaluate(*values)
        self._runs += 1
        _ran.append(self)
        return results

    def _drawn(self) -> Graph:
        if not isinstance(self._graph, Graph):
            self._graph = self._graph()
        return self._graph

    def add(self, seconds: float) -> None:
        """So long did it take to answer by evaluating, with the look at the recording that checks would save."""
        self._seconds += seconds

    def settled(self) -> Any:
        """What is to run the graph from now on, when it is met again: its executable if that pays by now, or this."""
        if self._compiled is None:
            why = self._why_compiled()
            if why:
                self._compiled = prices.compiled(self._drawn())
                self._evaluate = None
                _ran.append(self)
                note(f"{self.operations} operations that waited", why)
        return self if self._compiled is None else self._compiled

    def _why_compiled(self) -> str:
        if not config.patience or is_known(self._drawn()):
            return "nothing waits any more"
        if is_regular(self, _ran):
            return "a graph that NumPy evaluated is run in a loop"
        if self._seconds >= prices.of_operations(self.operations):
            return f"NumPy has evaluated a graph {self._runs} times, for as long as compiling was expected to take"
        return ""

    def __repr__(self) -> str:
        return f"<Waiting, {self.operations} operations, evaluated {self._runs} times>"


class Rented:
    """A graph of a stretch: evaluated until that has taken as long as compiling it is expected to take.

    at_once     compiled when it is first called
    compiled    its executable, from then on
    """

    __slots__ = ("_at_once", "_cost", "_evaluation", "_graph", "_seconds", "compiled")

    def __init__(self, graph: Graph, at_once: bool = False) -> None:
        self._graph = graph
        self._at_once = at_once
        self._evaluation: Evaluation | None = None
        self.compiled: Any = compile_graph(graph) if is_known(graph) else None
        self._seconds = self._cost = 0.0

    @property
    def operations(self) -> int:
        """How many there are."""
        return len(self._graph.nodes)

    @property
    def cost(self) -> float:
        """The seconds that compiling it took, or is expected to take."""
        return self._cost or prices.of(self._graph)

    def call(self, *values: Any) -> tuple:
        """As `Executable.call`."""
        if self.compiled is None:
            if is_known(self._graph):  # the code of another stretch was the same graph, and is compiled by now
                self.compiled, self._evaluation = compile_graph(self._graph), None
            elif self._at_once:
                self._compile()
        if self.compiled is not None:
            return self.compiled.call(*values)
        evaluation = self._evaluation = self._evaluation or Evaluation(self._graph)
        since = prices.now()
        results = evaluation(*_arrays(self._graph, values))
        self._seconds += prices.now() - since
        if self._seconds >= prices.of(self._graph):
            self._compile()
        return results

    def _compile(self) -> None:
        since = prices.now()
        self.compiled = prices.compiled(self._graph)
        self._cost = prices.now() - since
        self._evaluation = None


def _arrays(graph: Graph, values: Sequence[Any]) -> list[np.ndarray]:
    return [np.asarray(v, n.aval.dtype) for v, n in zip(values, graph.inputs, strict=True)]


#: Graphs that wait, by shape: with what evaluating it needs, one takes a KB an operation.
_waiting = LRU(512, most=50_000)
#: What was evaluated last: twice as many as the longest patience.
_ran: deque[Waiting] = deque(maxlen=128)


def is_regular(what: Any, ran: Sequence[Any]) -> bool:
    """Whether what is about to run has run twice, one distance and twice that distance ago."""
    most = min(config.patience, len(ran) // 2)
    return any([ran[-p] is what and ran[-2 * p] is what for p in range(1, most + 1)])


#: Called when a graph is asked for again, for what repeats is worth being made faster; and before each ask after that,
#: until it says that all is done.
WHEN_REPEATED: list[Callable[[], bool]] = []
#: Those that were called and have not said so yet.
BEGUN: list[Callable[[], bool]] = []


def note_repeated() -> None:
    """A plan was found by its key."""
    if WHEN_REPEATED:
        BEGUN.extend(WHEN_REPEATED)
        WHEN_REPEATED.clear()
        go_on()


def go_on() -> None:
    """Call what has begun again."""
    for step in list(BEGUN):
        if step() and step in BEGUN:
            BEGUN.remove(step)


class _Streak:
    """Whether shapes repeat: the plans whose graphs were new last, and which of them were used again soon.

    Time is counted in plans that were made or looked up; what checks answer is not seen here.
    """

    def __init__(self) -> None:
        self.time = 0
        self.made: deque[tuple[Any, int]] = deque(maxlen=64)
        self.soon: set[Any] = set()
        #: What was found last, when, and for which patience.
        self._found: tuple[int, int, bool] | None = None

    def is_varied(self, patience: int) -> bool:
        """Whether of the last new shapes fewer than half were used again soon."""
        found, time = self._found, self.time
        if found is not None and found[0] == time and found[1] == patience:
            return found[2]
        varied = self._is_varied(patience)
        self._found = time, patience, varied
        return varied

    def _is_varied(self, patience: int) -> bool:
        if not patience or len(self.made) < patience:
            return False
        latest = list(self.made)[-patience:]  # at once: other threads add to it
        return 2 * sum([plan in self.soon for plan, _ in latest]) < patience

    def made_new(self, plan: Any) -> None:
        """The graph of a plan was new."""
        self.made.append((plan, self.time + 1))
        self.time += 1  # last: what was found before is found again

    def found(self, plan: Any) -> None:
        """A plan was found by its key."""
        time = self.time + 1
        made = list(self.made)
        if plan not in self.soon and any([p is plan and time - then <= config.patience for p, then in made]):
            self.soon = {*[p for p, _ in made if p in self.soon], plan}
        self.time = time

    def forget(self) -> None:
        """As if none had been made."""
        self.made.clear()
        self.soon.clear()
        self.time += 1


_streak = _Streak()


def executable_of(graph: Graph) -> tuple[Any, bool]:
    """What runs a graph, its executable, or a stand-in while shapes do not repeat; and whether it was there before."""
    if is_known(graph):
        return compile_graph(graph), True
    waiting = _waiting.get(graph.key)
    if waiting is not None:
        return waiting.settled(), True
    if _streak.is_varied(config.patience):
        waiting = Waiting(graph, len(graph.nodes))
        _waiting.put(graph.key, waiting, len(graph.nodes))
        return waiting, False
    return prices.compiled(graph), False


def executable_at(sized: AnySize, values: tuple[int, ...]) -> tuple[Any, bool]:
    """The same for a graph of unknown extents at these; to be asked for where shapes do not repeat."""
    key = sized, values
    waiting = _waiting.get(key)
    if waiting is not None:
        return waiting.settled(), True
    waiting = Waiting(lambda: sized.at(values), sized.operations, lambda *arrays: sized.run(values, arrays))
    _waiting.put(key, waiting)
    return waiting, False


def is_waiting(sized: AnySize, values: tuple[int, ...]) -> bool:
    """Whether it is evaluated at these for the time being, or was."""
    return (sized, values) in _waiting


def is_varied() -> bool:
    """Whether shapes do not repeat, of late."""
    return _streak.is_varied(config.patience)


def note_regular() -> None:
    """What comes again and again is to be compiled: the next new shape is."""
    _streak.forget()


def note_compiled(plan: Any) -> None:
    """Remember a plan whose graph was new: whether it is used again soon tells if shapes repeat."""
    _streak.made_new(plan)


def note_found(plan: Any, purpose: Any) -> bool:
    """A plan was found by its key.  True: for the first time for this purpose since it is compiled: a check pays."""
    if plan.uses < 2:
        _streak.found(plan)
    if type(plan.executable) is Waiting:
        plan.executable = plan.executable.settled()
        if type(plan.executable) is Waiting:
            return False
    plan.uses += 1
    if purpose is None or purpose in plan.checked_for:
        return False
    plan.checked_for += (purpose,)
    return True


def note_spent(plan: Any, start: float) -> None:
    """A recording was answered by a plan that it was compared with since `start`, a time of `prices.now`."""
    if type(plan.executable) is Waiting:
        plan.executable.add(prices.now() - start)


def clear_streak() -> None:
    """Forget what waits, and the plans that were looked at."""
    _waiting.clear()
    _ran.clear()
    _streak.forget()
