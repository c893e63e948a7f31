"""Matrix products: the native step of a `Gemm`, and how threads share it.

    product_step(gemm) -> its function, extents, share

Products do not use a BLAS.  The library's code is as fast as OpenBLAS or faster (`product_tiles`).  Its tiles run on
the same threads as all other loops; a BLAS has a second set of threads, which competes for the processors and becomes
very slow when one is busy.  And results have the same bits for any number of threads.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..emit.target import Target
from ..lazily import later
from ..program import Gemm
from ..records import record, replace
from ..symbols import Symbol, most
from . import engine, objects
from .launcher import Share

if TYPE_CHECKING:
    from . import product_steps
else:
    product_steps = later("codegen.runtime.product_steps")

#: The number of words of a step: the fields of `product_steps.ProductExtents`.
WORDS = 21


@record(frozen=True)
class Tile:
    """The shape of a tile: `rows` rows, and one or two vectors of `lanes` elements of `size` bytes.

    depth         the largest number of rows of b in a panel
    """

    dtype: str
    size: int
    rows: int
    lanes: int
    depth: int

    @staticmethod
    def of(dtype: str, features: str) -> Tile:
        """The tile for this processor, which has 32 vector registers (AVX-512, ARM) or 16: the sums fill at least half.

        A panel takes 20 KB of the 32 KB of an L1 cache, or all of it if vectors have 64 bytes.
        """
        target = Target.of(features)
        has_many = target.vector_bytes == 64 or "+neon" in features.split(",")
        size = {"f32": 4, "f64": 8}[dtype]
        rows, depth = (8, 256) if has_many else (6, 320)
        return Tile(dtype, size, rows, target.vector_bytes // size, depth)


@record(eq=False)
class ProductStep:
    """A native step for a `Gemm`: the address of its function, and its extents.

    is_swapped   True if its pointers are (b, a, c)      words   the `TileWords`, whose address is the first extent
    """

    gemm: Gemm
    address: int
    extents: tuple[int, ...]
    is_swapped: bool
    codes: tuple[engine.MachineCode, ...]
    words: ctypes.Array
    share: Share | None


def product_step(gemm: Gemm) -> ProductStep:
    """The native step for a product."""
    is_swapped, extents, share, tile = _step_of(gemm)
    code = objects.native_code("product", lambda module: module.text([product_steps.product]))
    codes, words = _loaded_for(tile, _names(extents, tile))
    extents = (ctypes.addressof(words), *extents)
    return ProductStep(gemm, code.address("product"), extents, is_swapped, (code, *codes), words, share)


#: Numbers in place of extents that are symbols, known only at a call: large, with columns that end within a vector.
_UNKNOWN = {"m": (1 << 40) + 1, "n": (1 << 41) + 1, "k": (1 << 42) + 1}


def form_of(gemm: Gemm) -> tuple[bool, tuple[int, ...], str, tuple[str | int, ...]]:
    """The step of a product for an object file that runs without Python, on one thread: True if its pointers are (b, a,
    c); its extents after the first; the text of a module of the functions it calls; the words of its tile, in which
    names stand for functions.  The step's function is `product` of another module, `product_steps.step_text`.

    Symbols are treated as large numbers, so that one step serves all sizes.  Its results have the bits of each size's
    own step, except if a symbol's value is one row or column.
    """
    numbers = {unknown: x for name, unknown in _UNKNOWN.items() if type(x := getattr(gemm, name)) is Symbol}
    seen = replace(gemm, **{name: x for name, x in _UNKNOWN.items() if x in numbers})
    is_swapped, extents, tile = _layout_of(seen)
    names = _names(extents, tile)
    if any(type(x) is Symbol for x in (*numbers.values(), gemm.batch, *gemm.strides)):
        extents = _extents_for_any(extents[0] > 1, tuple([numbers.get(x, x) for x in extents]), tile)
    else:
        _, extents, share, _ = _step_of(gemm)
        extents = (*extents, 0, share.total) if share else extents
    return is_swapped, extents, product_steps.text_of(tile, names), (*[name or 0 for name in names], *_words(tile))


def _extents_for_any(has_rows: bool, extents: tuple[int, ...], tile: Tile) -> tuple[int, ...]:
    """All extents, some of them symbols, by formulas without comparisons; a product of one row has one tile."""
    m, n, k, *_, batch = extents[:8]
    rows, columns, row_tiles, column_tiles = 1, n, 1, 1
    if has_rows:
        rows, columns = _up(MOST_ROWS, tile.rows), OPEN_COLUMNS
        row_tiles, column_tiles = -(-m // rows), -(-n // columns)
    short, long = [-(-k // most(-(-k // limit), 1)) for limit in (SHORT, tile.depth)]
    beyond = most(m * n - NEAR_RESULT // tile.size, 0)
    depth = long + (short - long) * (1 + most(-beyond, -1))
    tiles = row_tiles * column_tiles
    return (*extents, rows, columns, column_tiles, tiles, depth, 0, batch * tiles)


def _step_of(gemm: Gemm) -> tuple[bool, tuple[int, ...], Share | None, Tile]:
    """A step without its code: (True if the transpose is computed, extents, share, tile)."""
    is_swapped, extents, tile = _layout_of(gemm)
    m, n, k, *_ = extents
    batch, size = gemm.batch, tile.size
    is_vector = m == 1 and k > 0
    rows, columns = 1, 1
    row_tiles, column_tiles = m, n
    if is_vector:
        columns = _vector_columns(n, k, size)
        column_tiles = 1 if 0 < 4 * size * n * k <= TILE else -(-n // columns)
    elif m and n:
        rows, columns, row_tiles, column_tiles = _tiling(extents, tile)
    tiles = row_tiles * column_tiles
    total = batch * tiles
    extents += (rows, columns, column_tiles, tiles, _depth(extents, tile) if k else 0)
    if total > 1 and batch * m * n * k * size >= (READ if is_vector else SHARED):
        return is_swapped, extents, Share(total, max(1, total // TILES)), tile
    return is_swapped, (*extents, 0, total), None, tile


def _layout_of(gemm: Gemm) -> tuple[bool, tuple[int, ...], Tile]:
    """(True if the transpose of a product is computed, its extents, the tile that it is cut into)."""
    features = engine.target_features()
    is_swapped = (gemm.n == 1 and gemm.m > 1) or _is_better_across(gemm, features)
    extents = _extents(gemm, is_swapped)
    m, n, k = extents[:3]
    tile = Tile.of(gemm.dtype, features)
    # If the rows of c are shorter than a vector, tiles have shorter vectors, which the rows fill.
    if m > 1 and n in NARROW_COLUMNS and NARROW_BYTES <= n * tile.size < tile.lanes * tile.size:
        tile = replace(tile, lanes=n)
    # Compared in this order, so that a formula for small matrices makes no assumption about the number of rows.
    few = _rows_to_even_out(m, tile) if n * k >= EVEN_LEAST else 0
    return is_swapped, extents, _even_tile(tile, few) if few else tile


def _rows_to_even_out(rows: int, tile: Tile) -> int:
    """The number of rows, as a plain int, if tiles should divide them evenly; 0 otherwise."""
    limit = EVEN_TILES * tile.rows
    return next(n for n in range(2, limit + 1) if n == rows) if 1 < rows <= limit else 0


def _even_tile(tile: Tile, rows: int) -> Tile:
    """The tile with fewer rows, so that equal tiles cover `rows` with little or no rest, if that saves enough work."""
    even = -(-rows // -(-rows // tile.rows))
    return replace(tile, rows=even) if EVEN_GAIN * _up(rows, even) <= _up(rows, tile.rows) else tile


def _extents(gemm: Gemm, is_swapped: bool) -> tuple[int, ...]:
    """The extents before those of tiles.  A product with a vector on the right becomes one with it on the left."""
    m, n, k = gemm.m, gemm.n, gemm.k
    a_stride, b_stride, c_stride = gemm.strides
    if is_swapped and n == 1:  # c' = b' a'
        return (1, m, k, k, 1, *_steps(k, m, not gemm.transpose_a), gemm.batch, b_stride, a_stride, c_stride, m, 1)
    a_steps, b_steps = _steps(m, k, gemm.transpose_a), _steps(k, n, gemm.transpose_b)
    if is_swapped:
        return (n, m, k, *b_steps[::-1], *a_steps[::-1], gemm.batch, b_stride, a_stride, c_stride, 1, n)
    return (m, n, k, *a_steps, *b_steps, gemm.batch, a_stride, b_stride, c_stride, n, 1)


def _is_better_across(gemm: Gemm, features: str) -> bool:
    """True if the transpose of the product fills its vectors and the product does not: c has few columns, and a is
    transposed, so its rows are contiguous in the transposed product (the gradient of a layer's weights)."""
    m, n, k = gemm.m, gemm.n, gemm.k
    if not gemm.transpose_a or k < ACROSS_LEAST or m * k < EVEN_LEAST:
        return False
    tile = Tile.of(gemm.dtype, features)
    few = _rows_to_even_out(n, tile)
    if not few or few in NARROW_COLUMNS or m <= few:
        return False
    rows = _even_tile(tile, few).rows
    return ACROSS_GAIN * _up(few, rows) * _up(m, tile.lanes) <= _up(m, tile.rows) * _up(few, tile.lanes)


def _steps(rows: int, columns: int, is_transposed: bool) -> tuple[int, int]:
    """The strides of rows and of columns of a packed matrix.

    A matrix of one row or column lies in memory as its transpose does, and is treated as not transposed.
    """
    return (1, rows) if is_transposed and rows > 1 and columns > 1 else (columns, 1)


#: Up to EVEN_TILES tiles of rows are made equal, if b has at least EVEN_LEAST elements: for 10 rows two tiles of 8 rows
#: compute 16 (10 x 256 x 784 f64: 113 us, with two tiles of 5 rows 78; 5 x 64 x 64 f32 .77 and .56; 4 x 256 x 256 f32
#: 9.1 and 4.9, one thread of a Zen 4).
EVEN_TILES = 4
EVEN_LEAST = 1 << 12
#: The factor by which usual tiles must compute more rows than equal ones: each height of tiles is separate code, which
#: LLVM compiles in 20 ms (10 rows: 16 or 10; 17: 24 or 18; for 20 rows the saving is too small).
EVEN_GAIN = 1.3

#: Numbers of columns of c that fill a shorter vector, whose tiles need no corner: 25,000 x 4 x 4 f32 170 us, so 69.
NARROW_COLUMNS, NARROW_BYTES = (2, 4, 8), 16

#: The factor of work that the transpose of a product must save to be computed instead, and the least length of sums:
#: each panel moves the result there and back.
ACROSS_GAIN, ACROSS_LEAST = 1.25, 64

#: The number of multiplications, times the bytes of an element, from which threads share a product: 20 us of work at
#: the rates of `product_tiles`.
SHARED = 1 << 22
#: The bytes from which threads share a product with a vector, which reads each element once: 20 us from the L3 cache.
READ = 3 << 19

#: The least work of a tile, counted as for SHARED (10 us), and the number of tiles of a product with enough work.
TILE = 1 << 21
TILES = 64

#: The most rows of a tile: the part of a that it reads, `depth` columns of these rows, stays in the L2 cache.
MOST_ROWS = 256

#: The fewest rows of a tile, if c has as many: with fewer, packing the columns costs more than it saves.
LEAST_ROWS = 64

#: A result of up to NEAR_RESULT bytes stays in the L1 cache, so that adding to it costs nothing: its panels have up to
#: SHORT rows, which makes the rounding errors of sums smaller.
NEAR_RESULT, SHORT = 1 << 14, 128

#: The columns of a tile if the extents are known only at a call.
OPEN_COLUMNS = 128

#: The fewest columns of a tile whose part of a is FAR_BYTES or more: each tile then reads it from beyond the L2 cache.
FAR_COLUMNS, FAR_BYTES = 64, 1 << 18


def _tiling(extents: tuple[int, ...], tile: Tile) -> tuple[int, int, int, int]:
    """(rows of a tile, columns of a tile, number of tiles along the rows, along the columns) of a product.

    Columns are cut first, since tiles of different columns pack different parts of b.
    """
    m, n, k, _, _, _, _, batch = extents[:8]
    if m <= MOST_ROWS:
        rows, columns = _up(m, tile.rows), _up(n, tile.lanes)
        if rows * columns * max(k, 1) * tile.size <= TILE:  # the result of the code below, with fewer formulas
            return rows, columns, 1, 1
    least = max(TILE // (tile.size * max(k, 1)), 1)  # elements of c
    rows = _even(m, MOST_ROWS, tile.rows)
    is_far = rows * k * tile.size >= FAR_BYTES
    columns = FAR_COLUMNS if is_far else 1
    columns = min(_up(max(-(-least // rows), columns), 2 * tile.lanes), _up(n, tile.lanes))
    fewest = 2 * max(LEAST_ROWS, tile.rows)
    while rows >= fewest and rows * columns >= 2 * least and batch * -(-m // rows) * -(-n // columns) < 8:
        rows = _even(m, rows // 2, tile.rows)
    return rows, columns, -(-m // rows), -(-n // columns)


def _depth(extents: tuple[int, ...], tile: Tile) -> int:
    """The number of rows of b in a panel."""
    m, n, k = extents[:3]
    return _even(k, SHORT if m * n * tile.size <= NEAR_RESULT else tile.depth, 1)


def _even(extent: int, limit: int, unit: int) -> int:
    """The size of equal parts of at most about `limit`, a multiple of `unit`."""
    parts = 1 if 0 < extent <= limit else -(-extent // limit)
    return _up(-(-extent // parts), unit)


def _up(extent: int, unit: int) -> int:
    return -(-extent // unit) * unit


def _vector_columns(n: int, k: int, size: int) -> int:
    """The number of columns for one call: some 10 us to read of b, and whole cache lines of c."""
    return _up(max(TILE // (4 * size * k), -(-n // TILES), 1), 64)


#: By (tile, names of functions), their code and the words of `product_steps.TileWords`.
_loaded: dict[tuple[Tile, tuple[str, ...]], tuple[tuple[engine.MachineCode, ...], ctypes.Array]] = {}


def _names(extents: Sequence[int], tile: Tile) -> tuple[str, ...]:
    """For each function of `product_steps.TileWords`, in order, the name of the one that a product calls, or ""."""
    m, n, k, _, _, _, b_col, *_ = extents
    if m == 1 and k > 0:
        return "", "", "", "", "dot" if n == 1 else "rows" if b_col == 1 else "dots"
    rest = n % (2 * tile.lanes)
    return (
        "wide" if n > tile.lanes else "",
        "narrow" if 0 < rest <= tile.lanes else "",
        "pack" if b_col == 1 else "pack_columns",
        "put" if extents[12] == 1 else "put_across",
        "",
    )


def _words(tile: Tile) -> tuple[int, ...]:
    """The words of `product_steps.TileWords` after the functions."""
    return tile.size, tile.lanes, tile.rows, tile.depth


def _loaded_for(tile: Tile, names: tuple[str, ...]) -> tuple[tuple[engine.MachineCode, ...], ctypes.Array]:
    """The machine code of these functions, and the words of their tile.

    Missing functions are compiled as one module, since each module costs LLVM a millisecond.
    """
    found = _loaded.get((tile, names))
    if found is None:
        codes = objects.codes_of({name: f"{name} {tile}" for name in names if name}, functools.partial(_text, tile))
        words = (*[codes[name].address(name) if name else 0 for name in names], *_words(tile))
        found = _loaded[tile, names] = (tuple(codes.values()), (ctypes.c_int64 * len(words))(*words))
    return found


def _text(tile: Tile, names: Sequence[str]) -> str:
    return objects.native_module().text(product_steps.functions_of(tile, names))
