"""Shards of data, and the executor whose workers load and keep them.

Kinds of `on`:
    None                   tasks run in this thread, one after the other
    ThreadPoolExecutor     tasks share the shards of this process; nothing is pickled
    a Dask client          a future of the cluster holds each shard; Dask sends tasks to it, and reloads lost shards
    any other executor     each process keeps the shards that it has loaded; a task in another process loads again
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from codegen.runtime.cache import LRU
from codegen.runtime.memory import physical_bytes

from ..errors import DispatchError, check_callable, located
from ..interop.foreign import Chain
from .task import Sent, ShardOrder, load_shard, room_for_shards, work


class _Here:
    """An executor that runs a task at once, in this thread."""

    def submit(self, f: Callable, *args: Any) -> Future:
        future: Future = Future()
        future.set_result(f(*args))
        return future


class Shards:
    """Shards of data that workers keep, made by `ad.shards`.

    >>> import autodiff as ad
    >>> ad.shards(lambda key: (key,), [1.0, 2.0])
    2 shards, here
    """

    def __init__(self, load: Callable, keys: list, on: Any, retries: int, progress: Any, memory: int | None) -> None:
        self.load, self.keys, self.retries, self.progress, self.memory = load, keys, retries, progress, memory
        self.token = uuid.uuid4().hex
        self._make = on if on is not None and (isinstance(on, type) or not hasattr(on, "submit")) else None
        self._executor: Any = _Here() if on is None else None if self._make else on
        self._held: dict[int, Any] = {}
        self.programs = LRU(64)  # by id of f: a sum of f that is made again, in a loop or while tracing, is reused
        self._sent = Sent(load, "load"), [Sent(key, f"the key {key!r:.60}") for key in keys]
        self.kept = room_for_shards()  # the shards loaded in this process

    def __repr__(self) -> str:
        where = "here" if isinstance(self._executor, _Here) else f"on {type(self._executor or self._make).__name__}"
        return f"{len(self.keys)} shards, {where}"

    def __len__(self) -> int:
        return len(self.keys)

    def __enter__(self) -> Shards:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the shards, and shut down the executor if `on` was a function that made it."""
        self.kept.clear()
        self._held.clear()
        if self._make:
            self._shut(wait=True)

    # ------------------------------------------------------------ the executor

    @property
    def executor(self) -> Any:
        """The executor; made now if there is none."""
        if self._executor is None:
            self._executor = self._make() if self._make else None
            if not hasattr(self._executor, "submit"):
                given, self._executor = self._executor, None
                raise DispatchError(located(
                    f"shards: the function on= made {given!r:.40}, which has no submit",
                    "let it return an executor: on=lambda: ProcessPoolExecutor(4)",
                ))
        return self._executor

    @property
    def is_here(self) -> bool:
        """True if tasks run in this process."""
        own = isinstance(self.executor, ThreadPoolExecutor) and "Interpreter" not in type(self.executor).__name__
        return own or isinstance(self.executor, _Here)

    @property
    def _is_dask(self) -> bool:
        return type(self.executor).__module__.partition(".")[0] == "distributed"

    def can_renew(self) -> bool:
        """True if lost tasks can be repeated: the executor can be made anew, or replaces lost workers."""
        return self._make is not None or self._is_dask or isinstance(self._executor, _Here)

    def renew(self, deserted: bool = False) -> bool:
        """Prepare to repeat lost tasks.  False if that is impossible, as on a cluster `deserted` by its workers."""
        if self._make:
            self._shut(wait=False)
        return self._make is not None or (self.can_renew() and not deserted)

    def _shut(self, wait: bool) -> None:
        """Shut down an executor that was made here, and drop its shards."""
        self._held.clear()
        old, self._executor = self._executor, None
        if hasattr(old, "shutdown"):
            old.shutdown(wait=wait)

    def has_nobody(self) -> bool:
        """True if the executor is a cluster that has no worker now."""
        return self._is_dask and not self.executor.scheduler_info().get("workers")

    # ------------------------------------------------------------ tasks

    def drop(self, place: int) -> None:
        """Drop a shard that the cluster holds, so that its next task loads it again."""
        self._held.pop(place, None)

    def started(self, f: Sent, function: str, chain: Chain, parameters: tuple, cotangents: list) -> Callable:
        """A function of a shard's number that starts its task and returns the future."""
        load, keys = self._sent
        for part in () if self.is_here else (f, load, *keys):
            part.pack()

        def start(place: int) -> Any:
            order = ShardOrder(self.token, place, keys[place], load, f, function, chain, self.memory)
            executor = self.executor
            if self.is_here:
                return executor.submit(work, order, parameters, cotangents, None, self.kept)
            if not self._is_dask:
                return executor.submit(work, order, parameters, cotangents)
            if place not in self._held:
                self._held[place] = executor.submit(load_shard, order, pure=False)
            return executor.submit(work, order, parameters, cotangents, self._held[place], pure=False)

        return start


def shards(
    load: Callable[[Any], Any],
    keys: Iterable[Any],
    on: Any = None,
    retries: int = 2,
    progress: Callable[[int, int], object] | bool | None = None,
    memory: int | None = None,
) -> Shards:
    """Shards of data, one for each key, that are loaded where they are used and kept there.

    load      a function of a key that returns a tuple of arrays; it runs in the worker.  What it returns becomes
              read-only
    keys      any values that differ: file names, ranges, numbers.  Sums are added in their order
    on        the workers: None (this thread), an object with `submit` (an executor of concurrent.futures, loky or
              mpi4py, a Dask client), or a function without arguments that makes one, so that a pool whose process was
              killed can be made again
    retries   how often the tasks of lost workers are repeated before a step fails with WorkerError
    progress  a function of (shards done, shards); True or False: a line on stderr or none; None: a line if stderr is
              a terminal and a step takes more than two seconds
    memory    the most bytes of shards that a process keeps, by default half of the machine's memory, and for tasks in
              this process no limit.  The least recently used shards are dropped, and loaded again when needed

    Use the shards as a context manager, or call `close`, to free them.  Raises DispatchError for two equal keys, for no
    keys, and for an argument of any other kind than above.

    >>> import autodiff as ad
    >>> data = {"a": ([1.0, 2.0],), "b": ([3.0],)}
    >>> parts = ad.shards(lambda key: data[key], ["a", "b"])
    >>> ad.sum_over(lambda w, x: ad.sum(w * ad.asarray(x)), parts)(2.0)
    np.float64(12.0)
    """
    check_callable(load, "shards (load)")
    if isinstance(keys, (str, bytes)):
        raise DispatchError(located(f"shards: keys is a {type(keys).__name__}: put it into a list"))
    try:
        keys = list(keys)
    except TypeError:
        raise DispatchError(located(f"shards: keys is {keys!r:.40}, not a list of keys")) from None
    if not keys:
        raise DispatchError(located("shards: there are no keys", "a sum needs one shard at least"))
    seen: set = set()
    for key in keys:
        try:
            twice = key in seen
            seen.add(key)
        except TypeError:
            raise DispatchError(located(
                f"shards: the key {key!r:.60} has no hash", "use tuples in the place of lists"
            )) from None
        if twice:
            raise DispatchError(located(f"shards: the key {key!r:.60} is there twice, so its shard would count twice"))
    if on is not None and not hasattr(on, "submit") and not callable(on):
        raise DispatchError(located(
            f"shards: on= is {on!r:.40}, which has no submit",
            "give an executor, a function that makes one, or None for this process",
        ))
    if not isinstance(retries, int) or retries < 0:
        raise DispatchError(located(f"shards: retries is a number from 0 on, not {retries!r}"))
    if memory is not None and not (isinstance(memory, (int, float)) and memory > 0):
        raise DispatchError(located(f"shards: memory is a number of bytes, not {memory!r}"))
    if memory is None and on is not None and not isinstance(on, ThreadPoolExecutor):
        memory = physical_bytes() // 2
    return Shards(load, keys, on, retries, progress, memory)
