"""Reports about programs that are recorded or compiled anew: the reasons (`ad.explain()`), logs, and a progress line.

Each cache miss is noted with the user's line and a reason: the first difference to the most similar key of the same
purpose that was seen before.

    3 times  train.py:14, in step: backward
        an input is f64[32,6], before it was f64[64,6]

The loggers `autodiff.compile` (INFO) and `autodiff.trace` (DEBUG) of the standard library get a message for each
program that is compiled, and for each that is only recorded.  If stderr is a terminal, a line there counts the seconds
of a long compile, and is wiped at its end; a line about an unrolled loop stays.
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
from ..session import per_session
from .node import Kind, Out

#: The number of latest misses that are kept.
LIMIT = 256
#: A new key of `LARGEST` parts at most is compared with the latest `RECENT` keys of its program, one of `KINDS`.
RECENT, KINDS, LARGEST = 4, 64, 2000


class Miss(NamedTuple):
    """A place in the user's program where a program was recorded or compiled anew, and the reason.

    what      "value", "backward" or "jit f"; "jit f, as it is recorded": without a trace
    line      the user's line that asked for the program
    reason    the reason why no earlier program could be used
    times     the number of misses at this line for this reason
    compiles  the number of graphs that were compiled for them
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
    """The latest misses, oldest first, as a list of `Miss`; its text has one after the other."""

    def __repr__(self) -> str:
        if not self:
            return "nothing was recorded or compiled anew"
        return "\n".join([str(m) for m in self])

    __str__ = __repr__


_lock = renewed_in_child(globals(), "_lock")


class _Notes:
    """The notes of each place, the latest keys of each program, and the count of compiled graphs at the last note."""

    def __init__(self) -> None:
        self.found: OrderedDict[tuple, tuple[UserLine | None, int, int]] = OrderedDict()
        self.recent: OrderedDict[Any, deque] = OrderedDict()
        self.compiles = 0


_notes: _Notes = per_session(_Notes)


def note(what: str, why: str | tuple) -> None:
    """Note that something was made anew at the user's present line, and the graphs compiled since the last note.

    why    the reason; or the exact key of the recording, which is compared with earlier keys
    """
    line = user_line()
    with Paused(), _lock:
        reason = _compared(why) if type(why) is tuple else str(why)
        # The code object itself would be a slow key: its hash reads all of its contents.
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
    if logging is not None:  # else nobody listens, and importing it takes as long as compiling
        level, name = (logging.INFO, "autodiff.compile") if made else (logging.DEBUG, "autodiff.trace")
        logger = logging.getLogger(name)
        if logger.isEnabledFor(level):
            miss = Miss(what, str(line or "an unknown place"), reason, 1, made)
            logger.log(level, "%s: %s%s: %s", miss.line, miss.what, miss.compiled, miss.reason, extra={"miss": miss})


def explain(*given: Never, **named: Never) -> Explanation:
    """The reasons why programs were recorded or compiled anew: the latest ones, oldest first.

    Each entry has `what`, `line`, `reason`, `times` and `compiles`.  If a line in a loop has about as many `times` as
    the loop has turns, its program is recorded or compiled anew in each turn, for the reason that the entry gives.
    Cached programs are not listed: `ad.cache_info().hits` counts their runs.  One step may run several programs, since
    a live result of more than 64 elements is not computed together with another one, but by the line that uses it.

    Raises DispatchError if it is called with an argument.

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
    """Words for the difference of an exact key, (purpose, parts, ...), from the most similar one; the key is noted."""
    purpose, parts, *rest = key
    if len(parts) > LARGEST:
        return f"a recording of {len(parts)} nodes that was not seen before"
    # The last operation identifies the program: a comparison with another program would not be useful.
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
    """The number of parts that differ; keys of different lengths are further apart than any others."""
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
    """Words for the difference of a node.   new, was: an Out (a known value), or (kind or Out; pending; ...; wiring)"""
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
    """Words for the axes whose extents changed; none if the number of axes changed."""
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
    """Drop all notes, and all keys that were seen."""
    with Paused(), _lock:
        _notes.found.clear()
        _notes.recent.clear()
        _notes.compiles = store.compiles


# ---------------------------------------------------------------- progress

#: Seconds after which a compile is shown, and between two updates of the line.
AFTER_S = 1.0

#: A line of `MANY` operations, and 1 in `PART` of half the graph's (rules record the rest), counts as an unrolled loop.
MANY, PART = 100, 4


def compiled_in_sight(graph: Graph, compile_graph: Callable[[Graph], Any]) -> Any:
    """The executable of a graph; a terminal shows a line if compiling takes long."""
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
    """Words about a line that recorded many operations of a graph, if the trace noted lines; "" if there is none."""
    graph.set_origins()
    counts = Counter([str(o.lines[0]) for n in graph.nodes for o in n.origins if o.lines and o.half == "forward"])
    for line, count in counts.most_common(1):
        if count >= MANY and count * PART >= len(graph.nodes) / 2:
            return (
                f"autodiff: {line} recorded {count:,} operations: a Python loop was unrolled; ad.scan keeps it a loop, "
                "which is compiled once"
            )
    return ""
