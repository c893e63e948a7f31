"""Worker threads, in native Python (`codegen.native`): how they take the blocks of a job, wait and sleep.

`shared_blocks` is the caller's side.  The blocks of a job are divided into sections, one for each thread, including the
caller.  A thread begins with its own section, and then takes blocks of the other sections.  If no other thread gets a
processor, the caller does all blocks and waits for nobody.  In the next job a thread finds its section in its cache:
it is expensive to overwrite results that another core wrote last.

A thread that finds nothing to do looks again for some microseconds, because a program's next step often follows at
once.  Then it sleeps, because threads that keep looking take the processor from others.

Blocks are computed in the caller's mode: threads adopt the bits of its control register for subnormal numbers and
rounding, which may differ from job to job.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

import sys

from ..native import (
    Struct,
    array,
    atomic_add,
    atomic_load,
    atomic_max,
    compare_exchange,
    i32,
    local,
    native,
    ptr,
    static,
    u8,
    u32,
    u64,
    void,
)  # fmt: skip
from . import system_calls as system
from .machine import MOST_THREADS
from .plan_words import KernelCallWords
from .system_calls import adopt

SIG_SETMASK = 2 if sys.platform == "linux" else 3

#: The number of looks of an idle thread before it sleeps: about 20 microseconds (a pause takes 10 to 40 ns).
WORKER_LOOKS = 1000


class Ticket(Struct):
    """The next block of a section, with the job's generation in the upper half, in a cache line of its own.

    A thread takes a block by counting the ticket up, which fails once the generation is over.  So the thread reads the
    job only while its own block is unfinished.
    """

    next: u64
    rest: array[u8, 56]


class SharedJob(Struct):
    """The present job: a step, and the pointers that the step is called with."""

    step: ptr[KernelCallWords]
    pointers: ptr
    control: u64  # the content of the caller's control register (`system_calls`)


class Cutting(Struct):
    """The numbers of blocks and sections of the present job; `is_waiting` is 1 while the caller sleeps."""

    blocks: u64
    sections: u64
    is_waiting: u32


class BlocksDone(Struct):
    finished: u64  # the number of blocks that are done
    status: u32  # the worst status of a block


class CacheLineWord(Struct):
    """A number in a cache line of its own."""

    value: u64


class Workers(Struct):
    """The numbers of threads and of jobs without them.

    alone     the number of jobs that the caller still does alone      penalty   that number when sharing last lost time
    most      the most threads, if their number follows the caller's processors; else 0
    """

    threads: u64
    started: u64
    most: u64
    alone: u64
    penalty: u64
    process: i32


class Locks(Struct):
    mutex: array[u64, 16]
    has_job: array[u64, 16]
    all_done: array[u64, 16]


# Each of these begins a cache line.  `generation` numbers jobs from 1, and shows idle threads that there is a new job.
# `busy` is 1 while a caller runs a job; other callers then do theirs alone.
tickets = static(array[Ticket, MOST_THREADS])
generation = static(CacheLineWord)
sleepers = static(CacheLineWord)
busy = static(CacheLineWord)
job, cut, progress = static(SharedJob), static(Cutting), static(BlocksDone)
workers, locks = static(Workers), static(Locks)


# ------------------------------------------------------------ blocks


@native(inline=False)
def run_block(step: ptr[KernelCallWords], pointers: ptr, block: u64) -> u32:
    n = u64(step.extent_count)
    extents = ptr[u64](step.extents)
    own = local(u64, n)
    for i in range(n - 2):
        own[i] = extents[i]
    total = u64(step.total)
    end = (block + 1) * u64(step.chunk)
    own[n - 2] = block * u64(step.chunk)
    own[n - 1] = end if end < total else total
    return u32(step.function(pointers, own))


@native(inline=True)
def section_begin(section: u64, sections: u64, blocks: u64) -> u64:
    """The first block of a section."""
    return section * blocks // sections


@native(inline=False)
def take_blocks(present: u64, number: u64) -> void:
    """Take and run blocks of this generation until there are no more, those of the thread's own section first."""
    sections = atomic_load(cut, "sections", "monotonic")
    for k in range(sections):
        section = (number + u64(k)) % sections
        while True:
            ticket = atomic_load(tickets[section], "next")
            if ticket >> 32 != present:
                return
            block = ticket & 0xFFFFFFFF
            blocks = atomic_load(cut, "blocks", "monotonic")
            if block >= section_begin(section + 1, sections, blocks):
                break
            if compare_exchange(tickets[section], "next", ticket, ticket + 1):
                adopt(job.control)
                status = run_block(job.step, job.pointers, block)
                atomic_max(progress, "status", status, "monotonic")
                if atomic_add(progress, "finished", 1) + 1 == blocks:
                    wake_caller()
                    return


@native
def wake_caller() -> void:
    """Wake the caller after the last block.  Either its sleep is seen here, or it sees that all blocks are done."""
    if atomic_load(cut, "is_waiting") != 0:
        system.lock(locks.mutex)
        system.wake_one(locks.all_done)
        system.unlock(locks.mutex)


# ------------------------------------------------------------ threads


@native
def new_generation(number: u64, known: u64) -> u64:
    """The present generation, if it is new to this thread and the thread is wanted; else 0."""
    present = atomic_load(generation, "value")
    is_wanted = number < atomic_load(workers, "threads", "monotonic")
    return present if present != known and is_wanted else u64(0)


@native
def worker_loop(number_as_pointer: ptr) -> ptr:
    """The endless loop of a worker thread.  Workers are numbered from 1; the caller is thread 0."""
    number = u64(number_as_pointer)
    known = u64(0)
    looks = u64(0)
    while True:
        present = new_generation(number, known)
        if present != 0:
            take_blocks(present, number)
            known = present
            looks = 0
        elif looks < WORKER_LOOKS:
            system.pause()
            looks += 1
        else:
            sleep(number, known)
            looks = 0
    return None


@native
def sleep(number: u64, known: u64) -> void:
    """Sleep until woken.  A job opened before the count of sleepers rises is seen here; a later one sees the count."""
    system.lock(locks.mutex)
    atomic_add(sleepers, "value", 1)
    if new_generation(number, known) == 0:
        system.wait(locks.has_job, locks.mutex)
    atomic_add(sleepers, "value", u64(-1))
    system.unlock(locks.mutex)


@native(inline=False)
def start_threads(wanted: u64) -> void:
    """Start threads until there are `wanted`.  They take no signals, which belong to Python's threads."""
    signals = local(u64, 16)
    before = local(u64, 16)
    handle = local(ptr, 1)
    system.sigfillset(signals)
    system.pthread_sigmask(SIG_SETMASK, signals, before)
    while workers.started < wanted:
        if system.pthread_create(handle, None, worker_loop, ptr(workers.started + 1)) != 0:
            break
        workers.started += 1
        system.pthread_detach(handle[0])
    system.pthread_sigmask(SIG_SETMASK, before, None)
