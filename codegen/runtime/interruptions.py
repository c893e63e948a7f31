"""A long loop's business now and then, in native Python (`codegen.native`): signals are handled, other threads run.

`account(work)` is called after each run of a body; what a signal's handler raises it gives as INTERRUPTED.  Handlers
find the control register as their thread has it (`control_register`).
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

import sys

from ..kernel.nest import Status
from ..native import Struct, atomic_load, atomic_store, extern, i32, native, static, u64, void
from . import system_calls as system
from .control_register import leave_flushing, let_others, return_flushing, take_lock_again

__all__ = ["account", "loop_account"]

#: Scalar operations (some 0.1 ns each) after which a loop that holds the interpreter's lock looks up, and one that
#: does not.  Taking the lock can cost 5 ms, the switch interval, when another thread computes in Python.
LOOKS_UP, TAKES_LOCK = 1 << 25, 1 << 29

#: The time for which a loop that holds the lock keeps it, twice the switch interval.  A thread that waits for the lock
#: asks for it when so long nothing has happened, and gets it then.  A lock that was given back and taken again every
#: 3 ms, before anybody asked, was got by chance only: Ctrl-C from another thread was heeded after 3 to 60 s.
KEEPS_NS = 10_000_000

#: Elsewhere no clock is known that only goes forward, and the lock is given back at every look.
HAS_CLOCK = sys.platform in ("linux", "darwin")


class Spent(Struct):
    """Work of loops since the last look, of all threads together; what gets lost where two add at once is no matter.

    given_back   when the lock was given back last
    """

    work: u64
    given_back: u64


spent = static(Spent)

holds_lock = extern("PyGILState_Check", i32, runs_python=False)
take_lock = extern("PyGILState_Ensure", i32)
give_lock = extern("PyGILState_Release", void, i32)
handle_signals = extern("PyErr_CheckSignals", i32)


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
