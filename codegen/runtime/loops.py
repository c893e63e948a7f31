"""Loops and branches at run time: one function each, or data for the functions of `loop_runs`.

    whole(work, buffers) -> text of one function, and its numbers          see `emit.nests`

is for those that run kernels only, none of them shared by threads.  All others are run by `loop_runs`, step by step:
what a step costs there, some 10 ns, is little beside a product.  A step of theirs is one call: what runs inside, and
how its pointers move, stands in tables that `LoopTable` owns.

Each function of `loop_runs` has a module of its own, which LLVM makes in a fifth of the time that the launcher takes: a
process that runs one such loop need not wait for the launcher, and most processes run none.  So has that by which long
loops handle signals.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..emit.debug import PlaceOf
from ..emit.nests import NestText, emit_nest, kernels_in
from ..ir import Aval
from ..kernel.nest import Operation, Value
from ..lazily import later
from ..modes import FLUSHING, modes
from ..program import Branch, BufferProgram, Kernel, Loop, Place, While, aligned
from ..symbols import typical
from . import engine, objects
from .cost import work_of
from .launcher import NativeStep, StepTable
from .memory import words
from .share import ELEMENTS, is_shared, shared

if TYPE_CHECKING:
    from . import loop_runs, run_steps
else:
    loop_runs = later("codegen.runtime.loop_runs")
    run_steps = later("codegen.runtime.run_steps")

__all__ = ["LoopTable", "NativeBody", "blocks_of", "table_of", "whole"]

#: Kernels of one function: LLVM's time grows with it.
_MOST = 64


def whole(work: object, buffers: int, place_of: PlaceOf | None = None) -> NestText | None:
    """The function for a loop or branch on so many buffers; None where it is none of these.

    place_of   the places of nodes, for debug info
    """
    if not isinstance(work, Loop | Branch | While):
        return None
    kernels = kernels_in(work)
    if kernels is None or len(kernels) > _MOST:
        return None
    parts = {}
    for kernel in kernels:
        pieces = shared(kernel.function, kernel.extents)
        if any(map(is_shared, pieces)):
            return None
        parts[id(kernel)] = [(piece.function, piece.memory, piece.numbers(kernel.extents)) for piece in pieces]
    features = engine.target_features()
    nest = emit_nest(work, buffers, lambda k: parts[id(k)], blocks_of, work_of, features, place_of)
    return nest._replace(numbers=(_accounting(), *nest.numbers[1:]))


#: Bytes of all arrays of a loop that one block takes: half of the first cache.  From twice as many on there are blocks.
_BLOCK = 16 << 10


def blocks_of(loop: Loop) -> tuple[int, int] | None:
    """The number of elements of an elementwise loop to take through all its steps at a time, and of how many.

    1,000 steps of x * 0.99 + a for 10,000 f64: 2.1 ms all at a time, .84 in blocks.
    """
    body = loop.body
    if len(body.steps) != 1 or loop.length < 2 or not isinstance(body.steps[0].work, Kernel):
        return None
    step, (piece, *others) = body.steps[0], shared(body.steps[0].work.function, body.steps[0].work.extents)
    if others or piece.loop is None or len(piece.loop.regions[0].arguments) > 1:
        return None
    first_hidden = loop.carried + len(loop.scanned)
    values = [body.buffers[b] for b in step.buffers]
    own = [b.role != "input" or b.place < first_hidden for b in values]
    if any(b.role == "temporary" for b in values) or any(
        b.aval.size != piece.total for b, o in zip(values, own, strict=True) if o
    ):
        return None
    memory = piece.function.arguments[: len(piece.memory)]
    walked = {argument for argument, j in zip(memory, piece.memory, strict=True) if own[j]}
    if not _only_at(piece.function.body.operations, walked, piece.loop.regions[0].arguments[0]):
        return None
    each = sum(b.aval.dtype.itemsize for b in values if b.aval.size == piece.total)
    block = max(_BLOCK // each // ELEMENTS, 1) * ELEMENTS
    return (block, piece.total) if typical(piece.total) >= 2 * block else None


def _only_at(operations: Sequence[Operation], memory: set[Value], index: Value) -> bool:
    """True if these read and write such memory at this index alone."""
    for o in operations:
        if o.name in ("memref.load", "memref.store"):
            *_, accessed, at = o.operands
            if accessed in memory and at is not index:
                return False
        if not all(_only_at(region.operations, memory, index) for region in o.regions):
            return False
    return True


def _accounting() -> int:
    """The address of `i32 loop_account(i64 work)`, good to the end of the process."""
    code = objects.typed("loop_account", lambda module: module.text([run_steps.loop_account]), imports=_imports())
    return code.address("loop_account")


def _imports() -> dict[str, int]:
    return {FLUSHING: modes.flushing_at}


# ------------------------------------------------------------ data for `loop_runs`

_FUNCTIONS = {Loop: "run_loop", Branch: "run_branch", While: "run_while"}


def _code(name: str) -> engine.MachineCode:
    """The code of `i32 name(ptr pointers, ptr numbers)`."""
    return objects.typed(name, lambda module: loop_runs.text(module, name), imports=_imports())


class NativeBody(NamedTuple):
    """A program whose steps are all native, as a step runs it: slots are inputs, outputs, temporaries."""

    program: BufferProgram
    offsets: Sequence[int]
    steps: Sequence[NativeStep]

    @property
    def slots(self) -> int:
        return len(self.program.inputs) + len(self.program.outputs) + len(self.offsets)


class LoopTable:
    """The table that one function of `loop_runs` reads.  It lives as long as the step may run."""

    __slots__ = ("_owned", "function", "numbers")

    def __init__(self, function: str) -> None:
        self.function = function
        self._owned: list[object] = []
        self.numbers: list[int] = []

    def words(self, values: Sequence[int]) -> int:
        """The address of these numbers in memory."""
        array = words(values)
        self._owned.append(array)
        return ctypes.addressof(array)

    def body(self, body: NativeBody, moves: Sequence[int]) -> list[int]:
        """The words of a body: its steps, and where its slots begin."""
        steps = StepTable(body.steps, is_long=False)
        self._owned.append(steps)
        return [steps.address, len(body.steps), body.slots, steps.scratch, self.words(moves), len(moves) // 4]

    def step(self, slots: tuple[int, ...]) -> NativeStep:
        """The step on these slots."""
        address = _code(self.function).address(self.function)
        return NativeStep(address, slots, tuple(self.numbers))


def table_of(
    work: Loop | Branch | While, buffers: int, inside: Sequence[NativeBody],
    make: Callable[[str], LoopTable] = LoopTable,
) -> LoopTable:
    """The table of a step on so many buffers, which runs these bodies; `make` gives an empty one for a function."""
    table = make(_FUNCTIONS[type(work)])
    match work:
        case Loop():
            return _loop_table(table, work, buffers, inside[0])
        case Branch():
            return _branch_table(table, work, buffers, *inside)
    return _while_table(table, work, buffers, *inside)


def _loop_table(table: LoopTable, loop: Loop, buffers: int, body: NativeBody) -> LoopTable:
    scanned = [
        (place[0], *_elements(loop, aval, place[1])) for place, aval in zip(loop.scanned, loop.elements, strict=True)
    ]
    table.numbers = _loop_words(table, loop, buffers, body, scanned)
    return table


def _loop_words(
    table: LoopTable, loop: Loop, buffers: int, body: NativeBody, scanned: Sequence[tuple[int, int, int]]
) -> list[int]:
    """`scanned`: buffer, bytes to the element of the first run, bytes from run to run."""
    inputs, workspace = body.program.inputs, buffers - 1
    moves: list[int] = []
    for k, element in enumerate(scanned, loop.carried):
        moves += (k, *element)
    first_hidden = loop.carried + len(scanned)
    moves += _still(loop.hidden, inputs[first_hidden:], first_hidden)
    stacks = zip(loop.stacked, loop.stacks, strict=True)
    for k, (aval, (buffer, start)) in enumerate(stacks, len(inputs) + loop.carried):
        moves += (k, buffer, *_elements(loop, aval, start))
    moves += _temporaries(body, workspace)
    states = [n for k in range(loop.carried) for n in _state(loop, k, len(inputs), workspace)]
    return [loop.length, *table.body(body, moves), table.words(states), loop.carried, work_of(body.program)]


def _still(places: Sequence[Place], avals: Sequence[Aval], slot: int) -> list[int]:
    """Moves of slots that stay where they are: slot, buffer, offset, stride."""
    found: list[int] = []
    for k, ((buffer, start), aval) in enumerate(zip(places, avals, strict=True), slot):
        found += (k, buffer, start * aval.dtype.itemsize, 0)
    return found


def _temporaries(body: NativeBody, workspace: int) -> list[int]:
    first = body.slots - len(body.offsets)
    return [n for k, offset in enumerate(body.offsets, first) for n in (k, workspace, offset, 0)]


def _elements(loop: Loop, aval: Aval, start: int) -> tuple[int, int]:
    """Bytes to the element of the first run, in an array that begins at element `start`; and from run to run."""
    begin, size = start * aval.dtype.itemsize, aval.nbytes
    return (begin + max(loop.length - 1, 0) * size, -size) if loop.is_reversed else (begin, size)


def _state(loop: Loop, k: int, inputs: int, workspace: int) -> tuple[int, ...]:
    """One state, as `run_loop` reads it."""
    aval, last, before = loop.states[k], loop.lasts[k], loop.befores[k]
    buffer, start = loop.firsts[k]
    in_turn, at_last = loop.room()[0][k]
    place = (workspace, at_last) if last is None else (last[0], last[1] * aval.dtype.itemsize)
    if before is None:
        then = (workspace, in_turn, aligned(aval.nbytes), 1)
    else:
        then = (before[0], *_elements(loop, aval, before[1]), -1)
    return (k, inputs + k, buffer, start * aval.dtype.itemsize, aval.nbytes, *place, *then)


def _branch_table(table: LoopTable, branch: Branch, buffers: int, yes: NativeBody, no: NativeBody) -> LoopTable:
    table.numbers = list(branch.chosen)
    for run, body in ((branch.yes, yes), (branch.no, no)):
        program = body.program
        moves = _still((*run.inputs, *run.outputs), (*program.inputs, *program.outputs), 0)
        table.numbers += table.body(body, [*moves, *_temporaries(body, buffers - 1)])
    return table


def _while_table(
    table: LoopTable, loop: While, buffers: int, condition: NativeBody, step: NativeBody, back: NativeBody | None = None
) -> LoopTable:
    workspace, carried = buffers - 1, len(loop.states)
    answer, records, _ = loop.room()
    offsets, size = loop.record()
    first_answer = len(condition.program.inputs)
    asked = _still(loop.hidden, condition.program.inputs[carried:], carried)
    asked += (first_answer, workspace, answer, 0, *_temporaries(condition, workspace))
    moves = _still(loop.hidden, step.program.inputs[carried:], carried)
    moves += (len(step.program.inputs) + carried, workspace, answer, 0, *_temporaries(step, workspace))
    states: list[int] = []
    for k, (aval, offset, (buffer, start)) in enumerate(zip(loop.states, offsets, loop.firsts, strict=True)):
        last = loop.lasts[k]
        place = (-1, 0) if last is None else (last[0], last[1] * aval.dtype.itemsize)
        first = (buffer, start * aval.dtype.itemsize, aval.nbytes, offset)
        states += (k, len(step.program.inputs) + k, *first, *place)
    over = 0
    if loop.back is not None and back is not None:
        # One more buffer: the record before the last step.
        scanned = [(buffers, offset, -size) for offset in offsets]
        over = table.words(_loop_words(table, loop.back, buffers, back, scanned))
    table.numbers = [
        *table.body(condition, asked), *table.body(step, moves), table.words(states), carried, size,
        workspace, records, answer, over, buffers, work_of(step.program),
    ]  # fmt: skip
    return table
