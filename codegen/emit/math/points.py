"""Tables in memory of points at which a function is known.

    erf    at multiples of 1/64, with its derivative
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..types import float_literal, vector_type
from .code import FunctionCode, Lane

#: From this number of lanes on floats fill half registers.
_NEIGHBOURS = 4
#: The fraction bits of the fixed-point integers by which points are computed, and 2 / sqrt(pi) as such an integer.
_BITS = 192
_SLOPE_AT_ZERO = (112837916709551257389615890312154517168810125865799771368817144 << _BITS) // 10**62


def erf_points(suffix: str, count: int) -> tuple[tuple[float, float], ...]:
    """erf and its derivative at c = 0, 1/64, 2/64, ..., rounded to "f64" or "f32".

    Integers give all digits:  erf(c) = erf'(c) (c + 2 c**3 / 3 + 4 c**5 / (3 5) + ...).  The next derivative is the
    derivative at j/64 times exp(-(2j + 1) / 64**2), and the next such factor is this one times exp(-2 / 64**2).
    """
    number = np.float32 if suffix == "f32" else np.float64
    one, points = 1 << _BITS, []
    slope, factor, change, value = _SLOPE_AT_ZERO, _exp_of_minus(1), _exp_of_minus(2), 0.0
    for j in range(count):
        if value < 1.0:  # it stays 1 from there on
            total = term = slope * j // 64
            n = 1
            while term > total >> 80:
                n += 2
                term = term * j * j // (2048 * n)
                total += term
            value = float(number(total / one))
        points.append((value, float(number(slope / one))))
        slope, factor = slope * factor >> _BITS, factor * change >> _BITS
    return tuple(points)


def _exp_of_minus(count: int) -> int:
    """exp(-count / 64**2) as a fixed-point integer, with all its bits."""
    total = term = 1 << _BITS
    n = 0
    while term:
        n += 1
        term = term * count // (4096 * n)
        total += term if n % 2 == 0 else -term
    return total


def pair_at(k: FunctionCode, name: str, table: Sequence[tuple[float, float]], index: Lane) -> tuple[Lane, Lane]:
    """Both numbers of table[index], for an integer term whose lanes are all valid places.

    name    the name of the constant that holds the table

    Both numbers of a lane are loaded at once, which takes half of the loads of two gathers.
    """
    numbers = ", ".join([f"{k.float} {float_literal(v, single=not k.double)}" for pair in table for v in pair])
    k.declarations[name] = f"@{name} = private constant [{2 * len(table)} x {k.float}] [{numbers}], align 16"
    if k.double or k.lanes < _NEIGHBOURS:
        return _of_each_lane(k, name, index)
    return _of_neighbours(k, name, index)


def _of_each_lane(k: FunctionCode, name: str, index: Lane) -> tuple[Lane, Lane]:
    pair = vector_type(k.float, 2)
    loaded = []
    for lane in range(k.lanes):
        place = index.name
        if k.lanes > 1:
            place = k.append(f"extractelement {k.spelled(k.int)} {place}, i64 {lane}", k.int).name
        at = k.append(f"getelementptr {pair}, ptr @{name}, {k.int} {place}", "ptr")
        loaded.append(k.append(f"load {pair}, ptr {at.name}, align {8 * (1 + k.double)}", k.float))
    if k.lanes == 1:
        first, second = (k.append(f"extractelement {pair} {loaded[0].name}, i64 {j}", k.float) for j in (0, 1))
        return first, second
    neighbours = list(zip(loaded[::2], loaded[1::2], strict=True))
    first, second = (k.joined([k.shuffled(a, b, 2, range(j, 4, 2)) for a, b in neighbours], 2) for j in (0, 1))
    return first, second


def _of_neighbours(k: FunctionCode, name: str, index: Lane) -> tuple[Lane, Lane]:
    """`pair_at` for floats: places are extracted from the register by twos, and pairs are inserted as doubles."""
    half = k.lanes // 2
    twos, wide = vector_type("i64", half), vector_type("double", half)
    places = k.append(f"bitcast {k.spelled('i32')} {index.name} to {twos}", "i64").name
    loaded = []
    for two in range(half):
        both = k.append(f"extractelement {twos} {places}, i64 {two}", "i64").name
        for place in (f"and i64 {both}, 4294967295", f"lshr i64 {both}, 32"):
            at = k.append(f"getelementptr double, ptr @{name}, i64 {k.append(place, 'i64').name}", "ptr").name
            loaded.append(k.append(f"load double, ptr {at}, align 8", "double").name)
    # Lanes 0 1 4 5 ... and 2 3 6 7 ... go to separate registers: firsts and seconds then come apart within 16 bytes.
    floats = []
    for start in (0, 2):
        chosen = [loaded[j] for first in range(start, k.lanes, 4) for j in (first, first + 1)]
        doubles = "poison"
        for j, value in enumerate(chosen):
            doubles = k.append(f"insertelement {wide} {doubles}, double {value}, i64 {j}", "double").name
        floats.append(k.append(f"bitcast {wide} {doubles} to {k.spelled('float')}", "float"))
    parts = []
    for which in (0, 1):
        order = [v for at in range(0, k.lanes, 4) for v in (at, at + 2, k.lanes + at, k.lanes + at + 2)]
        parts.append(k.shuffled(floats[0], floats[1], k.lanes, [v + which for v in order]))
    return parts[0], parts[1]
