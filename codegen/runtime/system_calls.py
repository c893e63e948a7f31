"""Functions of the system and the processor, for native Python.

    from .system_calls import now, pause
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

import sys

from ..modes import processor
from ..native import extern, fn, i32, local, native, ptr, u64, void

__all__ = [
    "condition_init", "getpid", "lock", "mutex_init", "now", "pause", "pthread_create", "pthread_detach",
    "pthread_sigmask", "sched_getaffinity", "set_bits", "sigfillset", "unlock", "wait", "wake_all", "wake_one",
]  # fmt: skip

IS_X86, IS_ARM = processor() == "x86_64", processor() == "aarch64"
CLOCK_MONOTONIC = 1 if sys.platform == "linux" else 6


def _system(name, result, *params):
    return extern(name, result, *params, runs_python=False)


getpid = _system("getpid", i32)
clock_gettime = _system("clock_gettime", i32, i32, ptr)
sched_getaffinity = _system("sched_getaffinity", i32, i32, u64, ptr)
set_bits = _system("llvm.ctpop.i64", u64, u64)
x86_pause = _system("llvm.x86.sse2.pause", void)
arm_hint = _system("llvm.aarch64.hint", void, i32)
pthread_create = _system("pthread_create", i32, ptr, ptr, fn[ptr, ptr], ptr)
pthread_detach = _system("pthread_detach", i32, ptr)
pthread_sigmask = _system("pthread_sigmask", i32, i32, ptr, ptr)
sigfillset = _system("sigfillset", i32, ptr)
mutex_init = _system("pthread_mutex_init", i32, ptr, ptr)
lock = _system("pthread_mutex_lock", i32, ptr)
unlock = _system("pthread_mutex_unlock", i32, ptr)
condition_init = _system("pthread_cond_init", i32, ptr, ptr)
wait = _system("pthread_cond_wait", i32, ptr, ptr)
wake_all = _system("pthread_cond_broadcast", i32, ptr)
wake_one = _system("pthread_cond_signal", i32, ptr)


@native(inline=True)
def pause() -> void:
    """Tell the processor that this thread only waits."""
    if IS_X86:
        x86_pause()
    if IS_ARM:
        arm_hint(1)


@native
def now() -> u64:
    """Nanoseconds of a clock that only goes forward."""
    time = local(u64, 2)
    clock_gettime(CLOCK_MONOTONIC, time)
    return time[0] * 1_000_000_000 + time[1]
