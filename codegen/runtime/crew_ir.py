"""The threads that work on another's blocks, as LLVM IR text: how they take blocks, wait and sleep.

    @ticket    generation << 32 | number of the next block.  A thread takes a block by counting it up, which
               fails when the generation is over; so it reads the job only while its own block is unfinished
    @blocks    of the present job        @finished   how many of them are done
    @busy      whether somebody runs a job: others then do theirs alone
    @sleepers  threads that wait to be woken

A thread that finds nothing to do looks again for some microseconds, because a program's next step
often follows at once, and then sleeps: threads that go on looking take the processor from others.
"""

from __future__ import annotations

from string import Template

__all__ = ["BLOCK", "crew_ir", "pause_of"]

#: How often an idle thread looks before it sleeps: about 20 microseconds (a pause takes 10 to 40 ns).
LOOKS = 1000

#: One block of a job, which `threads_ir` explains.
BLOCK = """
declare i64 @llvm.umin.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; One block.
define internal i32 @run_block(ptr %function, ptr %pointers, ptr %extents, i64 %n, i64 %chunk, i64 %total, i64 %block) {
  %own = alloca i64, i64 %n, align 16
  %given = sub i64 %n, 2
  %bytes = shl i64 %given, 3
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %own, ptr align 8 %extents, i64 %bytes, i1 false)
  %begin = mul i64 %block, %chunk
  %next = add i64 %begin, %chunk
  %end = call i64 @llvm.umin.i64(i64 %next, i64 %total)
  %begin.at = getelementptr i64, ptr %own, i64 %given
  store i64 %begin, ptr %begin.at
  %end.at = getelementptr i64, ptr %begin.at, i64 1
  store i64 %end, ptr %end.at
  %code = call i32 %function(ptr %pointers, ptr %own)
  ret i32 %code
}
"""

_CREW = Template("""
@ticket = internal global i64 0, align 64
@blocks = internal global i64 0, align 64
@finished = internal global i64 0, align 64
@status = internal global i32 0
@busy = internal global i64 0, align 64
@sleepers = internal global i64 0, align 64
@started = internal global i64 0
@threads = internal global i64 1
@process = internal global i32 0
@mutex = internal global [128 x i8] zeroinitializer, align 64
@condition = internal global [128 x i8] zeroinitializer, align 64
@job.function = internal global ptr null, align 64
@job.pointers = internal global ptr null
@job.extents = internal global ptr null
@job.n = internal global i64 0
@job.chunk = internal global i64 0
@job.total = internal global i64 0

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)

; Takes blocks of this generation until there are no more.
define internal void @work(i64 %generation) {
entry:
  br label %look
look:
  %ticket = load atomic i64, ptr @ticket seq_cst, align 8
  %now = lshr i64 %ticket, 32
  %is.mine = icmp eq i64 %now, %generation
  br i1 %is.mine, label %any, label %done
any:
  %block = and i64 %ticket, 4294967295
  %blocks = load atomic i64, ptr @blocks monotonic, align 8
  %has.block = icmp ult i64 %block, %blocks
  br i1 %has.block, label %try, label %done
try:
  %next = add i64 %ticket, 1
  %swapped = cmpxchg ptr @ticket, i64 %ticket, i64 %next seq_cst seq_cst
  %is.taken = extractvalue { i64, i1 } %swapped, 1
  br i1 %is.taken, label %run, label %look
run:
  %function = load ptr, ptr @job.function
  %pointers = load ptr, ptr @job.pointers
  %extents = load ptr, ptr @job.extents
  %n = load i64, ptr @job.n
  %chunk = load i64, ptr @job.chunk
  %total = load i64, ptr @job.total
  %code = call i32 @run_block(ptr %function, ptr %pointers, ptr %extents, i64 %n, i64 %chunk, i64 %total, i64 %block)
  %worst = atomicrmw umax ptr @status, i32 %code monotonic
  %before = atomicrmw add ptr @finished, i64 1 seq_cst
  br label %look
done:
  ret void
}

; What a thread does, for ever.  `number` counts from 1; the caller is thread 0.
define internal ptr @thread(ptr %number.as.pointer) {
entry:
  %number = ptrtoint ptr %number.as.pointer to i64
  br label %fresh
fresh:
  br label %look
look:
  %looks = phi i64 [ 0, %fresh ], [ %looks.next, %wait ]
  %generation = call i64 @open_generation(i64 %number)
  %has.work = icmp ne i64 %generation, 0
  br i1 %has.work, label %work, label %idle
work:
  call void @work(i64 %generation)
  br label %fresh
idle:
  %looks.next = add i64 %looks, 1
  %is.enough = icmp ugt i64 %looks.next, $LOOKS
  br i1 %is.enough, label %sleep, label %wait
wait:
  $pause
  br label %look
sleep:
  %locked = call i32 @pthread_mutex_lock(ptr @mutex)
  %more = atomicrmw add ptr @sleepers, i64 1 seq_cst
  ; A job that was opened before this count is seen here; one that is opened after it sees the count.
  %late = call i64 @open_generation(i64 %number)
  %is.late = icmp ne i64 %late, 0
  br i1 %is.late, label %awake, label %rest
rest:
  %slept = call i32 @pthread_cond_wait(ptr @condition, ptr @mutex)
  br label %awake
awake:
  %less = atomicrmw sub ptr @sleepers, i64 1 seq_cst
  %unlocked = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %fresh
}

; The generation that has a block for this thread; 0 when there is none (the first generation is 1).
define internal i64 @open_generation(i64 %number) {
  %ticket = load atomic i64, ptr @ticket seq_cst, align 8
  %block = and i64 %ticket, 4294967295
  %blocks = load atomic i64, ptr @blocks monotonic, align 8
  %has.block = icmp ult i64 %block, %blocks
  %threads = load atomic i64, ptr @threads monotonic, align 8
  %is.wanted = icmp ult i64 %number, %threads
  %both = and i1 %has.block, %is.wanted
  %generation = lshr i64 %ticket, 32
  %open = select i1 %both, i64 %generation, i64 0
  ret i64 %open
}

; Threads [started + 1, wanted].  They take no signals: those are for Python's own threads.
define internal void @start_threads(i64 %started, i64 %wanted) noinline {
entry:
  %all = alloca [128 x i8], align 16
  %old = alloca [128 x i8], align 16
  %handle = alloca ptr
  %filled = call i32 @sigfillset(ptr %all)
  %blocked = call i32 @pthread_sigmask(i32 $SIG_SETMASK, ptr %all, ptr %old)
  br label %next
next:
  %count = phi i64 [ %started, %entry ], [ %number, %good ]
  %is.end = icmp uge i64 %count, %wanted
  br i1 %is.end, label %done, label %one
one:
  %number = add i64 %count, 1
  %argument = inttoptr i64 %number to ptr
  %failed = call i32 @pthread_create(ptr %handle, ptr null, ptr @thread, ptr %argument)
  %is.good = icmp eq i32 %failed, 0
  br i1 %is.good, label %good, label %done
good:
  %thread = load ptr, ptr %handle
  %detached = call i32 @pthread_detach(ptr %thread)
  br label %next
done:
  store i64 %count, ptr @started
  %restored = call i32 @pthread_sigmask(i32 $SIG_SETMASK, ptr %old, ptr null)
  ret void
}
""")

_PAUSES = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}


def pause_of(architecture: str) -> tuple[str, str]:
    """What a thread does between two looks: its declaration, and the instruction; nothing where none is known."""
    return _PAUSES.get(architecture, ("", ""))


def crew_ir(system: str, architecture: str) -> str:
    """`work`, `start_threads`, and the state of a job; parameters as of `threads_ir`."""
    declare, pause = pause_of(architecture)
    settings = dict(LOOKS=LOOKS, SIG_SETMASK=2 if system == "linux" else 3, pause=pause)
    return BLOCK + declare + _CREW.substitute(settings)
