"""Subnormal numbers that become zero around steps, and what a thread's control register says, in native Python.

    run_program(steps, count, slots, scratch)       as `run_steps`; `modes.flush_subnormals` is looked up first
    leave_flushing() -> u64, return_flushing(it)    around what is not ours and runs between two steps: handlers of
                                                    signals, LAPACK
    control() -> u64, adopt(it)                     in worker threads: a block is computed as the caller would

The register is MXCSR on x86-64 (bit 15: results become zero, bit 6: operands are read as zero; 13 and 14: how results
are rounded) and FPCR on aarch64 (bit 24 for both; 22 and 23).  The word that says whether to flush is the process's and
is read once per call: to switch compiles nothing.  While a thread flushes, it keeps under the key beside that word what
its register held before: it may have had bits of its own, from other libraries, which it is given back.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..kernel.nest import Status
from ..modes import FLUSHING
from ..native import Struct, atomic_load, extern, external, i32, i64, local, native, ptr, u32, u64, unlikely, void
from .plan_words import KernelCallWords
from .run_steps import run_steps
from .system_calls import IS_ARM, IS_X86

__all__ = [
    "FLUSH", "adopt", "control", "leave_flushing", "let_others", "return_flushing", "run_program",
    "run_program_unlocked", "set_control", "take_lock_again",
]  # fmt: skip

#: Bits that flush, and those that say what a result is: these and how it is rounded.  Of other processors nothing is
#: known: nobody can switch the mode on there (`modes`).
FLUSH, MEANT = (0x8040, 0xE040) if IS_X86 else (1 << 24, 7 << 22) if IS_ARM else (0, 0)
#: Added to what a thread keeps: a register may hold 0, and what is not kept is 0.  No register has this bit.
KEPT = 1 << 62

read_x86 = extern("llvm.x86.sse.stmxcsr", void, ptr, runs_python=False)
write_x86 = extern("llvm.x86.sse.ldmxcsr", void, ptr, runs_python=False)
read_arm = extern("llvm.aarch64.get.fpcr", u64, runs_python=False)
write_arm = extern("llvm.aarch64.set.fpcr", void, u64, runs_python=False)
kept_of = extern("PyThread_tss_get", u64, ptr, runs_python=False)
keep = extern("PyThread_tss_set", i32, ptr, u64, runs_python=False)
let_others = extern("PyEval_SaveThread", ptr)
take_lock_again = extern("PyEval_RestoreThread", void, ptr)


class Flushing(Struct):
    """If numbers are flushed, and a key of Python's for what threads keep: `Modes.flushing_at`."""

    is_on: i64
    key: ptr


flushing = external(FLUSHING)


@native
def control() -> u64:
    """The register of this thread."""
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
    """Compute from here on as a thread does whose register holds this.  What it notes of earlier results stays."""
    own = control()
    differ = (own ^ meant) & MEANT
    if differ != 0:
        set_control(own ^ differ)


@native(inline=False)
def leave_flushing() -> u64:
    """Let the thread's register be what it was before this call of ours.  0: it still is."""
    kept = kept_of(ptr[Flushing](flushing).key)
    if kept == 0:
        return 0
    inside = control()
    set_control(kept ^ KEPT)
    return inside


@native
def return_flushing(inside: u64) -> void:
    if inside != 0:
        set_control(inside)


@native(inline=True)
def run_program(steps: ptr[KernelCallWords], count: i64, slots: ptr[ptr], scratch: ptr[ptr]) -> i64:
    """Run steps in the mode that the user chose."""
    if unlikely(atomic_load(ptr[Flushing](flushing), "is_on", "monotonic") != 0):
        return run_flushing(steps, count, slots, scratch)
    return run_steps(steps, count, slots, scratch)


@native
def run_program_unlocked(steps: ptr[KernelCallWords], count: i64, slots: ptr[ptr], scratch: ptr[ptr]) -> i64:
    """Run a program while other threads may hold the interpreter's lock."""
    thread = let_others()
    status = run_program(steps, count, slots, scratch)
    take_lock_again(thread)
    return status


@native(inline=False)
def run_flushing(steps: ptr[KernelCallWords], count: i64, slots: ptr[ptr], scratch: ptr[ptr]) -> i64:
    """Run steps that flush.  A handler of a signal may come here again, in the middle: so what is kept is put back."""
    key = ptr[Flushing](flushing).key
    outer = kept_of(key)
    before = control()
    if keep(key, before | KEPT) != 0:
        return Status.NO_MEMORY.value
    set_control(before | FLUSH)
    status = run_steps(steps, count, slots, scratch)
    set_control(before)
    keep(key, outer)
    return status
