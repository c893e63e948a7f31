"""Decompositions by LAPACK: native steps, and where LAPACK is found.

NumPy's wheels bring an OpenBLAS that has LAPACK's C interface; what NumPy calls there is called directly, with the same
results to the bit.  Where there is none the reference, which is NumPy, is called between two native segments.
"""

from __future__ import annotations

import ctypes
import functools
import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .. import lowering
from ..ir import Node, dtype_name
from ..lazily import later
from ..modes import FLUSHING, modes
from ..records import record
from . import objects
from .engine import MachineCode

if TYPE_CHECKING:
    from . import decompositions
else:
    decompositions = later("codegen.runtime.decompositions")

__all__ = ["Decomposition", "decomposition_of", "is_native", "source"]


#: The routines that each function calls, in the order of the extents.
_ROUTINES = {"eigh": ("dsyevd",), "qr": ("dgeqrf", "dorgqr"), "svd": ("dgesdd",)}


@record(frozen=True)
class Decomposition:
    """Code and its extents."""

    code: MachineCode
    extents: tuple[int, ...]
    library: ctypes.CDLL


@functools.cache
def _library() -> ctypes.CDLL | None:
    """The OpenBLAS with 64-bit integers that NumPy has mapped; None when there is none."""
    root = Path(np.__file__).parent
    for folder in (root.parent / "numpy.libs", root / ".dylibs"):
        for path in sorted(folder.glob("*scipy_openblas64*")) if folder.is_dir() else ():
            try:
                library = ctypes.CDLL(str(path))
                for routine in _ROUTINES:
                    _addresses(library, routine)
            except (OSError, AttributeError):
                continue
            return library
    return None


def source() -> str:
    """The place where decompositions are computed, in words."""
    return "NumPy's own OpenBLAS" if _library() else "called through NumPy"


def _addresses(library: ctypes.CDLL, routine: str) -> list[int]:
    names = [f"scipy_LAPACKE_{name}64_" for name in _ROUTINES[routine]]
    return [ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names]


def is_native(node: Node) -> bool:
    """True if a call is a decomposition that LAPACK does without Python: of real matrices that are not empty."""
    if not isinstance(node.op.lower, lowering.Decompose):
        return False
    a = node.inputs[0].aval
    if modes.deterministic:  # OpenBLAS's threads share sums
        return False
    return a.dtype.kind == "f" and a.size > 0 and _library() is not None


def decomposition_of(node: Node) -> tuple[Decomposition, int]:
    """The object that does the work of such a node, and the address of its function."""
    routine = node.op.lower.routine
    a = node.inputs[0].aval
    *batch, m, n = a.shape
    library = _library()
    assert library is not None, "a decomposition without LAPACK"
    code = _code(routine, dtype_name(a.dtype))
    extents = (math.prod(batch), m, n, modes.deterministic_at, *_addresses(library, routine))
    return Decomposition(code, extents, library), code.address(routine)


def _code(routine: str, dtype: str) -> MachineCode:
    return objects.named(
        {routine: f"{routine} {dtype}"},
        lambda _: decompositions.text(objects.native_module(), routine, dtype),
        imports={FLUSHING: modes.flushing_at},
    )[routine]
