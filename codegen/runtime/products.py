"""Matrix products: which native step does a `Gemm`, and how threads share it.

    product_step(gemm) -> its function, extents, share        begin(gemms)  its code is made meanwhile

Own code for all of it, rather than a BLAS: it is as fast as OpenBLAS or faster (`tile_ir`); its tiles run on the
threads of all other loops instead of on a second set, which fights them for the processors and collapses when one is
busy; and its results have the same bits for any number of threads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from ..forks import held_over_fork
from ..program import Gemm
from ..records import record, replace
from . import engine, objects
from .ahead import Ahead, gains
from .launcher import Share
from .product_ir import EXTENTS, product_ir
from .tile_ir import Tile
from .vector_product_ir import vector_product_ir

__all__ = ["Product", "begin", "product_step"]


@record(frozen=True)
class Product:
    """A native step for a `Gemm`: its function, its extents, and whether its pointers are (b, a, c)."""

    address: int
    extents: tuple[int, ...]
    is_swapped: bool
    code: engine.Code
    share: Share | None


def begin(gemms: Iterable[Gemm]) -> None:
    """Make what these products will need and is not there, beside what the caller does next."""
    if gains():
        for need in {_need(gemm): None for gemm in gemms}:
            _code(need)


def product_step(gemm: Gemm) -> Product:
    """The native step for this product."""
    is_swapped, extents, tile, is_vector = _case(gemm)
    named = dict(zip(EXTENTS, extents, strict=False))
    m, n, k = (named[x] for x in "mnk")
    code = _code((tile, is_vector)).result()
    if is_vector:
        address = code.address("rows" if named["b_col"] == 1 and n > 1 else "dots")
        rows, columns = 1, _vector_columns(n, k, gemm.dtype)
    else:
        address = code.address("product")
        rows, columns = _cut(m, n, k, gemm.batch, tile) if m and n else (1, 1)
    row_tiles, column_tiles = -(-m // rows), -(-n // columns)
    total = gemm.batch * row_tiles * column_tiles
    extents += (rows, columns, column_tiles, row_tiles * column_tiles)
    is_large = total > 1 and gemm.batch * m * n * k * _size(gemm.dtype) >= SHARED
    if is_large:
        return Product(address, extents, is_swapped, code, Share(total, max(1, total // TILES)))
    return Product(address, (*extents, 0, total), is_swapped, code, None)


def _case(gemm: Gemm) -> tuple[bool, tuple[int, ...], Tile, bool]:
    """Whether it is turned round, its extents, the tile it is cut into, and whether it is one of a vector."""
    is_swapped = gemm.n == 1 and gemm.m > 1
    extents = _extents(gemm, is_swapped)
    m, n, k = extents[:3]
    tile = Tile.of(gemm.dtype, engine.target_features())
    is_vector = m == 1 and k > 0
    if not is_vector and m <= FEW_ROWS and n * k >= FEW_LEAST:
        tile = replace(tile, rows=FEW_ROWS)
    return is_swapped, extents, tile, is_vector


def _extents(gemm: Gemm, is_swapped: bool) -> tuple[int, ...]:
    """The extents up to the tiles.  A product with a vector on the right is made one with it on the left."""
    m, n, k = gemm.m, gemm.n, gemm.k
    a_stride, b_stride, c_stride = gemm.strides
    if is_swapped:  # c' = b' a'
        return (1, m, k, k, 1, *_steps(k, m, not gemm.transpose_a), gemm.batch, b_stride, a_stride, c_stride)
    a_steps, b_steps = _steps(m, k, gemm.transpose_a), _steps(k, n, gemm.transpose_b)
    return (m, n, k, *a_steps, *b_steps, gemm.batch, a_stride, b_stride, c_stride)


def _steps(rows: int, columns: int, is_transposed: bool) -> tuple[int, int]:
    """Distances between rows and between columns of a packed matrix.

    A matrix of one row or column lies in memory as its transpose does: it is taken as the plain case.
    """
    return (1, rows) if is_transposed and rows > 1 and columns > 1 else (columns, 1)


#: A few rows times a large matrix are done by code of their own, made when it is first needed: tiles of more rows
#: would be mostly empty (4 x 256 x 256 f32: 9.1 us, these 4.9).
FEW_ROWS = 4
FEW_LEAST = 1 << 15

#: From so many multiplications on, times the bytes of an element, a product is shared: 20 us at the rates of `tile_ir`.
SHARED = 1 << 22

#: A tile has at least so many (10 us at these rates), and a product about so many tiles if it has the work for them.
TILE = 1 << 21
TILES = 64

#: Rows of a tile at most: what it reads of a, `DEPTH` columns of them, stays in the second cache.
MOST_ROWS = 256

#: Rows of a tile at least, if there are as many: fewer are not worth packing the columns that they meet.
LEAST_ROWS = 32


def _cut(m: int, n: int, k: int, batch: int, tile: Tile) -> tuple[int, int]:
    """Rows and columns of the tiles that a product is cut into.  Columns are cut first: that packs nothing twice."""
    least = max(TILE // (tile.size * max(k, 1)), 1)  # elements of c
    rows = _even(m, MOST_ROWS, tile.rows)
    columns = min(_up(-(-least // rows), 2 * tile.lanes), _up(n, tile.lanes))
    while rows >= 2 * LEAST_ROWS and rows * columns >= 2 * least and batch * -(-m // rows) * -(-n // columns) < 8:
        rows = _even(m, rows // 2, tile.rows)
    return rows, columns


def _even(extent: int, most: int, unit: int) -> int:
    """The size of equal parts of at most about `most`, a multiple of `unit`."""
    return _up(-(-extent // -(-extent // most)), unit)


def _up(extent: int, unit: int) -> int:
    return -(-extent // unit) * unit


def _vector_columns(n: int, k: int, dtype: str) -> int:
    """Columns that one call does: memory of b that takes some 10 us to read, whole cache lines of c."""
    return _up(max(TILE // (4 * _size(dtype) * k), -(-n // TILES), 1), 64)


def _size(dtype: str) -> int:
    return {"f32": 4, "f64": 8}[dtype]


#: The tile, and whether it is for products with a vector: what there is a module for.
_Need = tuple[Tile, bool]

_codes: dict[_Need, Ahead[engine.Code]] = {}
_lock = held_over_fork(threading.Lock())


def _need(gemm: Gemm) -> _Need:
    return _case(gemm)[2:]


def _code(need: _Need) -> Ahead[engine.Code]:
    """The module of products that is needed; made once."""
    with _lock:
        if need not in _codes:
            _codes[need] = Ahead(lambda: _made(*need))
        return _codes[need]


def _made(tile: Tile, is_vector: bool) -> engine.Code:
    return objects.compiled((vector_product_ir if is_vector else product_ir)(tile), passes=engine.Passes.INLINE)
