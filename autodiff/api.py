"""Public functions that make tensors, and that inspect or clear the caches."""

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
from .tape.record import as_new_result, state
from .tape.tier import EARLIER_COMPILES, EarlierCompiles
from .tensor import AbstractTensor, Tensor
from .transforms.handles import refuse_discrete_leaf


def tensor(data: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """A new leaf with a copy of `data`: numbers, nested lists, arrays, tensors.

    dtype           float32, float64, int32, int64 or bool; by default that of the data (float: float64)
    requires_grad   True: backward accumulates gradients in `.grad`

    Raises DTypeError for a dtype that this library does not have, and for integers with requires_grad=True;
    DispatchError for data that NumPy cannot make an array of.  In a function under `jit`, an array or tensor as `data`
    is a hidden input: each call reads its present contents.

    An operation that takes a NumPy array (`x * a`) copies it when it is recorded; a tensor made of it once saves these
    copies.  `ad.grad` and similar functions do not copy the arrays that they are called with: a write to one of these
    before the call returns is not noticed.

    >>> import autodiff as ad
    >>> ad.tensor([1, 2, 3], dtype=ad.float32)
    f32[3] [1. 2. 3.]
    """
    if type(data) is np.ndarray and dtype is None:  # the usual case, for which no other check is needed
        t = None if requires_grad else copied_natively(data)
        if t is not None:
            return t
        if data.dtype in KNOWN_DTYPES and state.now.captures is None:
            t = _leaf_of(np.array(data, order="C"), requires_grad)
            if not requires_grad and data.dtype is np.dtype(data.dtype.type):  # no copy, which may be freed
                learn(data, t.node.kind)
            return t
    if dtype is None and type(data) in _PLAIN and state.now.captures is None:
        try:
            array = np.array(data, order="C")
        except (ValueError, TypeError):  # the code below raises an error with an explanation
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
        array.flags.writeable = False  # so that `as_tensor` does not copy it
        # The error names the data (a set, say) rather than its object array; a too large int is named by that array.
        given = array if array.dtype.kind != "O" or type(data) is int else data
        array = as_tensor(given, "tensor", "data").node.value  # raises for a dtype that the library does not have
    return _leaf_of(array, requires_grad)


#: Classes of data that are passed to `np.array` without further checks.
_PLAIN = frozenset((float, int, bool, complex, list, tuple))


def _leaf_of(array: np.ndarray, requires_grad: bool) -> Tensor:
    """A leaf on an array to which nothing else refers."""
    array.flags.writeable = False
    if requires_grad:
        refuse_discrete_leaf(array.dtype)
    return leaf(array, bool(requires_grad))


#: The default of a parameter, where None is a value that a user may pass.
_NOTHING: Any = np._NoValue


def asarray(
    data: Any = _NOTHING, dtype: Any = None, copy: bool | str | None = None, *, a: Any = _NOTHING,
    order: str | None = None, device: str | None = None, like: Any = None,
) -> Tensor:
    """A tensor of `data`: a tensor is returned as it is; an array is shared if nothing can write to it, else copied.

    Nested lists may hold tensors of one shape, and numbers too if the tensors are 0-d: gradients flow to each tensor.

    copy   True: return a new tensor, through which gradients flow to `data`.
           False: raise ValueError where a copy would be needed.
    a, order, device, like   as in NumPy: `a` is another name of `data`; the others are accepted if they have no effect

    >>> import autodiff as ad
    >>> x = ad.ones(2)
    >>> ad.asarray(x) is x
    True
    >>> ad.asarray([x[0], 2.0])
    f64[2] [1. 2.]
    """
    if type(copy) is str:  # NumPy's third parameter is `order`
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
    return as_new_result(t) if copy and t is data else t


#: Versions of the Array-API standard that the namespace follows (it lacks some functions of each).
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
    """Counts of the caches so far: see `cache_info`.   loaded: an attribute, not a field of the tuple"""

    loaded: int = 0

    @property
    def records(self) -> int:
        """The number of recordings of which a value or a gradient was asked for."""
        return self.hits + self.misses

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, loaded={self.loaded})"


def cache_info() -> CacheInfo:
    """Counts of the caches' hits, misses and compiles in this process.

    hits       recordings whose program was cached; calls of a `jit` function with a signature that it has traced before
               are not counted
    misses     recordings for which rules ran, or a new program was made
    compiles   programs compiled to machine code
    entries    compiled programs in the cache
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
    """Raise Error if more than `n` graphs are compiled in the block, apart from graphs that were met before it.

    NumPy evaluates a recorded program first, and the program is compiled when it repeats: a program that was met before
    the block and is compiled in the block does not count.  Error is raised at the end of the block, unless another
    exception leaves the block.  Raises ValueError if `n` is not a number of graphs.

    >>> import autodiff as ad
    >>> with ad.max_compiles(1):
    ...     for learning_rate in (0.1, 0.2):
    ...         _ = (ad.tensor([1.0]) * learning_rate).numpy()
    """
    if not isinstance(n, int) or n < 0:
        raise ValueError(located(f"max_compiles takes a number of graphs, from 0 on, not {n!r:.40}"))
    before, late = compiler.counts().compiles, EarlierCompiles()
    EARLIER_COMPILES.append(late)
    try:
        yield
    finally:
        EARLIER_COMPILES.remove(late)
    done = compiler.counts().compiles - before - late.count
    if done > n:
        told = "1 graph was compiled" if done == 1 else f"{done} graphs were compiled"
        raise Error(f"max_compiles({n}): {told}\n  block at {caller()}")
