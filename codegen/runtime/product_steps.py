"""Matrix products in native Python (`codegen.native`): the step, one function for all tile shapes and dtypes.

    i32 product(pointers, extents)      pointers (a, b, c) and the words of `ProductExtents`

op(a)[i, t] lies at i * a_row + t * a_col and op(b)[t, j] at t * b_row + j * b_col, where one of the two strides is 1.
c[i, j] lies at i * c_row + j * c_col; c or its transpose is packed.  The products of a batch are cut into tiles of rows
and columns, numbered consecutively.  A call computes the tiles from `begin` to `end`, with whole sums, so that threads
can share them.

    for `panel_depth` rows of b at a time                      the first panel writes c, later ones add to c
      for one or two vectors of columns j                      packed into a panel that stays in the L1 cache
        for all rows i, a few at a time                        `multiply` of `product_tiles`

A panel is packed if the rows of b are far apart, or transposed, or end within a vector.  In the last case the panel is
padded, and the tile of c is computed in a buffer (the corner) and then copied; so is every tile of a transposed c.
a is not packed, because it is read element by element.  The product of one row and a matrix has functions of its own
(`product_tiles`).
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

import functools

from ..native import Struct, Translation, fn, i32, i64, local, native, ptr, select, u8, void
from .product_tiles import dots_of, multiply_of, pack_columns_of, pack_of, put_across_of, put_of, rows_of
from .vectors import FLOATS

#: The largest number of rows of c for which packing a panel costs more than it saves.
FEW = 16

class TileWords(Struct):
    """The functions for tiles of `rows` rows and one or two vectors of `lanes` elements of `size` bytes; panels have up
    to `depth` rows.  Functions that a product does not call are null.  `vector` does a whole product with a vector."""

    wide: fn[void, ptr, i64, i64, ptr, i64, i64, ptr, i64, i64, bool]
    narrow: fn[void, ptr, i64, i64, ptr, i64, i64, ptr, i64, i64, bool]
    pack: fn[void, ptr, i64, ptr, i64, i64, i64]
    put: fn[void, ptr, i64, i64, ptr, i64, i64, i64, bool]
    vector: fn[void, ptr, ptr, ptr, i64, i64, i64, i64]
    size: i64
    lanes: i64
    rows: i64
    depth: i64


class ProductExtents(Struct):
    """The words of a step, described at the head of this file."""

    tile: ptr[TileWords]
    m: i64
    n: i64
    k: i64
    a_row: i64
    a_col: i64
    b_row: i64
    b_col: i64
    batch: i64
    a_stride: i64
    b_stride: i64
    c_stride: i64
    c_row: i64
    c_col: i64
    tile_rows: i64
    tile_columns: i64
    column_tiles: i64
    tiles: i64
    panel_depth: i64
    begin: i64
    end: i64


@native(inline=True)
def least(x: i64, y: i64) -> i64:
    return select(x < y, x, y)


@native
def product(pointers: ptr[ptr], e: ptr[ProductExtents]) -> i32:
    tile = e.tile
    memory = local(u8, (tile.depth + tile.rows) * 2 * tile.lanes * tile.size)
    for t in range(e.begin, e.end):
        p = t
        i = i64(0)
        j = i64(0)
        if e.tiles != 1:
            p = t // e.tiles
            i = t % e.tiles // e.column_tiles * e.tile_rows
            j = t % e.tiles % e.column_tiles * e.tile_columns
        a = pointers[0] + (p * e.a_stride + i * e.a_row) * tile.size
        b = pointers[1] + (p * e.b_stride + j * e.b_col) * tile.size
        c = pointers[2] + (p * e.c_stride + i * e.c_row + j * e.c_col) * tile.size
        rows = least(e.m - i, e.tile_rows)
        columns = least(e.n - j, e.tile_columns)
        if tile.vector is not None:
            tile.vector(c, a, b, e.b_row, e.b_col, e.k, columns)
            continue
        if e.k == 0:
            clear(c, rows, columns, e)
        term = i64(0)
        while term < e.k:
            add_panels(a, b, c, rows, columns, term, memory, e)
            term += e.panel_depth
    return i32(0)


@native(inline=True)
def clear(c: ptr, rows: i64, columns: i64, e: ptr[ProductExtents]) -> void:
    """Set a tile of c to zero, byte by byte, which is right for every dtype."""
    size = e.tile.size
    for i in range(rows):
        for j in range(columns):
            element = c + (i * e.c_row + j * e.c_col) * size
            for place in range(size):
                ptr[u8](element)[place] = u8(0)


@native(inline=True)
def add_panels(
    a: ptr, b: ptr, c: ptr, rows: i64, columns: i64, term: i64, memory: ptr[u8], e: ptr[ProductExtents]
) -> void:  # fmt: skip
    """Add the products with one panel depth of rows of b, from row `term` on, to a tile of c."""
    tile = e.tile
    depths = least(e.panel_depth, e.k - term)
    a_from = a + term * e.a_col * tile.size
    j = i64(0)
    while j < columns:
        left = columns - j
        is_wide = left > tile.lanes
        width = 2 * tile.lanes if is_wide else tile.lanes
        used = least(left, width)
        multiply = tile.wide if is_wide else tile.narrow
        panel = b + (term * e.b_row + j * e.b_col) * tile.size
        b_row = e.b_row
        if e.b_col != 1 or used < width or (rows > FEW and b_row != width):
            tile.pack(memory, width, panel, e.b_row if e.b_col == 1 else e.b_col, depths, used)
            panel = memory
            b_row = width
        c_at = c + j * e.c_col * tile.size
        if e.c_col == 1 and used == width:
            multiply(a_from, e.a_row, e.a_col, panel, b_row, depths, c_at, e.c_row, rows, term != 0)
        else:
            corner = memory + tile.depth * width * tile.size
            i = i64(0)
            while i < rows:
                count = least(rows - i, tile.rows)
                a_at = a_from + i * e.a_row * tile.size
                multiply(a_at, e.a_row, e.a_col, panel, b_row, depths, corner, width, count, False)
                tile.put(c_at + i * e.c_row * tile.size, e.c_row, e.c_col, corner, width, count, used, term != 0)
                i += tile.rows
        j += width


def functions_of(tile, names):
    """The functions of these names for a tile (`products.Tile`)."""
    number, lanes = FLOATS[tile.dtype], tile.lanes
    makers = {
        "wide": lambda: multiply_of(number, 2 * lanes, tile.rows),
        "narrow": lambda: multiply_of(number, lanes, tile.rows),
        "pack": lambda: pack_of(number, lanes),
        "pack_columns": lambda: pack_columns_of(number, lanes),
        "put": lambda: put_of(number, lanes),
        "put_across": lambda: put_across_of(number),
        "rows": lambda: rows_of(number, lanes),
        "dots": lambda: dots_of(number, 2 * lanes, 4),
        "dot": lambda: dots_of(number, 4 * lanes, 1),
    }
    found = [makers[name]() for name in names]
    for name, function in zip(names, found, strict=True):
        function.name = name
    return found


@functools.cache
def text_of(tile, names):
    """The text of a module of these functions, for an object file that runs without Python."""
    return Translation().text(functions_of(tile, [name for name in names if name]))


def step_text():
    """The text of a module of `product`, for an object file that runs without Python."""
    return Translation().text([product])
