"""The entrances: making tensors, and looking at the caches."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from codegen import compiler
from codegen.ir import KNOWN_DTYPES
from codegen.records import NamedTuple

from .config import config
from .errors import Error, caller, check_not_masked, located
from .ops import as_tensor, astype, dtype_of
from .ops.conversion import as_numpy, no_array
from .ops.forms import check_without_effect
from .session import current, reset_all
from .tape.leaves import copied_natively, leaf, learn
from .tape.plan import COUNTS
from .tape.record import another, state
from .tape.tier import LATE, Late
from .tensor import AbstractTensor, Tensor
from .transforms.handles import refuse_discrete_leaf


def tensor(data: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """A new leaf with a copy of `data`: numbers, nested lists, arrays, tensors.

    dtype           float32, float64, int32, int64 or bool; by default that of the data (float: float64)
    requires_grad   True: backward accumulates gradients in `.grad`

    Raises DTypeError for a dtype that this library does not have, and for integers that are to require grad;
    DispatchError for data that NumPy cannot make an array of.  While `jit` traces, the contents of an array or tensor
    at each call count.

    An array that is used as it is (`x * a`) is copied when it is recorded: a tensor made of it once saves the copies.
    Under `ad.grad` and its kin at plain arrays a large one is not copied, and read-only until the call returns; what is
    written within the call through a view that was made earlier is not noticed.  Of a copy nothing can be written to.

    >>> import autodiff as ad
    >>> ad.tensor([1, 2, 3], dtype=ad.float32)
    f32[3] [1. 2. 3.]
    """
    if type(data) is np.ndarray and dtype is None:  # most are this: nothing is to be found out
        t = None if requires_grad else copied_natively(data)
        if t is not None:
            return t
        if data.dtype in KNOWN_DTYPES and state.now.captures is None:
            t = _leaf_of(np.array(data, order="C"), requires_grad)
            if not requires_grad and data.dtype is np.dtype(data.dtype.type):  # not a copy of it, which may go
                learn(data, t.node.kind)
            return t
    if dtype is None and type(data) in _PLAIN and state.now.captures is None:
        try:
            array = np.array(data, order="C")
        except (ValueError, TypeError):  # of which something is to be said
            array = None
        if array is not None and array.dtype in KNOWN_DTYPES:
            return _leaf_of(array, requires_grad)
    if state.now.captures is not None and not requires_grad and isinstance(data, (np.ndarray, AbstractTensor)):
        t = as_tensor(data, "tensor", "data").detach()
        return t if dtype is None else astype(t, dtype)
    if isinstance(data, AbstractTensor):
        data = as_tensor(data).detach().numpy()
    check_not_masked(data)
    data = as_numpy(data)
    wanted = None if dtype is None else dtype_of(dtype, "tensor")
    try:
        array = np.array(data, dtype=wanted, order="C")
    except (ValueError, TypeError) as error:
        raise no_array("tensor: the data", error) from None
    if dtype is None:
        array.flags.writeable = False  # so it is not copied
        # A set, say, is named as what it is; an int that is too large has the dtype object, too.
        given = array if array.dtype.kind != "O" or type(data) is int else data
        array = as_tensor(given, "tensor", "data").node.value  # names what is wrong with the dtype
    return _leaf_of(array, requires_grad)


#: Classes of data that NumPy reads at once.
_PLAIN = frozenset((float, int, bool, complex, list, tuple))


def _leaf_of(array: np.ndarray, requires_grad: bool) -> Tensor:
    """A leaf on an array that nobody else has."""
    array.flags.writeable = False
    if requires_grad:
        refuse_discrete_leaf(array.dtype)
    return leaf(array, bool(requires_grad))


#: In the place of an argument that is not given.
_NOTHING: Any = np._NoValue


def asarray(
    data: Any = _NOTHING, dtype: Any = None, copy: bool | str | None = None, *, a: Any = _NOTHING,
    order: str | None = None, device: str | None = None, like: Any = None,
) -> Tensor:
    """A tensor of `data`: a tensor as it is, an array without a copy where nobody else can write to it.

    A nesting of lists may hold tensors of one shape, with numbers among them if they are 0-d: gradients go to each.

    copy   True: a tensor of its own, through which gradients flow.
           False: raise ValueError where a copy would be needed.
    a, order, device, like   NumPy's: another name of `data`; a tensor has no layout, and is in the CPU's memory

    >>> import autodiff as ad
    >>> x = ad.ones(2)
    >>> ad.asarray(x) is x
    True
    >>> ad.asarray([x[0], 2.0])
    f64[2] [1. 2.]
    """
    if type(copy) is str:  # in NumPy's order
        copy, order = None, copy
    if order is not None or device is not None or like is not None:
        check_without_effect("asarray", order=order, device=device, like=like)
    if (data is _NOTHING) == (a is _NOTHING):
        raise TypeError(located("asarray: takes one array, as data or as a"))
    data = a if data is _NOTHING else data
    if copy is False and not isinstance(data, Tensor) and (
        not isinstance(data, np.ndarray) or data.flags.writeable or not data.flags.c_contiguous
    ):  # fmt: skip
        raise ValueError(located(
            "asarray: this data has to be copied",
            "only a read-only C-contiguous array can be shared: a tensor's value never changes",
        ))
    t = data if isinstance(data, Tensor) else as_tensor(data, "asarray", "data")
    if dtype is not None and t.dtype != (wanted := dtype_of(dtype, "asarray")):
        if copy is False:
            raise ValueError(located(f"asarray: {t.aval} has to be copied to become {wanted}"))
        return astype(t, wanted)
    return another(t) if copy and t is data else t


#: Versions of the Array-API standard whose names this namespace has (not every function of each).
_STANDARDS = ("2021.12", "2022.12", "2023.12", "2024.12")


def _array_namespace(t: AbstractTensor, *, api_version: str | None = None) -> ModuleType:
    """The module whose functions take this tensor: `autodiff` (Array-API standard).

    Raises ValueError for a version of the standard that is not known here.

    >>> import autodiff as ad
    >>> ad.tensor([1.0]).__array_namespace__() is ad
    True
    """
    if api_version is not None and api_version not in _STANDARDS:
        raise ValueError(located(
            f"__array_namespace__: no version {api_version!r} of the standard",
            f"it is one of {', '.join(_STANDARDS)}, or left out",
        ))
    return sys.modules["autodiff"]


_array_namespace.__name__ = _array_namespace.__qualname__ = "__array_namespace__"
setattr(AbstractTensor, _array_namespace.__name__, _array_namespace)


class _CacheCounts(NamedTuple):
    """The fields of CacheInfo."""

    hits: int
    misses: int
    compiles: int
    entries: int
    bytes: int


class CacheInfo(_CacheCounts):
    """Counts of the caches so far, as `cache_info` says them.   loaded: no part of the tuple"""

    loaded: int = 0

    @property
    def records(self) -> int:
        """Recordings that were asked for."""
        return self.hits + self.misses

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, loaded={self.loaded})"


def cache_info() -> CacheInfo:
    """Counts of the caches' hits, misses and compiles in this process.

    hits       recordings answered by a known program; calls of a `jit` function that has traced such arguments before
               are not counted
    misses     recordings for which rules ran, or a program was made
    compiles   programs compiled to machine code
    entries    compiled programs that are kept
    bytes      the size of their machine code
    loaded     pieces of machine code that were found on disk, so that LLVM did not run for them

    >>> import autodiff as ad
    >>> first = float(ad.sum(ad.ones(3) * 2))
    >>> before = ad.cache_info()
    >>> second = float(ad.sum(ad.ones(3) * 2))
    >>> ad.cache_info().hits - before.hits
    1
    """
    counts = compiler.counts()
    found = CacheInfo(COUNTS.hits, COUNTS.misses, counts.compiles, counts.entries, counts.bytes)
    found.loaded = counts.disk_objects
    return found


def clear_cache() -> None:
    """Forget all compiled programs.  The counts of `cache_info` go on.

    >>> import autodiff as ad
    >>> ad.clear_cache()
    >>> ad.cache_info().entries
    0
    """
    current().reset()
    compiler.clear()


config.forgetting.append(reset_all)


@contextmanager
def max_compiles(n: int):
    """Fail loudly when more than `n` graphs are compiled inside, of those that were not met before the block.

    A recorded program is evaluated by NumPy first, and compiled when it repeats: one that was met before the block and
    is compiled in it does not count.  Raises Error at the end of the block (not over another exception), ValueError for
    what is no number of graphs.

    >>> import autodiff as ad
    >>> with ad.max_compiles(1):
    ...     for learning_rate in (0.1, 0.2):
    ...         _ = (ad.tensor([1.0]) * learning_rate).numpy()
    """
    if not isinstance(n, int) or n < 0:
        raise ValueError(located(f"max_compiles takes a number of graphs, from 0 on, not {n!r:.40}"))
    before, late = compiler.counts().compiles, Late()
    LATE.append(late)
    try:
        yield
    finally:
        LATE.remove(late)
    done = compiler.counts().compiles - before - late.count
    if done > n:
        told = "1 graph was compiled" if done == 1 else f"{done} graphs were compiled"
        raise Error(f"max_compiles({n}): {told}\n  block at {caller()}")
