"""Matrix products as LLVM IR text.
Each function is a step like any kernel, `i32 f(ptr pointers, ptr extents)`, with pointers (a, b, c) and `EXTENTS`:
op(a)[i, l] lies at i * a_row + l * a_col and op(b)[l, j] at l * b_row + j * b_col; one of each pair of distances
is 1, and c[i, j] lies at i * c_row + j * c_col: packed, or its transpose is.  The products of a batch are cut into
tiles of rows and columns, numbered through; a call does those from `begin` to `end`, whole sums, so that threads may
share them.

    for `panel_depth` rows l of b at a time                    what they add to c is added to what is there
      for one or two vectors of columns j                      packed into a panel that stays in the cache nearest
        for all rows i, a few at a time:   tile1 or tile2 (`tile_ir`)

Tiles, and packing that not all need, are modules of their own, made when a product needs them (`parts_of`): `product`
finds their addresses in the table that `parts` returns, in the order of `PARTS`.

A panel is packed because rows of b are far from each other, or lie across, or end within a vector: then the panel is
filled up with zeros, and the tile of c, the corner, is made beside c and copied; so is every tile where c lies across.
a is read where it is, for it is read element by element; but where `block_bytes` says so, what lies across of it, each
column on a page of its own, is packed once for all columns of the tile.  Without memory for that it is read where it is
after all.

Steps are `optnone`, which means: written as they should run.  Code is generated for that in a third of the time
(`product` and its parts 30 -> 23 ms, `vector_product_ir` 25 -> 19).
"""

from __future__ import annotations

from collections.abc import Collection

from .pack_ir import pack_across_ir, pack_columns_ir, pack_rows_ir
from .template import Template
from .tile_ir import Tile, tile_ir

__all__ = ["DECLARED", "EXTENTS", "PARTS", "filled_table", "part_ir", "parts_of", "product_ir", "step_ir"]

#: What a product may call.
PARTS = ("tile1", "tile2", "pack_columns", "pack_across", "across")

#: The extents, in order.
EXTENTS = (
    "m", "n", "k", "a_row", "a_col", "b_row", "b_col", "batch", "a_stride", "b_stride", "c_stride",
    "c_row", "c_col",
    "tile_rows", "tile_columns", "column_tiles", "tiles", "panel_depth", "block_bytes", "begin", "end",
)  # fmt: skip

#: Up to so many rows of c a panel is not worth packing.
FEW = 16

# The frame shared by all: for each tile the pointers %a %b %c, and its %rows and %columns.  BODY ends at `next`.
_STEP = Template("""
define i32 @$name(ptr %pointers, ptr %extents) noinline optnone {
entry:
$loads
$memory  br label %tile
tile:
  %t = phi i64 [ %begin, %entry ], [ %t.next, %next ]
  %more.tiles = icmp ult i64 %t, %end
  br i1 %more.tiles, label %which, label %done
which:
  %is.whole.product = icmp eq i64 %tiles, 1
  br i1 %is.whole.product, label %place, label %divide
divide:
  %p.divided = udiv i64 %t, %tiles
  %in.product = urem i64 %t, %tiles
  %row.tile = udiv i64 %in.product, %column_tiles
  %column.tile = urem i64 %in.product, %column_tiles
  %i.divided = mul i64 %row.tile, %tile_rows
  %j.divided = mul i64 %column.tile, %tile_columns
  br label %place
place:
  %p = phi i64 [ %t, %which ], [ %p.divided, %divide ]
  %i.first = phi i64 [ 0, %which ], [ %i.divided, %divide ]
  %j.first = phi i64 [ 0, %which ], [ %j.divided, %divide ]
  %rows.left = sub i64 %m, %i.first
  %rows = call i64 @llvm.umin.i64(i64 %rows.left, i64 %tile_rows)
  %columns.left = sub i64 %n, %j.first
  %columns = call i64 @llvm.umin.i64(i64 %columns.left, i64 %tile_columns)
  %a.start = mul i64 %p, %a_stride
  %a.row.start = mul i64 %i.first, %a_row
  %a.offset = add i64 %a.start, %a.row.start
  %a = getelementptr $type, ptr %a.first, i64 %a.offset
  %b.start = mul i64 %p, %b_stride
  %b.column.start = mul i64 %j.first, %b_col
  %b.offset = add i64 %b.start, %b.column.start
  %b = getelementptr $type, ptr %b.first, i64 %b.offset
  %c.start = mul i64 %p, %c_stride
  %c.row.start = mul i64 %i.first, %c_row
  %c.column.start = mul i64 %j.first, %c_col
  %c.tile.start = add i64 %c.row.start, %c.column.start
  %c.offset = add i64 %c.start, %c.tile.start
  %c = getelementptr $type, ptr %c.first, i64 %c.offset
$body
next:
  %t.next = add i64 %t, 1
  br label %tile
done:
$end  ret i32 0
}
""")

#: What the module of a step declares.
DECLARED = "declare i64 @llvm.umin.i64(i64, i64)\ndeclare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n"


def step_ir(name: str, type_: str, body: str, memory: str = "", end: str = "") -> str:
    """A step on tiles, of which `body` does one and goes on to `next`; `memory` is what it does first, `end` last."""
    lines = []
    for number, extent in enumerate(EXTENTS):
        lines += [
            f"  %{extent}.at = getelementptr i64, ptr %extents, i64 {number}",
            f"  %{extent} = load i64, ptr %{extent}.at",
        ]
    for number, pointer in enumerate("abc"):
        lines += [
            f"  %{pointer}.first.at = getelementptr ptr, ptr %pointers, i64 {number}",
            f"  %{pointer}.first = load ptr, ptr %{pointer}.first.at",
        ]
    return _STEP.substitute(name=name, type=type_, memory=memory, loads="\n".join(lines), body=body, end=end)


_EMPTY = "zeroinitializer"
_TABLE = f"""
@parts.table = internal global [{len(PARTS)} x ptr] {_EMPTY}
define ptr @parts() noinline optnone {{
  ret ptr @parts.table
}}
"""

_MEMORY = Template("""  %panel = alloca [$PANEL x $type], align 64
  %corner = alloca [$CORNER x $type], align 64
  %waste = alloca [$WIDTH x $type], align 64
  %block = call ptr @block_of(i64 %block_bytes)
  %is.block = icmp ne ptr %block, null
  %a.tile = select i1 %is.block, i64 $DEPTH, i64 %a_row
  %a.row = select i1 %is.block, i64 1, i64 %a_row
  %a.col = select i1 %is.block, i64 $ROWS, i64 %a_col
""")

#: More than a thread's stack is sure to have.
_BLOCK = """
define internal ptr @block_of(i64 %bytes) noinline optnone {
entry:
  %is.wanted = icmp ne i64 %bytes, 0
  br i1 %is.wanted, label %wanted, label %none
wanted:
  %block = call ptr @malloc(i64 %bytes)
  ret ptr %block
none:
  ret ptr null
}
declare ptr @malloc(i64)
declare void @free(ptr)
"""

_BODY = Template("""
  %is.few = icmp ule i64 %rows, $FEW
  %lies.by.rows = icmp eq i64 %b_col, 1
  %has.sum = icmp ne i64 %k, 0
  br i1 %has.sum, label %depth, label %zero
zero:
  %zero.i = phi i64 [ 0, %place ], [ %zero.i.next, %zero ]
  %zero.offset = mul i64 %zero.i, %n
  %zero.row = getelementptr $type, ptr %c, i64 %zero.offset
  %zero.bytes = mul i64 %columns, $size
  call void @llvm.memset.p0.i64(ptr %zero.row, i8 0, i64 %zero.bytes, i1 false)
  %zero.i.next = add i64 %zero.i, 1
  %more.zeros = icmp ult i64 %zero.i.next, %rows
  br i1 %more.zeros, label %zero, label %next

depth:
  %l = phi i64 [ 0, %place ], [ %l.next, %depth.done ]
  %l.left = sub i64 %k, %l
  %depths = call i64 @llvm.umin.i64(i64 %l.left, i64 %panel_depth)
  %is.more = icmp ne i64 %l, 0
  %a.l.offset = mul i64 %l, %a_col
  %a.l = getelementptr $type, ptr %a, i64 %a.l.offset
  %b.l.offset = mul i64 %l, %b_row
  %b.l = getelementptr $type, ptr %b, i64 %b.l.offset
  %a.from = select i1 %is.block, ptr %block, ptr %a.l
  br i1 %is.block, label %block.rows, label %column
block.rows:
  %pack_across = load ptr, ptr getelementptr (ptr, ptr @parts.table, i64 3)
  call void %pack_across(ptr %block, i64 $DEPTH, ptr %a.l, i64 %a_col, i64 %rows, i64 %depths)
  br label %column
column:
  %j = phi i64 [ 0, %depth ], [ 0, %block.rows ], [ %j.next, %column.done ]
  %j.left = sub i64 %columns, %j
  %is.wide = icmp ugt i64 %j.left, $lanes
  %width = select i1 %is.wide, i64 $WIDTH, i64 $lanes
  %used = call i64 @llvm.umin.i64(i64 %j.left, i64 %width)
  %is.whole = icmp eq i64 %used, %width
  %b.j.offset = mul i64 %j, %b_col
  %b.j = getelementptr $type, ptr %b.l, i64 %b.j.offset
  %c.j.offset = mul i64 %j, %c_col
  %c.j = getelementptr $type, ptr %c, i64 %c.j.offset
  %is.panel = icmp eq i64 %b_row, %width
  %is.near = or i1 %is.few, %is.panel
  %is.by.vectors = and i1 %is.whole, %lies.by.rows
  %stays = and i1 %is.by.vectors, %is.near
  br i1 %stays, label %row, label %fill
fill:
  br i1 %is.whole, label %full, label %clear
clear:
  %panel.elements = mul i64 %depths, %width
  %panel.bytes = mul i64 %panel.elements, $size
  call void @llvm.memset.p0.i64(ptr %panel, i8 0, i64 %panel.bytes, i1 false)
  br i1 %lies.by.rows, label %copy, label %pack.columns
copy:
  call void @copy(ptr %panel, i64 %width, ptr %b.j, i64 %b_row, i64 %depths, i64 %used)
  br label %row
full:
  br i1 %lies.by.rows, label %pack, label %pack.columns
pack:
  call void @pack(ptr %panel, i64 %width, ptr %b.j, i64 %b_row, i64 %depths, i64 %width)
  br label %row
pack.columns:
  %pack_columns = load ptr, ptr getelementptr (ptr, ptr @parts.table, i64 2)
  call void %pack_columns(ptr %panel, i64 %width, ptr %b.j, i64 %b_col, i64 %depths, i64 %used)
  br label %row

row:
  %b.panel = select i1 %stays, ptr %b.j, ptr %panel
  %b.step = select i1 %stays, i64 %b_row, i64 %width
  %is.along = icmp eq i64 %c_col, 1
  %is.there = and i1 %is.whole, %is.along
  %at.once = select i1 %is.there, i64 %rows, i64 $ROWS
  %is.corner = xor i1 %is.there, true
  %is.fetched = and i1 %is.corner, %is.more
  %c.step = select i1 %is.there, i64 %n, i64 %width
  br label %tile.of.rows
tile.of.rows:
  %i = phi i64 [ 0, %row ], [ %i.next, %row.done ]
  %i.left = sub i64 %rows, %i
  %count = call i64 @llvm.umin.i64(i64 %i.left, i64 %at.once)
  %a.i.offset = mul i64 %i, %a.tile
  %a.i = getelementptr $type, ptr %a.from, i64 %a.i.offset
  %c.i.offset = mul i64 %i, %c_row
  %c.i = getelementptr $type, ptr %c.j, i64 %c.i.offset
  %c.tile = select i1 %is.there, ptr %c.i, ptr %corner
  br i1 %is.fetched, label %fetch, label %multiply
fetch:
  br i1 %is.along, label %fetch.along, label %fetch.across
fetch.along:
  call void @copy(ptr %corner, i64 %width, ptr %c.i, i64 %n, i64 %count, i64 %used)
  br label %multiply
fetch.across:
  %across.in = load ptr, ptr getelementptr (ptr, ptr @parts.table, i64 4)
  call void %across.in(ptr %corner, i64 %width, i64 1, ptr %c.i, i64 1, i64 %c_col, i64 %count, i64 %used)
  br label %multiply
multiply:
  br i1 %is.wide, label %wide, label %narrow
wide:
  %tile2 = load ptr, ptr getelementptr (ptr, ptr @parts.table, i64 1)
  call void %tile2(ptr %a.i, i64 %a.row, i64 %a.col, i64 %a.tile, ptr %b.panel, i64 %b.step, i64 %depths,
                   ptr %c.tile, i64 %c.step, i64 %count, ptr %waste, i1 %is.more)
  br label %multiplied
narrow:
  %tile1 = load ptr, ptr @parts.table
  call void %tile1(ptr %a.i, i64 %a.row, i64 %a.col, i64 %a.tile, ptr %b.panel, i64 %b.step, i64 %depths,
                   ptr %c.tile, i64 %c.step, i64 %count, ptr %waste, i1 %is.more)
  br label %multiplied
multiplied:
  br i1 %is.there, label %row.done, label %put
put:
  br i1 %is.along, label %put.along, label %put.across
put.along:
  call void @copy(ptr %c.i, i64 %n, ptr %corner, i64 %width, i64 %count, i64 %used)
  br label %row.done
put.across:
  %across.out = load ptr, ptr getelementptr (ptr, ptr @parts.table, i64 4)
  call void %across.out(ptr %c.i, i64 1, i64 %c_col, ptr %corner, i64 %width, i64 1, i64 %count, i64 %used)
  br label %row.done
row.done:
  %i.next = add i64 %i, %at.once
  %more.rows = icmp ult i64 %i.next, %rows
  br i1 %more.rows, label %tile.of.rows, label %column.done
column.done:
  %j.next = add i64 %j, $WIDTH
  %more.columns = icmp ult i64 %j.next, %columns
  br i1 %more.columns, label %column, label %depth.done
depth.done:
  %l.next = add i64 %l, %panel_depth
  %more.depths = icmp ult i64 %l.next, %k
  br i1 %more.depths, label %depth, label %next
""")

#: A tile of c to where it lies across, or from there.
_ACROSS = Template("""
define void @across(ptr noalias %to, i64 %to_row, i64 %to_col, ptr noalias %from, i64 %from_row, i64 %from_col,
                    i64 %rows, i64 %columns) noinline {
entry:
  br label %column
column:
  %j = phi i64 [ 0, %entry ], [ %j.next, %column.done ]
  %to.j.offset = mul i64 %j, %to_col
  %from.j.offset = mul i64 %j, %from_col
  %to.j = getelementptr $type, ptr %to, i64 %to.j.offset
  %from.j = getelementptr $type, ptr %from, i64 %from.j.offset
  br label %element
element:
  %i = phi i64 [ 0, %column ], [ %i.next, %element ]
  %to.offset = mul i64 %i, %to_row
  %from.offset = mul i64 %i, %from_row
  %to.at = getelementptr $type, ptr %to.j, i64 %to.offset
  %from.at = getelementptr $type, ptr %from.j, i64 %from.offset
  %x = load $type, ptr %from.at
  store $type %x, ptr %to.at
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %rows
  br i1 %more, label %element, label %column.done
column.done:
  %j.next = add i64 %j, 1
  %more.columns = icmp ult i64 %j.next, %columns
  br i1 %more.columns, label %column, label %done
done:
  ret void
}
""")


def product_ir(tile: Tile) -> str:
    """The module of `product` and `parts`."""
    words = _words(tile)
    end = "  call void @free(ptr %block)\n"
    step = step_ir("product", tile.type, _BODY.substitute(words), _MEMORY.substitute(words), end)
    return "".join((_TABLE, _BLOCK, pack_rows_ir(tile), step, DECLARED))


def part_ir(tile: Tile, part: str) -> str:
    """The module of one of `PARTS`."""
    match part:
        case "pack_columns":
            return pack_columns_ir(tile) + DECLARED
        case "pack_across":
            return pack_across_ir(tile)
        case "across":
            return _ACROSS.substitute(_words(tile))
        case _:
            return tile_ir(tile, PARTS.index(part) + 1) + DECLARED


def parts_of(tile: Tile, n: int, b_col: int, c_col: int, is_block: bool) -> tuple[str, ...]:
    """The parts that a product of n columns calls, for tiles of c that begin at multiples of two vectors."""
    rest = n % (2 * tile.lanes)
    is_called = (0 < rest <= tile.lanes, n > tile.lanes, b_col != 1, is_block, c_col != 1)
    return tuple([part for part, called in zip(PARTS, is_called, strict=True) if called])


def filled_table(parts: Collection[str]) -> tuple[str, str]:
    """The table as `product_ir` writes it, and with these parts of the same module in it."""
    places = ", ".join([f"ptr @{part}" if part in parts else "ptr null" for part in PARTS])
    kind = f"@parts.table = internal global [{len(PARTS)} x ptr] "
    return kind + _EMPTY, f"{kind}[{places}]"


def _words(tile: Tile) -> dict[str, object]:
    width = 2 * tile.lanes
    return dict(
        type=tile.type, size=tile.size, lanes=tile.lanes, FEW=FEW, ROWS=tile.rows, WIDTH=width, DEPTH=tile.depth,
        PANEL=tile.depth * width, CORNER=tile.rows * width,
    )  # fmt: skip
