"""Tables of pairs in memory, for machines whose registers hold none."""

from __future__ import annotations

from collections.abc import Sequence

from ..types import float_literal
from .code import Code, Term

__all__ = ["pair_at"]

_PAIR = "<2 x double>"


def pair_at(k: Code, name: str, table: Sequence[tuple[float, float]], index: Term) -> tuple[Term, Term]:
    """Both doubles of table[index], for an i64 that is certainly one of its places.

    name    of the constant that holds the table

    A lane's two are loaded at once, which takes half of the loads of two gathers.
    """
    numbers = ", ".join([f"double {float_literal(v, single=False)}" for pair in table for v in pair])
    k.declarations[name] = f"@{name} = private constant [{2 * len(table)} x double] [{numbers}], align 16"
    loaded = []
    for lane in range(k.lanes):
        place = index.name
        if k.lanes > 1:
            place = k.append(f"extractelement {k.spelled('i64')} {place}, i64 {lane}", "i64").name
        at = k.append(f"getelementptr {_PAIR}, ptr @{name}, i64 {place}", "ptr")
        loaded.append(k.append(f"load {_PAIR}, ptr {at.name}, align 16", "double"))
    if k.lanes == 1:
        first, second = (k.append(f"extractelement {_PAIR} {loaded[0].name}, i64 {j}", "double") for j in (0, 1))
        return first, second
    neighbours = list(zip(loaded[::2], loaded[1::2], strict=True))
    first, second = (k.joined([k.shuffled(a, b, 2, range(j, 4, 2)) for a, b in neighbours], 2) for j in (0, 1))
    return first, second
