"""Matrix products: where BLAS is found, and which native step does a `Gemm`.

    product_step(gemm) -> (address, extents, swapped, code), or None when no native step can do it well

Sources of BLAS, in order: the OpenBLAS that NumPy has already mapped; SciPy's; the package
scipy-openblas64.  Without any, large products are host steps that call `np.matmul`.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..program import Gemm
from ..records import record
from . import engine, gemm_ir, objects

__all__ = ["Blas", "Product", "find_blas", "multiply", "product_step"]


@record(frozen=True, eq=False)
class Blas:
    """Where the two products live.

    source      in words, for `doctor`
    addresses   of "f32" and "f64"
    is_fortran  32-bit integers by pointer, instead of cblas with 64-bit integers
    library     keeps the code mapped
    """

    source: str
    addresses: dict[str, int]
    is_fortran: bool
    library: Any


@record(frozen=True)
class Product:
    """A native step for a `Gemm`: its function, its extents, and whether its pointers are (b, a, c)."""

    address: int
    extents: tuple[int, ...]
    is_swapped: bool
    code: engine.Code


_lock = threading.Lock()


def find_blas() -> Blas | None:
    """The BLAS of this process, looked for once; None when there is none."""
    with _lock:
        return _found_blas()


@functools.cache
def _found_blas() -> Blas | None:
    return next(_candidates(), None)


def _candidates() -> Iterator[Blas]:
    """Every usable BLAS, the cheapest to reach first."""
    root = Path(np.__file__).parent
    for folder in (root.parent / "numpy.libs", root / ".dylibs"):
        yield from _in_folder(folder, "NumPy's own OpenBLAS")
    yield from _of_scipy()
    if importlib.util.find_spec("scipy_openblas64"):
        package = importlib.import_module("scipy_openblas64")
        yield from _in_folder(Path(package.get_lib_dir()), "scipy-openblas64")


def _in_folder(folder: Path, source: str) -> Iterator[Blas]:
    """OpenBLAS libraries with 64-bit integers in a folder.  A library that is mapped already is not mapped again."""
    for path in sorted(folder.glob("*openblas64*")) if folder.is_dir() else ():
        try:
            library = ctypes.CDLL(str(path))
            symbols = {"f32": library.scipy_cblas_sgemm64_, "f64": library.scipy_cblas_dgemm64_}
        except (OSError, AttributeError):
            continue
        addresses = {dtype: ctypes.cast(symbol, ctypes.c_void_p).value or 0 for dtype, symbol in symbols.items()}
        yield Blas(source, addresses, False, library)


def _of_scipy() -> Iterator[Blas]:
    """SciPy's table of BLAS functions for Cython."""
    if not importlib.util.find_spec("scipy"):
        return
    try:
        cython_blas = importlib.import_module("scipy.linalg.cython_blas")
        capsules = {"f32": cython_blas.__pyx_capi__["sgemm"], "f64": cython_blas.__pyx_capi__["dgemm"]}
    except (ImportError, AttributeError, KeyError):
        return
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    # The name is the C signature: SciPy with 64-bit integers would be another function.
    if all(name_of(capsule).startswith(b"void (char *, char *, int *") for capsule in capsules.values()):
        addresses = {dtype: pointer_of(c, name_of(c)) for dtype, c in capsules.items()}
        yield Blas("scipy.linalg.cython_blas", addresses, True, cython_blas)


def product_step(gemm: Gemm, blas: Blas | None) -> Product | None:
    """The native step for this product; None when only NumPy has a BLAS to do it with."""
    is_swapped = gemm.n == 1 and gemm.m > 1
    extents = _extents(gemm, is_swapped)
    named = dict(zip(gemm_ir.EXTENTS, extents, strict=True))
    is_looped = _is_faster_by_loops(named["m"], named["n"], named["k"])
    if not is_looped and blas and not (blas.is_fortran and max(extents[:7]) >= 2**31):
        code = _blas_code(gemm.dtype, blas)
        return Product(code.address(f"blas_{gemm.dtype}"), extents, is_swapped, code)
    if not is_looped and not blas:
        return None
    code = _loops_code(gemm.dtype)
    form = "rows" if named["b_col"] == 1 and named["n"] > 1 else "dots"
    return Product(code.address(f"{form}_{gemm.dtype}"), extents, is_swapped, code)


def _extents(gemm: Gemm, is_swapped: bool) -> tuple[int, ...]:
    """The extents of `gemm_ir`.  A product with a vector on the right is made one with it on the left."""
    m, n, k = gemm.m, gemm.n, gemm.k
    a_stride, b_stride, c_stride = gemm.strides
    if is_swapped:  # c' = b' a'
        a_steps, b_steps = (k, 1), _steps(k, m, not gemm.transpose_a)
        return (1, m, k, *a_steps, *b_steps, gemm.batch, b_stride, a_stride, c_stride)
    a_steps, b_steps = _steps(m, k, gemm.transpose_a), _steps(k, n, gemm.transpose_b)
    return (m, n, k, *a_steps, *b_steps, gemm.batch, a_stride, b_stride, c_stride)


def _steps(rows: int, columns: int, is_transposed: bool) -> tuple[int, int]:
    """Distances between rows and between columns of a packed matrix.

    A matrix of one row or column lies in memory as its transpose does; BLAS, which checks that the
    distance between rows is not below their length, is then told the plain case.
    """
    return (1, rows) if is_transposed and rows > 1 and columns > 1 else (columns, 1)


#: Up to this m * n * k a product costs less by a plain loop than the call of BLAS does.  OpenBLAS 0.3 with its
#: own kernels for small matrices, Zen 4, f64, ns per product: 2x2x2 23 / 29, 4x4x4 28 / 33, 6x6x6 68 / 60,
#: 8x8x8 103 / 50-117 (loop / BLAS).
SMALL = 64


def _is_faster_by_loops(m: int, n: int, k: int) -> bool:
    """Small products, and vectors times matrices.

    These are bound by memory, and BLAS's product is not made for them (same machine, one thread, us,
    loop / BLAS): 16x16 .04 / .04-.13, 64x64 .43 / .33, 256x256 4.8-6.5 / 4.9, 1024x1024 115 / 150-700.
    """
    return m * n * k <= SMALL or m == 1


@functools.cache
def _loops_code(dtype: str) -> engine.Code:
    return objects.compiled(gemm_ir.loops_ir(dtype))


@functools.cache
def _blas_code(dtype: str, blas: Blas) -> engine.Code:
    text = gemm_ir.blas_ir(dtype, is_fortran=blas.is_fortran)
    return objects.compiled(text, {f"gemm_{dtype}": blas.addresses[dtype]}, engine.Passes.INLINE)


def multiply(gemm: Gemm, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    """The product by NumPy, for what no native step can do."""
    a, b, c = a.reshape(-1), b.reshape(-1), c.reshape(-1)
    a_shape = (gemm.k, gemm.m) if gemm.transpose_a else (gemm.m, gemm.k)
    b_shape = (gemm.n, gemm.k) if gemm.transpose_b else (gemm.k, gemm.n)
    for p in range(gemm.batch):
        a_p = _matrix(a, p * gemm.strides[0], a_shape)
        b_p = _matrix(b, p * gemm.strides[1], b_shape)
        c_p = _matrix(c, p * gemm.strides[2], (gemm.m, gemm.n))
        np.matmul(a_p.T if gemm.transpose_a else a_p, b_p.T if gemm.transpose_b else b_p, out=c_p)


def _matrix(flat: np.ndarray, start: int, shape: tuple[int, int]) -> np.ndarray:
    return flat[start : start + shape[0] * shape[1]].reshape(shape)
