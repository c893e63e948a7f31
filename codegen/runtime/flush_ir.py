"""Modules of LLVM IR text whose steps never flush subnormal numbers to zero: orders.  See `control_register`."""

from __future__ import annotations

import re
from typing import NamedTuple

from .template import Template

__all__ = ["exactly"]


class _Register(NamedTuple):
    """How to read and to write it, and which bits flush."""

    declared: str
    read: str
    write: str
    flush: int


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
    ),
    "aarch64": _Register(
        "declare i64 @llvm.aarch64.get.fpcr()\ndeclare void @llvm.aarch64.set.fpcr(i64)",
        "  %value = call i64 @llvm.aarch64.get.fpcr()",
        "  call void @llvm.aarch64.set.fpcr(i64 %value)",
        1 << 24,
    ),
}
#: Of other processors nothing is known: nobody can switch the mode on there (`modes`).
_NONE = _Register("", "  %value = add i64 0, 0", "", 0)

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
    return "".join([inside, _CONTROL.substitute(register._asdict()), *wrappers])
