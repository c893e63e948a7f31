"""Linear algebra on the matrices of a batch as one kernel: what an operation with the lowering `Dense` becomes.

    for b in 0..batch, in parallel:      small matrices in registers (`dense_small`), others in memory (`dense_loops`)
      the program of one matrix, which says whether it is refused: singular, not positive definite
    status = whether any is

A matrix that is refused makes the kernel give REFUSED: then the operation's reference decides (`runtime.segmented`).
Complex numbers lie in memory as pairs, and the same programs compute with both parts (`fields`).
"""

from __future__ import annotations

import numpy as np

from ..ir import Aval, Node
from ..lowering import DENSE_ROWS
from ..records import replace
from .built import Built, finish
from .dense_job import Job
from .dense_programs import PROGRAMS
from .elements import Elements, Temporary
from .index import constant_index
from .nest import I1, I32, Status, Value
from .scalar import Scalar

__all__ = ["build_dense", "is_native"]

def is_native(computed: Node) -> bool:
    """True if there is a kernel for the node's operation."""
    return 0 < computed.inputs[0].aval.shape[-1] <= DENSE_ROWS


def build_dense(node: Node, computed: Node, program: str, name: str) -> Built:
    """The kernel of a node, which reads and writes memory; of complex numbers it is `computed` that says what."""
    k = Scalar()
    k.node = node
    elements = Elements(k, lambda _: True)
    job = Job(k, elements, node, computed)
    run = PROGRAMS[program]
    written: list[Node | Temporary] = [node]
    if job.batch == 1:
        is_sound = run(job, constant_index(0))
    else:
        info = Temporary(Aval((job.batch,), np.bool_))
        batch = k.open_loop(job.batch, parallel=True, varies=job.is_open)
        found = run(job, batch.index)
        if found is not None:
            k.store(found, elements.place(info), batch.index)
            written.append(info)
        k.close_loop(batch)
        is_sound = None if found is None else _all(k, elements.place(info), job)
    written += job.temporaries
    if is_sound is not None:
        k.answer(k.select(is_sound, k.literal(0, I32), k.literal(int(Status.REFUSED), I32)))
    built = finish(name, k, elements, written)
    function = replace(built.kernel.function, refuses=is_sound is not None, is_fixed=True)
    return Built(replace(built.kernel, function=function), built.memory)


def _all(k: Scalar, info: Value, job: Job) -> Value:
    loop = k.open_loop(job.batch, [k.literal(True, I1)], varies=job.is_open)
    return k.close_loop(loop, [k.logical_and(loop.carried[0], k.load(info, loop.index, stable=False))])[0]
