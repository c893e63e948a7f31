"""`run_branch`, one of two bodies, as LLVM IR text.  `loop_ir` says what its words mean."""

from __future__ import annotations

__all__ = ["BRANCH_IR"]

BRANCH_IR = """
define i32 @run_branch(ptr %pointers, ptr %numbers) {
  %answer.at = call ptr @byte_of(ptr %pointers, ptr %numbers, i64 0)
  %answer = load i8, ptr %answer.at
  %is.yes = icmp ne i8 %answer, 0
  %yes = getelementptr i64, ptr %numbers, i64 2
  %no = getelementptr %Body, ptr %yes, i64 1
  %body = select i1 %is.yes, ptr %yes, ptr %no
  %n.pointers = call i64 @pointers_of(ptr %body)
  %slots = alloca ptr, i64 %n.pointers
  call void @place(ptr %body, ptr %slots, ptr %pointers)
  %status = call i32 @run_body(ptr %body, ptr %slots)
  ret i32 %status
}
"""
