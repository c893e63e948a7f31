"""The decision when machine code is made for a recorded program: not before that pays.

Compiling costs more than running a program a hundred times, and many come only once.  So a new one is evaluated
operation by operation with NumPy, until that has taken as long as compiling it is expected to take: whatever comes, at
most twice the cost of the better choice.

A program that is run in a loop is expected to go on: for the second time in a row, or the third at the same distance,
of at most `config.patience` programs, what it has taken is counted for `EXPECTED` runs.  A part of a recording comes
twice in a row by chance: it has to come for the third time.  Loops of the library, and arrays so large that evaluating
once is expected to take as long, are compiled at once.

All of these are decided here, by the numbers of one class (`_Prices`) and `config.patience`, at every run: a plan calls
its tier as it calls an executable, which takes the place of the tier once it is made.
"""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

from codegen.compiler import compile_graph, compile_sized, counts, is_known
from codegen.ir import Graph
from codegen.runtime import native

from ..config import config
from ..session import OPERATION, owned, tiers
from .machine import note_repeated
from .misses import compiled_in_sight, note
from .node import new_number
from .record import state

if TYPE_CHECKING:
    from codegen.numbers import SizedGraph

    from .program import Program


class _Prices:
    """The numbers that decide, the price of compiling as it is learnt here, and the clock it is measured by.

    The price grows with the number of operations, and of every program as if it had some more.  Of 84 programs of 14 to
    19,505 operations (chains, random ones, steps of a loop, second derivatives, products) half took between 1 / 1.45
    and 1.45 times that, nine in ten between 1 / 2.9 and 2.9 times; by the root of the number it is 1.7 and 4.9.
    """

    #: As many operations as a program costs by itself.
    OWN = 100
    #: A loop that has been seen is expected to come so often in all: steps of training come by thousands, and
    #: where evaluating takes microseconds, ten milliseconds of compiling do not pay in fewer.
    EXPECTED = 3_000
    #: Seconds that NumPy takes for an element of an operation (a mix of sin, tanh, products and sums of 1,000; 2 cores,
    #: 2026-11): arrays are large where one evaluation takes as long as compiling.
    ELEMENT_S = 1.5e-9

    def __init__(self) -> None:
        #: Of this thread: how busy the machine is otherwise is no reason to compile, or not to.
        self.now: Callable[[], float] = time.thread_time
        #: Seconds for an operation, to start with: half of what LLVM takes, and twice of what machine code takes that
        #: is found on disk (2 cores, 2026-11).
        self.each = 1e-4

    def compiled(self, graph: Graph) -> Any:
        """Compile a graph, and learn what that costs."""
        start = self.now()
        executable = compiled_in_sight(graph, compile_graph)
        if graph.nodes:
            self.each *= max(1e-3, (self.now() - start) / self.of(len(graph.nodes))) ** 0.2
        return executable

    def of(self, operations: float) -> float:
        """The seconds that compiling so many operations is expected to take."""
        return self.each * (self.OWN + operations)


prices: _Prices = owned(_Prices)


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


def _patience() -> int:
    """The patience as configured; 0 in a function of `jit` that runs as it is recorded (`once`)."""
    return 0 if state.now.unseen else config.patience_now


class Account:
    """The runs of a program or of parts without machine code of their own: how many, of how many operations, and their
    seconds."""

    __slots__ = ("__weakref__", "operations", "runs", "seconds")

    def __init__(self, operations: int) -> None:
        self.operations = operations
        self.runs = 0
        self.seconds = 0.0

    def why_now(self, ran: Sequence[Any]) -> str:
        """Why compiling pays by now; empty where it does not.   ran: what was run last"""
        price = prices.of(self.operations)
        if not _patience():
            return "jit compiles at once" if config.patience else "patience was set to 0"
        if self.seconds >= price:
            return f"NumPy has evaluated it {self.runs} times, for as long as compiling was expected to take"
        pays_in_loop = prices.EXPECTED * self.seconds >= price * self.runs
        return "it is run in a loop" if pays_in_loop and self.is_in_loop(ran) else ""

    def is_in_loop(self, ran: Sequence[Any]) -> bool:
        """True if this has run twice, one distance and twice that distance ago."""
        distances = range(1, min(_patience(), len(ran) // 2) + 1)
        return any([ran[-p] is self and ran[-2 * p] is self for p in distances])


class Tier(Account):
    """Stands for the machine code of a program, which NumPy evaluates until it is made (`compiled`).

    It decides at every run, and tells the plans that run it (`users`) of the code, which they run in its place.

    made(*values)    the executable, at the first run with it;   evaluate(*values): the results
    """

    __slots__ = ("_number", "compiled", "evaluate", "made", "users")

    #: Words for a program of any size.
    which = ""

    def __init__(self, operations: int, made: Callable[..., Any], evaluate: Callable[..., tuple]) -> None:
        super().__init__(operations)
        self.made, self.evaluate = made, evaluate
        self.compiled: Any = None
        self.users: set[ref[Any]] = set()
        self._number = new_number()

    def is_in_loop(self, ran: Sequence[Any]) -> bool:
        """True if this has just run, or as above."""
        return (len(ran) > 0 and ran[-1] is self) or super().is_in_loop(ran)

    def call(self, *values: Any) -> tuple:
        """Run it as `Executable.call` does."""
        return self.run(values, lately.ran)

    def run(self, values: Sequence[Any], ran: deque[Any] | None = None) -> tuple:
        """The results; `ran` is what ran last, None for a piece of a recording, which is no run by itself."""
        if not self.is_ready(values, ran):
            return self.evaluated(values)
        found: tuple = self.compiled.call(*values)
        return found

    def is_ready(self, values: Sequence[Any], ran: deque[Any] | None) -> bool:
        """True if there is machine code by now: this run is the latest."""
        if self.compiled is None:
            why = self.why_now(ran or ())
            if ran is not None:
                ran.append(self)
            if why:
                self._compile(values, why)
        return self.compiled is not None

    def evaluated(self, values: Sequence[Any]) -> tuple:
        """The results by NumPy."""
        since = prices.now()
        results = self.evaluate(*values)
        self.seconds += prices.now() - since
        self.runs += 1
        return results

    def _compile(self, values: Sequence[Any], why: str) -> None:
        before = counts().compiles
        note_repeated()
        native.is_native()  # it goes on: the launcher is needed, too
        compiled = self.made(*values)
        self.compiled = compiled
        for where in list(self.users):
            if (user := where()) is not None:
                user.exchange(self, compiled)
        for block in LATE:
            block.note(self._number, counts().compiles - before)
        note(f"a program of {self.operations} operations{self.which}", why)

    def __repr__(self) -> str:
        return f"<Tier, {self.operations} operations, evaluated {self.runs} times>"


class SizedTier(Tier):
    """The tier of a program of any size, at small extents or at large ones: it is run by `AtSize`.

    graph      of unknown extents;   compiled: False where no formula says what machine code does
    """

    __slots__ = ("graph",)
    which = " of any size"

    def __init__(self, graph: SizedGraph, is_small: bool) -> None:
        super().__init__(graph.operations, lambda *_: compile_sized(graph, is_small) or False, graph.evaluate)
        self.graph = graph

    def fits(self, extents: tuple[int, ...]) -> bool:
        """True if there is machine code for these."""
        return bool(self.compiled) and self.compiled.is_fit(*extents)

    def call(self, extents: tuple[int, ...], *inputs: Any) -> tuple:
        """The results at these extents."""
        values = extents, inputs
        if not self.is_ready(values, lately.ran):
            return self.evaluated(values)
        return self.compiled.call(*values) if self.fits(extents) else self.graph.evaluate(*values)

    def take_over(self, other: Tier) -> None:
        """The runs of this one were runs of this program, at a size."""
        self.runs += other.runs
        self.seconds += other.seconds
        self._number = min(self._number, other._number)
        ran = lately.ran
        for place, one in enumerate(tuple(ran)):  # other threads add to it meanwhile
            if one is other:
                ran[place] = self


class AtSize:
    """A program of any size at some extents.

    call    as that of an executable: of the tier while there is no machine code
    """

    __slots__ = ("__weakref__", "_extents", "call", "tier")

    call: Callable[..., tuple]

    def __init__(self, tier: SizedTier, extents: tuple[int, ...]) -> None:
        self.tier, self._extents = tier, extents
        self.call = partial(tier.call, extents)
        if tier.compiled is None:
            tier.users.add(ref(self, tier.users.discard))
        else:
            self.exchange(tier, tier.compiled)

    def exchange(self, tier: SizedTier, compiled: Any) -> None:
        """There is machine code; where it is not for these extents, their program has a tier of its own."""
        graph, extents = tier.graph, self._extents
        if tier.fits(extents):
            self.call = lambda *inputs: compiled.call(extents, inputs)
        else:
            self.call = Tier(
                graph.operations,
                lambda *_: prices.compiled(graph.at(extents)),
                lambda *inputs: graph.evaluate(extents, inputs),
            ).call


class _LatestRuns:
    """The latest runs without machine code, of programs and of recordings in parts; and which programs were new.

    Twice as many runs as the longest patience.

    met     some bits of the hash without numbers of each program that came, at a place that others tell: of a fixed
            size, in which a new one takes the place of an old one
    new     how many were new of late;  known   recordings that were answered by what was known, at the last new one
    """

    def __init__(self) -> None:
        self.ran: deque[Tier] = deque(maxlen=128)
        self.ran_in_parts: deque[Any] = deque(maxlen=128)
        self.met = array("I", bytes(4 * _MET))
        self.new = self.known = 0


#: The number of new programs after which the next one is let pass, where fewer than one in `RARE` was known: it runs,
#: and is kept when it comes again.
MANY, RARE = 64, 8
#: The number of programs that are remembered as having come.
_MET = 1 << 12


def is_let_pass(program: bytes, known: int) -> bool:
    """True for a program that comes for the first time, as nearly all have of late: it is not kept.

    program   its hash without numbers;   known   how many recordings were answered so far by what was known
    """
    found = lately
    since, found.known = max(0, known - found.known), known
    found.new = min(max(0, found.new - RARE * since) + 1, 2 * MANY)
    looks, place = divmod(hash(program) & (1 << 44) - 1, _MET)
    if found.met[place] == looks or not _patience():
        return False
    found.met[place] = looks
    return found.new > MANY


lately: _LatestRuns = owned(_LatestRuns, _LatestRuns.__init__)


def tier_of(program: Program) -> Tier:
    """The tier of a program."""
    key, count = program.key, len(program.kinds)
    found: Tier | None = tiers.get(key)
    if found is None:
        found = Tier(count, lambda *_: prices.compiled(program.graph), program.evaluate)
        tiers.put(key, found, OPERATION * count)
    return found


def is_evaluated(program: Program) -> bool:
    """True if evaluating a program once is expected to take less than compiling it does."""
    return _patience() > 0 and prices.ELEMENT_S * program.size < prices.of(len(program.kinds))


def executable_of(program: Program) -> Any:
    """The executable of a program, or what stands for it while compiling does not pay."""
    if is_evaluated(program):
        tier = tier_of(program)
        return tier if tier.compiled is None else tier.compiled
    return compile_graph(program.graph) if is_known(program.graph) else prices.compiled(program.graph)
