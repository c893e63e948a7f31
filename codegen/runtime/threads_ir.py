"""Threads as LLVM IR text: one step's blocks, shared out among a few sleeping threads.

    i32 @run_blocks(function, pointers, extents, n, blocks, chunk, total)

calls `function(pointers, extents')` once per block, with the range [begin, end) of the block as the
last two of the n extents.  Blocks are fixed by the step, never by the number of threads, so results
are the same for any number.  Each thread begins with blocks of its own, the caller too, and then takes
those of others (`crew_ir`): where no other thread gets a processor, the caller does it all and waits for nobody.

A thread that loses its processor to another process in the middle of a block makes all wait.  The caller
sleeps meanwhile: its processor may then run the thread that waits for one.  And it compares: when it waited
for others longer than it worked, sharing lost, and the next jobs are done alone: one, and twice as many each
time it loses again, up to `MOST_ALONE`.

After a fork the child has none of the threads: the process number tells, and all starts anew.
"""

from __future__ import annotations

from .crew_ir import BLOCK, MOST_THREADS, crew_ir, pause_of
from .template import Template

__all__ = ["MOST_THREADS", "threads_ir"]

#: How often the caller looks for the last blocks before it sleeps: its processor is then free for the thread
#: that has them, which may wait for one behind another process.
PATIENCE = 2000

#: Jobs done alone between two tries on a machine that is busy: what a bad try costs is then spread thin.
MOST_ALONE = 255

_THREADS = Template("""
@alone = internal global i64 0      ; how many jobs are still to be done alone
@penalty = internal global i64 0    ; how many it were the last time that sharing lost
@most = internal global i64 0       ; the most threads, where their number follows the caller's processors; else 0

declare i32 @getpid()
declare i32 @clock_gettime(i32, ptr)

; Nanoseconds of a clock that only goes forward.
define internal i64 @now() {
  %time = alloca { i64, i64 }
  %failed = call i32 @clock_gettime(i32 $CLOCK, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr { i64, i64 }, ptr %time, i64 0, i32 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %rest
  ret i64 %sum
}

define void @set_threads(i64 %count, i64 %follows) {
  store i64 0, ptr @alone
  store i64 0, ptr @penalty
  %is.following = icmp ne i64 %follows, 0
  %most = select i1 %is.following, i64 %count, i64 0
  store atomic i64 %most, ptr @most monotonic, align 8
  store atomic i64 %count, ptr @threads monotonic, align 8
  ret void
}
define i64 @started_threads() {
  %count = load i64, ptr @started
  ret i64 %count
}

define i32 @run_blocks(ptr %function, ptr %pointers, ptr %extents, i64 %n, i64 %blocks, i64 %chunk, i64 %total) {
entry:
  call void @follow()
  %threads = load atomic i64, ptr @threads monotonic, align 8
  %is.alone = icmp ult i64 %threads, 2
  %is.one = icmp ult i64 %blocks, 2
  %no.need = or i1 %is.alone, %is.one
  br i1 %no.need, label %serial, label %acquire
acquire:
  %process = call i32 @getpid()
  %known = load atomic i32, ptr @process seq_cst, align 4
  %is.known = icmp eq i32 %process, %known
  br i1 %is.known, label %enter, label %forked
forked:
  ; -1 while somebody sets the pool up; others work alone meanwhile.
  %setting.up = icmp eq i32 %known, -1
  br i1 %setting.up, label %serial, label %claim
claim:
  %claimed = cmpxchg ptr @process, i32 %known, i32 -1 seq_cst seq_cst
  %is.claimed = extractvalue { i32, i1 } %claimed, 1
  br i1 %is.claimed, label %set.up, label %serial
set.up:
  store i64 0, ptr @started
  store atomic i64 0, ptr @busy seq_cst, align 8
  store atomic i64 0, ptr @sleepers seq_cst, align 8
  store atomic i64 0, ptr @blocks seq_cst, align 8
  store atomic i32 0, ptr @is.waiting seq_cst, align 4
  %m = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %c = call i32 @pthread_cond_init(ptr @condition, ptr null)
  %d = call i32 @pthread_cond_init(ptr @all.done, ptr null)
  store atomic i32 %process, ptr @process seq_cst, align 4
  br label %enter
enter:
  %entered = cmpxchg ptr @busy, i64 0, i64 1 seq_cst seq_cst
  %is.in = extractvalue { i64, i1 } %entered, 1
  br i1 %is.in, label %start, label %serial
start:
  %alone = load i64, ptr @alone
  %is.busy = icmp ne i64 %alone, 0
  br i1 %is.busy, label %go.alone, label %together
go.alone:
  %alone.less = sub i64 %alone, 1
  store i64 %alone.less, ptr @alone
  store atomic i64 0, ptr @busy seq_cst, align 8
  br label %serial
together:
  %started = load i64, ptr @started
  %wanted = sub i64 %threads, 1
  %is.enough = icmp uge i64 %started, %wanted
  br i1 %is.enough, label %open, label %start.more
start.more:
  call void @start_threads(i64 %started, i64 %wanted)
  br label %open
open:
  %old = load atomic i64, ptr @generation seq_cst, align 8
  %next.generation = add i64 %old, 1
  %wrapped = and i64 %next.generation, 4294967295
  %is.zero = icmp eq i64 %wrapped, 0
  %generation = select i1 %is.zero, i64 1, i64 %wrapped
  %first = shl i64 %generation, 32
  %sections = call i64 @llvm.umin.i64(i64 %threads, i64 %blocks)
  %old.sections = load atomic i64, ptr @sections monotonic, align 8
  br label %close
close:
  ; Nobody may take a block while the job is written down: no ticket is of the generation that is over.
  %s = phi i64 [ 0, %open ], [ %s.next, %close ]
  %closed.at = getelementptr %Ticket, ptr @tickets, i64 %s
  store atomic i64 0, ptr %closed.at release, align 8
  %s.next = add i64 %s, 1
  %any.open = icmp ult i64 %s.next, %old.sections
  br i1 %any.open, label %close, label %write
write:
  fence seq_cst
  store ptr %function, ptr @job.function
  store ptr %pointers, ptr @job.pointers
  store ptr %extents, ptr @job.extents
  store i64 %n, ptr @job.n
  store i64 %chunk, ptr @job.chunk
  store i64 %total, ptr @job.total
  %control = call i64 @control()
  store i64 %control, ptr @job.control
  store atomic i32 0, ptr @status monotonic, align 4
  store atomic i64 0, ptr @finished monotonic, align 8
  store atomic i64 %blocks, ptr @blocks monotonic, align 8
  store atomic i64 %sections, ptr @sections monotonic, align 8
  br label %issue
issue:
  %t = phi i64 [ 0, %write ], [ %t.next, %issue ]
  %ticket.at = getelementptr %Ticket, ptr @tickets, i64 %t
  %begin = call i64 @section_begin(i64 %t, i64 %sections, i64 %blocks)
  %ticket = or i64 %first, %begin
  store atomic i64 %ticket, ptr %ticket.at release, align 8
  %t.next = add i64 %t, 1
  %is.more = icmp ult i64 %t.next, %sections
  br i1 %is.more, label %issue, label %issued
issued:
  store atomic i64 %generation, ptr @generation seq_cst, align 8
  fence seq_cst
  %sleepers = load atomic i64, ptr @sleepers seq_cst, align 8
  %all.awake = icmp eq i64 %sleepers, 0
  br i1 %all.awake, label %share, label %wake
wake:
  %locked = call i32 @pthread_mutex_lock(ptr @mutex)
  %woken = call i32 @pthread_cond_broadcast(ptr @condition)
  %unlocked = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %share
share:
  %begun = call i64 @now()
  call void @work(i64 %generation, i64 0)
  %worked = call i64 @now()
  br label %wait
wait:
  %looks = phi i64 [ 0, %share ], [ %looks.next, %again ]
  %finished = load atomic i64, ptr @finished seq_cst, align 8
  %is.finished = icmp eq i64 %finished, %blocks
  br i1 %is.finished, label %leave, label %impatient
impatient:
  %looks.next = add i64 %looks, 1
  %is.long = icmp ugt i64 %looks.next, $PATIENCE
  br i1 %is.long, label %sleep, label %again
again:
  $pause
  br label %wait
sleep:
  %locked.to.sleep = call i32 @pthread_mutex_lock(ptr @mutex)
  store atomic i32 1, ptr @is.waiting seq_cst, align 4
  br label %asleep
asleep:
  %finished.now = load atomic i64, ptr @finished seq_cst, align 8
  %is.done = icmp eq i64 %finished.now, %blocks
  br i1 %is.done, label %awake, label %rest
rest:
  %slept = call i32 @pthread_cond_wait(ptr @all.done, ptr @mutex)
  br label %asleep
awake:
  store atomic i32 0, ptr @is.waiting seq_cst, align 4
  %unlocked.again = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %leave
leave:
  %ended = call i64 @now()
  %own = sub i64 %worked, %begun
  %waited = sub i64 %ended, %worked
  %is.lost = icmp ugt i64 %waited, %own
  %penalty = load i64, ptr @penalty
  %twice = shl i64 %penalty, 1
  %more = or i64 %twice, 1
  %most = call i64 @llvm.umin.i64(i64 %more, i64 $MOST_ALONE)
  %next.penalty = select i1 %is.lost, i64 %most, i64 0
  store i64 %next.penalty, ptr @penalty
  store i64 %next.penalty, ptr @alone
  %code = load atomic i32, ptr @status seq_cst, align 4
  store atomic i64 0, ptr @busy seq_cst, align 8
  ret i32 %code

serial:
  %b = phi i64 [ 0, %entry ], [ 0, %forked ], [ 0, %claim ], [ 0, %enter ], [ 0, %go.alone ], [ %b.next, %one ]
  %so.far = phi i32 [ 0, %entry ], [ 0, %forked ], [ 0, %claim ], [ 0, %enter ], [ 0, %go.alone ], [ %worst, %one ]
  %is.end = icmp uge i64 %b, %blocks
  br i1 %is.end, label %end, label %one
one:
  %here = call i32 @run_block(ptr %function, ptr %pointers, ptr %extents, i64 %n, i64 %chunk, i64 %total, i64 %b)
  %is.worse = icmp ugt i32 %here, %so.far
  %worst = select i1 %is.worse, i32 %here, i32 %so.far
  %b.next = add i64 %b, 1
  br label %serial
end:
  ret i32 %so.far
}

""")

# The number of threads follows the processors that the caller may use (its affinity): the system is asked at each job,
# which takes 0.5 us.  A system of more than 1024 processors refuses, and the number stays.
_FOLLOW = """
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i1024 @llvm.ctpop.i1024(i1024)
define internal void @follow() {
entry:
  %most = load atomic i64, ptr @most monotonic, align 8
  %is.fixed = icmp eq i64 %most, 0
  br i1 %is.fixed, label %done, label %look
look:
  %mask = alloca i1024, align 16
  store i1024 0, ptr %mask
  %failed = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mask)
  %is.good = icmp eq i32 %failed, 0
  br i1 %is.good, label %count, label %done
count:
  %bits = load i1024, ptr %mask
  %counted = call i1024 @llvm.ctpop.i1024(i1024 %bits)
  %usable = trunc i1024 %counted to i64
  %threads = call i64 @llvm.umin.i64(i64 %usable, i64 %most)
  %before = load atomic i64, ptr @threads monotonic, align 8
  %is.same = icmp eq i64 %threads, %before
  br i1 %is.same, label %done, label %change
change:
  store atomic i64 %threads, ptr @threads monotonic, align 8
  br label %done
done:
  ret void
}
"""
_FIXED = """
define internal void @follow() alwaysinline {
  ret void
}
"""

# Where there are no POSIX threads, the caller does it all: one block.
_ALONE = """
define i32 @run_blocks(ptr %function, ptr %pointers, ptr %extents, i64 %n, i64 %blocks, i64 %chunk, i64 %total) {
  %code = call i32 @run_block(ptr %function, ptr %pointers, ptr %extents, i64 %n, i64 %total, i64 %total, i64 0)
  ret i32 %code
}
define void @set_threads(i64 %count, i64 %follows) {
  ret void
}
define i64 @started_threads() {
  ret i64 0
}
"""


def threads_ir(system: str, architecture: str) -> str:
    """`run_blocks`, `set_threads`, `started_threads`.

    system          `sys.platform`
    architecture    of the processor, as `modes.processor` names it
    """
    if system not in ("linux", "darwin"):
        return BLOCK + _ALONE
    settings = dict(
        PATIENCE=PATIENCE,
        MOST_ALONE=MOST_ALONE,
        CLOCK=1 if system == "linux" else 6,  # CLOCK_MONOTONIC
        pause=pause_of(architecture)[1],
    )
    follow = _FOLLOW if system == "linux" else _FIXED
    return crew_ir(system, architecture) + follow + _THREADS.substitute(settings)
