"""Loops and branches that run bodies with products in them, in native Python (`codegen.native`).

Those that run kernels only are a function of their own instead (`loops.whole`); here run those with products in them,
and what threads share.  `run_loop`, `run_branch` and `run_while` are steps like any kernel, `i32 f(ptr pointers, ptr
words)`; what they read, the structs below, is written by `loops`.

The slots of bodies lie on the stack, so that a loop may run in several threads and within itself.  Long loops let
signals be handled and other threads run every now and then (`run_steps`): what a signal's handler raises ends them
with the status INTERRUPTED.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..kernel.nest import Status
from ..native import Struct, Translation, extern, i32, i64, local, native, ptr, u8, u64, void
from .run_steps import account, run_steps

__all__ = ["text"]

#: Records that `run_while` takes memory for at first.
FIRST_RECORDS = 16


class MoveWords(Struct):
    """A slot that holds pointers[buffer] + offset, and goes on by `stride` bytes after each run."""

    slot: i64
    buffer: i64
    offset: i64
    stride: i64


class BodyWords(Struct):
    """A body, which runs inside: steps, their number, slots, pointers of its largest step, moves, their number."""

    steps: ptr
    count: i64
    slots: i64
    scratch: i64
    moves: ptr[MoveWords]
    move_count: i64


class StateWords(Struct):
    """Two slots of a body: a run reads one and writes the other.

    The first run reads pointers[first] + first_offset.  Run t writes pointers[next] + next_offset + ((t + 1) & mask) *
    stride, the last one pointers[last] + last_offset.  The mask is 1 for two places used in turn, -1 where all values
    are kept; then the first is copied there.
    """

    read: i64
    written: i64
    first: i64
    first_offset: i64
    bytes: i64
    last: i64
    last_offset: i64
    next: i64
    next_offset: i64
    stride: i64
    mask: i64


class LoopWords(Struct):
    """The words that `run_loop` reads; `work` is that of one run."""

    length: i64
    body: BodyWords
    states: ptr[StateWords]
    state_count: i64
    work: u64


class BranchWords(Struct):
    """The words that `run_branch` reads: buffer and offset of the bool to choose by, two bodies."""

    buffer: i64
    offset: i64
    yes: BodyWords
    no: BodyWords


class KeptWords(Struct):
    """A state of `run_while`, read by both bodies and written by the step.

    offset   its byte in a record           last   the buffer for its last value; -1: nobody wants it
    """

    read: i64
    written: i64
    first: i64
    first_offset: i64
    bytes: i64
    offset: i64
    last: i64
    last_offset: i64


class WhileWords(Struct):
    """The words that `run_while` reads.

    condition   asked before the first run          step   gives an answer too
    bytes       of a record: all states at one time.  Of two in the workspace, used in turn; or, where a loop goes back
                over them, of as many as there are, in memory that grows
    workspace   number of its buffer, and where in it records begin and the answer is
    back        the loop that goes back, or null, over so many given pointers and one more
    """

    condition: BodyWords
    step: BodyWords
    states: ptr[KeptWords]
    state_count: i64
    bytes: i64
    workspace: i64
    records: i64
    answer: i64
    back: ptr[LoopWords]
    given: i64
    work: u64


copy_bytes = extern("llvm.memcpy.p0.p0.i64", void, ptr, ptr, i64, bool, runs_python=False)
reallocated = extern("PyMem_RawRealloc", ptr, ptr, i64, runs_python=False)
free = extern("PyMem_RawFree", void, ptr, runs_python=False)


@native(inline=True)
def place(body: ptr[BodyWords], slots: ptr[ptr[u8]], pointers: ptr[ptr[u8]]) -> void:
    """Every slot that moves, at its first place."""
    for m in range(body.move_count):
        move = body.moves[m]
        slots[move.slot] = pointers[move.buffer] + move.offset


@native(inline=True)
def run_body(body: ptr[BodyWords], slots: ptr[ptr[u8]]) -> i32:
    return i32(run_steps(body.steps, body.count, ptr[ptr](slots), ptr[ptr](slots + body.slots)))


# ------------------------------------------------------------ branches


@native
def run_branch(pointers: ptr[ptr[u8]], words: ptr[BranchWords]) -> i32:
    """One of two bodies."""
    answer = pointers[words.buffer] + words.offset
    body = words.yes if answer[0] != 0 else words.no
    slots = local(ptr[u8], body.slots + body.scratch)
    place(body, slots, pointers)
    return run_body(body, slots)


# ------------------------------------------------------------ loops of known length


@native
def run_loop(pointers: ptr[ptr[u8]], words: ptr[LoopWords]) -> i32:
    """A known number of runs of a body."""
    body = words.body
    length = words.length
    states = words.states
    state_count = words.state_count
    work = words.work
    moves = body.moves
    move_count = body.move_count
    slots = local(ptr[u8], body.slots + body.scratch)
    place(body, slots, pointers)
    for s in range(state_count):
        begin(states[s], length, slots, pointers)
    for t in range(length):
        for s in range(state_count):
            aim(states[s], t, t == length - 1, slots, pointers)
        status = run_body(body, slots)
        if status == 0:
            status = account(work)
        if status != 0:
            return status
        for m in range(move_count):
            slots[moves[m].slot] = slots[moves[m].slot] + moves[m].stride
        for s in range(state_count):
            slots[states[s].read] = slots[states[s].written]
    return i32(0)


@native(inline=True)
def begin(state: ptr[StateWords], length: i64, slots: ptr[ptr[u8]], pointers: ptr[ptr[u8]]) -> void:
    """A state at its first value, which is the last one of a loop without runs."""
    first = pointers[state.first] + state.first_offset
    slots[state.read] = first
    if length == 0:
        copy_bytes(pointers[state.last] + state.last_offset, first, state.bytes, False)
    elif state.mask < 0:
        copy_bytes(pointers[state.next] + state.next_offset, first, state.bytes, False)


@native(inline=True)
def aim(state: ptr[StateWords], t: i64, is_last: bool, slots: ptr[ptr[u8]], pointers: ptr[ptr[u8]]) -> void:
    """The place where run t puts a state."""
    if is_last:
        slots[state.written] = pointers[state.last] + state.last_offset
    else:
        slots[state.written] = pointers[state.next] + state.next_offset + ((t + 1) & state.mask) * state.stride


# ------------------------------------------------------------ loops with a condition


@native
def run_while(pointers: ptr[ptr[u8]], words: ptr[WhileWords]) -> i32:
    """Runs of a body while a condition holds."""
    keeps = words.back is not None
    records = pointers[words.workspace] + words.records
    if keeps:
        records = ptr[u8](reallocated(None, words.bytes * FIRST_RECORDS))
        if records is None:
            return i32(Status.NO_MEMORY.value)
    begin_record(words, records, pointers)
    status = asked(words, records, pointers)
    step = words.step
    slots = local(ptr[u8], step.slots + step.scratch)
    place(step, slots, pointers)
    answer = pointers[words.workspace] + words.answer
    bytes_ = words.bytes
    work = words.work
    states = words.states
    state_count = words.state_count
    room = i64(FIRST_RECORDS)
    t = i64(0)
    while status == 0 and answer[0] != 0:
        if keeps and t + 1 >= room:
            room = room * 2
            grown = ptr[u8](reallocated(records, room * bytes_))
            if grown is None:
                status = i32(Status.NO_MEMORY.value)
                break
            records = grown
        before = records + (t if keeps else t & 1) * bytes_
        after = records + (t + 1 if keeps else (t & 1) ^ 1) * bytes_
        for s in range(state_count):
            slots[states[s].read] = before + states[s].offset
            slots[states[s].written] = after + states[s].offset
        status = run_body(step, slots)
        if status == 0:
            status = account(work)
        t += 1
    if status == 0 and keeps:
        status = gone_back(words, t, records + t * bytes_, pointers)
    elif status == 0:
        finish(words, records + (t & 1) * bytes_, pointers)
    if keeps:
        free(records)
    return status


@native(inline=True)
def begin_record(words: ptr[WhileWords], record: ptr[u8], pointers: ptr[ptr[u8]]) -> void:
    """All states at their first values."""
    for s in range(words.state_count):
        state = words.states[s]
        copy_bytes(record + state.offset, pointers[state.first] + state.first_offset, state.bytes, False)


@native(inline=False)
def asked(words: ptr[WhileWords], record: ptr[u8], pointers: ptr[ptr[u8]]) -> i32:
    """The condition for the first record; its status."""
    condition = words.condition
    slots = local(ptr[u8], condition.slots + condition.scratch)
    place(condition, slots, pointers)
    for s in range(words.state_count):
        slots[words.states[s].read] = record + words.states[s].offset
    return run_body(condition, slots)


@native(inline=True)
def finish(words: ptr[WhileWords], record: ptr[u8], pointers: ptr[ptr[u8]]) -> void:
    """The last values, for those who want them."""
    for s in range(words.state_count):
        state = words.states[s]
        if state.last >= 0:
            copy_bytes(pointers[state.last] + state.last_offset, record + state.offset, state.bytes, False)


@native(inline=False)
def gone_back(words: ptr[WhileWords], t: i64, record: ptr[u8], pointers: ptr[ptr[u8]]) -> i32:
    """A loop of t runs, from the record before this one to the first; its status."""
    back = local(LoopWords, 1)
    copy_bytes(back, words.back, LOOP_BYTES, False)
    back[0].length = t
    given = words.given
    own = local(ptr[u8], given + 1)
    for i in range(given):
        own[i] = pointers[i]
    own[given] = record - words.bytes
    return run_loop(own, back)


LOOP_BYTES = LoopWords.size()
_FUNCTIONS = {f.name: f for f in (run_branch, run_loop, run_while)}


def text(module: Translation, name: str) -> str:
    """LLVM's text of one of the three functions."""
    return module.text([_FUNCTIONS[name]])
