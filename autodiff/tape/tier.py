"""The decision when machine code is made for a recorded program: not before that pays.

Compiling costs more than running a program a hundred times, and many come only once: what is tried at a prompt,
episodes of random length, trees.  So a new one is evaluated operation by operation with NumPy, until that has taken as
long as compiling it is expected to take.  This is the rule of who does not know how long he will ski, and rents until
that has cost as much as to buy: whatever comes, at most twice the cost of the better choice.

A program that is run in a loop is expected to go on: for the third time at the same distance, of at most
`config.patience` programs (twice in a row may well be chance), what it has taken is counted for `EXPECTED` runs.  Loops
of the library, and arrays so large that evaluating once is expected to take as long, are compiled at once.

All of these are decided here, by three numbers: the price of an operation, `EXPECTED`, and `ELEMENT_S`.  A program of
any size (`sizes`) has one tier for all of them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from codegen.compiler import compile_graph, counts, is_known
from codegen.ir import Graph
from codegen.runtime import native

from ..config import config
from ..session import owned, tiers
from .machine import note_repeated
from .misses import note
from .node import new_number
from .progress import compiled_in_sight

if TYPE_CHECKING:
    from .program import Program

__all__ = [
    "LATE", "Late", "SizedTier", "Tier", "TierAt", "executable_of", "is_evaluated", "is_let_pass", "lately",
    "note_found", "note_spent", "prices", "tier_of", "why_now",
]  # fmt: skip

#: A loop that has come three times is expected to come so many times in all that this is its share.
EXPECTED = 300

#: Seconds that NumPy takes for an element of an operation (a mix of sin, tanh, products and sums of 1,000; 2 cores,
#: 2026-11).
ELEMENT_S = 1.5e-9


class _Prices:
    """The price of compiling, as learnt here, and the clock it is measured by.

    It grows with the number of operations, and of every program as if it had some more.  Of 84 programs of 14 to 19,505
    operations (chains, random ones, steps of a loop, second derivatives, products) half took between 1 / 1.45 and 1.45
    times that, nine in ten between 1 / 2.9 and 2.9 times; by the root of the number it is 1.7 and 4.9.
    """

    #: As many operations as a program costs by itself.
    OWN = 100

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


def why_now(what: Any, ran: Sequence[Any], seconds: float, runs: int, operations: float) -> str:
    """Why compiling pays by now; empty where it does not.

    what, ran    what is about to run, and what was run last;   seconds, runs   of it without machine code
    operations   how many are to be compiled
    """
    price = prices.of(operations)
    if not config.patience:
        return "patience was set to 0"
    if seconds >= price:
        return f"NumPy has evaluated it {runs} times, for as long as compiling was expected to take"
    return "it is run in a loop" if EXPECTED * seconds >= price * runs and _is_regular(what, ran) else ""


def _is_regular(what: Any, ran: Sequence[Any]) -> bool:
    """True if what is about to run has run twice, one distance and twice that distance ago."""
    most = min(config.patience, len(ran) // 2)
    return any([ran[-p] is what and ran[-2 * p] is what for p in range(1, most + 1)])


class Tier:
    """Stands for the machine code of a program, which NumPy evaluates until it is made.

    compiled      its executable, from then on
    operations    how many there are
    """

    __slots__ = ("__weakref__", "_evaluate", "_graph", "_number", "_runs", "_seconds", "compiled", "operations")

    def __init__(
        self, operations: int, graph: Callable[[], Graph], evaluate: Callable[..., tuple]
    ) -> None:
        self.operations, self._graph, self._evaluate = operations, graph, evaluate
        self.compiled: Any = None
        self._number = new_number()
        self._runs = 0
        self._seconds = 0.0

    def call(self, *values: Any) -> tuple:
        """Run it as `Executable.call` does.  The caller adds the seconds."""
        if self.compiled is not None:
            found: tuple = self.compiled.call(*values)
            return found
        self._runs += 1
        lately.ran.append(self)
        return self._evaluate(*values)

    def rent(self, *values: Any, ran: Sequence[Any] = ()) -> tuple:
        """Run it where nobody else adds the seconds: a piece of a recording, which is no run by itself, or any size."""
        if self.settled(ran) is not self:
            found: tuple = self.compiled.call(*values)
            return found
        since = prices.now()
        results = self._evaluate(*values)
        self._runs += 1
        self.add(prices.now() - since)
        return results

    def add(self, seconds: float) -> None:
        """So long did it take to answer by evaluating, with the look at the recording that checks would save."""
        self._seconds += seconds

    def settled(self, ran: Sequence[Any]) -> Any:
        """The thing that runs the program now that it is met again: its executable if that pays by now, or this."""
        if self.compiled is None:
            why = why_now(self, ran, self._seconds, self._runs, self.operations)
            if not why:
                return self
            before = counts().compiles
            native.is_native()  # it goes on: the launcher is needed, too
            self.compiled = self._made()
            for block in LATE:
                block.note(self._number, counts().compiles - before)
            lately.ran.append(self)
            note(f"a program of {self.operations} operations{self._which}", why)
        return self.compiled

    #: Words for a program of any size.
    _which = ""

    def _made(self) -> Any:
        return prices.compiled(self._graph())

    def __repr__(self) -> str:
        return f"<Tier, {self.operations} operations, evaluated {self._runs} times>"


class SizedTier(Tier):
    """The tier of a program of any size, which is called with the extents, and the inputs at these.

    Its executable is made by `sized`, which has `compiled()` for the latest extents, and `evaluate(extents, inputs)`.
    """

    __slots__ = ("sized",)
    _which = " of any size"

    def __init__(self, operations: int, sized: Any) -> None:
        super().__init__(operations, sized, sized.evaluate)
        self.sized = sized

    def _made(self) -> Any:
        return self.sized.compiled()

    def run(self, extents: Sequence[int], inputs: Sequence[Any]) -> tuple:
        """The results at these extents."""
        if self.compiled is not None:
            found: tuple = self.compiled.call(extents, inputs)
            return found
        self.sized.latest = extents
        results = self.rent(extents, inputs, ran=lately.ran)
        if self.compiled is None:
            lately.ran.append(self)
        return results


class TierAt:
    """A program of any size at some extents: it is called as an executable is."""

    __slots__ = ("_extents", "_tier")

    def __init__(self, tier: SizedTier, extents: tuple[int, ...]) -> None:
        self._tier, self._extents = tier, extents

    def call(self, *inputs: Any) -> tuple:
        """The results."""
        return self._tier.run(self._extents, inputs)

    def settled(self, ran: Sequence[Any]) -> Any:
        """The thing that runs it now that these extents are met again: machine code of their own numbers, or this."""
        self._tier.sized.latest = self._extents
        found = self._tier.settled(ran)
        return self if found is self._tier else found.at(self._extents)


class _LatestRuns:
    """The latest runs without machine code, of programs and of recordings in parts; and which programs were new.

    Twice as many runs as the longest patience.

    met     programs that were let pass, by their hash without numbers
    new     how many were new of late;  known   recordings that were answered by what was known, at the last new one
    """

    def __init__(self) -> None:
        self.ran: deque[Tier] = deque(maxlen=128)
        self.ran_in_parts: deque[Any] = deque(maxlen=128)
        self.met: set[bytes] = set()
        self.new = self.known = 0


#: Where so many programs came that are new, and fewer than one in `RARE` was known, the next one is let pass: it runs,
#: and is kept when it comes again.
MANY, RARE = 64, 8
#: So many are remembered as let pass.
_MOST_MET = 1 << 14


def is_let_pass(program: bytes, known: int) -> bool:
    """True for a program that comes for the first time, as nearly all have of late: it is not kept.

    program   its hash without numbers;   known   how many recordings were answered so far by what was known
    """
    found = lately
    since, found.known = max(0, known - found.known), known
    found.new = min(max(0, found.new - RARE * since) + 1, 2 * MANY)
    if program in found.met or not config.patience:
        return False
    if len(found.met) >= _MOST_MET:
        found.met.clear()
    found.met.add(program)
    return found.new > MANY


lately: _LatestRuns = owned(_LatestRuns, _LatestRuns.__init__)


def tier_of(program: Program) -> tuple[Tier, bool]:
    """The tier of a program; and True if it was there before."""
    found: Tier | None = tiers.get(program.key)
    if found is not None:
        return found, True
    count = len(program.equations)
    tier = Tier(count, lambda: program.graph, program.evaluate)
    tiers.put(program.key, tier, count)
    if len(tiers) > config.patience:
        note_repeated()  # who records one new program after another is helped as well
    return tier, False


def is_evaluated(program: Program) -> bool:
    """True if evaluating a program once is expected to take less than compiling it does."""
    is_small = ELEMENT_S * program.size < prices.of(len(program.equations))
    return config.patience != 0 and not program.has_regions and is_small


def executable_of(program: Program) -> Any:
    """The executable of a program, or what stands for it while compiling does not pay."""
    if is_evaluated(program):
        tier, known = tier_of(program)
        return tier.settled(lately.ran) if known else tier
    return compile_graph(program.graph) if is_known(program.graph) else prices.compiled(program.graph)


def note_found(plan: Any) -> bool:
    """A plan was found by its key.  True: it is compiled."""
    if isinstance(plan.executable, Tier | TierAt):
        plan.executable = plan.executable.settled(lately.ran)
        if isinstance(plan.executable, Tier | TierAt):
            return False
    plan.uses += 1
    note_repeated()
    return True


def note_spent(plan: Any, start: float) -> None:
    """A recording was answered by a plan that it was compared with since `start`, a time of `prices.now`."""
    if type(plan.executable) is Tier:
        plan.executable.add(prices.now() - start)
