"""The rule of when a recorded program is compiled: not before that pays.

Compiling costs more than running a program a hundred times, and many come only once: what is tried at a prompt,
episodes of random length, trees.  So a new one is evaluated operation by operation with NumPy, and compiled when

  * it is run in a loop: for the third time at the same distance, of at most `config.patience` programs (twice in a row
    may well be chance); or
  * evaluating it has taken as long as compiling it is expected to take; where one time is expected to, as with large
    arrays and loops, it is compiled at once.

The second is the rule of who does not know how long he will ski, and rents until that has cost as much as to
buy: whatever comes, at most twice the cost of the better choice.

Sizes that vary are another matter: see `varied`.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from codegen.compiler import compile_graph, counts, is_known
from codegen.ir import Graph
from codegen.runtime.cache import LRU

from ..config import config
from .misses import note
from .node import new_number
from .progress import compiled_in_sight
from .varied import forget_shapes, note_used

if TYPE_CHECKING:
    from .any_size import AnySize
    from .program import Program

__all__ = [
    "BEGUN", "LATE", "WHEN_REPEATED", "Late", "Rented", "Sampled", "Waiting", "clear_streak", "executable_at",
    "executable_of", "go_on", "is_regular", "is_waiting", "note_found", "note_regular", "note_repeated", "note_spent",
    "prices", "rented",
]


class _Prices:
    """The price of compiling, as learnt here, and the clock it is measured by.

    It grows with the root of the number of operations, since kernels of equal text are compiled once: of 1,210 programs
    of 1 to 13,000 operations nine in ten took between 1 / 2.3 and 2.3 times that.
    """

    def __init__(self) -> None:
        #: Of this thread: how busy the machine is otherwise is no reason to compile, or not to.
        self.now: Callable[[], float] = time.thread_time
        #: Seconds for the root of one operation, to start with: half of what LLVM takes, and twice of what machine code
        #: takes that is found on disk (2 cores, 2026-11).
        self.root = 2e-3

    def compiled(self, graph: Graph) -> Any:
        """Compile a graph, and learn what that costs."""
        start = self.now()
        executable = compiled_in_sight(graph, compile_graph)
        if graph.nodes:
            self.root *= max(1e-3, (self.now() - start) / self.of_operations(len(graph.nodes))) ** 0.2
        return executable

    def of(self, program: Program) -> float:
        """The seconds that compiling a program is expected to take."""
        return self.of_operations(len(program.equations))

    def of_operations(self, count: float) -> float:
        """The seconds that compiling so many operations is expected to take."""
        return self.root * math.sqrt(count)


prices = _Prices()

#: Seconds that NumPy takes for an element of an operation (a mix of sin, tanh, products and sums of 1,000; 2 cores,
#: 2026-11).
_ELEMENT_S = 1.5e-9


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


class Late:
    """The number of graphs compiled in a block that were met before it: they are none of its own."""

    def __init__(self) -> None:
        self._since = new_number()
        self.count = 0

    def note(self, number: float, count: int) -> None:
        """Count what was compiled for a program that was met at this number."""
        if number < self._since:
            self.count += count


#: Of the blocks that are open.
LATE: list[Late] = []


class Waiting:
    """Stands for the executable of a graph that is evaluated for the time being.

    graph       gives it, when that is first asked for
    evaluate    evaluates it
    """

    __slots__ = ("__weakref__", "_compiled", "_evaluate", "_graph", "_number", "_runs", "_seconds", "operations")

    def __init__(
        self, graph: Callable[[], Graph], operations: int, evaluate: Callable[..., tuple]
    ) -> None:
        self._graph = graph
        self.operations = operations
        self._evaluate: Callable[..., tuple] | None = evaluate
        self._compiled: Any = None
        self._number = new_number()
        self._runs = 0
        self._seconds = 0.0

    def call(self, *values: Any) -> tuple:
        """As `Executable.call`, by the reference of each operation."""
        if self._compiled is not None:
            return self._compiled.call(*values)
        assert self._evaluate is not None
        results: tuple = self._evaluate(*values)
        self._runs += 1
        _ran.append(self)
        return results

    def add(self, seconds: float) -> None:
        """So long did it take to answer by evaluating, with the look at the recording that checks would save."""
        self._seconds += seconds

    def settled(self) -> Any:
        """What is to run the graph from now on, when it is met again: its executable if that pays by now, or this."""
        if self._compiled is None:
            why = self._why_compiled()
            if why:
                before = counts().compiles
                self._compiled = prices.compiled(self._graph())
                for block in LATE:
                    block.note(self._number, counts().compiles - before)
                self._evaluate = None
                _ran.append(self)
                note(f"a program of {self.operations} operations", why)
        return self if self._compiled is None else self._compiled

    def _why_compiled(self) -> str:
        if not config.patience or is_known(self._graph()):
            return "its code is there, or patience was set to 0"
        if is_regular(self, _ran):
            return "it is run in a loop"
        if self._seconds >= prices.of_operations(self.operations):
            return f"NumPy has evaluated it {self._runs} times, for as long as compiling was expected to take"
        return ""

    def __repr__(self) -> str:
        return f"<Waiting, {self.operations} operations, evaluated {self._runs} times>"


class Rented:
    """The program of a piece of a recording: evaluated until that has taken as long as compiling is expected to take.

    at_once     compiled when it is first called
    compiled    its executable, from then on
    """

    __slots__ = ("__weakref__", "_at_once", "_cost", "_program", "_seconds", "compiled", "operations")

    def __init__(self, program: Program, at_once: bool) -> None:
        self._program = program
        self._at_once = at_once
        self.operations = len(program.equations)
        self.compiled: Any = None
        self._seconds = self._cost = 0.0

    @property
    def cost(self) -> float:
        """The seconds that compiling it took, or is expected to take."""
        return self._cost or prices.of(self._program)

    def call(self, *values: Any) -> tuple:
        """As `Executable.call`."""
        if self.compiled is None and self._at_once:
            self._compile()
        if self.compiled is not None:
            return self.compiled.call(*values)
        since = prices.now()
        results = self._program.evaluate(*values)
        self._seconds += prices.now() - since
        if self._seconds >= prices.of(self._program):
            self._compile()
        return results

    def _compile(self) -> None:
        since = prices.now()
        self.compiled = prices.compiled(self._program.graph)
        self._cost = prices.now() - since


def rented(program: Program, at_once: bool) -> Rented:
    """The one that runs all pieces with this program."""
    key = Rented, program.key, at_once
    found: Rented | None = _waiting.get(key)
    if found is None:
        found = Rented(program, at_once)
        _waiting.put(key, found, found.operations)
    return found


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


#: New programs, of those that are known, from which on more are expected.
_MANY_NEW = 16


def note_repeated() -> None:
    """A plan was found by its key, or more of what is new is expected."""
    if WHEN_REPEATED:
        BEGUN.extend(WHEN_REPEATED)
        WHEN_REPEATED.clear()
        go_on()


def go_on() -> None:
    """Call what has begun again."""
    for step in list(BEGUN):
        if step() and step in BEGUN:
            BEGUN.remove(step)


def executable_of(program: Program) -> tuple[Any, bool]:
    """The executable of a program, or a stand-in while compiling does not pay; and True if it was there before."""
    if config.patience and _pays_to_wait(program):
        waiting = _waiting.get(program.key)
        if waiting is not None:
            return waiting.settled(), True
        count = len(program.equations)
        waiting = Waiting(lambda: program.graph, count, program.evaluate)
        _waiting.put(program.key, waiting, count)
        if len(_waiting) >= _MANY_NEW:
            note_repeated()  # who records one new program after another is helped as well
        return waiting, False
    known = is_known(program.graph)
    return (compile_graph(program.graph), True) if known else (prices.compiled(program.graph), False)


def _pays_to_wait(program: Program) -> bool:
    """False for loops and large arrays, where evaluating once is expected to take as long, and for what repeats."""
    if _regular or program.has_regions:
        _regular.clear()
        return False
    return _ELEMENT_S * program.size < prices.of(program)


#: Not empty: the next new program comes again and again.
_regular: list[bool] = []


def note_regular() -> None:
    """The next new program is one that comes again and again: it is compiled at once."""
    _regular[:] = [True]
    forget_shapes()


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


def note_found(plan: Any) -> bool:
    """A plan was found by its key.  True: it is compiled."""
    if plan.uses < 2:
        note_used(plan)
    if type(plan.executable) is Waiting:
        plan.executable = plan.executable.settled()
        if type(plan.executable) is Waiting:
            return False
    plan.uses += 1
    note_repeated()
    return True


def note_spent(plan: Any, start: float) -> None:
    """A recording was answered by a plan that it was compared with since `start`, a time of `prices.now`."""
    if type(plan.executable) is Waiting:
        plan.executable.add(prices.now() - start)


def clear_streak() -> None:
    """Forget what waits, and the plans that were looked at."""
    _waiting.clear()
    _ran.clear()
    _regular.clear()
    forget_shapes()
