"""The first call of a program, in a process that has no launcher yet.

The launcher and the thread pool are the same for every program and take LLVM some 45 ms, more than the kernels of
most; a process that computes one gradient would wait for them longer than for anything else.  So the first call
runs step by step by ctypes, on fresh memory and one thread; the second makes the launcher, for all programs.
Bits are the same: it is the same code, and a shared loop's chunks do not depend on who runs them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from ..modes import modes
from . import memory, native
from .launcher import LaunchPlan, launcher, run_by

#: From this many scalar operations on (some 150 ms, vectorised) threads gain more than the launcher takes.
_LONGEST = 1_000_000_000

_signature = (ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_locked, _unlocked = ctypes.PYFUNCTYPE(*_signature), ctypes.CFUNCTYPE(*_signature)


class _Owner(Protocol):
    call: Callable[..., tuple[np.ndarray, ...]]


def call_of(
    plan: LaunchPlan, operations: int, owner: Callable[[], _Owner | None]
) -> Callable[..., tuple[np.ndarray, ...]]:
    """The caller of a program: the launcher where there is one, or much to do; else what makes it at the second call.

    owner   gives whose `call` it is, to be replaced then, or None once that is gone
    """
    if native.is_made() or operations > _LONGEST:
        return launcher(plan)
    return EarlyCall(plan, owner)


class EarlyCall:
    """`f(*arguments)`: by ctypes once, then by the launcher."""

    __slots__ = ("__weakref__", "_launcher", "_owner", "_plan", "_was_called")

    def __init__(self, plan: LaunchPlan, owner: Callable[[], _Owner | None]) -> None:
        self._plan = plan
        self._owner = owner
        self._was_called = False
        self._launcher: Callable[..., tuple[np.ndarray, ...]] | None = None

    def __call__(self, *arguments: Any) -> tuple[np.ndarray, ...]:
        is_needed = native.is_made() or modes.flush_subnormals  # which nothing but machine code does
        if not is_needed and not self._was_called:
            self._was_called = True
            return run_by(partial(_run, self._plan), self._plan, arguments)
        if self._launcher is None:
            try:
                self._launcher = launcher(self._plan)
            except native.NO_ROOM:
                return run_by(partial(_run, self._plan), self._plan, arguments)
            owner = self._owner()
            if owner is not None:
                owner.call = self._launcher
        return self._launcher(*arguments)


def _run(plan: LaunchPlan, addresses: Sequence[int]) -> int:
    """Run the steps as `run_program` does, without any code of its own, on one thread."""
    made = _unlocked if plan.is_long else _locked
    for number, step in enumerate(plan.steps):
        pointers = (ctypes.c_void_p * len(step.slots))(*[addresses[slot] for slot in step.slots])
        extents = step.extents if step.share is None else (*step.extents, 0, step.share.total)
        if status := made(step.address)(pointers, memory.words(extents)):
            return number << 32 | status
    return 0
