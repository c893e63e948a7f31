"""A few keys in order in registers, as LLVM IR text.

    void @few.16(from, out, n, flip)     the elements of the n keys at `from`, in rising order of these
    key @median(from, apart)             the middle one of some vectors of keys, each `apart` behind the last
    key @about.median(from, apart)       one near the middle, sooner

`few` of 4, 8 and 16 vectors.  Each lane of all vectors is sorted; then pairs of lanes are merged, pairs of pairs, and
both halves; last, rows become columns.  The largest key fills the last vector up.
"""

from __future__ import annotations

from ..emit.types import steps
from .compare_ir import Lines, merged_pairs, sorted_pairs
from .sort_key_ir import Key
from .template import Template

__all__ = ["LARGEST", "SIZES", "few_ir"]

#: Vectors that are sorted in registers.
SIZES = (4, 8, 16)
LARGEST, SAMPLE = SIZES[-1], SIZES[0]

_FEW = Template("""
define internal void @few.$size(ptr %from, ptr %out, i64 %n, $bits %flip) noinline {
$all
  ret void
}
""")

_MEDIAN = Template("""
define internal $key @$name(ptr %from, i64 %apart) noinline {
$sample
  %middle = extractelement $V $first, i64 $half
  ret $key %middle
}
""")


def few_ir(key: Key) -> str:
    """These functions for such keys."""
    words = {"bits": key.bits, "key": key.type, "V": key.vector, "half": key.lanes // 2}
    few = [_FEW.substitute(words, size=size, all=_all(key, size)) for size in SIZES]
    medians = (("median", SAMPLE, lambda lines, rows: _sorted(lines, rows)[0]), ("about.median", 3, _middle))
    for name, size, found in medians:
        lines, rows = Lines(key.type, key.lanes), []
        for j in range(size):
            place = lines.value(f"mul i64 %apart, {j}")
            at = lines.value(f"getelementptr {key.type}, ptr %from, i64 {place}")
            rows.append(lines.value(f"load {lines.vector}, ptr {at}, align {key.bytes}"))
        first = found(lines, rows)
        few.append(_MEDIAN.substitute(words, name=name, first=first, sample="\n".join(lines.text)))
    return "".join(few)


def _middle(lines: Lines, rows: list[str]) -> str:
    """Of three vectors the middle one of each lane; of these that of a lane and two others, by thirds of the vector."""
    for _ in range(2):
        a, b, c = rows
        low, high = lines.both(a, b)
        middle = lines.both(low, lines.both(high, c)[0])[1]
        third = lines.lanes // 3
        rows = [middle] + [
            lines.shuffled(middle, "poison", [(lane + turn) % lines.lanes for lane in range(lines.lanes)])
            for turn in (third, 2 * third)
        ]
    return middle


def _all(key: Key, size: int) -> str:
    """All of at most `size` vectors read, sorted, and put."""
    lines = Lines(key.type, key.lanes)
    lanes, vector, masked = key.lanes, key.vector, f"<{key.lanes} x i1>"
    lines.text += ["  %count = trunc i64 %n to i32", key.in_all_lanes("end", "i32", "%count")]
    lines.text.append(key.in_all_lanes("flips", key.bits, "%flip"))
    masks, rows = [], []
    for j in range(size):
        numbers = lines.value(f"add <{lanes} x i32> {steps('i32', lanes)}, splat (i32 {j * lanes})")
        masks.append(lines.value(f"icmp ult <{lanes} x i32> {numbers}, %end"))
        at = lines.value(f"getelementptr {key.type}, ptr %from, i64 {j * lanes}")
        arguments = f"ptr {at}, i32 {key.bytes}, {masked} {masks[-1]}, {vector} splat ({key.type} {key.largest})"
        rows.append(lines.value(f"call {vector} @llvm.masked.load.{key.named}.p0({arguments})"))
    for j, (row, mask) in enumerate(zip(_by_columns(lines, _sorted(lines, rows)), masks, strict=True)):
        at = lines.value(f"getelementptr {key.type}, ptr %out, i64 {j * lanes}")
        lines.text.append(key.back(row, "%flips", lanes, f".{j}"))
        arguments = f"<{lanes} x {key.bits}> %bits.{j}, ptr {at}, i32 {key.bytes}, {masked} {mask}"
        lines.text.append(f"  call void @llvm.masked.store.v{lanes}{key.bits}.p0({arguments})")
    return "\n".join(lines.text)


def _sorted(lines: Lines, rows: list[str]) -> list[str]:
    """All words of these vectors in order, that of lane 0 first."""
    rows, n = list(rows), len(rows)
    for a, b in sorted_pairs(n):
        rows[a], rows[b] = lines.both(rows[a], rows[b])
    for level in range(1, lines.lanes.bit_length()):
        bits = (1 << level) - 1
        for a in range(n // 2):
            rows[a], rows[n - 1 - a] = lines.across(rows[a], rows[n - 1 - a], bits)
        for a, b in merged_pairs(n):
            rows[a], rows[b] = lines.both(rows[a], rows[b])
    return rows


def _by_columns(lines: Lines, rows: list[str]) -> list[str]:
    """The lanes of these vectors, one behind the other: lanes of the first half of them between those of the second,
    as often as it takes."""
    half, lanes = len(rows) // 2, lines.lanes
    for _ in range(len(rows).bit_length() - 1):
        turns = [[lane // 2 + lanes * (lane % 2) for lane in range(k, k + lanes)] for k in (0, lanes)]
        rows = [lines.shuffled(rows[j], rows[j + half], places) for j in range(half) for places in turns]
    return rows
