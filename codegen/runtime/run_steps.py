"""Run the steps of a program, in native Python (`codegen.native`), with subnormal numbers and signals handled.

    run_steps(steps, count, slots, scratch)         run the steps in a loop
    run_program(the same)                           run them in the user's mode for subnormals: `modes.flush_subnormals`
    leave_flushing() -> u64, return_flushing(it)    surround foreign code that runs between two steps: handlers of
                                                    signals, LAPACK
    account(work)                                   to be called by a long loop after each run of its body
    call_host(pointers, host)                       run a step that is a Python function

One word of the process says if subnormal numbers are flushed to zero.  Each call reads the word once, so that a switch
compiles nothing.  While a thread flushes, the previous content of its control register is kept as thread-local data
(`Flushing.key`), because other libraries may have set bits in the register, and restored afterwards.

A long loop handles signals and lets other threads run now and then.  If a signal's handler raises, `account` returns
INTERRUPTED.  Handlers run with the control register restored.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

import sys

from ..kernel.nest import Status
from ..modes import FLUSHING
from ..native import Struct, atomic_load, atomic_store, extern, external, i32, i64, native, ptr, static, u32, u64, void
from . import system_calls as system
from .call_objects import host_failed
from .plan_words import HostWords, KernelCallWords
from .recording_objects import clear_error
from .system_calls import FLUSH, control, set_control

#: Added to a kept register, because 0 means that none is kept and a register may hold 0.  No register has this bit.
KEPT = 1 << 62

#: Scalar operations (some 0.1 ns each) after which a loop handles signals: a loop that holds the GIL, and one that does
#: not.  Taking the GIL can cost 5 ms, the switch interval, when another thread computes in Python.
WORK_WITH_GIL, WORK_WITHOUT_GIL = 1 << 25, 1 << 29

#: The time for which a loop keeps the GIL, twice the switch interval.  A waiting thread requests the GIL after one
#: interval without a release, and then gets it.  When the loop released and took the GIL every 3 ms, before a request,
#: a waiting thread acquired it only by luck: Ctrl-C from another thread took effect after 3 to 60 s.
GIL_KEPT_NS = 10_000_000

#: On other systems no monotonic clock is known, and the GIL is released at every look.
HAS_CLOCK = sys.platform in ("linux", "darwin")

kept_register = extern("PyThread_tss_get", u64, ptr)
keep_register = extern("PyThread_tss_set", i32, ptr, u64)
release_gil = extern("PyEval_SaveThread", ptr)
reacquire_gil = extern("PyEval_RestoreThread", void, ptr)
holds_gil = extern("PyGILState_Check", i32)
ensure_gil = extern("PyGILState_Ensure", i32)
restore_gil = extern("PyGILState_Release", void, i32)
handle_signals = extern("PyErr_CheckSignals", i32)


class Flushing(Struct):
    """1 if subnormals are flushed; the key (`Py_tss_t`) of the registers that threads keep: `Modes.flushing_at`."""

    is_on: i64
    key: ptr


flushing = external(FLUSHING)


@native(inline=True)
def run_steps(steps: ptr[KernelCallWords], count: i64, slots: ptr[ptr], scratch: ptr[ptr]) -> i64:
    """Run `count` steps.  Returns 0, or step << 32 | status of the step that failed.

    scratch    room for the pointers of a step
    """
    for s in range(count):
        step = steps[s]
        places = step.places
        for j in range(step.pointers):
            scratch[j] = slots[places[j]]
        status = step.function(scratch, step.extents) if step.share is None else step.share(step, scratch)
        if status != 0:
            return s << 32 | i64(u32(status))
    return 0


@native
def call_host(pointers: ptr[ptr], host: ptr[HostWords]) -> i32:
    """Call a Python function on arrays, and copy its result.  The program raises what the function raises."""
    inside = leave_flushing()
    state = ensure_gil()
    has_failed = host_failed(pointers, host)
    restore_gil(state)
    return_flushing(inside)
    return i32(Status.INTERRUPTED.value) if has_failed else i32(0)


# ------------------------------------------------------------ subnormal numbers


@native(inline=False)
def leave_flushing() -> u64:
    """Restore the thread's register as it was before the program, and return ours; 0 if the thread does not flush."""
    kept = kept_register(ptr[Flushing](flushing).key)
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
    """Run steps in the user's mode for subnormal numbers."""
    if atomic_load(ptr[Flushing](flushing), "is_on", "monotonic") != 0:
        return run_flushing(steps, count, slots, scratch)
    return run_steps(steps, count, slots, scratch)


@native
def run_program_unlocked(steps: ptr[KernelCallWords], count: i64, slots: ptr[ptr], scratch: ptr[ptr]) -> i64:
    """Run a program without the GIL, which other threads may take."""
    thread = release_gil()
    status = run_program(steps, count, slots, scratch)
    reacquire_gil(thread)
    return status


@native
def run_for_c(steps: ptr[KernelCallWords], count: i64, slots: ptr[ptr], scratch: ptr[ptr]) -> i64:
    """Run a program for a caller in C, which gets the status but no exception."""
    status = run_program(steps, count, slots, scratch)
    if u32(status) == Status.INTERRUPTED.value:
        state = ensure_gil()
        clear_error()
        restore_gil(state)
    return status


@native(inline=False)
def run_flushing(steps: ptr[KernelCallWords], count: i64, slots: ptr[ptr], scratch: ptr[ptr]) -> i64:
    """Run steps with flushing.  A signal's handler may enter here again in the middle, so the kept word is restored."""
    key = ptr[Flushing](flushing).key
    outer = kept_register(key)
    before = control()
    if keep_register(key, before | KEPT) != 0:
        return Status.NO_MEMORY.value
    set_control(before | FLUSH)
    status = run_steps(steps, count, slots, scratch)
    set_control(before)
    _ = keep_register(key, outer)
    return status


# ------------------------------------------------------------ signals and other threads


class Spent(Struct):
    """Work of the loops of all threads since the last look.  Additions of two threads at once may be lost: no matter.

    released_at   the time when the GIL was last released
    """

    work: u64
    released_at: u64


spent = static(Spent)


@native(inline=True)
def account(work: u64) -> i32:
    """Add to the work that is done, and look up when it is due.  Not 0: a signal's handler raised."""
    total = atomic_load(spent, "work", "monotonic") + work
    atomic_store(spent, "work", total, "monotonic")
    if total > WORK_WITH_GIL:
        return check_signals(total)
    return i32(0)


@native
def loop_account(work: u64) -> i32:
    """`account` as a function with an address, for code that calls it by this address."""
    return account(work)


@native(inline=False)
def check_signals(total: u64) -> i32:
    """Handle signals, and release the GIL for a moment if it was kept for long."""
    is_held = holds_gil() != 0
    if not is_held and total <= WORK_WITHOUT_GIL:
        return i32(0)
    atomic_store(spent, "work", 0, "monotonic")
    inside = leave_flushing()
    state = ensure_gil()
    is_fine = handle_signals() == 0
    if is_fine and is_held and is_release_due():
        reacquire_gil(release_gil())  # a waiting thread takes the GIL here
    restore_gil(state)
    return_flushing(inside)
    return i32(0) if is_fine else i32(Status.INTERRUPTED.value)


@native
def is_release_due() -> bool:
    """True if the GIL was kept for long; the caller then releases it, and this time is noted."""
    if not HAS_CLOCK:
        return True
    now = system.now()
    if now - atomic_load(spent, "released_at", "monotonic") <= GIL_KEPT_NS:
        return False
    atomic_store(spent, "released_at", now, "monotonic")
    return True
