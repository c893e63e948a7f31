"""The decision when a recorded program is compiled: not before compiling pays off.

Compiling costs more than running a program a hundred times, and many programs come only once.  So NumPy evaluates a new
program operation by operation, until this has taken as long as compiling is expected to take: the total is at most
twice the cost of the better choice.

A program in a loop is expected to go on.  At its second run in a row, or its third at the same distance of at most
`config.patience` programs, its time per run is multiplied by `EXPECTED` runs, unless a user would wait for the compile.
A part of a recording may come twice in a row by chance, so it has to come a third time.  Loops of the library are
compiled at once, and so are programs on arrays so large that one evaluation is expected to take as long as compiling.

These decisions are made in this file, at every run, by the numbers of the class `_Prices` and by `config.patience`.  A
plan calls its tier as it calls an executable, and the executable replaces the tier once it is made.
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
from ..session import NODES_PER_OPERATION, per_session, tiers
from .machine import note_repeated
from .misses import compiled_in_sight, note
from .node import new_number
from .record import state

if TYPE_CHECKING:
    from codegen.numbers import SizedGraph

    from .program import Program


class _Prices:
    """The numbers that decide: constants, the price of compiling, which is learnt, and the clock that measures it.

    The price is proportional to the number of operations plus `OWN`.  Of 84 programs of 14 to 19,505 operations
    (chains, random ones, loop steps, second derivatives, products) half took between 1 / 1.45 and 1.45 times their
    price, nine in ten between 1 / 2.9 and 2.9 times; with the root of the number of operations it is 1.7 and 4.9.
    """

    #: The part of the price that is the same for each program, in operations.
    OWN = 100
    #: The runs that a detected loop is expected to have in all: training takes thousands of steps, and where an
    #: evaluation takes microseconds, ten milliseconds of compiling do not pay off in fewer runs.
    EXPECTED = 3_000
    #: Seconds of compiling that a user would wait for: evaluations have to pay for them first, in a loop too.
    #: A gradient of 300 unrolled steps compiles in 5 s, of which each later run saves 10 ms (2 cores, 2026-12).
    WAIT_S = 1.0
    #: Seconds that NumPy takes for an element of an operation (a mix of sin, tanh, products and sums of 1,000; 2 cores,
    #: 2026-11): arrays are large where one evaluation takes as long as compiling.
    ELEMENT_S = 1.5e-9

    def __init__(self) -> None:
        #: The processor time of this thread, so that other load of the machine does not change a decision.
        self.now: Callable[[], float] = time.thread_time
        #: Seconds per operation: at the start, half the time of LLVM, and twice the time to load machine code from disk
        #: (2 cores, 2026-11).
        self.seconds_per_operation = 1e-4

    def compiled(self, graph: Graph) -> Any:
        """Compile a graph, and adapt the price to the time that this took."""
        start = self.now()
        executable = compiled_in_sight(graph, compile_graph)
        if graph.nodes:
            self.seconds_per_operation *= max(1e-3, (self.now() - start) / self.seconds(len(graph.nodes))) ** 0.2
        return executable

    def seconds(self, operations: float) -> float:
        """The seconds that compiling this number of operations is expected to take."""
        return self.seconds_per_operation * (self.OWN + operations)


prices: _Prices = per_session(_Prices)


class EarlierCompiles:
    """A count of graphs that are compiled in a block, but whose programs were met before it (`ad.max_compiles`)."""

    def __init__(self) -> None:
        self._since = new_number()
        self.count = 0

    def note(self, number: float, count: int) -> None:
        """Count graphs that were compiled for a program, if it was met before the block.   number: when it was met"""
        if number < self._since:
            self.count += count


#: The counts of the blocks that are open.
EARLIER_COMPILES: list[EarlierCompiles] = []


def _patience() -> int:
    """The configured patience; 0 in a `jit` function that runs without a trace (`entry.run_unseen`)."""
    return 0 if state.now.unseen else config.patience_now


class Account:
    """The runs of a program, or of a recording in parts, without machine code: their count, their seconds, and the
    number of operations of one run."""

    __slots__ = ("__weakref__", "operations", "runs", "seconds")

    def __init__(self, operations: int) -> None:
        self.operations = operations
        self.runs = 0
        self.seconds = 0.0

    def reason_to_compile(self, ran: Sequence[Any]) -> str:
        """The reason why compiling pays off now; empty if it does not.   ran: the latest runs, the last at the end"""
        price = prices.seconds(self.operations)
        if not _patience():
            return "jit compiles at once" if config.patience else "patience was set to 0"
        if self.seconds >= price:
            return f"NumPy has evaluated it {self.runs} times, for as long as compiling was expected to take"
        pays_in_loop = price < prices.WAIT_S and prices.EXPECTED * self.seconds >= price * self.runs
        return "it is run in a loop" if pays_in_loop and self.is_in_loop(ran) else ""

    def is_in_loop(self, ran: Sequence[Any]) -> bool:
        """True if this ran p runs ago, and also 2 p runs ago, for a distance p up to the patience."""
        distances = range(1, min(_patience(), len(ran) // 2) + 1)
        return any([ran[-p] is self and ran[-2 * p] is self for p in distances])


class Tier(Account):
    """Stands for the machine code of a program (`compiled`); until that is made, NumPy evaluates the program.

    A tier decides at every run if it compiles; the plans that run it (`users`) then get the executable in its place.

    made(*values)    compiles the program, and returns the executable;   evaluate(*values): the results by NumPy
    """

    __slots__ = ("_number", "compiled", "evaluate", "made", "users")

    #: Words in a message, for programs of any size.
    which = ""

    def __init__(self, operations: int, made: Callable[..., Any], evaluate: Callable[..., tuple]) -> None:
        super().__init__(operations)
        self.made, self.evaluate = made, evaluate
        self.compiled: Any = None
        self.users: set[ref[Any]] = set()
        self._number = new_number()

    def is_in_loop(self, ran: Sequence[Any]) -> bool:
        """True if this was the latest run, or is in a loop as an `Account` is."""
        return (len(ran) > 0 and ran[-1] is self) or super().is_in_loop(ran)

    def call(self, *values: Any) -> tuple:
        """The results for these values, as `Executable.call` gives them."""
        return self.run(values, latest_runs.ran)

    def run(self, values: Sequence[Any], ran: deque[Any] | None = None) -> tuple:
        """The results.   ran: the latest runs; None for a piece of a recording, which is no run by itself"""
        if not self.is_ready(values, ran):
            return self.evaluated(values)
        found: tuple = self.compiled.call(*values)
        return found

    def is_ready(self, values: Sequence[Any], ran: deque[Any] | None) -> bool:
        """True if there is machine code, which this call makes if that pays off; the run is added to `ran`."""
        if self.compiled is None:
            why = self.reason_to_compile(ran or ())
            if ran is not None:
                ran.append(self)
            if why:
                self._compile(values, why)
        return self.compiled is not None

    def evaluated(self, values: Sequence[Any]) -> tuple:
        """The results by NumPy; their time is added to the account."""
        since = prices.now()
        results = self.evaluate(*values)
        self.seconds += prices.now() - since
        self.runs += 1
        return results

    def _compile(self, values: Sequence[Any], why: str) -> None:
        before = counts().compiles
        note_repeated()
        native.is_native()  # the program is expected to go on, so the launcher is built too
        compiled = self.made(*values)
        self.compiled = compiled
        for where in list(self.users):
            if (user := where()) is not None:
                user.exchange(self, compiled)
        for block in EARLIER_COMPILES:
            block.note(self._number, counts().compiles - before)
        note(f"a program of {self.operations} operations{self.which}", why)

    def __repr__(self) -> str:
        return f"<Tier, {self.operations} operations, evaluated {self.runs} times>"


class SizedTier(Tier):
    """The tier of a program of any size, for small extents or for large ones: `AtSize` runs it.

    graph      the graph with unknown extents;   compiled: False if there is no machine code for unknown extents
    """

    __slots__ = ("graph",)
    which = " of any size"

    def __init__(self, graph: SizedGraph, is_small: bool) -> None:
        super().__init__(graph.operations, lambda *_: compile_sized(graph, is_small) or False, graph.evaluate)
        self.graph = graph

    def fits(self, extents: tuple[int, ...]) -> bool:
        """True if there is machine code for these extents."""
        return bool(self.compiled) and self.compiled.is_fit(*extents)

    def call(self, extents: tuple[int, ...], *inputs: Any) -> tuple:
        """The results at these extents."""
        values = extents, inputs
        if not self.is_ready(values, latest_runs.ran):
            return self.evaluated(values)
        return self.compiled.call(*values) if self.fits(extents) else self.graph.evaluate(*values)

    def take_over(self, other: Tier) -> None:
        """Add the runs of another tier to the account: it ran this program at one size."""
        self.runs += other.runs
        self.seconds += other.seconds
        self._number = min(self._number, other._number)
        ran = latest_runs.ran
        for place, one in enumerate(tuple(ran)):  # of a copy, as other threads may append meanwhile
            if one is other:
                ran[place] = self


class AtSize:
    """A program of any size at given extents.

    call    as that of an executable; while there is no machine code, the tier's
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
        """Run the machine code of the tier; if it does not fit these extents, run a new tier for them alone."""
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

    The queues hold twice as many runs as the longest patience.

    met     a table of fixed size: bits of the hash (without numbers) of programs that came; other bits of it give the
            place in the table, where a later program overwrites an earlier one
    new     the number of recent new programs;  known: the count of recordings with a known plan at the last new program
    """

    def __init__(self) -> None:
        self.ran: deque[Tier] = deque(maxlen=128)
        self.ran_in_parts: deque[Any] = deque(maxlen=128)
        self.met = array("I", bytes(4 * _MET))
        self.new = self.known = 0


#: After `MANY` new programs, among which fewer than one recording in `RARE` was known, the next new program is let
#: pass: it runs, and is cached only when it comes again.
MANY, RARE = 64, 8
#: The number of programs in the table of those that came.
_MET = 1 << 12


def is_let_pass(program: bytes, known: int) -> bool:
    """True for a program that comes for the first time while nearly all programs are new: it should not be cached.

    program   its hash without numbers;   known: the count of recordings so far whose plan was known
    """
    found = latest_runs
    since, found.known = max(0, known - found.known), known
    found.new = min(max(0, found.new - RARE * since) + 1, 2 * MANY)
    looks, place = divmod(hash(program) & (1 << 44) - 1, _MET)
    if found.met[place] == looks or not _patience():
        return False
    found.met[place] = looks
    return found.new > MANY


latest_runs: _LatestRuns = per_session(_LatestRuns, _LatestRuns.__init__)


def tier_of(program: Program) -> Tier:
    """The tier of a program, which is cached by what the program computes."""
    key, count = program.key, len(program.kinds)
    found: Tier | None = tiers.get(key)
    if found is None:
        found = Tier(count, lambda *_: prices.compiled(program.graph), program.evaluate)
        tiers.put(key, found, NODES_PER_OPERATION * count)
    return found


def is_evaluated(program: Program) -> bool:
    """True if evaluating a program once is expected to take less than compiling it does."""
    return _patience() > 0 and prices.ELEMENT_S * program.size < prices.seconds(len(program.kinds))


def executable_of(program: Program) -> Any:
    """The executable of a program, or its tier while compiling does not pay off."""
    if is_evaluated(program):
        tier = tier_of(program)
        return tier if tier.compiled is None else tier.compiled
    return compile_graph(program.graph) if is_known(program.graph) else prices.compiled(program.graph)
