"""Loops and branches at run time: each is compiled to one function.

    nest_text(work, buffers) -> the function's text, and its numbers          see `emit.nests`

The helpers that these functions call are a module apart from the launcher, which LLVM compiles in a fifth of the
launcher's time: a process that runs one loop does not wait for the launcher, and most processes run none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..emit.debug import PlaceOf
from ..emit.nests import NestText, emit_nest, leaves
from ..kernel.nest import Operation, Value
from ..lazily import later
from ..modes import FLUSHING, modes
from ..program import Branch, Kernel, Loop, Step, While
from ..symbols import typical
from . import engine, objects
from .cost import work_of
from .native import COPY_INTO, NEW_FROM_DESCR, numpy_function
from .share import ELEMENTS, is_shared, shared

if TYPE_CHECKING:
    from . import run_steps
else:
    run_steps = later("codegen.runtime.run_steps")

#: The most kernels that one function contains, since LLVM's time grows with the function; more stay kernels outside it.
_MOST = 64


def nest_text(work: Loop | Branch | While, buffers: int, place_of: PlaceOf | None = None) -> NestText:
    """The text of the function for a loop or branch on this number of buffers.

    place_of   returns the source line of a node, for debug info
    """
    kernels = [step.work for step in leaves(work) if isinstance(step.work, Kernel)]
    parts = {}
    for kernel in kernels:
        pieces = shared(kernel.function, kernel.extents)
        if len(kernels) <= _MOST and not any(map(is_shared, pieces)):
            parts[id(kernel)] = [(piece.function, piece.memory, piece.numbers(kernel.extents)) for piece in pieces]

    def blocks(loop: Loop) -> tuple[int, int] | None:
        return blocks_of(loop) if all(id(step.work) in parts for step in loop.body.steps) else None

    features = engine.target_features()
    return emit_nest(work, buffers, lambda k: parts.get(id(k)), blocks, work_of, features, place_of)


def outside_steps(work: object, nest: NestText) -> dict[int, Step]:
    """The steps that a function calls instead of containing their code, by their numbers."""
    steps = leaves(work)
    return {k: steps[k] for k in nest.outside}


#: The bytes of all arrays that one block of a loop covers: half of the L1 cache.  Loops below two blocks run whole.
_BLOCK = 16 << 10


def blocks_of(loop: Loop) -> tuple[int, int] | None:
    """(elements of a block, all elements) of an elementwise loop that runs block by block, each through all its turns.

    1,000 turns of x * 0.99 + a on 10,000 f64 take 2.1 ms on whole arrays and .84 ms in blocks.
    """
    body = loop.body
    if len(body.steps) != 1 or loop.length < 2 or not isinstance(body.steps[0].work, Kernel):
        return None
    step, (piece, *others) = body.steps[0], shared(body.steps[0].work.function, body.steps[0].work.extents)
    if others or piece.loop is None:
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
    """True if the operations read and write `memory` only at this index."""
    for o in operations:
        if o.name in ("memref.load", "memref.store"):
            *_, accessed, at = o.operands
            if accessed in memory and at is not index:
                return False
        if not all(_only_at(region.operations, memory, index) for region in o.regions):
            return False
    return True


#: The functions that the code of loops and branches calls.
_CALLED = ("loop_account", "run_steps", "call_host", "run_for_c")


def addresses() -> dict[str, int]:
    """The addresses of the functions that loops and branches call, valid to the end of the process."""
    imports = {FLUSHING: modes.flushing_at, "new_array": numpy_function(NEW_FROM_DESCR)}
    imports["copy_into"] = numpy_function(COPY_INTO)
    code = objects.native_code(
        "loop_account", lambda module: module.text([getattr(run_steps, name) for name in _CALLED]), imports
    )  # fmt: skip
    return {"account": code.address("loop_account")} | {name: code.address(name) for name in _CALLED}
