"""Matrix products as LLVM IR text.

Each function is a step like any kernel, `i32 f(ptr pointers, ptr extents)`, with pointers (a, b, c) and `EXTENTS`:
op(a)[i, l] lies at i * a_row + l * a_col and op(b)[l, j] at l * b_row + j * b_col; one of each pair of distances
is 1, and c is packed.  The products of a batch are cut into tiles of rows and columns, numbered through; a call does
those from `begin` to `end`, whole sums, so that threads may share them.

    for up to DEPTH rows l of b at a time                      what they add to c is added to what is there
      for one or two vectors of columns j                      packed into a panel that stays in the cache nearest
        for a few rows i:   tile1 or tile2 (`tile_ir`)

Tiles, and the packing of columns, are modules of their own, made when a product needs them (`parts_of`): `product`
finds their addresses in the table that `parts` returns, in the order of `PARTS`.

A panel is packed because rows of b are far from each other, or lie across, or end within a vector: then the panel is
filled up with zeros, and the tile of c, the corner, is made beside c and copied.  a is read where it is, for it
is read element by element.

What is not a part is `optnone`, which means: written as it should run.  Code is generated for it in a third of the time
(`product` and its parts 30 -> 23 ms, `vector_product_ir` 25 -> 19), and n x n x n products take as long, n = 2 to 256.
"""

from __future__ import annotations

from .template import Template
from .tile_ir import Tile, tile_ir, turn_ir

__all__ = ["DECLARED", "EXTENTS", "PARTS", "part_ir", "parts_of", "product_ir", "step_ir"]

#: What a product may call.
PARTS = ("tile1", "tile2", "pack_columns")

#: The extents, in order.
EXTENTS = (
    "m", "n", "k", "a_row", "a_col", "b_row", "b_col", "batch", "a_stride", "b_stride", "c_stride",
    "tile_rows", "tile_columns", "column_tiles", "tiles", "begin", "end",
)  # fmt: skip

#: A panel of two vectors has this many bytes, as most processors' first cache has or half of it.
PANEL_BYTES = 32768

#: Up to so many rows of c a panel is not worth packing.
FEW = 16

# The frame shared by all: for each tile the pointers %a %b %c, and its %rows and %columns.  BODY ends at `next`.
_STEP = Template("""
define i32 @$name(ptr %pointers, ptr %extents) noinline optnone {
entry:
$memory$loads
  br label %tile
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
  %c.row.start = mul i64 %i.first, %n
  %c.tile.start = add i64 %c.row.start, %j.first
  %c.offset = add i64 %c.start, %c.tile.start
  %c = getelementptr $type, ptr %c.first, i64 %c.offset
$body
next:
  %t.next = add i64 %t, 1
  br label %tile
done:
  ret i32 0
}
""")

#: What the module of a step declares.
DECLARED = "declare i64 @llvm.umin.i64(i64, i64)\ndeclare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n"


def step_ir(name: str, type_: str, body: str, memory: str = "") -> str:
    """A step on tiles, of which `body` does one and goes on to `next`.  `memory` is on the stack."""
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
    return _STEP.substitute(name=name, type=type_, memory=memory, loads="\n".join(lines), body=body)


#: The rows of one vector of columns after the other: `start` is done once a vector, `move` takes one to `%to.at`.
_COPY = """entry:
  br label %column
column:
  %j = phi i64 [ 0, %entry ], [ %j.next, %column.done ]
  %from.j = getelementptr $type, ptr %from, i64 %j
  %to.j = getelementptr $type, ptr %to, i64 %j
$start
  br label %row
row:
  %i = phi i64 [ 0, %column ], [ %i.next, %row ]
  %from.at = phi ptr [ %from.j, %column ], [ %from.next, %row ]
  %to.at = phi ptr [ %to.j, %column ], [ %to.next, %row ]
$move
  %from.next = getelementptr $type, ptr %from.at, i64 %from_row
  %to.next = getelementptr $type, ptr %to.at, i64 %to_row
  %i.next = add i64 %i, 1
  %more.rows = icmp ult i64 %i.next, %rows
  br i1 %more.rows, label %row, label %column.done
column.done:
  %j.next = add i64 %j, $lanes
  %more.columns = icmp ult i64 %j.next, %columns
  br i1 %more.columns, label %column, label %done
done:
  ret void
"""
_MASK = """
  %left = sub i64 %columns, %j
  %left32 = trunc i64 %left to i32
  %left.one = insertelement <$lanes x i32> poison, i32 %left32, i64 0
  %left.all = shufflevector <$lanes x i32> %left.one, <$lanes x i32> poison, <$lanes x i32> zeroinitializer
  %mask = icmp ugt <$lanes x i32> %left.all, <$numbers>"""
_MOVE_MASKED = """
  %x = call $vector @llvm.masked.load.v$lanes$dtype.p0(ptr %from.at, i32 $size, <$lanes x i1> %mask, $vector poison)
  call void @llvm.masked.store.v$lanes$dtype.p0($vector %x, ptr %to.at, i32 $size, <$lanes x i1> %mask)"""
_MOVE_WHOLE = """
  %x = load $vector, ptr %from.at, align $size
  store $vector %x, ptr %to.at, align $size"""

_PACKING = Template("""
; Copies `rows` rows of `columns` elements; with what is left of a vector, nothing beside them is read or written.
define internal void @copy(ptr %to, i64 %to_row, ptr %from, i64 %from_row, i64 %rows, i64 %columns) noinline optnone {
$masked}

; The same for `columns` that are one or two vectors.
define internal void @pack(ptr %to, i64 %to_row, ptr %from, i64 %from_row, i64 %rows, i64 %columns) noinline optnone {
$whole}
declare $vector @llvm.masked.load.v$lanes$dtype.p0(ptr, i32, <$lanes x i1>, $vector)
declare void @llvm.masked.store.v$lanes$dtype.p0($vector, ptr, i32, <$lanes x i1>)
""")

_PACKING_OF_COLUMNS = Template("""
; Packs columns, whose elements lie one after the other: 8 x 8 at a time, the rest one by one.
define void @pack_columns(ptr %to, i64 %width, ptr %from, i64 %from_column, i64 %rows, i64 %columns) {
entry:
  %whole.rows = and i64 %rows, -8
  br label %column
column:
  %j = phi i64 [ 0, %entry ], [ %j.next, %column.done ]
  %left = sub i64 %columns, %j
  %count = call i64 @llvm.umin.i64(i64 %left, i64 8)
  %is.whole = icmp eq i64 %count, 8
  %squares = select i1 %is.whole, i64 %whole.rows, i64 0
  %from.offset = mul i64 %j, %from_column
  %from.j = getelementptr $type, ptr %from, i64 %from.offset
  %to.j = getelementptr $type, ptr %to, i64 %j
  br label %square
square:
  %i = phi i64 [ 0, %column ], [ %i.next, %turn ]
  %has.square = icmp ult i64 %i, %squares
  br i1 %has.square, label %turn, label %rest
turn:
  %from.i = getelementptr $type, ptr %from.j, i64 %i
  %to.i.offset = mul i64 %i, %width
  %to.i = getelementptr $type, ptr %to.j, i64 %to.i.offset
  call void @turn(ptr %to.i, i64 %width, ptr %from.i, i64 %from_column)
  %i.next = add i64 %i, 8
  br label %square
rest:
  %r = phi i64 [ %squares, %square ], [ %r.next, %rest.done ]
  %has.rest = icmp ult i64 %r, %rows
  br i1 %has.rest, label %rest.row, label %column.done
rest.row:
  %from.r = getelementptr $type, ptr %from.j, i64 %r
  %to.r.offset = mul i64 %r, %width
  %to.r = getelementptr $type, ptr %to.j, i64 %to.r.offset
  br label %one
one:
  %c = phi i64 [ 0, %rest.row ], [ %c.next, %one ]
  %from.at = phi ptr [ %from.r, %rest.row ], [ %from.next, %one ]
  %to.at = getelementptr $type, ptr %to.r, i64 %c
  %x = load $type, ptr %from.at
  store $type %x, ptr %to.at
  %from.next = getelementptr $type, ptr %from.at, i64 %from_column
  %c.next = add i64 %c, 1
  %more = icmp ult i64 %c.next, %count
  br i1 %more, label %one, label %rest.done
rest.done:
  %r.next = add i64 %r, 1
  br label %rest
column.done:
  %j.next = add i64 %j, 8
  %more.columns = icmp ult i64 %j.next, %columns
  br i1 %more.columns, label %column, label %done
done:
  ret void
}
""")

_TABLE = f"""
@parts.table = internal global [{len(PARTS)} x ptr] zeroinitializer
define ptr @parts() noinline optnone {{
  ret ptr @parts.table
}}
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
  %depths = call i64 @llvm.umin.i64(i64 %l.left, i64 $DEPTH)
  %is.more = icmp ne i64 %l, 0
  %a.l.offset = mul i64 %l, %a_col
  %a.l = getelementptr $type, ptr %a, i64 %a.l.offset
  %b.l.offset = mul i64 %l, %b_row
  %b.l = getelementptr $type, ptr %b, i64 %b.l.offset
  br label %column
column:
  %j = phi i64 [ 0, %depth ], [ %j.next, %column.done ]
  %j.left = sub i64 %columns, %j
  %is.wide = icmp ugt i64 %j.left, $lanes
  %width = select i1 %is.wide, i64 $WIDTH, i64 $lanes
  %used = call i64 @llvm.umin.i64(i64 %j.left, i64 %width)
  %is.whole = icmp eq i64 %used, %width
  %b.j.offset = mul i64 %j, %b_col
  %b.j = getelementptr $type, ptr %b.l, i64 %b.j.offset
  %c.j = getelementptr $type, ptr %c, i64 %j
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
  %i = phi i64 [ 0, %column ], [ 0, %copy ], [ 0, %pack ], [ 0, %pack.columns ], [ %i.next, %row.done ]
  %b.panel = select i1 %stays, ptr %b.j, ptr %panel
  %b.step = select i1 %stays, i64 %b_row, i64 %width
  %i.left = sub i64 %rows, %i
  %count = call i64 @llvm.umin.i64(i64 %i.left, i64 $ROWS)
  %a.i.offset = mul i64 %i, %a_row
  %a.i = getelementptr $type, ptr %a.l, i64 %a.i.offset
  %c.i.offset = mul i64 %i, %n
  %c.i = getelementptr $type, ptr %c.j, i64 %c.i.offset
  %c.tile = select i1 %is.whole, ptr %c.i, ptr %corner
  %c.step = select i1 %is.whole, i64 %n, i64 %width
  %is.corner = xor i1 %is.whole, true
  %is.fetched = and i1 %is.corner, %is.more
  br i1 %is.fetched, label %fetch, label %multiply
fetch:
  call void @copy(ptr %corner, i64 %width, ptr %c.i, i64 %n, i64 %count, i64 %used)
  br label %multiply
multiply:
  br i1 %is.wide, label %wide, label %narrow
wide:
  %tile2 = load ptr, ptr getelementptr (ptr, ptr @parts.table, i64 1)
  call void %tile2(ptr %a.i, i64 %a_row, i64 %a_col, ptr %b.panel, i64 %b.step, i64 %depths,
                   ptr %c.tile, i64 %c.step, i64 %count, ptr %waste, i1 %is.more)
  br label %multiplied
narrow:
  %tile1 = load ptr, ptr @parts.table
  call void %tile1(ptr %a.i, i64 %a_row, i64 %a_col, ptr %b.panel, i64 %b.step, i64 %depths,
                   ptr %c.tile, i64 %c.step, i64 %count, ptr %waste, i1 %is.more)
  br label %multiplied
multiplied:
  br i1 %is.whole, label %row.done, label %put
put:
  call void @copy(ptr %c.i, i64 %n, ptr %corner, i64 %width, i64 %count, i64 %used)
  br label %row.done
row.done:
  %i.next = add i64 %i, $ROWS
  %more.rows = icmp ult i64 %i.next, %rows
  br i1 %more.rows, label %row, label %column.done
column.done:
  %j.next = add i64 %j, $WIDTH
  %more.columns = icmp ult i64 %j.next, %columns
  br i1 %more.columns, label %column, label %depth.done
depth.done:
  %l.next = add i64 %l, $DEPTH
  %more.depths = icmp ult i64 %l.next, %k
  br i1 %more.depths, label %depth, label %next
""")


def product_ir(tile: Tile) -> str:
    """The module of `product` and `parts`."""
    words = _words(tile)
    memory = (
        f"  %panel = alloca [{PANEL_BYTES} x i8], align 64\n"
        f"  %corner = alloca [{2 * tile.rows} x {tile.vector}], align 64\n"
        f"  %waste = alloca [2 x {tile.vector}], align 64\n"
    )
    step = step_ir("product", tile.type, _BODY.substitute(words), memory)
    copies = {
        "masked": _COPY.replace("$start", _MASK).replace("$move", _MOVE_MASKED),
        "whole": _COPY.replace("$start", "").replace("$move", _MOVE_WHOLE),
    }
    packing = Template(_PACKING.safe_substitute(copies)).substitute(words)
    return "".join((_TABLE, packing, step, DECLARED))


def part_ir(tile: Tile, part: str) -> str:
    """The module of one of `PARTS`."""
    if part == "pack_columns":
        return turn_ir(tile) + _PACKING_OF_COLUMNS.substitute(_words(tile)) + DECLARED
    words = _words(tile)
    fma = Template("declare $vector @llvm.fmuladd.v$lanes$dtype($vector, $vector, $vector)\n").substitute(words)
    return tile_ir(tile, PARTS.index(part) + 1) + fma + DECLARED


def parts_of(tile: Tile, n: int, b_col: int) -> tuple[str, ...]:
    """The parts that a product of n columns calls, for tiles of c that begin at multiples of two vectors."""
    rest = n % (2 * tile.lanes)
    is_called = (0 < rest <= tile.lanes, n > tile.lanes, b_col != 1)
    return tuple([part for part, called in zip(PARTS, is_called, strict=True) if called])


def _words(tile: Tile) -> dict[str, object]:
    return dict(
        type=tile.type, dtype=tile.dtype, size=tile.size, vector=tile.vector, lanes=tile.lanes,
        numbers=", ".join([f"i32 {lane}" for lane in range(tile.lanes)]),
        FEW=FEW, ROWS=tile.rows, WIDTH=2 * tile.lanes, DEPTH=PANEL_BYTES // (2 * tile.lanes * tile.size),
    )  # fmt: skip
