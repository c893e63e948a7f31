"""Cut a kernel into pieces, so that threads can share its large loops.

    shared(function, extents) -> pieces, to be run one after the other, each with the arguments that it reads

A kernel whose top level has large `scf.parallel` loops is cut around them:

    constants                          piece 0, shared:  constants, scf.parallel i = begin to end: ...
    scf.parallel i = 0 to 2442: ...    piece 1:          constants, scf.for ..., store
    scf.for ...: the blocks' sums
    store

Iterations of `scf.parallel` are independent by definition, so any cut of the range is right.  The range is cut into
chunks that depend on the kernel alone, never on the number of threads: each iteration is done by the same code on the
same data, and results have the same bits for any number of threads.

A loop whose length is an argument of the kernel becomes a piece even if the loop is too small to be shared, because the
code of a kernel must not depend on its arguments.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ..emit.tiles import reads_across
from ..kernel.nest import (
    I32,
    INDEX,
    Block,
    MemRef,
    NestFunction,
    Operation,
    Value,
    computing,
    every,
    is_parallel,
    known_integer,
)
from ..records import record, replace
from ..symbols import typical
from .cost import operations_of_block

#: A loop of this many scalar operations or more is shared.  Waking a sleeping thread takes 13-17 us (a small
#: pool of pthreads on two cores), so a loop of 30 us and more gains; vectorised, an operation takes some 0.1 ns.
SHARED = 300_000

#: A chunk has at least this many operations (some 5 us; taking a chunk costs 0.1 us).  A loop has at most `CHUNKS`
#: chunks, enough to even out threads that start late or are interrupted.
CHUNK = 50_000
CHUNKS = 64

#: Chunks of a loop over elements begin at multiples of this: no two threads write one cache line.
ELEMENTS = 64

#: For loops over tiles of at least so many iterations (key), chunks are multiples of the value: one tile or several.
TILES = {8: 8, 32: 16, 128: ELEMENTS}


@record(frozen=True)
class KernelPiece:
    """A part of a kernel: operations outside of shared loops, or a loop of `total` iterations in chunks of `chunk`.

    A loop of one chunk is not worth sharing, and runs on one thread.

    memory     the numbers of the kernel's memory arguments that the piece has
    indices    the numbers of the kernel's index arguments that the piece has
    loop       for a loop: the operation of the kernel's function that the piece was made from
    is_tiled   True if iterations are done by tiles
    """

    function: NestFunction
    memory: tuple[int, ...]
    indices: tuple[int, ...]
    total: int = 0
    chunk: int = 0
    loop: Operation | None = None
    is_tiled: bool = False

    def numbers(self, extents: Sequence[int], *, is_shared: bool = False) -> tuple[int, ...]:
        """The extents that the piece is called with; a loop that is not shared gets all iterations as its range."""
        own = tuple([extents[j] for j in self.indices])
        return own if is_shared or not self.chunk else (*own, 0, self.total)

    @property
    def form(self) -> tuple[Hashable, ...]:
        """The part of the piece's form that its text does not say: the arguments that it has."""
        return self.memory, self.indices


def is_shared(piece: KernelPiece) -> bool:
    """True if threads share the piece: a loop of more than one chunk."""
    return 0 < piece.chunk < typical(piece.total)


def iterations_and_operations(piece: KernelPiece, function: NestFunction, extents: Sequence[int]) -> tuple[int, int]:
    """The number of iterations of a piece that is a loop of this function, and of all their operations."""
    assert piece.loop is not None
    known = _known(function, extents)
    return _trips(piece.loop, known), operations_of_block([piece.loop], dict(known))


def chunk_of(total: int, weight: int, *, is_tiled: bool) -> int:
    """The iterations in one chunk of a loop of `weight` operations: all of them if the loop is not worth sharing."""
    if weight < SHARED:
        return max(total, 1)
    each = max(1, weight // max(total, 1))
    chunk = max(-(-CHUNK // each), -(-total // CHUNKS))
    unit = ELEMENTS if chunk >= ELEMENTS else 1
    if is_tiled:
        unit = max([unit for least, unit in TILES.items() if total >= least], default=1)
    return -(-chunk // unit) * unit


def shared(function: NestFunction, extents: Sequence[int]) -> list[KernelPiece]:
    """The pieces of a kernel; the kernel itself as one piece if there is nothing to share."""
    *operations, end = function.body.operations
    if not any(is_parallel(o) for o in operations):
        return [_whole(function)]
    before, operations, after = _status(operations, end)
    indices = [a for a in function.arguments if not isinstance(a.type, MemRef)]
    known = _known(function, extents)
    numbers = {value: typical(number) for value, number in known.items()}
    weights = [operations_of_block([o], dict(numbers)) if _trips(o, numbers) > 1 else 0 for o in operations]
    # A loop of a run-time extent is a piece whatever its present weight, so that the code is the same for any extent.
    is_open = [is_parallel(o) and known.get(o.operands[0]) == 0 and o.operands[1] in indices for o in operations]
    is_apart = [o or w >= SHARED for o, w in zip(is_open, weights, strict=True)]
    if not any(is_apart):
        return [_whole(function)]
    pure = _pure(function, operations)
    runs = _runs(operations, set(map(id, pure)), is_apart)
    if not _are_independent(runs, pure, before):
        return [_whole(function)]
    if before:
        ends = [[*after, end]] * len(runs)
    elif known_integer(end.operands[0]) == 0:  # it cannot fail
        ends = [[end]] * len(runs)
    elif not runs[-1][0] and any(end.operands[0] in o.results for o in runs[-1][1]):
        # Only the last piece finds the status; the earlier ones return 0.
        zero = Operation("arith.constant", (), (I32,), {"value": 0})
        ends = [[zero, Operation("func.return", (zero.result,))]] * (len(runs) - 1) + [[end]]
    else:
        return [_whole(function)]
    pieces = []
    for number, ((is_loop, run), ending) in enumerate(zip(runs, ends, strict=True)):
        name = f"{function.name}_{number}"
        if not is_loop:
            pieces.append(_piece(function, [*before, *run, *ending], name, pure))
            continue
        (loop,), begin, stop = run, Value(INDEX), Value(INDEX)
        part = Operation(loop.name, [begin, stop, *loop.operands[2:]], (), loop.attributes, loop.regions)
        piece = _piece(function, [*before, part, *ending], name, pure, (begin, stop))
        total, is_tiled = _trips(loop, known), reads_across(loop.regions[0])
        chunk = chunk_of(typical(total), operations_of_block(run, dict(numbers)), is_tiled=is_tiled)
        pieces.append(replace(piece, total=total, chunk=chunk, loop=loop, is_tiled=is_tiled))
    return pieces


def _status(operations: list[Operation], end: Operation) -> tuple[list[Operation], list[Operation], list[Operation]]:
    """The store that sets the status of checks to zero, the other operations, and the load that reads the status."""
    load = end.operands[0].owner
    if not isinstance(load, Operation) or load.name != "memref.load":
        return [], operations, []
    status = load.operands[0]
    before = [o for o in operations if o.name == "memref.store" and o.operands[1] is status][:1]
    if not before or not isinstance(status.owner, Operation):
        return [], operations, []
    return before, [o for o in operations if o is not before[0] and o is not load], [load]


def _known(function: NestFunction, extents: Sequence[int]) -> dict[Value, int]:
    """The numbers that are known of a function: the values of its index arguments and constants."""
    indices = [a for a in function.arguments if not isinstance(a.type, MemRef)]
    return dict(zip(indices, extents, strict=True)) | {
        o.result: o.attributes["value"]
        for o in function.body.operations
        if o.name == "arith.constant" and o.result.type is INDEX
    }


def _runs(
    operations: Sequence[Operation], pure: set[int], is_shared: Sequence[bool]
) -> list[tuple[bool, list[Operation]]]:
    """The operations that only one piece may have, in runs: each shared loop by itself, and those between two loops."""
    runs: list[tuple[bool, list[Operation]]] = []
    for operation, share in zip(operations, is_shared, strict=True):
        if share:
            runs.append((True, [operation]))
        elif id(operation) not in pure:
            if not runs or runs[-1][0]:
                runs.append((False, []))
            runs[-1][1].append(operation)
    return runs


def _pure(function: NestFunction, operations: Sequence[Operation]) -> list[Operation]:
    """The operations that each piece may repeat: they have no effect, and the same result each time."""
    known = set(function.arguments)
    only_read = known - {function.arguments[j] for j in function.writes}
    found = []
    for operation in operations:
        is_plain = operation.name.startswith(("arith.", "math.")) or operation.name == "memref.alloca"
        # The number operands of a kernel lie in memory, such as the 100 of `x / 100`.
        is_plain = is_plain or (operation.name == "memref.load" and operation.operands[0] in only_read)
        if is_plain and known.issuperset(operation.operands):
            known.update(operation.results)
            found.append(operation)
    return found


def _are_independent(runs: list[tuple[bool, list[Operation]]], pure: list[Operation], before: list[Operation]) -> bool:
    """True if no run needs a value of another, by name or in local memory (the status, which each run has, aside)."""
    made_by = {result: number for number, (_, run) in enumerate(runs) for o in run for result in o.results}
    scratch = {o.result for o in pure if o.name == "memref.alloca"} - {o.operands[1] for o in before}
    users: dict[Value, int] = {}
    for number, (_, run) in enumerate(runs):
        for value in _values_of(run):
            if made_by.get(value, number) != number:
                return False
            if value in scratch and users.setdefault(value, number) != number:
                return False
    return True


def _values_of(operations: Sequence[Operation]) -> set[Value]:
    """All values that the operations read, also inside of their regions."""
    return {v for o in every(operations) for v in o.operands}


def _trips(loop: Operation, known: dict[Value, int]) -> int:
    """The number of iterations of a parallel loop that begins at zero; 0 for any other operation."""
    if not is_parallel(loop):
        return 0
    lower, upper = (known.get(bound) for bound in loop.operands[:2])
    return upper if lower == 0 and upper is not None else 0


def _whole(function: NestFunction) -> KernelPiece:
    """A whole kernel as one piece, without the arguments that the kernel does not need."""
    piece = _piece(function, function.body.operations, function.name)
    has_all = len(piece.memory) + len(piece.indices) == len(function.arguments)
    return replace(piece, function=function) if has_all else piece


def _piece(
    function: NestFunction,
    operations: Sequence[Operation],
    name: str,
    pure: Sequence[Operation] = (),
    more: tuple[Value, ...] = (),
) -> KernelPiece:
    """The piece of these operations, preceded by those of `pure` that they need.  Its arguments are those that all of
    these operations use, and `more`."""
    needed = _values_of(operations)
    operations = [*computing(needed, pure), *operations]
    memory = [a for a in function.arguments if isinstance(a.type, MemRef)]
    indices = function.arguments[len(memory) :]
    places = [j for j, a in enumerate(memory) if a in needed]
    numbers = [j for j, a in enumerate(indices) if a in needed]
    block = Block()
    block.arguments = [*[memory[j] for j in places], *[indices[j] for j in numbers], *more]
    block.operations = operations
    names = [function.names[j] for j in places] + [function.names[len(memory) + j] for j in numbers]
    part = replace(
        function,
        name=name,
        body=block,
        names=(*names, "begin", "end") if more else tuple(names),
        writes=frozenset([n for n, j in enumerate(places) if j in function.writes]),
    )
    return KernelPiece(part, tuple(places), tuple(numbers))
