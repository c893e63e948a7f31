"""The differentiable sum: a custom function that workers compute, in one round trip (see `interop.foreign`).

A round trip runs a task for each shard, repeats lost tasks, and adds the results in the order of the keys.  The rule of
the sum is another sum over the same shards, so it has derivatives of any order.
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Sequence
from functools import wraps
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from .. import tree
from ..custom.reads import held_by
from ..errors import DispatchError, DTypeError, GradientError, ShapeError, WorkerError, amount, check_callable, located
from ..interop.foreign import Chain, Layout, wrapped
from ..tape.leaks import is_traced
from ..tracebacks import border
from .keeping import Shards
from .task import Done, Sent

#: Seconds after which a step shows its progress on a terminal, and between two checks of the workers.
_SLOW_S, _LOOK_S = 2.0, 1.0

#: Seconds without any worker after which a step fails: a cluster restarts workers in less time.
_PATIENCE_S = 30.0


class Sum:
    """The sum of results, added in a binary tree over the keys as they arrive: the order of arrival changes no bit.

    A result waits for its neighbour only: if results arrive in order, at most one for each level of the tree is kept.

    >>> total = Sum(["a", "b", "c"])
    >>> for place, x in ((2, 30.0), (0, 1.0), (1, 2.0)):
    ...     total.add(place, Done(np.float64(x), []))
    >>> float(total.result()[0][0])
    33.0
    """

    def __init__(self, keys: list) -> None:
        self.keys = keys
        self.waiting: dict[tuple[int, int], list[np.ndarray]] = {}
        self.known: tuple[int, Any, list] | None = None
        self.missing = set(range(len(keys)))

    def add(self, place: int, done: Done) -> None:
        """Add the results for one key.  Raises ShapeError or DTypeError if structure, shapes or dtypes differ."""
        leaves, structure = tree.flatten(done.result) if done.result is not None else ([], None)
        values = [np.asarray(x) for x in (*leaves, *done.rest)]
        self._check(place, structure, values)
        self.missing.discard(place)
        level, width = 0, len(self.keys)
        while width > 1:
            neighbour = place ^ 1
            if neighbour < width:
                other = self.waiting.pop((level, neighbour), None)
                if other is None:
                    self.waiting[level, place] = values
                    return
                first, second = (other, values) if neighbour < place else (values, other)
                values = [_plus(a, b) for a, b in zip(first, second, strict=True)]
            place, width, level = place >> 1, (width + 1) >> 1, level + 1
        self.waiting[level, 0] = values

    def result(self) -> tuple[list[np.ndarray], Any, int]:
        """The sums, the structure of the result of f, and the number of leaves in that."""
        (values,) = self.waiting.values()
        structure = self.known[1] if self.known else None
        return values, structure, structure.size if structure is not None else 0

    def _check(self, place: int, structure: Any, values: list[np.ndarray]) -> None:
        mine = [(v.dtype, v.shape) for v in values]
        if self.known is None:
            self.known = place, structure, mine
            return
        other, expected, theirs = self.known
        if structure == expected and mine == theirs:
            return
        kind = DTypeError if structure == expected and [s for _, s in mine] == [s for _, s in theirs] else ShapeError
        raise kind(located(
            f"sum_over: f returned {_told(structure, mine)} for the key {self.keys[place]!r:.60}\n"
            f"  and {_told(expected, theirs)} for the key {self.keys[other]!r:.60}: they cannot be added",
            "let load return every shard with the same dtypes, and f results of the same shapes",
        ))


def _told(structure: Any, avals: list) -> str:
    texts = [f"{dtype}[{','.join(map(str, shape))}]" for dtype, shape in avals]
    own = texts[: structure.size] if structure is not None else texts
    return ", ".join(own) if structure is None or len(own) == 1 else f"{structure} of {', '.join(own)}"


def _plus(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    total = np.asarray(a + b)
    if total.dtype.kind == "i" and np.any(((a ^ total) & (b ^ total)) < 0):
        raise OverflowError(located(f"sum_over: a sum of integers does not fit {total.dtype}"))
    return total


def run_round(shards: Shards, submit: Callable[[int], Any]) -> Sum:
    """Run a task for each shard, repeat those that are lost, and return the sum of the results.

    submit   a function of a shard's number that starts its task and returns the future
    """
    total = Sum(shards.keys)
    tell = _Progress(shards.progress, len(shards.keys))
    attempts = 0
    while True:
        missing, reason = sorted(total.missing), None
        futures: dict[int, Any] = {}
        try:
            reason = _collect(shards, missing, submit, futures, total, tell)
        finally:
            for future in futures.values():  # some are left if a key failed, or the user interrupts
                future.cancel()
            tell.clear()
        if not total.missing:
            return total
        attempts += 1
        keys = [shards.keys[i] for i in sorted(total.missing)]
        deserted = isinstance(reason, WorkerError)
        if attempts > shards.retries or not shards.renew(deserted):
            raise _lost(shards, keys, attempts, reason) from reason


def _collect(
    shards: Shards, places: list[int], submit: Callable, futures: dict[int, Any], total: Sum, tell: _Progress
) -> BaseException | None:
    """Start the tasks for these shards, and add their results until no task is left.

    Returns the error of a lost task, if there is one: a WorkerError if the cluster had no worker for half a minute.
    """
    arrived: SimpleQueue[int] = SimpleQueue()
    reason: BaseException | None = None
    alone_since: float | None = None
    for place in places:
        try:
            futures[place] = future = submit(place)
        except Exception as error:  # a broken executor, or one that was shut down
            reason = error.with_traceback(None)
            break
        future.add_done_callback(lambda _, place=place: arrived.put(place))
    while futures:
        try:
            place = arrived.get(timeout=_LOOK_S)
        except Empty:
            tell(len(shards.keys) - len(total.missing))
            alone_since = (alone_since or time.monotonic()) if shards.has_nobody() else None
            if alone_since and time.monotonic() - alone_since > _PATIENCE_S:
                return WorkerError(f"no worker is left, and none was started in {_PATIENCE_S:.0f} s")
            continue
        try:
            answer = futures.pop(place).result()
        except Exception as error:  # a worker was lost: errors of f are returned as answers, not raised
            # A traceback keeps all frames and the user's tensors alive; live tensors change programs and their bits.
            reason = error.with_traceback(None)
            shards.drop(place)
            continue
        if isinstance(answer, Exception):
            shards.drop(place)
            raise answer
        total.add(place, answer)
        tell(len(shards.keys) - len(total.missing))
    return reason


def _lost(shards: Shards, keys: list, attempts: int, reason: BaseException | None) -> WorkerError:
    shown = ", ".join([repr(k)[:40] for k in keys[:8]]) + (f" and {len(keys) - 8} more" if len(keys) > 8 else "")
    why = f": {type(reason).__name__}: {str(reason).strip():.300}" if reason is not None else ""
    advice = (
        "see why the cluster starts no worker again: Dask ends a worker that is being started again at the moment\n"
        "  distributed.deploy.lost-worker-timeout (15s) after any loss of it: set that to 1h"
        if isinstance(reason, WorkerError)
        else "its workers may run out of memory: make shards smaller, or retries= larger"
        if shards.can_renew()
        else "give on= a function that makes the executor, so that a broken one is made again:\n"
        "  on=lambda: ProcessPoolExecutor(4)"
    )
    error = WorkerError(located(
        f"sum_over: {len(keys)} of {len(shards.keys)} shards have no result after {amount(attempts, 'attempt')}{why}\n"
        f"  keys: {shown}",
        advice,
    ))
    error.keys = tuple(keys)
    return error


class _Progress:
    """Reports how many shards are done: to the user's function, or on a terminal if a step takes seconds."""

    def __init__(self, told: Callable[[int, int], object] | bool | None, count: int) -> None:
        self.told = told if callable(told) else None
        self.shows = told is True or (told is None and sys.stderr is not None and sys.stderr.isatty())
        self.count = count
        self.start = time.monotonic()
        self.line = ""

    def __call__(self, done: int) -> None:
        if self.told is not None:
            self.told(done, self.count)
        elif self.shows and time.monotonic() - self.start > _SLOW_S:
            self.line = f"{done} of {self.count} shards"
            print(f"\r{self.line}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.line:
            print("\r" + " " * len(self.line) + "\r", end="", file=sys.stderr, flush=True)
            self.line = ""


def _summed(f: Callable, name: str, shards: Shards) -> Callable[..., tuple[Layout, list[np.ndarray]]]:
    """The `run` for `wrapped`: it sums f, or the function that a chain makes of f, over all shards."""
    token, for_workers = uuid.uuid4().hex, Sent(f, f"f, {name:.60},")

    def run(chain: Chain, structure: tree.Structure, leaves: Sequence[Any]) -> tuple[Layout, list[np.ndarray]]:
        parameters, cotangents = tree.unflatten(structure, leaves[: structure.size]), [*leaves[structure.size :]]
        start = shards.started(for_workers, token, chain, parameters, cotangents)
        values, found, count = run_round(shards, start).result()
        has_rows = len(values) > count > 0
        numbers = tuple([i for i, v in enumerate(values[:count]) if has_rows and v.dtype.kind == "f"])
        return Layout(found, count, numbers), values

    return run


def _check_closed(f: Callable) -> None:
    """Raise GradientError if f reads a tensor that requires grad or is being traced: the workers get only a copy."""
    for path, t in held_by(f):
        if t.requires_grad or is_traced(t.node):
            raise GradientError(located(
                f"sum_over: f reads the tensor {path[-1]!r} ({t.aval}), which "
                f"{'requires grad' if t.requires_grad else 'is being traced'}, without being given it",
                "the workers get a copy, so no gradient would flow: make it a parameter of f",
            ))


def sum_over(f: Callable[..., Any], shards: Shards) -> Callable[..., Any]:
    """A function of parameters: the sum over all shards of f(*parameters, *shard).

    f        a function of the parameters and of the arrays of one shard, written with functions of `ad`.  Python runs
             f again for each task; `ad.jit(f)` is traced once, and its derivatives too.  Parameters and results are
             arrays and numbers, in any nesting of tuples, lists, dicts and dataclasses
    shards   made by `ad.shards`

    The sum is an ordinary function: it can be differentiated to any order, mapped and compiled.  The value and its
    gradient take one round trip if all results of f are numbers; each further order takes one more.  `ad.vmap` takes
    a round trip for each example.  Integers and truth values are added exactly, as int64, and have no derivative.

    A mean is a quotient of two sums: let f return `ad.sum(loss), len(y)`.

    The workers get a copy of f.  The results are added in a binary tree in the order of the keys, and programs are
    compiled before they first run, so a sum has the same bits for any number of workers of one kind.

    Raises WorkerError, with the keys, when workers were lost more often than the shards allow; ShapeError and
    DTypeError for results whose shapes or dtypes differ between shards; GradientError if f reads a tensor that requires
    grad; DispatchError for a function that cannot be pickled.  An error of `load` or `f` is raised as it is, with a
    note that names the key.

    >>> import autodiff as ad
    >>> import numpy as np
    >>> def load(key):
    ...     rng = np.random.default_rng(key)
    ...     x = rng.normal(size=(10 + key, 2))
    ...     return x, x @ np.array([1.0, -2.0])
    >>> def squares(w, x, y):
    ...     return ad.sum((x @ w - y) ** 2), len(y)
    >>> total = ad.sum_over(squares, ad.shards(load, range(3)))
    >>> def mean(w):
    ...     loss, count = total(w)
    ...     return loss / count
    >>> np.round(ad.grad(mean)(np.array([1.0, -2.0])), 6)
    array([0., 0.])
    """
    check_callable(f, "sum_over")
    if not isinstance(shards, Shards):
        raise DispatchError(located(
            f"sum_over: shards is {shards!r:.40} ({type(shards).__name__})",
            "make them by ad.shards(load, keys)",
        ))
    _check_closed(f)
    known = shards.programs.get(id(f))
    if known is None:
        name = getattr(f, "__name__", "a function")
        known = wrapped(f"sum_over of {name}", _summed(f, getattr(f, "__name__", repr(f)), shards), is_ours=True)
        shards.programs.put(id(f), known)  # it holds f, so that no other object gets the same id

    @border
    @wraps(known)
    def total(*parameters: Any) -> Any:
        _check_closed(f)
        return known(*parameters)

    return total
