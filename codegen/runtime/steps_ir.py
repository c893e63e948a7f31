"""The loop over the steps of a program, as LLVM IR text: `run_steps`, and what steps and specs look like.

See `launcher_ir` for what their words mean.
"""

from __future__ import annotations

__all__ = ["LETS_OTHERS", "RUN_STEPS"]

#: By which other threads may hold the interpreter's lock meanwhile.
LETS_OTHERS = """
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
"""

RUN_STEPS = LETS_OTHERS + """
%Step = type { ptr, i64, ptr, ptr, ptr, i64, i64, i64, i64 }
%Spec = type { ptr, i64, ptr, i64, ptr, i64 }

; Runs `count` steps.  Returns 0, or step << 32 | status of the one that failed.
define i64 @run_steps(ptr %steps, i64 %count, ptr %slots, ptr %scratch) {
entry:
  %none = icmp eq i64 %count, 0
  br i1 %none, label %done, label %step
step:
  %s = phi i64 [ 0, %entry ], [ %s.next, %ran ]
  %at = getelementptr %Step, ptr %steps, i64 %s
  %function = load ptr, ptr %at
  %n.at = getelementptr %Step, ptr %at, i64 0, i32 1
  %n = load i64, ptr %n.at
  %places.at = getelementptr %Step, ptr %at, i64 0, i32 2
  %places = load ptr, ptr %places.at
  %extents.at = getelementptr %Step, ptr %at, i64 0, i32 3
  %extents = load ptr, ptr %extents.at
  %no.pointers = icmp eq i64 %n, 0
  br i1 %no.pointers, label %call, label %pointer
pointer:
  %j = phi i64 [ 0, %step ], [ %j.next, %pointer ]
  %place.at = getelementptr i64, ptr %places, i64 %j
  %place = load i64, ptr %place.at
  %from = getelementptr ptr, ptr %slots, i64 %place
  %data = load ptr, ptr %from
  %to = getelementptr ptr, ptr %scratch, i64 %j
  store ptr %data, ptr %to
  %j.next = add i64 %j, 1
  %more.pointers = icmp ult i64 %j.next, %n
  br i1 %more.pointers, label %pointer, label %call, !llvm.loop !0
call:
  %share.at = getelementptr %Step, ptr %at, i64 0, i32 4
  %share = load ptr, ptr %share.at
  %is.alone = icmp eq ptr %share, null
  br i1 %is.alone, label %alone, label %shared
alone:
  %status.alone = call i32 %function(ptr %scratch, ptr %extents)
  br label %called
shared:
  %n.extents.at = getelementptr %Step, ptr %at, i64 0, i32 5
  %n.extents = load i64, ptr %n.extents.at
  %blocks.at = getelementptr %Step, ptr %at, i64 0, i32 6
  %blocks = load i64, ptr %blocks.at
  %chunk.at = getelementptr %Step, ptr %at, i64 0, i32 7
  %chunk = load i64, ptr %chunk.at
  %total.at = getelementptr %Step, ptr %at, i64 0, i32 8
  %total = load i64, ptr %total.at
  %status.shared = call i32 %share(ptr %function, ptr %scratch, ptr %extents, i64 %n.extents, i64 %blocks,
                                   i64 %chunk, i64 %total)
  br label %called
called:
  %status = phi i32 [ %status.alone, %alone ], [ %status.shared, %shared ]
  %is.ok = icmp eq i32 %status, 0
  br i1 %is.ok, label %ran, label %failed
ran:
  %s.next = add i64 %s, 1
  %more.steps = icmp ult i64 %s.next, %count
  br i1 %more.steps, label %step, label %done
failed:
  %low = zext i32 %status to i64
  %high = shl i64 %s, 32
  %both = or i64 %high, %low
  ret i64 %both
done:
  ret i64 0
}

; A handful of pointers: vectors would only cost.
!0 = distinct !{!0, !1, !2}
!1 = !{!"llvm.loop.vectorize.enable", i1 false}
!2 = !{!"llvm.loop.unroll.disable"}
"""
