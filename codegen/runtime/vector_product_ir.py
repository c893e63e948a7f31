"""Products of a vector and a matrix as LLVM IR text: steps like those of `product_ir`, with m = 1 and a packed.

    rows    c += a[l] * b[l]       for b_col = 1: along rows of b and c, of eight rows at once
    dots    c[j] = a . b[j]        for b_row = 1: along the sum, for four columns at once
    dot     c = a . b              the same for n = 1

They are bound by memory: every element of b is used once, so there is nothing to keep in registers but sums.
What is left of a vector is loaded under a mask.
"""

from __future__ import annotations

from collections.abc import Iterable

from .product_ir import DECLARED, step_ir
from .tile_ir import Tile

__all__ = ["vector_product_ir"]

#: Rows that `rows` adds at once.  With four, loads and stores of c are a third of all.
ROWS = 8

#: Columns that `dots` sums at once, which share the loads of a; and vectors of each.
COLUMNS, STEPS = 4, 2

#: Vectors at once where there is one column only.
STEPS_ALONE = 4


def vector_product_ir(tile: Tile, name: str) -> str:
    """The module of `rows`, `dots` or `dot`; of the tile, what vectors there are counts."""
    lanes, vector, type_, dtype = tile.lanes, tile.vector, tile.type, tile.dtype
    bits = f"<{lanes} x i1>"
    declared = (
        f"declare {vector} @llvm.fmuladd.v{lanes}{dtype}({vector}, {vector}, {vector})\n"
        f"declare {vector} @llvm.masked.load.v{lanes}{dtype}.p0(ptr, i32, {bits}, {vector})\n"
        f"declare void @llvm.masked.store.v{lanes}{dtype}.p0({vector}, ptr, i32, {bits})\n"
        f"declare {type_} @llvm.vector.reduce.fadd.v{lanes}{dtype}({type_}, {vector})\n"
    )
    match name:
        case "rows":
            functions, body = _add(tile, ROWS) + _add(tile, 1), _rows_body(type_)
        case "dots":
            functions, body = _dots(tile, COLUMNS, STEPS), _dots_body(type_)
        case _:
            functions, body = _dots(tile, 1, STEPS_ALONE), _DOT_BODY
    return "".join((functions, step_ir(name, type_, body), declared, DECLARED))


# ------------------------------------------------------------ along rows


def _add(tile: Tile, rows: int) -> str:
    """c[0..n) = or += a[0] * b[0] + ... of so many rows, for n at least 1."""
    vector, type_, size = tile.vector, tile.type, tile.size
    lines = [
        f"define internal void @add{rows}(ptr %c, ptr %a, ptr %b, i64 %b_row, i64 %n, i1 %more) noinline {{",
        "entry:",
        f"  %whole = and i64 %n, -{tile.lanes}",
    ]
    for i in range(rows):
        lines += [
            f"  %a{i} = getelementptr {type_}, ptr %a, i64 {i}",
            f"  %x{i} = load {type_}, ptr %a{i}",
            *_splat(tile, f"x{i}"),
            f"  %b.offset{i} = mul i64 %b_row, {i}",
            f"  %b{i} = getelementptr {type_}, ptr %b, i64 %b.offset{i}",
        ]

    def vectors(name: str, load: str) -> Iterable[str]:
        """The new c at %j in %c<name><rows>; `load` is a load without its pointer."""
        yield f"  %c.at{name} = getelementptr {type_}, ptr %c, i64 %j{name}"
        yield f"  %c.old{name} = {load.replace('PTR', f'%c.at{name}')}"
        yield f"  %c{name}0 = select i1 %more, {vector} %c.old{name}, {vector} zeroinitializer"
        total = f"%c{name}0" if rows == 1 else "zeroinitializer"
        for i in range(rows):
            yield f"  %b.at{name}{i} = getelementptr {type_}, ptr %b{i}, i64 %j{name}"
            yield f"  %y{name}{i} = {load.replace('PTR', f'%b.at{name}{i}')}"
            found = f"%c{name}1" if rows == 1 else f"%sum{name}{i}"
            yield f"  {found} = {_fma(tile)}({vector} %x{i}.all, {vector} %y{name}{i}, {vector} {total})"
            total = found
        if rows > 1:  # rounded as often as there are eights of rows, not rows
            yield f"  %c{name}{rows} = fadd {vector} %c{name}0, {total}"

    lines += [
        "  br label %look",
        "look:",
        "  %j = phi i64 [ 0, %entry ], [ %j.next, %one ]",
        "  %has.vector = icmp ult i64 %j, %whole",
        "  br i1 %has.vector, label %one, label %rest",
        "one:",
        *vectors("", f"load {vector}, ptr PTR, align {size}"),
        f"  store {vector} %c{rows}, ptr %c.at, align {size}",
        f"  %j.next = add i64 %j, {tile.lanes}",
        "  br label %look",
        "rest:",
        "  %j.left = sub i64 %n, %whole",
        "  %has.rest = icmp ne i64 %j.left, 0",
        "  br i1 %has.rest, label %last, label %done",
        "last:",
        "  %j.r = add i64 %whole, 0",
        *_mask(tile, "j.left"),
        *vectors(".r", _masked_load(tile, "j.left")),
        f"  call void @llvm.masked.store.v{tile.lanes}{tile.dtype}.p0({vector} %c.r{rows}, ptr %c.at.r, i32 {size}, "
        f"<{tile.lanes} x i1> %j.left.mask)",
        "  br label %done",
        "done:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _rows_body(type_: str) -> str:
    return f"""
  %whole.rows = and i64 %k, -{ROWS}
  br label %many
many:
  %l = phi i64 [ 0, %place ], [ %l.next, %add.many ]
  %has.many = icmp ult i64 %l, %whole.rows
  br i1 %has.many, label %add.many, label %single
add.many:
  %a.l = getelementptr {type_}, ptr %a, i64 %l
  %b.l.offset = mul i64 %l, %b_row
  %b.l = getelementptr {type_}, ptr %b, i64 %b.l.offset
  %is.more = icmp ne i64 %l, 0
  call void @add{ROWS}(ptr %c, ptr %a.l, ptr %b.l, i64 %b_row, i64 %columns, i1 %is.more)
  %l.next = add i64 %l, {ROWS}
  br label %many
single:
  %r = phi i64 [ %whole.rows, %many ], [ %r.next, %add.single ]
  %has.single = icmp ult i64 %r, %k
  br i1 %has.single, label %add.single, label %next
add.single:
  %a.r = getelementptr {type_}, ptr %a, i64 %r
  %b.r.offset = mul i64 %r, %b_row
  %b.r = getelementptr {type_}, ptr %b, i64 %b.r.offset
  %is.more.r = icmp ne i64 %r, 0
  call void @add1(ptr %c, ptr %a.r, ptr %b.r, i64 %b_row, i64 %columns, i1 %is.more.r)
  %r.next = add i64 %r, 1
  br label %single
"""


# ------------------------------------------------------------ along sums


def _dots(tile: Tile, columns: int, steps: int) -> str:
    """c[j] = a . b[j] for so many columns, `steps` vectors of each at once; from `count` on they are the last again."""
    type_ = tile.type
    lines = [
        f"define internal void @dots{columns}(ptr %c, ptr %a, ptr %b, i64 %b_col, i64 %k, i64 %count) noinline {{",
        "entry:",
        f"  %whole = and i64 %k, -{steps * tile.lanes}",
        "  %last = sub i64 %count, 1",
    ]
    for j in range(columns):
        lines += [
            f"  %j{j} = call i64 @llvm.umin.i64(i64 %last, i64 {j})",
            f"  %b.offset{j} = mul i64 %j{j}, %b_col",
            f"  %b{j} = getelementptr {type_}, ptr %b, i64 %b.offset{j}",
            f"  %c{j} = getelementptr {type_}, ptr %c, i64 %j{j}",
        ]
    lines += [*_dots_of_steps(tile, columns, steps), *_dots_of_rest(tile, columns), "done:"]
    for j in range(columns):
        lines += _dot_summed(tile, j, steps)
    return "\n".join([*lines, "  ret void", "}"]) + "\n"


def _dots_of_steps(tile: Tile, columns: int, steps: int) -> list[str]:
    """The loop over whole steps: vector u of column j is added to %s<j>.<u>."""
    vector, type_, size, lanes = tile.vector, tile.type, tile.size, tile.lanes
    every = [(j, u) for j in range(columns) for u in range(steps)]
    lines = [
        "  br label %look",
        "look:",
        "  %l = phi i64 [ 0, %entry ], [ %l.next, %one ]",
        *[f"  %s{j}.{u} = phi {vector} [ zeroinitializer, %entry ], [ %n{j}.{u}, %one ]" for j, u in every],
        "  %has.vectors = icmp ult i64 %l, %whole",
        "  br i1 %has.vectors, label %one, label %rest",
        "one:",
        f"  %a.l = getelementptr {type_}, ptr %a, i64 %l",
    ]
    for u in range(steps):
        lines += [
            f"  %a.at{u} = getelementptr {type_}, ptr %a.l, i64 {u * lanes}",
            f"  %x{u} = load {vector}, ptr %a.at{u}, align {size}",
        ]
    for j, u in every:
        lines += [
            f"  %b.l{j}.{u} = getelementptr {type_}, ptr %b{j}, i64 %l",
            f"  %b.at{j}.{u} = getelementptr {type_}, ptr %b.l{j}.{u}, i64 {u * lanes}",
            f"  %y{j}.{u} = load {vector}, ptr %b.at{j}.{u}, align {size}",
            f"  %n{j}.{u} = {_fma(tile)}({vector} %x{u}, {vector} %y{j}.{u}, {vector} %s{j}.{u})",
        ]
    return [*lines, f"  %l.next = add i64 %l, {steps * lanes}", "  br label %look"]


def _dots_of_rest(tile: Tile, columns: int) -> list[str]:
    """The loop over what is left of k, a vector at a time, the last one in part: %t<j> begins as %s<j>.0."""
    vector, type_ = tile.vector, tile.type
    lines = [
        "rest:",
        "  %r = phi i64 [ %whole, %look ], [ %r.next, %last.one ]",
        *[f"  %t{j} = phi {vector} [ %s{j}.0, %look ], [ %t.next{j}, %last.one ]" for j in range(columns)],
        "  %has.rest = icmp ult i64 %r, %k",
        "  br i1 %has.rest, label %last.one, label %done",
        "last.one:",
        "  %left = sub i64 %k, %r",
        *_mask(tile, "left"),
        f"  %a.r = getelementptr {type_}, ptr %a, i64 %r",
        f"  %x.r = {_masked_load(tile, 'left').replace('PTR', '%a.r')}",
    ]
    for j in range(columns):
        lines += [
            f"  %b.r{j} = getelementptr {type_}, ptr %b{j}, i64 %r",
            f"  %y.r{j} = {_masked_load(tile, 'left').replace('PTR', f'%b.r{j}')}",
            f"  %t.next{j} = {_fma(tile)}({vector} %x.r, {vector} %y.r{j}, {vector} %t{j})",
        ]
    return [*lines, f"  %r.next = add i64 %r, {tile.lanes}", "  br label %rest"]


def _dot_summed(tile: Tile, j: int, steps: int) -> list[str]:
    """The sums of column j added up, to its place."""
    vector, type_ = tile.vector, tile.type
    reduced = f"call reassoc {type_} @llvm.vector.reduce.fadd.v{tile.lanes}{tile.dtype}"
    return [
        f"  %u{j}.0 = fadd {vector} %t{j}, zeroinitializer",
        *[f"  %u{j}.{u} = fadd {vector} %u{j}.{u - 1}, %s{j}.{u}" for u in range(1, steps)],
        f"  %sum{j} = {reduced}({type_} 0.0, {vector} %u{j}.{steps - 1})",
        f"  store {type_} %sum{j}, ptr %c{j}",
    ]


_DOT_BODY = """
  call void @dots1(ptr %c, ptr %a, ptr %b, i64 %b_col, i64 %k, i64 1)
  br label %next
"""


def _dots_body(type_: str) -> str:
    return f"""
  br label %many
many:
  %j = phi i64 [ 0, %place ], [ %j.next, %many ]
  %j.left = sub i64 %columns, %j
  %b.j.offset = mul i64 %j, %b_col
  %b.j = getelementptr {type_}, ptr %b, i64 %b.j.offset
  %c.j = getelementptr {type_}, ptr %c, i64 %j
  call void @dots{COLUMNS}(ptr %c.j, ptr %a, ptr %b.j, i64 %b_col, i64 %k, i64 %j.left)
  %j.next = add i64 %j, {COLUMNS}
  %more.columns = icmp ult i64 %j.next, %columns
  br i1 %more.columns, label %many, label %next
"""


# ------------------------------------------------------------ a line or two


def _fma(tile: Tile) -> str:
    return f"call {tile.vector} @llvm.fmuladd.v{tile.lanes}{tile.dtype}"


def _splat(tile: Tile, name: str) -> list[str]:
    """%name in every lane of %name.all."""
    vector, lanes = tile.vector, tile.lanes
    return [
        f"  %{name}.one = insertelement {vector} poison, {tile.type} %{name}, i64 0",
        f"  %{name}.all = shufflevector {vector} %{name}.one, {vector} poison, <{lanes} x i32> zeroinitializer",
    ]


def _mask(tile: Tile, name: str) -> list[str]:
    """%name.mask: the first %name lanes."""
    lanes, numbers = tile.lanes, ", ".join([f"i64 {lane}" for lane in range(tile.lanes)])
    return [
        f"  %{name}.one = insertelement <{lanes} x i64> poison, i64 %{name}, i64 0",
        f"  %{name}.all = shufflevector <{lanes} x i64> %{name}.one, <{lanes} x i64> poison, "
        f"<{lanes} x i32> zeroinitializer",
        f"  %{name}.mask = icmp ugt <{lanes} x i64> %{name}.all, <{numbers}>",
    ]


def _masked_load(tile: Tile, name: str) -> str:
    """A load from PTR of the lanes of %name.mask, zeros in others."""
    lanes, vector = tile.lanes, tile.vector
    return (
        f"call {vector} @llvm.masked.load.v{lanes}{tile.dtype}.p0(ptr PTR, i32 {tile.size}, "
        f"<{lanes} x i1> %{name}.mask, {vector} zeroinitializer)"
    )
