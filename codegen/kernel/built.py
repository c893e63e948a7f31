"""A kernel that is built, and what its arguments stand for."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from ..program import Kernel
from ..records import record
from .elements import Elements
from .nest import NestFunction
from .scalar import Scalar

__all__ = ["Built", "finish"]


@record(frozen=True)
class Built:
    """A kernel and what its memory arguments stand for: nodes, or a `Temporary` of its own."""

    kernel: Kernel
    memory: tuple[Hashable, ...]


def finish(name: str, k: Scalar, elements: Elements, written: Iterable[Any]) -> Built:
    """A built body as a kernel; arguments stand in the order of their first use."""
    nodes, written = tuple(elements.memory), set(written)
    writes = frozenset(j for j, node in enumerate(nodes) if node in written)
    names, reads = [], 0
    for j in range(len(nodes)):
        names.append(f"y{j - reads}" if j in writes else f"x{reads}")
        reads += j not in writes
    return Built(Kernel(NestFunction(name, k.finish(), tuple(names), writes)), nodes)
