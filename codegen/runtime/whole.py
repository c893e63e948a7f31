"""Whole loops and branches as machine code: those that run kernels only, none of them shared by threads.

    whole(step, features) -> text of one function, and its numbers          see `emit.nests`

All others are run by `loop_ir`, step by step: what a step costs there, some 10 ns, is little beside a product.
"""

from __future__ import annotations

from ..emit.nests import Nest, emit_nest, kernels_in
from ..program import Step
from . import engine
from .cost import work_of
from .native import native
from .share import shared

__all__ = ["whole"]

#: Kernels of one function: LLVM's time grows with it.
_MOST = 64


def whole(step: Step) -> Nest | None:
    """The function for a loop or branch; None where it is none of these."""
    kernels = kernels_in(step.work)
    if kernels is None or len(kernels) > _MOST:
        return None
    parts = {}
    for kernel in kernels:
        pieces = shared(kernel.function, kernel.extents)
        if any(0 < piece.chunk < piece.total for piece in pieces):
            return None
        parts[id(kernel)] = [
            (piece.function, (*kernel.extents, 0, piece.total) if piece.chunk else kernel.extents) for piece in pieces
        ]
    nest = emit_nest(step.work, len(step.buffers), lambda k: parts[id(k)], work_of, engine.target_features())  # type: ignore[arg-type]
    return nest._replace(numbers=(native().code.address("loop_account"), *nest.numbers[1:]))
