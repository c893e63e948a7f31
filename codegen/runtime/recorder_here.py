"""The recording of this thread, in native Python.

    recording_here()          of this thread, if that is known
    recording_now(mode)       if moreover nothing asks for Python, with the grad mode
    recording_operations(mode)    also in a trace that only wants the nodes of operations
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, extern, i32, i64, native, ptr, static
from .recording_objects import clear_error, dec
from .recording_structs import RawRecording, tape

__all__ = ["recorder_here", "recording_here", "recording_now", "recording_operations", "thread_state"]

thread_state = extern("PyThreadState_Get", ptr, runs_python=False)
thread_number = extern("PyThreadState_GetID", i64, ptr, runs_python=False)
context_value = extern("PyContextVar_Get", i32, ptr, ptr, ptr[ptr], runs_python=False)


class ThreadRecording(Struct):
    """The thread that records natively, by its number, and where it does."""

    thread: i64
    recording: ptr[RawRecording]


here = static(ThreadRecording)


@native
def recorder_here() -> ptr[ThreadRecording]:
    return here


@native(inline=True)
def recording_here() -> ptr[RawRecording]:
    """The recording of this thread; null where that is not known."""
    return here.recording if thread_number(thread_state()) == here.thread else None


@native(inline=True)
def recording_unless(is_barred: ptr, mode: ptr[ptr]) -> ptr[RawRecording]:
    if is_barred is not tape.false:
        return None
    now = recording_here()
    if now is None or now.literal is not tape.false:
        return None
    if context_value(tape.mode, None, mode) < 0:
        clear_error()  # Python meets it again
        return None
    if mode[0] is None:
        return None
    dec(mode[0])  # True or False: it stays
    return now


@native(inline=True)
def recording_now(mode: ptr[ptr]) -> ptr[RawRecording]:
    """The recording of this thread, if machine code may now; null in circumstances.  The grad mode goes to `mode`."""
    return recording_unless(tape.config.careful, mode)


@native(inline=True)
def recording_operations(mode: ptr[ptr]) -> ptr[RawRecording]:
    """The recording for code that only makes nodes, and changes no handle, nor asks for a value."""
    return recording_unless(tape.config.watching, mode)
