"""The threads that work on another's blocks, as LLVM IR text: how they take blocks, wait and sleep.

    @generation    number of the present job, from 1; it tells idle threads that there is a new one
    @tickets       per section generation << 32 | its next block.  A thread takes a block by counting it up, which
                   fails when the generation is over; so it reads the job only while its own block is unfinished
    @blocks        of the present job        @finished   how many of them are done
    @sections      of the present job
    @busy          whether somebody runs a job: others then do theirs alone
    @sleepers      threads that wait to be woken      @is.waiting   whether the caller does

The blocks of a job are cut into sections, one for each thread, which takes from the others' when its own is done.
So a thread meets in the next job what lies in its own cache: results that the other core wrote last are
dear to write again.

Blocks are computed as the caller would: threads take over what its control register says of subnormal numbers and of
rounding, which may be another for every job.

A thread that finds nothing to do looks again for some microseconds, because a program's next step
often follows at once, and then sleeps: threads that go on looking take the processor from others.
"""

from __future__ import annotations

from .flush_ir import adopt_ir
from .template import Template

__all__ = ["BLOCK", "MOST_THREADS", "crew_ir", "pause_of"]

#: More threads than this are never started.
MOST_THREADS = 256

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
%Ticket = type { i64, [56 x i8] }  ; a cache line
@tickets = internal global [$MOST_THREADS x %Ticket] zeroinitializer, align 64
@generation = internal global i64 0, align 64
@blocks = internal global i64 0, align 64
@sections = internal global i64 1
@is.waiting = internal global i32 0
@finished = internal global i64 0, align 64
@status = internal global i32 0
@busy = internal global i64 0, align 64
@sleepers = internal global i64 0, align 64
@started = internal global i64 0
@threads = internal global i64 1
@process = internal global i32 0
@mutex = internal global [128 x i8] zeroinitializer, align 64
@condition = internal global [128 x i8] zeroinitializer, align 64
@all.done = internal global [128 x i8] zeroinitializer, align 64
@job.function = internal global ptr null, align 64
@job.pointers = internal global ptr null
@job.extents = internal global ptr null
@job.n = internal global i64 0
@job.chunk = internal global i64 0
@job.total = internal global i64 0
@job.control = internal global i64 0    ; what the caller's control register holds (`flush_ir`)

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)

; The first block of a section.
define internal i64 @section_begin(i64 %section, i64 %sections, i64 %blocks) alwaysinline {
  %product = mul i64 %section, %blocks
  %begin = udiv i64 %product, %sections
  ret i64 %begin
}

; Takes blocks of this generation until there are no more, those of its own section first.
define internal void @work(i64 %generation, i64 %number) {
entry:
  %sections = load atomic i64, ptr @sections monotonic, align 8
  br label %next.section
next.section:
  %k = phi i64 [ 0, %entry ], [ %k.next, %over ]
  %is.end = icmp uge i64 %k, %sections
  br i1 %is.end, label %done, label %turn
turn:
  %sum = add i64 %number, %k
  %section = urem i64 %sum, %sections
  %ticket.at = getelementptr %Ticket, ptr @tickets, i64 %section
  %section.next = add i64 %section, 1
  br label %look
look:
  %ticket = load atomic i64, ptr %ticket.at seq_cst, align 8
  %now = lshr i64 %ticket, 32
  %is.mine = icmp eq i64 %now, %generation
  br i1 %is.mine, label %any, label %done
any:
  %block = and i64 %ticket, 4294967295
  %blocks = load atomic i64, ptr @blocks monotonic, align 8
  %end = call i64 @section_begin(i64 %section.next, i64 %sections, i64 %blocks)
  %has.block = icmp ult i64 %block, %end
  br i1 %has.block, label %try, label %over
try:
  %next = add i64 %ticket, 1
  %swapped = cmpxchg ptr %ticket.at, i64 %ticket, i64 %next seq_cst seq_cst
  %is.taken = extractvalue { i64, i1 } %swapped, 1
  br i1 %is.taken, label %run, label %look
run:
  %function = load ptr, ptr @job.function
  %pointers = load ptr, ptr @job.pointers
  %extents = load ptr, ptr @job.extents
  %n = load i64, ptr @job.n
  %chunk = load i64, ptr @job.chunk
  %total = load i64, ptr @job.total
  %control = load i64, ptr @job.control
  call void @adopt(i64 %control)
  %code = call i32 @run_block(ptr %function, ptr %pointers, ptr %extents, i64 %n, i64 %chunk, i64 %total, i64 %block)
  %worst = atomicrmw umax ptr @status, i32 %code monotonic
  %before = atomicrmw add ptr @finished, i64 1 seq_cst
  %after = add i64 %before, 1
  %is.last = icmp eq i64 %after, %blocks
  br i1 %is.last, label %last, label %look
last:
  ; Either the caller's sleep is seen here, or the caller sees that all is finished.
  %waiting = load atomic i32, ptr @is.waiting seq_cst, align 4
  %is.waiting = icmp ne i32 %waiting, 0
  br i1 %is.waiting, label %tell, label %done
tell:
  %locked = call i32 @pthread_mutex_lock(ptr @mutex)
  %told = call i32 @pthread_cond_signal(ptr @all.done)
  %unlocked = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %done
over:
  %k.next = add i64 %k, 1
  br label %next.section
done:
  ret void
}

; What a thread does, for ever.  `number` counts from 1; the caller is thread 0.
define internal ptr @thread(ptr %number.as.pointer) {
entry:
  %number = ptrtoint ptr %number.as.pointer to i64
  br label %fresh
fresh:
  %known = phi i64 [ 0, %entry ], [ %generation, %work ], [ %known, %awake ]
  br label %look
look:
  %looks = phi i64 [ 0, %fresh ], [ %looks.next, %wait ]
  %generation = call i64 @new_generation(i64 %number, i64 %known)
  %has.work = icmp ne i64 %generation, 0
  br i1 %has.work, label %work, label %idle
work:
  call void @work(i64 %generation, i64 %number)
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
  %late = call i64 @new_generation(i64 %number, i64 %known)
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

; The present generation, if it is new to this thread, which is wanted; else 0.
define internal i64 @new_generation(i64 %number, i64 %known) {
  %generation = load atomic i64, ptr @generation seq_cst, align 8
  %is.new = icmp ne i64 %generation, %known
  %threads = load atomic i64, ptr @threads monotonic, align 8
  %is.wanted = icmp ult i64 %number, %threads
  %both = and i1 %is.new, %is.wanted
  %new = select i1 %both, i64 %generation, i64 0
  ret i64 %new
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
    settings = dict(LOOKS=LOOKS, MOST_THREADS=MOST_THREADS, SIG_SETMASK=2 if system == "linux" else 3, pause=pause)
    return BLOCK + declare + adopt_ir(architecture) + _CREW.substitute(settings)
