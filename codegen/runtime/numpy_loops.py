"""Decompositions, and Fourier transforms of any length, by NumPy's own loops: native steps.

NumPy's functions of linear algebra and of Fourier transforms are ufuncs of matrices and rows, and what these call needs
no Python: it is called directly (`loop_calls`), with the same results to the bit.  Where a NumPy has no such ufunc the
reference, which is NumPy, is called between two native segments.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import lowering
from ..ir import Node, dtype_name
from ..lazily import later
from ..modes import FLUSHING, modes
from ..records import record
from . import memory, objects, threads
from .engine import MachineCode
from .ufunc_loops import loop_of

if TYPE_CHECKING:
    from . import loop_calls
else:
    loop_calls = later("codegen.runtime.loop_calls")

#: The ufuncs that each decomposition calls; before NumPy 2.1 some were two, of tall matrices and of wide ones.
_UFUNCS = {"eigh": ("eigh_lo",), "qr": ("qr_r_raw", "qr_reduced"), "svd": ("svd_s",)}

_TYPES = {"eigh_lo": "d->dd", "qr_r_raw": "d->d", "qr_reduced": "dd->d", "svd_s": "d->ddd"}

#: The rows that lie one behind the other, where all do.
ALL = 1 << 40

#: A loop needs memory for at most so many numbers for each that it is given: of rows of a large prime length for 9, and
#: the row; of square matrices for the three parts, a copy, and the 5 of `dgesdd`.  And for some of each row and column.
_ROOM, _BESIDE = 10, 300

#: The part of the memory that an operand of a loop lies in.
_GIVEN, _FOUND, _SCRATCH = range(3)


@record(eq=False)
class LoopStep:
    """Code, the address of its plan, and the arrays whose addresses are in that.  One is equal to itself alone."""

    code: MachineCode
    plan: np.ndarray
    arrays: tuple[np.ndarray, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        return (memory.address_of(self.plan),)


def _loop(module: str, names: Sequence[str], types: str) -> tuple[int, int] | None:
    """The loop of the first ufunc that there is, for such types, and its last argument."""
    try:
        home = importlib.import_module(module)
    except ImportError:
        return None
    return next((loop_of(getattr(home, name), types) for name in names if hasattr(home, name)), None)


# ------------------------------------------------------------ decompositions


def _loops(node: Node) -> list[tuple[int, int] | None]:
    """The loops that a decomposition calls."""
    *_, m, n = node.inputs[0].aval.shape
    side = "n" if m >= n else "m"
    names = {name: (name, f"{name.removesuffix('_s')}_{side}_s", f"{name}_{side}") for name in _TYPES}
    return [
        _loop("numpy.linalg._umath_linalg", names[name], _TYPES[name]) for name in _UFUNCS[node.op.lower.routine]
    ]


def is_native(node: Node) -> bool:
    """True if a call is a decomposition that NumPy's loops do without Python: of real matrices that are not empty."""
    if not isinstance(node.op.lower, lowering.Decompose):
        return False
    a = node.inputs[0].aval
    if modes.deterministic:  # OpenBLAS's threads share sums
        return False
    return a.dtype.kind == "f" and a.size > 0 and None not in _loops(node)


def decomposition_of(node: Node) -> LoopStep:
    """The native step for such a node: the plan is a `loop_calls.Decomposition`.

    The result has the parts of a decomposition one below the other:

        eigh   the row of eigenvalues, the vectors as columns
        qr     q, then r
        svd    u, the row of singular values, v
    """
    routine, a = node.op.lower.routine, node.inputs[0].aval
    *outer, m, n = a.shape
    batch, k = math.prod(outer), min(m, n)
    matrix = (_GIVEN, 0, m * n)
    if routine == "eigh":
        size = n * n + n
        calls = [([matrix, (_FOUND, 0, size), (_FOUND, n, size)], [n, 1, 1, n, 1])]
    elif routine == "svd":
        size = m * k + k + n * k
        found = [(_FOUND, at, size) for at in (0, m * k, m * k + k)]
        calls = [([matrix, *found], [n, 1, k, 1, 1, 1, k])]  # v is transposed as it is written
    else:
        size = m * n + n * n
        matrix, factors = (_SCRATCH, 0, m * n), (_SCRATCH, batch * m * n, n)
        calls = [([matrix, factors], [n, 1, 1]), ([matrix, factors, (_FOUND, 0, size)], [n, 1, 1, n, 1])]
    words, arrays = [], []
    for loop, (operands, inner) in zip(_loops(node), calls, strict=True):
        assert loop is not None, "a decomposition without a loop"
        arrays += [np.array([batch, m, n, k]), 8 * np.array([stride for *_, stride in operands] + inner)]
        places = [word for part, at, _ in operands for word in (part, 8 * at)]
        words += [*loop, *map(memory.address_of, arrays[-2:]), len(operands), *places, *[0] * (8 - len(places))]
    reserve = 8 * (_ROOM * m * n + _BESIDE * (m + n))
    scratch = batch * (m * n + n) if routine == "qr" else 0
    head = [reserve, batch, m, n, size, scratch, modes.deterministic_at, len(calls)]
    name = dtype_name(a.dtype)
    code = objects.typed(
        "decompose", lambda module: module.text([loop_calls.decomposition(name)]),
        imports={FLUSHING: modes.flushing_at}, words=f"by NumPy's loops of {name}",
    )  # fmt: skip
    return LoopStep(code, np.array([*head, *words], np.int64), tuple(arrays))


# ------------------------------------------------------------ Fourier transforms


def _transform(node: Node) -> tuple[int, int] | None:
    """The loop of a Fourier transform."""
    kind, size = node.op.lower.kind, node.inputs[0].aval.dtype.itemsize
    is_odd = node.inputs[0].aval.shape[node.keywords["axis"]] % 2 == 1
    name = {"half": "rfft_n_odd" if is_odd else "rfft_n_even", "whole": "irfft"}.get(kind)
    name = name or ("ifft" if node.keywords["inverse"] else "fft")
    real, pair = "fF" if size == (4 if kind == "half" else 8) else "dD"
    given, found = real if kind == "half" else pair, real if kind == "whole" else pair
    return _loop("numpy.fft._pocketfft_umath", (name,), f"{given}{real}->{found}")


def has_transform(node: Node) -> bool:
    """True if NumPy has a loop for such a Fourier transform."""
    return _transform(node) is not None


def transform_of(node: Node, n: int) -> LoopStep:
    """The native step for a Fourier transform of rows of n numbers: the plan is a `loop_calls.RowLoop`."""
    loop, axis = _transform(node), node.keywords["axis"]
    assert loop is not None, "a transform without a loop"
    avals = [node.inputs[0].aval, node.aval]
    inner, sizes = math.prod(node.aval.shape[axis + 1 :]), [aval.dtype.itemsize for aval in avals]
    counts = [aval.shape[axis] for aval in avals]
    factor = np.ones(1, avals[0].dtype.type(0).real.dtype)
    reserve = _ROOM * n * 2 * factor.itemsize * threads.threads()
    words = [reserve, *loop, memory.address_of(factor), *counts, *[inner * size for size in sizes]]
    words.append(inner if inner > 1 else ALL)
    for count, size in zip(counts, sizes, strict=True):
        words += [size if inner > 1 else count * size, count * inner * size]
    code = objects.typed("fourier", lambda module: module.text([loop_calls.fourier]), words="by NumPy's loops")
    return LoopStep(code, np.array(words, np.int64), (factor,))
