"""Share the blocks of one step among a few threads: the caller's side, in native Python (`codegen.native`).

    u32 run_blocks(step, pointers)      run all blocks of a step (`plan_words.KernelCallWords`)

`run_blocks` calls `function(pointers, extents')` once per block, with the range [begin, end) of the block as the last
two extents.  The step determines the blocks, not the number of threads, so results are the same for any number.
`worker_threads` describes how threads take blocks.

A thread that loses its processor to another process in the middle of a block makes all threads wait.  The caller then
sleeps, so that its processor may run this thread.  The caller also measures: if it waited for other threads longer than
it worked, sharing lost time, and the caller does the next job alone.  Each further loss doubles the number of jobs that
it does alone, up to `MOST_ALONE`.

After a fork the child has none of the threads.  The child is recognised by its process number, and starts new ones.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

import sys

from ..native import Translation, atomic_load, atomic_store, compare_exchange, fence, local, native, ptr, u32, u64, void
from . import system_calls as system
from .plan_words import KernelCallWords
from .system_calls import control
from .worker_threads import (
    busy,
    cut,
    generation,
    job,
    locks,
    progress,
    run_block,
    section_begin,
    sleepers,
    start_threads,
    take_blocks,
    tickets,
    workers,
)  # fmt: skip

IS_LINUX, HAS_THREADS = sys.platform == "linux", sys.platform in ("linux", "darwin")

#: The number of times that the caller looks for the last blocks before it sleeps.  Its processor is then free for the
#: thread that has these blocks, which may be waiting for a processor behind another process.
CALLER_LOOKS = 2000

#: The most jobs that a caller on a busy machine does alone between two tries to share: failed tries then cost little.
MOST_ALONE = 255

#: Words of the mask of processors that `sched_getaffinity` fills.
MASK_WORDS = 16


@native
def set_threads(count: u64, follows: u64) -> void:
    """Share among `count` threads; if `follows`, among as many as the caller has processors, `count` at most."""
    workers.alone = 0
    workers.penalty = 0
    atomic_store(workers, "most", count if follows != 0 else u64(0), "monotonic")
    atomic_store(workers, "threads", count, "monotonic")


@native
def started_threads() -> u64:
    return workers.started


@native
def follow_affinity() -> void:
    """Set the number of threads to that of the processors that the caller may use (its affinity), unless it is fixed.

    Each job asks the system, which takes 0.5 us.  A system with more than 1024 processors refuses the call, and the
    number stays as it was.
    """
    most = atomic_load(workers, "most", "monotonic")
    if most == 0:
        return
    mask = local(u64, MASK_WORDS)
    for i in range(MASK_WORDS):
        mask[i] = 0
    if system.sched_getaffinity(0, 8 * MASK_WORDS, mask) < 0:
        return
    count = u64(0)
    for i in range(MASK_WORDS):
        count += system.set_bits(mask[i])
    if count > most:
        count = most
    if count != atomic_load(workers, "threads", "monotonic"):
        atomic_store(workers, "threads", count, "monotonic")


@native
def take_threads() -> bool:
    """True if this caller may share a job now; it then has the threads until it sets `busy` back."""
    process = system.getpid()
    known = atomic_load(workers, "process")
    if process != known:
        # -1 while another thread calls `set_up`; all other callers work alone meanwhile.
        if known == -1 or not compare_exchange(workers, "process", known, -1):
            return False
        set_up()
        atomic_store(workers, "process", process)
    if not compare_exchange(busy, "value", 0, 1):
        return False
    if workers.alone != 0:
        workers.alone -= 1
        atomic_store(busy, "value", 0)
        return False
    return True


@native
def set_up() -> void:
    """Set up the shared state without threads, in the first process and in a forked one."""
    workers.started = 0
    atomic_store(busy, "value", 0)
    atomic_store(sleepers, "value", 0)
    atomic_store(cut, "blocks", 0)
    atomic_store(cut, "is_waiting", 0)
    system.mutex_init(locks.mutex, None)
    system.condition_init(locks.has_job, None)
    system.condition_init(locks.all_done, None)


@native
def open_job(blocks: u64, threads: u64) -> u64:
    """Issue the tickets of the present job, and wake sleeping threads.  Returns the job's generation."""
    present = (atomic_load(generation, "value") + 1) & 0xFFFFFFFF
    if present == 0:
        present = 1
    sections = threads if threads < blocks else blocks
    job.control = control()
    atomic_store(progress, "status", 0, "monotonic")
    atomic_store(progress, "finished", 0, "monotonic")
    atomic_store(cut, "blocks", blocks, "monotonic")
    atomic_store(cut, "sections", sections, "monotonic")
    for t in range(sections):
        atomic_store(tickets[t], "next", present << 32 | section_begin(u64(t), sections, blocks), "release")
    atomic_store(generation, "value", present)
    fence()
    if atomic_load(sleepers, "value") != 0:
        system.lock(locks.mutex)
        system.wake_all(locks.has_job)
        system.unlock(locks.mutex)
    return present


@native
def close_tickets() -> void:
    """Invalidate all tickets, so that no thread takes a block while the next job is written."""
    for s in range(atomic_load(cut, "sections", "monotonic")):
        atomic_store(tickets[s], "next", 0, "release")
    fence()


@native
def wait_for_others(blocks: u64) -> void:
    """Wait until all blocks are done: look for a while, then sleep."""
    for _ in range(CALLER_LOOKS):
        if atomic_load(progress, "finished") == blocks:
            return
        system.pause()
    system.lock(locks.mutex)
    atomic_store(cut, "is_waiting", 1)
    while atomic_load(progress, "finished") != blocks:
        system.wait(locks.all_done, locks.mutex)
    atomic_store(cut, "is_waiting", 0)
    system.unlock(locks.mutex)


@native
def run_blocks(step: ptr[KernelCallWords], pointers: ptr) -> u32:
    """Run all blocks of a step.  Returns the worst status of a block."""
    if HAS_THREADS:
        if IS_LINUX:
            follow_affinity()
        threads = atomic_load(workers, "threads", "monotonic")
        if threads >= 2 and step.blocks >= 2 and take_threads():
            if workers.started < threads - 1:
                start_threads(threads - 1)
            close_tickets()
            job.step = step
            job.pointers = pointers
            return run_together(u64(step.blocks), threads)
    worst = u32(0)
    for block in range(step.blocks):
        status = run_block(step, pointers, u64(block))
        if status > worst:
            worst = status
    return worst


@native
def run_together(blocks: u64, threads: u64) -> u32:
    """Run the present job on all threads, and note if sharing lost time.  Returns the worst status of a block."""
    present = open_job(blocks, threads)
    started = system.now()
    take_blocks(present, 0)
    finished = system.now()
    wait_for_others(blocks)
    if system.now() - finished > finished - started:
        more = workers.penalty * 2 | 1
        workers.penalty = more if more < MOST_ALONE else u64(MOST_ALONE)
    else:
        workers.penalty = 0
    workers.alone = workers.penalty
    status = atomic_load(progress, "status")
    atomic_store(busy, "value", 0)
    return status


def text(module: Translation) -> str:
    """LLVM's text of `run_blocks`, `set_threads` and `started_threads`."""
    return module.text([run_blocks, set_threads, started_threads])
