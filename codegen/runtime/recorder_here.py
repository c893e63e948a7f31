"""The recording of this thread, in native Python.

    recording_here()          of this thread, if that is known
    recording_now(tracks)     if moreover nothing asks for Python, with the grad mode
    recording_operations(tracks)    also in a trace that only wants the nodes of operations
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, extern, i64, local, native, ptr, static
from . import recording_objects as py
from .recording_structs import RawMode, RawRecording, tape

__all__ = ["recorder_here", "recording_here", "recording_now", "recording_operations", "thread_state"]

thread_state = extern("PyThreadState_Get", ptr, runs_python=False)
thread_number = extern("PyThreadState_GetID", i64, ptr, runs_python=False)


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
def mode_here() -> ptr[RawMode]:
    """The mode of this context; null where that is not known."""
    found = local(ptr, 1)
    if py.context_value(tape.mode, None, found) < 0:
        py.clear_error()  # Python meets it again
        return None
    if found[0] is None:
        return None
    py.dec(found[0])  # one of few: it stays
    return ptr[RawMode](found[0])


@native(inline=True)
def recording_in_mode(tracks: ptr[ptr], is_light: bool) -> ptr[RawRecording]:
    now = recording_here()
    if now is None or now.literal is not tape.false or now.captures is not tape.none:
        return None
    mode = mode_here()
    if mode is None or (mode.watching if is_light else mode.careful) is not tape.false:
        return None
    tracks[0] = mode.tracks
    return now


@native(inline=True)
def recording_now(tracks: ptr[ptr]) -> ptr[RawRecording]:
    """The recording of this thread, if machine code may now; null in circumstances.  Grad mode goes to `tracks`."""
    return recording_in_mode(tracks, False)


@native(inline=True)
def recording_operations(tracks: ptr[ptr]) -> ptr[RawRecording]:
    """The recording for code that only makes nodes, and changes no handle, nor asks for a value."""
    return recording_in_mode(tracks, True)
