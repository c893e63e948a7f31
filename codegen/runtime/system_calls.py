"""Functions of the system and the processor, for native Python.

    from .system_calls import now, pause
    control() -> u64, adopt(it)      a thread's control register, so that another thread can compute in the same mode

The register controls subnormal numbers and rounding.  It is MXCSR on x86-64 (bit 15: results become zero, bit 6:
operands are read as zero; 13 and 14: rounding) and FPCR on aarch64 (bit 24: both; 22 and 23: rounding).
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

import sys

from ..modes import processor
from ..native import extern, fn, i32, local, native, ptr, u32, u64, void

IS_X86, IS_ARM = processor() == "x86_64", processor() == "aarch64"
#: The bits that flush subnormals to zero; all bits that affect results: these, and those of rounding.  On other
#: processors the bits are not known, and the mode cannot be switched on (`modes`).
FLUSH, MEANT = (0x8040, 0xE040) if IS_X86 else (1 << 24, 7 << 22) if IS_ARM else (0, 0)
CLOCK_MONOTONIC = 1 if sys.platform == "linux" else 6


getpid = extern("getpid", i32)
clock_gettime = extern("clock_gettime", void, i32, ptr)
sched_getaffinity = extern("sched_getaffinity", i32, i32, u64, ptr)
set_bits = extern("llvm.ctpop.i64", u64, u64)
x86_pause = extern("llvm.x86.sse2.pause", void)
arm_hint = extern("llvm.aarch64.hint", void, i32)
pthread_create = extern("pthread_create", i32, ptr, ptr, fn[ptr, ptr], ptr)
pthread_detach = extern("pthread_detach", void, ptr)
pthread_sigmask = extern("pthread_sigmask", void, i32, ptr, ptr)
sigfillset = extern("sigfillset", void, ptr)
mutex_init = extern("pthread_mutex_init", void, ptr, ptr)
lock = extern("pthread_mutex_lock", void, ptr)
unlock = extern("pthread_mutex_unlock", void, ptr)
condition_init = extern("pthread_cond_init", void, ptr, ptr)
wait = extern("pthread_cond_wait", void, ptr, ptr)
wake_all = extern("pthread_cond_broadcast", void, ptr)
wake_one = extern("pthread_cond_signal", void, ptr)
read_x86 = extern("llvm.x86.sse.stmxcsr", void, ptr)
write_x86 = extern("llvm.x86.sse.ldmxcsr", void, ptr)
read_arm = extern("llvm.aarch64.get.fpcr", u64)
write_arm = extern("llvm.aarch64.set.fpcr", void, u64)


@native(inline=True)
def pause() -> void:
    """Tell the processor that this thread is only waiting."""
    if IS_X86:
        x86_pause()
    if IS_ARM:
        arm_hint(1)


@native
def now() -> u64:
    """The nanoseconds of a monotonic clock."""
    time = local(u64, 2)
    clock_gettime(CLOCK_MONOTONIC, time)
    return time[0] * 1_000_000_000 + time[1]


@native
def control() -> u64:
    """The control register of this thread; 0 on an unknown processor."""
    if IS_X86:
        word = local(u32, 1)
        read_x86(word)
        return u64(word[0])
    if IS_ARM:
        return read_arm()
    return 0


@native
def set_control(value: u64) -> void:
    if IS_X86:
        word = local(u32, 1)
        word[0] = u32(value)
        write_x86(word)
    if IS_ARM:
        write_arm(value)


@native(inline=False)
def adopt(meant: u64) -> void:
    """Set this thread's mode (subnormals, rounding) to that of a register `meant`.  Its status flags stay."""
    own = control()
    differ = (own ^ meant) & MEANT
    if differ != 0:
        set_control(own ^ differ)
