"""The steps of a program run, in native Python (`codegen.native`), and what happens around them.

    run_steps(steps, count, slots, scratch)         the loop over them
    run_program(the same)                           in the mode that the user chose: `modes.flush_subnormals`
    leave_flushing() -> u64, return_flushing(it)    around what is not ours and runs between two steps: handlers of
                                                    signals, LAPACK
    account(work)                                   a long loop's business after each run of its body
    call_host(pointers, host)                       a step in Python

The word that says whether subnormal numbers become zero is the process's and is read once per call: to switch compiles
nothing.  While a thread flushes, it keeps under the key beside that word what its control register held before: it may
have had bits of its own, from other libraries, which it is given back.

In a long loop signals are handled and other threads run now and then; what a signal's handler raises `account` gives
as INTERRUPTED.  Handlers find the control register as their thread has it.
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

#: Added to what a thread keeps: a register may hold 0, and what is not kept is 0.  No register has this bit.
KEPT = 1 << 62

#: Scalar operations (some 0.1 ns each) after which a loop that holds the interpreter's lock looks up, and one that
#: does not.  Taking the lock can cost 5 ms, the switch interval, when another thread computes in Python.
LOOKS_UP, TAKES_LOCK = 1 << 25, 1 << 29

#: The time for which a loop that holds the lock keeps it, twice the switch interval.  A thread that waits for the lock
#: asks for it when so long nothing has happened, and gets it then.  A lock that was given back and taken again every
#: 3 ms, before anybody asked, was got by chance only: Ctrl-C from another thread was heeded after 3 to 60 s.
KEEPS_NS = 10_000_000

#: Elsewhere no clock is known that only goes forward, and the lock is given back at every look.
HAS_CLOCK = sys.platform in ("linux", "darwin")

kept_of = extern("PyThread_tss_get", u64, ptr)
keep = extern("PyThread_tss_set", i32, ptr, u64)
let_others = extern("PyEval_SaveThread", ptr)
take_lock_again = extern("PyEval_RestoreThread", void, ptr)
holds_lock = extern("PyGILState_Check", i32)
take_lock = extern("PyGILState_Ensure", i32)
give_lock = extern("PyGILState_Release", void, i32)
handle_signals = extern("PyErr_CheckSignals", i32)


class Flushing(Struct):
    """If numbers are flushed, and a key of Python's for what threads keep: `Modes.flushing_at`."""

    is_on: i64
    key: ptr


flushing = external(FLUSHING)


@native(inline=True)
def run_steps(steps: ptr[KernelCallWords], count: i64, slots: ptr[ptr], scratch: ptr[ptr]) -> i64:
    """Run so many steps: 0, or step << 32 | status of the one that failed.

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
    """Call a function of Python's on arrays, and copy the one that it gives; the program raises what it raises."""
    inside = leave_flushing()
    state = take_lock()
    has_failed = host_failed(pointers, host)
    give_lock(state)
    return_flushing(inside)
    return i32(Status.INTERRUPTED.value) if has_failed else i32(0)


# ------------------------------------------------------------ subnormal numbers


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
    if atomic_load(ptr[Flushing](flushing), "is_on", "monotonic") != 0:
        return run_flushing(steps, count, slots, scratch)
    return run_steps(steps, count, slots, scratch)


@native
def run_program_unlocked(steps: ptr[KernelCallWords], count: i64, slots: ptr[ptr], scratch: ptr[ptr]) -> i64:
    """Run a program while other threads may hold the interpreter's lock."""
    thread = let_others()
    status = run_program(steps, count, slots, scratch)
    take_lock_again(thread)
    return status


@native
def run_for_c(steps: ptr[KernelCallWords], count: i64, slots: ptr[ptr], scratch: ptr[ptr]) -> i64:
    """Run a program for a caller that sees its status, and no exception."""
    status = run_program(steps, count, slots, scratch)
    if u32(status) == Status.INTERRUPTED.value:
        state = take_lock()
        clear_error()
        give_lock(state)
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
    _ = keep(key, outer)
    return status


# ------------------------------------------------------------ signals and other threads


class Spent(Struct):
    """Work of loops since the last look, of all threads together; what gets lost where two add at once is no matter.

    given_back   when the lock was given back last
    """

    work: u64
    given_back: u64


spent = static(Spent)


@native(inline=True)
def account(work: u64) -> i32:
    """Note that so much work is done.  Not 0: a signal's handler raised."""
    total = atomic_load(spent, "work", "monotonic") + work
    atomic_store(spent, "work", total, "monotonic")
    if total > LOOKS_UP:
        return look_up(total)
    return i32(0)


@native
def loop_account(work: u64) -> i32:
    """An account for code that knows its address."""
    return account(work)


@native(inline=False)
def look_up(total: u64) -> i32:
    """Handle signals, and give the lock back for a moment if it was kept for long."""
    is_held = holds_lock() != 0
    if not is_held and total <= TAKES_LOCK:
        return i32(0)
    atomic_store(spent, "work", 0, "monotonic")
    inside = leave_flushing()
    state = take_lock()
    is_fine = handle_signals() == 0
    if is_fine and is_held and is_time():
        take_lock_again(let_others())  # others take it if they wait for it
    give_lock(state)
    return_flushing(inside)
    return i32(0) if is_fine else i32(Status.INTERRUPTED.value)


@native
def is_time() -> bool:
    """True if the lock was kept for long; it is given back now."""
    if not HAS_CLOCK:
        return True
    now = system.now()
    if now - atomic_load(spent, "given_back", "monotonic") <= KEEPS_NS:
        return False
    atomic_store(spent, "given_back", now, "monotonic")
    return True
