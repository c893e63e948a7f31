"""The innermost loops of matrix products as LLVM IR text: a few rows and columns of c, kept in registers.

    tile1, tile2    c[i, j] (+)= sum over l of a[i, l] * b[l, j], for `rows` rows and one or two vectors of columns
    turn            8 x 8 elements, transposed

A step of the loop loads one or two vectors of b's row l, and multiplies each by a[i, l] for every row i: the sums of
all rows stay in registers, and each element that is loaded is used often.  A processor that multiplies
vectors once or twice a cycle is kept busy by that (one thread, GFLOP/s, this / OpenBLAS 0.3.31, Zen 4 at a peak of
about 115 and 58):  f32  64^3 102 / 94, 256^3 115 / 104, 1024^3 103 / 103;  f64  52 / 51, 57 / 52, 51 / 52.  Of 120 x
256 x 16 f32, where all is near, Zen 3 does 95 of some 98; with far matrices packing takes a tenth, of OpenBLAS as well.

Elements are added in the order of l, from zero on in each panel, and panels in their order, whichever tile they are
in: how a product is cut up never shows in its bits, and a long sum errs like its panels (logistic regression
256 x 784 x 10 f32: the gradient's largest error 4.9e-7 of the largest element, with one running total 7.4e-7).
"""

from __future__ import annotations

from ..emit.target import Target
from ..records import record

__all__ = ["Tile", "tile_ir", "turn_ir"]


@record(frozen=True)
class Tile:
    """The shape of a tile: `rows` rows, and one or two vectors of `lanes` elements.

    type, size    LLVM's name of the elements, and their bytes
    depth         rows of b in a panel, at most
    """

    dtype: str
    type: str
    size: int
    rows: int
    lanes: int
    depth: int

    @staticmethod
    def of(dtype: str, features: str) -> Tile:
        """The tile for this processor, which has 32 vector registers (AVX-512, ARM) or 16: sums take half and more.

        A panel takes 20 KB of 32 in the cache nearest, or all of them where registers are long.
        """
        target = Target.of(features)
        has_many = target.vector_bytes == 64 or "+neon" in features.split(",")
        type_, size = {"f32": ("float", 4), "f64": ("double", 8)}[dtype]
        rows, depth = (8, 256) if has_many else (6, 320)
        return Tile(dtype, type_, size, rows, target.vector_bytes // size, depth)

    @property
    def vector(self) -> str:
        """LLVM's name of a vector."""
        return f"<{self.lanes} x {self.type}>"


def tile_ir(tile: Tile, vectors: int) -> str:
    """The function `tile<vectors>`.

    a, a_row, a_col    a[i, l] is at a + i * a_row + l * a_col        k, at least 1, is how many l there are
    a_tile             but rows of another tile start at a + i * a_tile
    b, b_row           rows of b start at b + l * b_row
    c, c_row, rows     so many rows of c, tile after tile; what the last tile has more goes to `waste`
    more               whether the sums are added to what c holds
    """
    fma = f"declare {tile.vector} @llvm.fmuladd.v{tile.lanes}{tile.dtype}({', '.join([tile.vector] * 3)})"
    declared = [fma, "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"]
    return "\n".join([*_head(tile, vectors), *_sums(tile, vectors), *_end(tile, vectors), *declared]) + "\n"


def _head(tile: Tile, vectors: int) -> list[str]:
    """Where rows of a and places of c begin."""
    type_, columns = tile.type, range(vectors)
    lines = [
        f"define void @tile{vectors}(ptr %a.first, i64 %a_row, i64 %a_col, i64 %a_tile, ptr %b, i64 %b_row, i64 %k,",
        "                           ptr %c.first, i64 %c_row, i64 %all.rows, ptr %waste, i1 %more) noinline {",
        "start:",
        "  br label %entry",
        "entry:",
        "  %r = phi i64 [ 0, %start ], [ %r.next, %put ]",
        "  %a.r = mul i64 %r, %a_tile",
        f"  %a = getelementptr {type_}, ptr %a.first, i64 %a.r",
        "  %c.r = mul i64 %r, %c_row",
        f"  %c = getelementptr {type_}, ptr %c.first, i64 %c.r",
        "  %rows = sub i64 %all.rows, %r",
        "  %last = sub i64 %rows, 1",
    ]
    for i in range(tile.rows):
        lines += [
            # A row that is not there is the last one again.
            f"  %i{i} = call i64 @llvm.umin.i64(i64 %last, i64 {i})",
            f"  %a.offset{i} = mul i64 %i{i}, %a_row",
            f"  %a{i} = getelementptr {type_}, ptr %a, i64 %a.offset{i}",
            f"  %c.offset{i} = mul i64 %c_row, {i}",
            f"  %c.row{i} = getelementptr {type_}, ptr %c, i64 %c.offset{i}",
            f"  %is.there{i} = icmp ugt i64 %rows, {i}",
            f"  %c{i} = select i1 %is.there{i}, ptr %c.row{i}, ptr %waste",
            *[f"  %c{i}.{j} = getelementptr {type_}, ptr %c{i}, i64 {j * tile.lanes}" for j in columns],
            # Far away, and needed when the sums are complete: asked for now (512 x 512 x 512 f32: 3 %).
            f"  call void @llvm.prefetch.p0(ptr %c{i}, i32 1, i32 3, i32 1)",
        ]
    return lines


def _sums(tile: Tile, vectors: int) -> list[str]:
    """The loop over l: %new<i>.<j> are the sums of row i and vector j."""
    type_, vector, size, lanes = tile.type, tile.vector, tile.size, tile.lanes
    rows, columns = range(tile.rows), range(vectors)
    lines = [
        "  br label %loop",
        "loop:",
        "  %l = phi i64 [ 0, %entry ], [ %l.next, %loop ]",
        "  %a.at = phi i64 [ 0, %entry ], [ %a.next, %loop ]",
        "  %b.at = phi ptr [ %b, %entry ], [ %b.next, %loop ]",
        *[
            f"  %sum{i}.{j} = phi {vector} [ zeroinitializer, %entry ], [ %new{i}.{j}, %loop ]"
            for i in rows
            for j in columns
        ],
    ]
    for j in columns:
        lines += [
            f"  %b.at{j} = getelementptr {type_}, ptr %b.at, i64 {j * lanes}",
            f"  %b{j} = load {vector}, ptr %b.at{j}, align {size}",
        ]
    fma = f"call {vector} @llvm.fmuladd.v{lanes}{tile.dtype}"
    for i in rows:
        lines += [
            f"  %x.at{i} = getelementptr {type_}, ptr %a{i}, i64 %a.at",
            f"  %x{i} = load {type_}, ptr %x.at{i}",
            f"  %one{i} = insertelement {vector} poison, {type_} %x{i}, i64 0",
            f"  %all{i} = shufflevector {vector} %one{i}, {vector} poison, <{lanes} x i32> zeroinitializer",
            *[f"  %new{i}.{j} = {fma}({vector} %all{i}, {vector} %b{j}, {vector} %sum{i}.{j})" for j in columns],
        ]
    return [
        *lines,
        "  %a.next = add i64 %a.at, %a_col",
        f"  %b.next = getelementptr {type_}, ptr %b.at, i64 %b_row",
        "  %l.next = add i64 %l, 1",
        "  %is.more = icmp ult i64 %l.next, %k",
        "  br i1 %is.more, label %loop, label %done",
    ]


def _end(tile: Tile, vectors: int) -> list[str]:
    """The sums to c, or added to what it holds."""
    vector, size = tile.vector, tile.size
    every = [f"{i}.{j}" for i in range(tile.rows) for j in range(vectors)]
    return [
        "done:",
        "  br i1 %more, label %add, label %put",
        "add:",
        *[f"  %old{e} = load {vector}, ptr %c{e}, align {size}" for e in every],
        *[f"  %both{e} = fadd {vector} %old{e}, %new{e}" for e in every],
        "  br label %put",
        "put:",
        *[f"  %end{e} = phi {vector} [ %new{e}, %done ], [ %both{e}, %add ]" for e in every],
        *[f"  store {vector} %end{e}, ptr %c{e}, align {size}" for e in every],
        f"  %r.next = add i64 %r, {tile.rows}",
        "  %more.rows = icmp ult i64 %r.next, %all.rows",
        "  br i1 %more.rows, label %entry, label %finished",
        "finished:",
        "  ret void",
        "}",
    ]


def turn_ir(tile: Tile) -> str:
    """The function `turn`: to[j, i] = from[i, j] for i and j below 8, rows at a distance of `to_row` and `from_row`."""
    vector = f"<8 x {tile.type}>"
    lines = ["define internal void @turn(ptr %to, i64 %to_row, ptr %from, i64 %from_row) noinline {"]
    for i in range(8):
        lines += [
            f"  %from.offset{i} = mul i64 %from_row, {i}",
            f"  %from{i} = getelementptr {tile.type}, ptr %from, i64 %from.offset{i}",
            f"  %x0.{i} = load {vector}, ptr %from{i}, align {tile.size}",
        ]
    # Three times: of each square of 2 n x 2 n elements, two of the four quarters change places, n = 1, 2, 4.
    for stage, n in enumerate((1, 2, 4)):
        for upper in (i for i in range(8) if not i & n):
            lower = upper + n
            lefts = [p if not p & n else 8 + p - n for p in range(8)]
            for row, places in ((upper, lefts), (lower, [p + n for p in lefts])):
                mask = ", ".join([f"i32 {p}" for p in places])
                pair = f"{vector} %x{stage}.{upper}, {vector} %x{stage}.{lower}"
                lines.append(f"  %x{stage + 1}.{row} = shufflevector {pair}, <8 x i32> <{mask}>")
    for i in range(8):
        lines += [
            f"  %to.offset{i} = mul i64 %to_row, {i}",
            f"  %to{i} = getelementptr {tile.type}, ptr %to, i64 %to.offset{i}",
            f"  store {vector} %x3.{i}, ptr %to{i}, align {tile.size}",
        ]
    return "\n".join([*lines, "  ret void", "}"]) + "\n"
