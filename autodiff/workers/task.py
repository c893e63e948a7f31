"""A worker's part of a sum: it loads one shard, or finds it again, and evaluates f on it.

    load_shard(order)                    -> LoadedShard, or an error
    work(order, parameters, cotangents)  -> Done, or an error

An error of `load` or `f` is returned, not raised: so an exception that a future raises means that a worker was lost.

The chain of an order names the function to compute, f or a derivative of it (`interop.foreign`), by names and numbers.
"""

from __future__ import annotations

import importlib
import math
import pickle
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from codegen.forks import held_over_fork
from codegen.modes import modes
from codegen.records import NamedTuple
from codegen.runtime.cache import LRU

from .. import tree
from ..api import asarray
from ..config import config
from ..custom.host import in_own_recording
from ..errors import DispatchError, DTypeError, Error, located
from ..frames import written_at
from ..interop.foreign import Chain, chained, pulled, pushed, with_rows
from ..jit import Compiled, jit
from ..session import namespace, programs
from ..tensor import AbstractTensor, Tensor
from ..transforms import enable_grad


class Sent:
    """A value on its way to a worker: the value itself for a thread of this process, bytes for another process.

    what    the name of the value in messages;  has_arrived: True in another process, which has the bytes alone
    """

    __slots__ = ("data", "has_arrived", "value", "what")

    def __init__(self, value: Any, what: str, data: bytes | None = None) -> None:
        self.value, self.what, self.data = value, what, data
        self.has_arrived = data is not None

    def __reduce__(self) -> tuple:
        return Sent, (None, self.what, self.data)

    def get(self) -> Any:
        """The value.  In another process this imports the user's module, and raises the errors of that."""
        return pickle.loads(self.data) if self.has_arrived and self.data is not None else self.value

    def pack(self) -> None:
        """Pickle the value.  Raises DispatchError, with the reason, for a value that cannot be pickled."""
        if self.data is not None:
            return
        try:
            cloudpickle: Any = importlib.import_module("cloudpickle")
        except ImportError:
            cloudpickle = None
        reason: BaseException | None = None
        for dumps in filter(None, [cloudpickle and cloudpickle.dumps, pickle.dumps]):
            try:
                self.data = dumps(self.value)
                return
            except Error as error:  # raised by a tensor with a history; its message has advice
                error.add_note(f"  while {self.what} was pickled for the workers")
                raise
            except Exception as error:
                reason = reason or error
        advice = "leave out what cannot be pickled: open files, locks, generators; load them in `load`"
        if cloudpickle is None:
            advice = "give it a def at the top of a file that the workers can import, or install cloudpickle"
        problem = f"sum_over: {self.what} cannot be sent to another process: {reason}"
        raise DispatchError(located(problem, advice)) from reason


class ShardOrder(NamedTuple):
    """The order for one task: a shard, and the function to compute on it."""

    shards: str  # the token of the `Shards`
    place: int  # the number of the key
    key: Sent
    load: Sent
    f: Sent
    function: str  # the token of f
    chain: Chain  # f itself, or the derivative of f to compute
    memory: int | None  # the most bytes of shards that the process keeps; None: no limit


class LoadedShard:
    """A loaded shard and its size in bytes, as Dask or a table of this process keeps it."""

    __slots__ = ("arrays", "nbytes")

    def __init__(self, arrays: tuple) -> None:
        self.arrays = arrays
        self.nbytes = sum([getattr(a, "nbytes", sys.getsizeof(a)) for a in tree.leaves(arrays)])

    def __reduce__(self) -> tuple:
        return LoadedShard, (self.arrays,)

    def __sizeof__(self) -> int:
        return self.nbytes


class Done(NamedTuple):
    """Results for one shard."""

    result: Any  # the result of f, with arrays as leaves; None for a chain that ends in "pull" or "push"
    rest: list[np.ndarray]  # gradients, or the tangents of a chain that ends in "push"


# ---------------------------------------------------------------- shards of this process

_lock = held_over_fork(threading.RLock())


def room_for_shards() -> LRU:
    """A table of loaded shards, by the token of `ad.shards` and the number of the key."""
    return LRU(1 << 30)


#: Shards of a `Shards` that another process made; one that this process made has a table of its own.
_kept = room_for_shards()
#: By the token of a sum: f and its summands.  f may close over much data, so 64 entries fill the table.
_functions, _WEIGHT = namespace("summands"), int(programs.most) // 64


def _shard(order: ShardOrder, kept: LRU) -> LoadedShard:
    """The shard, loaded if it is not kept.  The least recently used shards make room for it."""
    found: LoadedShard | None = kept.get((order.shards, order.place))
    if found is not None:
        return found
    loaded = _load(order)
    kept.most = math.inf if order.memory is None else order.memory
    kept.put((order.shards, order.place), loaded, loaded.nbytes)
    if loaded.nbytes > kept.most:
        kept.pop((order.shards, order.place))  # a table keeps its last entry, whatever that weighs
    return loaded


def _load(order: ShardOrder) -> LoadedShard:
    key, load = order.key.get(), order.load.get()
    arrays = load(key)
    if not isinstance(arrays, (tuple, list)) or not arrays:
        given = "an empty one" if isinstance(arrays, (tuple, list)) else f"{type(arrays).__name__}"
        advice = "return (x,)" if arrays is not None else "it ends without `return`?"
        raise DispatchError(
            f"shards: load(key) returns a tuple of arrays, and returned {given} for the key {key!r:.60}\n"
            f"  load is {written_at(load) or repr(load)}\n  {advice}"
        )
    return LoadedShard(tuple(tree.map(_locked, tuple(arrays))))


def _locked(x: Any) -> Any:
    """An array as a read-only one, which recording does not copy; any other leaf as it is."""
    if type(x) is not np.ndarray:
        return x
    if not x.flags.owndata or not x.flags.c_contiguous:
        x = np.array(x, order="C")
    x.flags.writeable = False
    return x


def _function(order: ShardOrder) -> tuple[Callable, dict]:
    """The user's f, as one object for all tasks so that programs are found again, and its summands."""
    found: tuple[Callable, dict] | None = _functions.get(order.function)
    if found is None:
        made: tuple[Callable, dict] = order.f.get(), {}
        with _lock:
            found = _functions.get(order.function) or made
            _functions.put(order.function, found, _WEIGHT)
    return found


# ---------------------------------------------------------------- derivatives of f at one shard


def _as_result(x: Any, f: Callable) -> Any:
    """A leaf that f returned, as an array or tensor.  Integers and truth values are int64: counts are exact."""
    if not isinstance(x, (Tensor, np.ndarray, np.generic, int, float, complex)):
        if not isinstance(x, AbstractTensor):
            raise DTypeError(
                f"sum_over: {getattr(f, '__name__', f)} ({written_at(f)}) returned {type(x).__name__}, which cannot be "
                "added\n  return arrays and numbers, in tuples, lists, dicts and dataclasses"
            )
        from ..ops.conversion import dense  # imported late: only structured results need it

        x = dense(x)
    x = x if isinstance(x, Tensor) else np.asarray(x)
    return x if x.dtype.kind in "fc" or x.dtype == np.int64 else x.astype(np.int64)


def _summand(f: Callable, chain: Chain, structure: tree.Structure) -> Callable[[Sequence[Any], tuple], Done]:
    """The function of (leaves and cotangents, shard) that a chain makes of f; compiled if `ad.jit` made f."""

    def computed(given: Sequence[Any], shard: tuple) -> Done:
        def on_shard(*parameters: Any) -> Any:
            return tree.map(lambda x: _as_result(x, f), f(*parameters, *shard))

        flat, nesting = chained(on_shard, chain, structure, rows=with_rows, pull=pulled, push=pushed)
        outs = list(flat([asarray(x) if isinstance(x, np.ndarray) else x for x in given]))
        if chain and chain[-1][0] != "rows":
            return Done(None, outs)
        (shape,) = nesting
        return Done(tree.unflatten(shape, outs[: shape.size]), outs[shape.size :])

    return jit(computed) if isinstance(f, Compiled) and not any(f.traced.statics) else computed


def _evaluated(
    known: tuple[Callable, dict], shard: tuple, order: ShardOrder, parameters: tuple, cotangents: list
) -> Done:
    f, summands = known
    leaves, structure = tree.flatten(parameters)
    key = order.chain, structure
    summand = summands.get(key) or summands.setdefault(key, _summand(f, *key))
    done = summand((*leaves, *cotangents), shard)
    return tree.map(lambda x: x.detach().numpy() if isinstance(x, Tensor) else x, done)


# ---------------------------------------------------------------- tasks

_busy = 0
_before = False


@contextmanager
def _deterministic() -> Iterator[None]:
    """While this is open, compile each program before its first run, for its size: a worker's past changes no bits."""
    global _busy, _before
    with _lock:
        if _busy == 0:
            _before, modes.deterministic = modes.deterministic, True
            config.settle_patience(True)
        _busy += 1
    try:
        yield
    finally:
        with _lock:
            _busy -= 1
            if _busy == 0:
                modes.deterministic = _before
                config.settle_patience(_before)


def _failed(error: Exception, order: ShardOrder, doing: str) -> Exception:
    """The error with a note of the key; in its place a RuntimeError with its name and text if it cannot be pickled."""
    try:
        key = repr(order.key.get())[:60]
    except Exception:
        key = f"number {order.place}"
    error.add_note(f"  {doing} the shard with the key {key}")
    if not order.key.has_arrived:
        return error
    error.add_note("  in a worker:\n" + "".join(traceback.format_tb(error.__traceback__)).rstrip())
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        notes = error.__notes__
        error = RuntimeError(f"{type(error).__name__}: {error}")
        error.__notes__ = notes
    return error


def load_shard(order: ShardOrder) -> LoadedShard | Exception:
    """Load a shard, for an executor that keeps it."""
    try:
        return _load(order)
    except Exception as error:
        return _failed(error, order, "while loading")


def work(
    order: ShardOrder, parameters: tuple, cotangents: list, loaded: LoadedShard | Exception | None = None,
    kept: LRU = _kept,
) -> Done | Exception:  # fmt: skip
    """Compute the results for one shard.

    parameters   arrays in the user's nesting;  cotangents: arrays, for a chain with "pull" or "push"
    loaded       the shard, if the executor keeps it;  kept: the table that otherwise has it, or gets it
    """
    if isinstance(loaded, Exception):
        return loaded
    doing = "while loading"
    try:
        shard = loaded or _shard(order, kept)
        doing = "while computing with"
        with in_own_recording(), enable_grad(), _deterministic():
            return _evaluated(_function(order), shard.arrays, order, parameters, cotangents)
    except Exception as error:
        return _failed(error, order, doing)
