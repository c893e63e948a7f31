"""Flushing subnormal numbers to zero around steps, as LLVM IR text, and what a thread's control register says.

    run_program(steps, count, slots, scratch)       as `run_steps`; `modes.flush_subnormals` is looked up first
    leave_flushing() -> i64, return_flushing(it)    around what is not ours and runs between two steps: handlers of
                                                    signals, LAPACK
    control() -> i64, adopt(it)                     in worker threads: a block is computed as the caller would
    exactly(text)                                   a module whose steps never flush: orders

The register is MXCSR on x86-64 (bit 15: results become zero, bit 6: operands are read as zero; 13 and 14: how results
are rounded) and FPCR on aarch64 (bit 24 for both; 22 and 23).  The word that says whether to flush is the process's and
is read once per call: to switch compiles nothing.  While a thread flushes, it keeps under the key beside that word what
its register held before: it may have had bits of its own, from other libraries, which it is given back.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..kernel.nest import Status
from ..modes import FLUSHING
from .template import Template

__all__ = ["adopt_ir", "exactly", "leaving_ir", "running_ir"]

#: Added to what a thread keeps: a register may hold 0, and what is not kept is 0.  No register has this bit.
_KEPT = 1 << 62


class _Register(NamedTuple):
    """How to read and to write it, which bits flush, and which say what a result is: these and how it is rounded."""

    declared: str
    read: str
    write: str
    flush: int
    meant: int


_REGISTERS = {
    "x86_64": _Register(
        "declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)",
        """  %word = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %word)
  %half = load i32, ptr %word
  %value = zext i32 %half to i64""",
        """  %word = alloca i32
  %half = trunc i64 %value to i32
  store i32 %half, ptr %word
  call void @llvm.x86.sse.ldmxcsr(ptr %word)""",
        0x8040,
        0xE040,
    ),
    "aarch64": _Register(
        "declare i64 @llvm.aarch64.get.fpcr()\ndeclare void @llvm.aarch64.set.fpcr(i64)",
        "  %value = call i64 @llvm.aarch64.get.fpcr()",
        "  call void @llvm.aarch64.set.fpcr(i64 %value)",
        1 << 24,
        7 << 22,
    ),
}
#: Of other processors nothing is known: nobody can switch the mode on there (`modes`).
_NONE = _Register("", "  %value = add i64 0, 0", "", 0, 0)

_CONTROL = Template("""
$declared
define internal i64 @control() {
$read
  ret i64 %value
}
define internal void @set_control(i64 %value) {
$write
  ret void
}
""")

_ADOPT = Template("""
; Computes from here on as a thread does whose register holds this.  What it notes of earlier results stays.
define internal void @adopt(i64 %control) noinline {
  %own = call i64 @control()
  %both = xor i64 %own, %control
  %differ = and i64 %both, $meant
  %same = icmp eq i64 %differ, 0
  br i1 %same, label %done, label %set
set:
  %new = xor i64 %own, %differ
  call void @set_control(i64 %new)
  br label %done
done:
  ret void
}
""")

_MODE = Template("""
@$FLUSHING = external global { i64, ptr }          ; whether to flush; a key of Python's for what threads keep
declare ptr @PyThread_tss_get(ptr)
""")

_LEAVING = Template("""
; The thread's register is what it was before this call of ours.  0: it still is.
define internal i64 @leave_flushing() noinline {
  %key.at = getelementptr { i64, ptr }, ptr @$FLUSHING, i64 0, i32 1
  %key = load ptr, ptr %key.at
  %kept = call ptr @PyThread_tss_get(ptr %key)
  %is.none = icmp eq ptr %kept, null
  br i1 %is.none, label %stay, label %leave
leave:
  %inside = call i64 @control()
  %marked = ptrtoint ptr %kept to i64
  %before = xor i64 %marked, $KEPT
  call void @set_control(i64 %before)
  ret i64 %inside
stay:
  ret i64 0
}
define internal void @return_flushing(i64 %inside) {
  %is.none = icmp eq i64 %inside, 0
  br i1 %is.none, label %done, label %set
set:
  call void @set_control(i64 %inside)
  br label %done
done:
  ret void
}
""")

_RUNNING = Template("""
declare i32 @PyThread_tss_set(ptr, ptr)

; Runs steps in the mode that the user chose.
define i64 @run_program(ptr %steps, i64 %count, ptr %slots, ptr %scratch) alwaysinline {
  %flushes = load atomic i64, ptr @$FLUSHING monotonic, align 8
  %is.plain = icmp eq i64 %flushes, 0
  br i1 %is.plain, label %plain, label %flushing
plain:
  %status = call i64 @run_steps(ptr %steps, i64 %count, ptr %slots, ptr %scratch)
  ret i64 %status
flushing:
  %status.flushed = call i64 @run_flushing(ptr %steps, i64 %count, ptr %slots, ptr %scratch)
  ret i64 %status.flushed
}
; The same while other threads may hold the interpreter's lock.
define i64 @run_program_unlocked(ptr %steps, i64 %count, ptr %slots, ptr %scratch) {
  %thread = call ptr @PyEval_SaveThread()
  %status = call i64 @run_program(ptr %steps, i64 %count, ptr %slots, ptr %scratch)
  call void @PyEval_RestoreThread(ptr %thread)
  ret i64 %status
}

; A handler of a signal may come here again, in the middle: so what is kept is put back, not taken away.
define internal i64 @run_flushing(ptr %steps, i64 %count, ptr %slots, ptr %scratch) noinline {
  %key.at = getelementptr { i64, ptr }, ptr @$FLUSHING, i64 0, i32 1
  %key = load ptr, ptr %key.at
  %outer = call ptr @PyThread_tss_get(ptr %key)
  %before = call i64 @control()
  %marked = or i64 %before, $KEPT
  %kept = inttoptr i64 %marked to ptr
  %failed = call i32 @PyThread_tss_set(ptr %key, ptr %kept)
  %is.kept = icmp eq i32 %failed, 0
  br i1 %is.kept, label %run, label %no.memory
run:
  %flushing = or i64 %before, $flush
  call void @set_control(i64 %flushing)
  %status = call i64 @run_steps(ptr %steps, i64 %count, ptr %slots, ptr %scratch)
  call void @set_control(i64 %before)
  %given.back = call i32 @PyThread_tss_set(ptr %key, ptr %outer)
  ret i64 %status
no.memory:
  ret i64 $NO_MEMORY
}
""")


#: A step that a module exports.
_STEP = re.compile(r"(?m)^define i32 @(\w+)\(ptr %pointers, ptr %extents\)")

_EXACTLY = Template("""
define i32 @$name(ptr %pointers, ptr %extents) {
  %own = call i64 @control()
  %flushing = and i64 %own, $flush
  %is.exact = icmp eq i64 %flushing, 0
  br i1 %is.exact, label %as.it.is, label %set
as.it.is:
  %status = call i32 @$name.exactly(ptr %pointers, ptr %extents)
  ret i32 %status
set:
  %exact = xor i64 %own, %flushing
  call void @set_control(i64 %exact)
  %status.set = call i32 @$name.exactly(ptr %pointers, ptr %extents)
  call void @set_control(i64 %own)
  ret i32 %status.set
}
""")


def exactly(text: str, processor: str) -> str:
    """A module whose steps compute with subnormal numbers as they are, whatever the thread was told, by us or others.

    Orders, which move numbers and make none: their pivots are numbers between others, and a part that is cut at a
    pivot that is taken for a zero is never smaller.
    """
    register = _REGISTERS.get(processor, _NONE)
    wrappers = [_EXACTLY.substitute(name=name, flush=register.flush) for name in _STEP.findall(text)]
    inside = _STEP.sub(r"define internal i32 @\1.exactly(ptr %pointers, ptr %extents)", text)
    return "".join([inside, _of(processor, _CONTROL), *wrappers])


def adopt_ir(processor: str) -> str:
    """`control` and `adopt`, for a processor as `modes.processor` names it."""
    return _of(processor, _CONTROL, _ADOPT)


def leaving_ir(processor: str) -> str:
    """`leave_flushing` and `return_flushing`."""
    return _of(processor, _CONTROL, _MODE, _LEAVING)


def running_ir(processor: str) -> str:
    """`run_program` and `run_program_unlocked`, beside `run_steps`."""
    return _of(processor, _CONTROL, _MODE, _RUNNING)


def _of(processor: str, *texts: Template) -> str:
    register = _REGISTERS.get(processor, _NONE)
    words = dict(register._asdict(), FLUSHING=FLUSHING, KEPT=_KEPT, NO_MEMORY=Status.NO_MEMORY.value)
    return "".join([text.substitute(words) for text in texts])
