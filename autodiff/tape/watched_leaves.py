"""Leaves that hold what a rule is watched with: the plan that is made of the rule puts the present value there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..tensor import Tensor
from .leaves import number_leaf, taken
from .record import state
from .watched import Watched, WatchedArray, plain

__all__ = ["leaf_of_array", "leaf_of_number"]


def leaf_of_number(x: Watched, dtype: np.dtype, python: type) -> Tensor:
    """The leaf of a number that a rule is watched with: its plan computes the number again."""
    watch = x._watch
    if state.now.literal or not watch.is_open:
        return number_leaf(plain(x), dtype)
    try:
        t = number_leaf(x._value, dtype)
    except OverflowError:  # another number may fit
        watch.see(x._step)
        raise
    watch.leaves[t.node] = (x._step, _fitting(dtype) if python is int else python)
    return t


def _fitting(dtype: np.dtype) -> Callable[[Any], int]:
    """What refuses, with an OverflowError, an int that does not fit."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max

    def fitting(value: Any) -> int:
        value = int(value)
        if not low <= value <= high:
            raise OverflowError
        return value

    return fitting


def leaf_of_array(x: WatchedArray, dtype: np.dtype) -> Tensor:
    """The leaf of an array that a rule is watched with: its plan takes the array that is there then."""
    watch = x._watch
    if not watch.is_open or x.dtype != dtype:
        return taken(x._seen(), dtype)
    t = taken(x._value, dtype)
    watch.leaves[t.node] = (x._step, _packed)
    return t


def _packed(array: np.ndarray) -> np.ndarray:
    """An array as native code takes it."""
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else np.array(array, order="C")
