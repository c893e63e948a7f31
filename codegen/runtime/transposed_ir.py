"""Squares of elements in registers, their rows made columns, as LLVM IR text."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["listed", "transposed"]


def listed(places: Sequence[int]) -> str:
    """Lanes, as shuffles take them."""
    return ", ".join([f"i32 {j}" for j in places])


def transposed(rows: Sequence[str], vector: str, to: str, parts: int = 1) -> list[str]:
    """Instructions that make `%to.j` of as many vectors as these have elements, of so many numbers each: its i-th
    element is the j-th of the i-th.

    By halves, quarters, ...: two rows a distance apart exchange the squares that are that far from the diagonal.
    """
    n = len(rows)
    lines, names, distance = [], list(rows), n // 2
    while distance:
        found = list(names)
        for i in [i for i in range(n) if not i & distance]:
            j = i + distance
            low = [k if not k & distance else n + k - distance for k in range(n)]
            high = [k + distance if not k & distance else n + k for k in range(n)]
            for place, picked in ((i, low), (j, high)):
                numbers = listed([parts * k + part for k in picked for part in range(parts)])
                found[place] = f"%{to}.{place}" if distance == 1 else f"%{to}.{distance}.{place}"
                pair = f"{vector} {names[i]}, {vector} {names[j]}"
                lines.append(f"  {found[place]} = shufflevector {pair}, <{parts * n} x i32> <{numbers}>")
        names, distance = found, distance // 2
    return lines
