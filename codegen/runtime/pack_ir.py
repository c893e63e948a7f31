"""The copying that matrix products need (`product_ir`), as LLVM IR text.

    copy            rows that end within a vector, to a corner and back        pack    rows of one or two whole vectors
    pack_columns    columns, whose elements lie one after the other, to rows: 8 x 8 of them at a time
    pack_across     what lies side by side of a, a tile's rows of it, one after the other

A tenth of a product is easily spent here: what runs once for each row is optimised, other than what calls it.
256 x 784 x 10 f32, Zen 3: 36 GFLOP/s of OpenBLAS's 48 with all of it as it stands, 46 so.
"""

from __future__ import annotations

from .template import Template
from .tile_ir import Tile, turn_ir

__all__ = ["pack_across_ir", "pack_columns_ir", "pack_rows_ir"]

#: One or two vectors of each row, of which the last is whole or in part: `move` takes that to `%to.last`.
_COPY = """entry:
  %is.wide = icmp ugt i64 %columns, $lanes
  %last = select i1 %is.wide, i64 $lanes, i64 0
$start
  br label %row
row:
  %i = phi i64 [ 0, %entry ], [ %i.next, %row.last ]
  %from.at = phi ptr [ %from, %entry ], [ %from.next, %row.last ]
  %to.at = phi ptr [ %to, %entry ], [ %to.next, %row.last ]
  br i1 %is.wide, label %row.first, label %row.last
row.first:
  %first = load $vector, ptr %from.at, align $size
  store $vector %first, ptr %to.at, align $size
  br label %row.last
row.last:
  %from.last = getelementptr $type, ptr %from.at, i64 %last
  %to.last = getelementptr $type, ptr %to.at, i64 %last
$move
  %from.next = getelementptr $type, ptr %from.at, i64 %from_row
  %to.next = getelementptr $type, ptr %to.at, i64 %to_row
  %i.next = add i64 %i, 1
  %more.rows = icmp ult i64 %i.next, %rows
  br i1 %more.rows, label %row, label %done
done:
  ret void
"""
_MASK = """  %left = sub i64 %columns, %last
  %left32 = trunc i64 %left to i32
  %left.one = insertelement <$lanes x i32> poison, i32 %left32, i64 0
  %left.all = shufflevector <$lanes x i32> %left.one, <$lanes x i32> poison, <$lanes x i32> zeroinitializer
  %mask = icmp ugt <$lanes x i32> %left.all, <$numbers>"""
_MOVE_MASKED = """
  %x = call $vector @llvm.masked.load.v$lanes$dtype.p0(ptr %from.last, i32 $size, <$lanes x i1> %mask, $vector poison)
  call void @llvm.masked.store.v$lanes$dtype.p0($vector %x, ptr %to.last, i32 $size, <$lanes x i1> %mask)"""
_MOVE_WHOLE = """
  %x = load $vector, ptr %from.last, align $size
  store $vector %x, ptr %to.last, align $size"""

_ROWS = Template("""
; Copies `rows` rows of `columns` elements; with what is left of a vector, nothing beside them is read or written.
define internal void @copy(ptr %to, i64 %to_row, ptr %from, i64 %from_row, i64 %rows, i64 %columns) noinline {
$masked}

; The same for `columns` that are one or two vectors.
define internal void @pack(ptr %to, i64 %to_row, ptr %from, i64 %from_row, i64 %rows, i64 %columns) noinline {
$whole}
declare $vector @llvm.masked.load.v$lanes$dtype.p0(ptr, i32, <$lanes x i1>, $vector)
declare void @llvm.masked.store.v$lanes$dtype.p0($vector, ptr, i32, <$lanes x i1>)
""")

_COLUMNS = Template("""
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

_ACROSS = Template("""
; Packs `rows` rows: of each tile's rows element l, then l + 1, up to `most`; of the last tile, what rows there are.
define void @pack_across(ptr %to, i64 %most, ptr %from, i64 %from_col, i64 %rows, i64 %depths) {
entry:
  %to.step = mul i64 %most, $ROWS
  br label %depth
depth:
  %l = phi i64 [ 0, %entry ], [ %l.next, %depth.done ]
  %from.l = phi ptr [ %from, %entry ], [ %from.l.next, %depth.done ]
  %to.l = phi ptr [ %to, %entry ], [ %to.l.next, %depth.done ]
  br label %look
look:
  %i = phi i64 [ 0, %depth ], [ %i.next, %whole ]
  %from.at = phi ptr [ %from.l, %depth ], [ %from.next, %whole ]
  %to.at = phi ptr [ %to.l, %depth ], [ %to.next, %whole ]
  %left = sub i64 %rows, %i
  %is.whole = icmp uge i64 %left, $ROWS
  br i1 %is.whole, label %whole, label %rest
whole:
  %x = load <$ROWS x $type>, ptr %from.at, align $size
  store <$ROWS x $type> %x, ptr %to.at, align $size
  %i.next = add i64 %i, $ROWS
  %from.next = getelementptr $type, ptr %from.at, i64 $ROWS
  %to.next = getelementptr $type, ptr %to.at, i64 %to.step
  br label %look
rest:
  %r = phi i64 [ 0, %look ], [ %r.next, %one ]
  %has.rest = icmp ult i64 %r, %left
  br i1 %has.rest, label %one, label %depth.done
one:
  %from.r = getelementptr $type, ptr %from.at, i64 %r
  %to.r = getelementptr $type, ptr %to.at, i64 %r
  %y = load $type, ptr %from.r
  store $type %y, ptr %to.r
  %r.next = add i64 %r, 1
  br label %rest
depth.done:
  %from.l.next = getelementptr $type, ptr %from.l, i64 %from_col
  %to.l.next = getelementptr $type, ptr %to.l, i64 $ROWS
  %l.next = add i64 %l, 1
  %more = icmp ult i64 %l.next, %depths
  br i1 %more, label %depth, label %done
done:
  ret void
}
""")


def pack_rows_ir(tile: Tile) -> str:
    """`copy` and `pack`."""
    copies = {
        "masked": _COPY.replace("$start", _MASK).replace("$move", _MOVE_MASKED),
        "whole": _COPY.replace("$start\n", "").replace("$move", _MOVE_WHOLE),
    }
    return Template(_ROWS.safe_substitute(copies)).substitute(_words(tile))


def pack_columns_ir(tile: Tile) -> str:
    """`pack_columns`."""
    return turn_ir(tile) + _COLUMNS.substitute(_words(tile))


def pack_across_ir(tile: Tile) -> str:
    """`pack_across`."""
    return _ACROSS.substitute(_words(tile))


def _words(tile: Tile) -> dict[str, object]:
    return dict(
        type=tile.type, dtype=tile.dtype, size=tile.size, vector=tile.vector, lanes=tile.lanes, ROWS=tile.rows,
        numbers=", ".join([f"i32 {lane}" for lane in range(tile.lanes)]),
    )  # fmt: skip
