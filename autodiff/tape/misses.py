"""Words about what is recorded or compiled anew: why, by `ad.explain()`, and how long it takes.

Every miss of a cache is noted with the user's line and a reason: the first difference to the most similar key of the
same purpose that was seen before.

    3 times  train.py:14, in step: backward
        an input is f64[32,6], before it was f64[64,6]

The loggers `autodiff.compile` (INFO) and `autodiff.trace` (DEBUG) of the standard library are told of what was
compiled, and of what was only recorded.  If stderr is a terminal, a line there counts the seconds of a long compile,
and is wiped at its end; a line about a loop that was unrolled stays.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Never

from codegen.compiler import store
from codegen.forks import renewed_in_child
from codegen.garbage import Paused
from codegen.ir import Graph
from codegen.records import NamedTuple

from ..errors import check_nothing
from ..frames import UserLine, user_line
from ..session import owned
from .node import Kind, Out

#: Misses remembered: the latest ones.
LIMIT = 256
#: Keys that a new one is compared with: so many of each of so many kinds of program, and no larger ones.
RECENT, KINDS, LARGEST = 4, 64, 2000


class Miss(NamedTuple):
    """One place in the user's program where something was made anew, and why.

    what      "value", "backward" or "jit f"; "jit f, as it is recorded": without a trace
    line      where it was asked for
    reason    why no earlier work could be used
    times     how often this happened here, for this reason
    compiles  how many graphs were compiled for it
    """

    what: str
    line: str
    reason: str
    times: int
    compiles: int

    def __str__(self) -> str:
        times = f"{self.times} times  " if self.times > 1 else ""
        return f"{times}{self.line}: {self.what}{self.compiled}\n    {self.reason}"

    @property
    def compiled(self) -> str:
        """Words for the number of graphs."""
        return f", {self.compiles} compiled" if self.compiles else ""


class Explanation(list):
    """The latest misses, oldest first, as a list of `Miss`; as text, one after the other."""

    def __repr__(self) -> str:
        if not self:
            return "nothing was recorded or compiled anew"
        return "\n".join([str(m) for m in self])

    __str__ = __repr__


_lock = renewed_in_child(globals(), "_lock")


class _Notes:
    """The notes of each place, the latest keys of each program, and the number of graphs compiled until then."""

    def __init__(self) -> None:
        self.found: OrderedDict[tuple, tuple[UserLine | None, int, int]] = OrderedDict()
        self.recent: OrderedDict[Any, deque] = OrderedDict()
        self.compiles = 0


_notes: _Notes = owned(_Notes)


def note(what: str, why: str | tuple) -> None:
    """Remember that something was made anew at the user's present line (and whatever was compiled meanwhile).

    why    the reason; or the exact key of what was made, which is compared with those seen before
    """
    line = user_line()
    with Paused(), _lock:
        reason = _compared(why) if type(why) is tuple else str(why)
        # The hash of a code object goes over all of it.
        place = line and (line.code.co_filename, line.code.co_firstlineno, line.offset)
        key = (what, place, reason)
        found = _notes.found
        made = store.compiles - _notes.compiles
        _notes.compiles += made
        _, count, compiles = found.pop(key, (None, 0, 0))
        found[key] = line, count + 1, compiles + made
        if len(found) > LIMIT:
            found.popitem(last=False)
    logging = sys.modules.get("logging")
    if logging is not None:  # else nobody listens, and to import it takes as long as to compile
        level, name = (logging.INFO, "autodiff.compile") if made else (logging.DEBUG, "autodiff.trace")
        logger = logging.getLogger(name)
        if logger.isEnabledFor(level):
            miss = Miss(what, str(line or "an unknown place"), reason, 1, made)
            logger.log(level, "%s: %s%s: %s", miss.line, miss.what, miss.compiled, miss.reason, extra={"miss": miss})


def explain(*given: Never, **named: Never) -> Explanation:
    """The reasons why programs were recorded or compiled anew: the latest ones, oldest first.

    Each has `what`, `line`, `reason`, `times` and `compiles`; printed, one reads after the other.  A line of a
    loop with about as many `times` as the loop has turns is compiled or recorded anew each turn; the reason says why.
    A program that is known is not listed: `ad.cache_info().hits` counts those that run.  A step may run several,
    since a live result of more than 64 elements is not computed along with another, but by the line that uses it.

    Raises DispatchError for an argument: there are none.

    >>> import autodiff as ad
    >>> for n in (3, 4):
    ...     _ = (ad.ones(n) * 2.0).numpy()
    >>> "f64[4]" in str(ad.explain())
    True
    """
    check_nothing("explain", "call it after the function ran: print(ad.explain())", *given, **named)
    with Paused(), _lock:
        found = list(_notes.found.items())
    return Explanation([
        Miss(what, str(line or "an unknown place"), why, *times) for (what, _, why), (line, *times) in found
    ])


# ---------------------------------------------------------------- the most similar key


def _compared(key: tuple) -> str:
    """The difference of an exact key, (purpose, parts, ...), from the most similar one seen before, which it joins."""
    purpose, parts, *rest = key
    if len(parts) > LARGEST:
        return f"a recording of {len(parts)} nodes that was not seen before"
    # The operation that it ends in says which program it is: another one is no useful comparison.
    program = (purpose, next((_name(p) for p in reversed(parts) if isinstance(p, tuple)), None))
    recent = _notes.recent
    seen = recent.pop(program, None) or deque(maxlen=RECENT)
    nearest = min(reversed(seen), key=lambda k: _distance(parts, k[0]), default=None)
    seen.append((parts, rest))
    recent[program] = seen
    if len(recent) > KINDS:
        recent.popitem(last=False)
    return "nothing like it was seen before" if nearest is None else _difference(parts, rest, *nearest)


def _distance(a: Sequence, b: Sequence) -> int:
    """Number of parts that differ; another number of parts is further than anything."""
    if len(a) != len(b):
        return 1_000_000 + abs(len(a) - len(b))
    return sum([x != y for x, y in zip(a, b, strict=True)])


def _difference(parts: Sequence, rest: Sequence, old: Sequence, old_rest: Sequence) -> str:
    if len(parts) != len(old):
        return f"the recording has {len(parts)} nodes, the most similar one had {len(old)}"
    for new, was in zip(parts, old, strict=True):
        if new != was:
            return _part(new, was)
    if rest[: len(old_rest)] == old_rest:
        return "it was seen before, and dropped since"
    return "the same program, but other results: other values are live, or other gradients are wanted"


def _part(new: Any, was: Any) -> str:
    """One node's difference.  A part is an Out (a known value), or (kind, or Out of a leaf; pending; ...; wiring)."""
    kind, old = _kind(new), _kind(was)
    if kind is None and old is None:
        if _out(new) is not _out(was):
            axes = changed_axes(_out(new).aval.shape, _out(was).aval.shape)
            return f"an input is {_out(new)}, before it was {_out(was)}{axes}"
        return f"{_name(new)} stands where {_name(was)} stood, or leaves are shared in another way"
    if kind is None or old is None or kind.op is not old.op:
        return f"{_name(new)} stands where {_name(was)} stood"
    if kind.out is not old.out:
        axes = changed_axes(kind.out.aval.shape, old.out.aval.shape)
        return f"{kind.op.name} gives {kind.out}, before it gave {old.out}{axes}"
    if kind.params != old.params:
        return f"{kind.op.name} has the parameters {_text(kind.params)}, before {_text(old.params)}"
    if new[1] != was[1]:
        return f"the value of {kind.op.name} is {'pending' if new[1] else 'known already'} here"
    if len(new) == len(was) and len(new) > 4:
        if new[3] != was[3]:
            return f"{kind.op.name}: what a custom rule reads has changed, or the rule itself"
        if new[4] != was[4]:
            return f"{kind.op.name}: a hook was registered or removed"
    return f"{kind.op.name} is wired to other operands"


def changed_axes(shape: Sequence[int], before: Sequence[int]) -> str:
    """Words for the axes whose extents changed; none where another number of axes did."""
    if len(shape) != len(before):
        return ""
    told = [f"axis {k} has {n}, before {m}" for k, (n, m) in enumerate(zip(shape, before, strict=True)) if n != m]
    return f": {', '.join(told)}" if told else ""


def _kind(part: Any) -> Kind | None:
    """The kind of an operation; None for an input."""
    return part[0] if isinstance(part, tuple) and isinstance(part[0], Kind) else None


def _out(part: Any) -> Out:
    return part[0] if isinstance(part, tuple) else part


def _name(part: Any) -> str:
    kind = _kind(part)
    return kind.op.name if kind is not None else f"{'a leaf' if isinstance(part, tuple) else 'an input'} {_out(part)}"


def _text(params: tuple) -> str:
    return repr(params[0]) if len(params) == 1 else repr(params)


def forget() -> None:
    """Begin anew: nothing was noted, no key was seen."""
    with Paused(), _lock:
        _notes.found.clear()
        _notes.recent.clear()
        _notes.compiles = store.compiles


# ---------------------------------------------------------------- progress

#: Seconds after which a compile is shown, and between two words about it.
AFTER_S = 1.0

#: Operations that one line records at least, and of all at least one in so many, to count as an unrolled loop.
MANY, PART = 100, 4


def compiled_in_sight(graph: Graph, compile_graph: Callable[[Graph], Any]) -> Any:
    """The executable of a graph; a terminal is told where it takes long."""
    stream = sys.stderr
    if stream is None or not stream.isatty():
        return compile_graph(graph)
    told = unrolled(graph) if len(graph.nodes) >= MANY else ""
    text, ended = f"autodiff: compiling {graph.name}, {len(graph.nodes):,} operations", threading.Event()
    thread = threading.Thread(target=_show, args=(stream, text, told, ended), name="autodiff progress", daemon=True)
    thread.start()
    try:
        return compile_graph(graph)
    finally:
        ended.set()
        thread.join()


def _show(stream: Any, text: str, told: str, ended: threading.Event) -> None:
    """Write a line again every second from the first on, until the compile has ended; then wipe it."""
    began, width = monotonic(), 0
    while not ended.wait(AFTER_S):
        if told and not width:
            stream.write(f"{told}\n")
        line = f"{text} ... {monotonic() - began:.0f} s"
        width = max(width, len(line))
        stream.write(f"\r{line}")
        stream.flush()
    if width:
        stream.write(f"\r{' ' * width}\r")
        stream.flush()


def unrolled(graph: Graph) -> str:
    """Words about the line that recorded many of the operations of a graph, whose trace noted lines; else nothing."""
    graph.set_origins()
    counts = Counter([str(o.lines[0]) for n in graph.nodes for o in n.origins if o.lines and o.half == "forward"])
    for line, count in counts.most_common(1):
        if count >= MANY and count * PART >= len(graph.nodes) / 2:
            return (
                f"autodiff: {line} recorded {count:,} operations: a Python loop was unrolled; ad.scan keeps it a loop, "
                "which is compiled once"
            )
    return ""
