"""Export of a program for any sizes as one C function, whose first arguments are the sizes.

    i64 name(i64 n, ..., pointers, workspace)       runs the first variant below that accepts the sizes
    i64 name_workspace_bytes(i64 n, ...)            the bytes of workspace that this variant needs

    variant 0    planned for n = 10007, with a symbol for n: accepts all n for which planning gives this program
    variant 1    planned for n = 103, in the same manner; a later variant may be for n = 1 alone, which broadcasts
    ...          planned for sizes that none of these is for, until there are none among thousands that are tried

Every comparison of a symbol is a condition of the variant.  A variant first computes its conditions, with all numbers
that depend on the sizes (extents, places in the workspace); it runs its steps only if all conditions hold.

A program can also use a concrete number without a comparison (`range(n)`, `math.sqrt(n)`).  So it is recorded again for
sizes that are much larger and smaller, and the recordings must be equal except for formulas of the sizes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from ..ir import Graph
from ..kernel.mlir import print_module
from ..numbers import separate_numbers
from ..passes import optimize, plan
from ..program import BufferProgram
from ..records import NamedTuple
from ..symbols import (
    LEAST,
    Conditions,
    NotSymbolic,
    Symbol,
    SymbolicFloat,
    conditions_function,
    formula,
    numbers_function,
    symbol,
    watched,
)
from .data import SizedNumbers
from .pieces import KNOWN_SIZES, Exported, ExportWriter, NotExportable, called

#: The status of a call with sizes that no variant accepts.
BAD_SIZES = 16

#: The sizes for which a program is planned first: primes, so that they hardly equal an extent of the user's.
_FIRST_SIZES = (103, 131, 167, 199)
_LARGE_SIZES = (10007, 12011, 14009, 16033)

#: The most variants of one program.
_MOST_VARIANTS = 24

#: The largest size for which a variant with this constant size may be planned.
_LARGEST_CONSTANT_SIZE = 16

#: The factors, tried in order, between a size and the much larger and smaller sizes for which it is recorded again.
_FACTORS = (11, 7, 5, 3, 2)

#: The bound of the changes of a size that are tried to find another size that a variant accepts.
_TRIED_CHANGES = 130


class ExportedSizes(NamedTuple):
    """A program recorded for given sizes, some of which are symbols.

    hidden    values of its last inputs      results   a description of its results, equal for all sizes
    """

    graph: Graph
    hidden: Sequence[Any]
    results: tuple[Any, ...]


class Disagreement(Exception):
    """Raised if the recordings for two sizes differ in more than formulas of the sizes."""

    def __init__(self, one: Sequence[int], other: Sequence[int]) -> None:
        super().__init__(f"{one} and {other}")
        self.one, self.other = one, other


class _Variant(NamedTuple):
    """text        the variant's function, without its name    pointers   the function's parameters after the sizes
    numbers     the text of all numbers that it computes, without conditions, which may differ between recordings
    is_for      is_for(*sizes): True if it accepts them    recorded, program   for an example
    """

    text: str
    numbers: Hashable
    pointers: list[str]
    is_for: Callable[..., bool]
    recorded: ExportedSizes
    program: BufferProgram


def exported_sized(
    name: str, sizes: Sequence[str], record: Callable[[Sequence[int]], ExportedSizes]
) -> tuple[Exported, ExportedSizes]:
    """Export a program as the C function `int64_t name(sizes, pointers of arguments, of results, workspace)`.

    sizes    the names of the sizes
    record   records the program for sizes, some of which are symbols

    The returned recording is the one for the first sizes, with symbols in its avals.
    Raises Disagreement, NotExportable, and any error of `record` for the first sizes.
    """
    return _SizedWriter(name, sizes, record).exported()


class _SizedWriter:
    def __init__(self, name: str, sizes: Sequence[str], record: Callable[[Sequence[int]], ExportedSizes]) -> None:
        self.name, self.record = name, record
        # Kinds of nodes are cached with their symbols: the serial number keeps exports apart.
        serial = next(_serial)
        self.names = [f"e{serial}_{size}" for size in sizes]
        self.writer = ExportWriter(name)
        self.tried = tried_sizes(len(sizes))
        self.variants: list[_Variant] = []

    def exported(self) -> tuple[Exported, ExportedSizes]:
        """All variants in one object file, and the first recording."""
        count = len(self.names)
        first = self.new_variant(_FIRST_SIZES[:count], (False,) * count)
        self.variants.append(first)
        large = self.variant_for(_LARGE_SIZES[:count])
        if large is not None:
            self.variants.insert(0, large)
        for example in self.tried:
            if len(self.variants) < _MOST_VARIANTS and not self.is_for(example):
                variant = self.variant_for(example)
                self.variants += [variant] if variant is not None else []
        texts = [variant.text.replace("@VARIANT(", f"@{self.name}.w{k}(", 1) for k, variant in enumerate(self.variants)]
        public = [self.public(self.name, False), self.public(f"{self.name}_workspace_bytes", True)]
        names = (self.name, f"{self.name}_workspace_bytes")
        data, llvm, calls = self.writer.joined("\n".join([*_OVERFLOW, *texts, *public, ""]), names)
        sizes = [size for size in self.tried if self.is_for(size)]
        kernels = print_module(self.variants[0].program)
        return Exported(data, llvm, kernels, -1, calls, self.tried, sizes), first.recorded

    def is_for(self, sizes: Sequence[int]) -> bool:
        """True if some variant accepts these sizes."""
        return any([variant.is_for(*sizes) for variant in self.variants])

    def variant_for(self, example: tuple[int, ...]) -> _Variant | None:
        """A variant that accepts these sizes; None if no variant for them can be exported."""
        small = tuple([n < LEAST for n in example]), tuple([n <= _LARGEST_CONSTANT_SIZE for n in example])
        for are_known in dict.fromkeys(small):
            try:
                variant = self.new_variant(example, are_known)
            except Exception:  # these sizes are invalid for the program, for any reason; its first sizes were valid
                continue
            if self.has_results(variant, example):
                return variant
        return None

    def has_results(self, variant: _Variant, example: tuple[int, ...]) -> bool:
        """True if the results of a variant have the order, shapes and dtypes of those of the first one."""
        first = self.variants[:2][-1].recorded
        if variant.recorded.results != first.results:
            return False
        return all([
            a.aval.dtype == b.aval.dtype and len(a.aval.shape) == len(b.aval.shape)
            and all([formula(n) == formula(m)
                     or (type(n) is not Symbol and (n,) == numbers_function([m], self.names)(*example))
                     for n, m in zip(a.aval.shape, b.aval.shape, strict=True)])
            for a, b in zip(variant.recorded.graph.outputs, first.graph.outputs, strict=True)
        ])  # fmt: skip

    def new_variant(self, example: tuple[int, ...], are_known: tuple[bool, ...]) -> _Variant:
        """A variant for these sizes and all for which planning gives this program; `are_known` sizes are constants."""
        recorded, own = self.recorded(example, are_known)
        for other in _far(example, are_known, conditions_function(own, self.names)):
            if _text_of(self.recorded(other, are_known)[0]) != _text_of(recorded):
                raise Disagreement(example, other)
        variant = self.planned(recorded, own)
        if not variant.is_for(*example):
            raise NotExportable([("planning", KNOWN_SIZES)])
        if all(are_known):
            return variant
        near = next(_near(example, are_known, variant.is_for), None)
        if near is None or self.planned(*self.recorded(near, are_known)).numbers != variant.numbers:
            raise NotExportable([("planning", KNOWN_SIZES)])
        return variant

    def recorded(self, example: Sequence[int], are_known: Sequence[bool]) -> tuple[ExportedSizes, Conditions]:
        """The program recorded for these sizes, and the conditions on which the recording relied."""
        given = [n if k else symbol(name, n) for name, n, k in zip(self.names, example, are_known, strict=True)]
        with watched(with_equality=True) as conditions:
            found = self.record(given)
        for name, n, x in zip(self.names, example, given, strict=True):
            least, comparison, holds = (LEAST, ">=", True) if type(x) is Symbol else (n, "!=", False)
            conditions[f"{-least} + 1 * {name}", comparison, holds] = None
        return found, conditions

    def planned(self, found: ExportedSizes, own: Conditions) -> _Variant:
        """The variant for a recording with these conditions, not yet checked."""
        writer = self.writer
        numbers = SizedNumbers({name: f"%n{i}" for i, name in enumerate(self.names)})
        with watched() as conditions:
            conditions.update(own)
            try:
                program = plan.plan(optimize(found.graph))
                with writer.data.within(numbers):
                    described, inputs, outputs = writer.described(program, found.hidden)
            except NotSymbolic as error:
                raise NotExportable([("planning", f"{KNOWN_SIZES}: {error}")]) from None
        bytes_needed = numbers.operand(program.workspace_bytes)
        all_numbers = tuple(numbers.lines), described, bytes_needed
        fit = numbers.both(numbers.holds(conditions), numbers.fits())
        pointers, lines = called(described, inputs, outputs)
        text = "\n".join([
            f"define internal i64 @VARIANT({self.parameters(pointers)}, i1 %measures) {{",
            *[f"  {line}" for line in numbers.lines],
            f"  br i1 {fit}, label %fits, label %unfit",
            "unfit:", "  ret i64 -1",
            "fits:", "  br i1 %measures, label %measured, label %run",
            "measured:", f"  ret i64 {bytes_needed}",
            "run:", *lines, "}",
        ])  # fmt: skip
        return _Variant(text, all_numbers, pointers, conditions_function(conditions, self.names), found, program)

    def parameters(self, pointers: Sequence[str]) -> str:
        """The parameter list of a function of sizes and pointers, as LLVM IR."""
        return ", ".join([*[f"i64 %n{i}" for i in range(len(self.names))], *[f"ptr {p}" for p in pointers]])

    def public(self, name: str, measures: bool) -> str:
        """A public function, which runs the first variant that accepts the sizes, or returns the bytes it needs."""
        pointers = self.variants[0].pointers
        given = [f"i64 %n{i}" for i in range(len(self.names))]
        given += ["ptr null" if measures else f"ptr {p}" for p in pointers]
        lines = [f"define i64 @{name}({self.parameters([] if measures else pointers)}) {{"]
        for k in range(len(self.variants)):
            lines += [
                f"  %c{k} = call i64 @{self.name}.w{k}({', '.join(given)}, i1 {'true' if measures else 'false'})",
                f"  %is{k} = icmp sge i64 %c{k}, 0", f"  br i1 %is{k}, label %done{k}, label %next{k}",
                f"done{k}:", f"  ret i64 %c{k}", f"next{k}:",
            ]  # fmt: skip
        return "\n".join([*lines, f"  ret i64 {-1 if measures else BAD_SIZES}", "}"])


_serial = itertools.count()

_OVERFLOW = [f"declare {{ i64, i1 }} @llvm.s{op}.with.overflow.i64(i64, i64)" for op in ("add", "sub", "mul")]


def _text_of(found: ExportedSizes) -> Hashable:
    """A key that is equal for programs that differ only in the values of symbols."""
    hidden = [repr(x) if type(x) in (Symbol, SymbolicFloat) else np.asarray(x).tobytes() for x in found.hidden]
    return separate_numbers(found.graph).text, tuple(hidden), found.results


def _near(
    example: tuple[int, ...], are_known: Sequence[bool], is_for: Callable[..., bool]
) -> Iterator[tuple[int, ...]]:
    """Other sizes that the variant accepts, beginning with those close to the example."""
    for step in range(1, _TRIED_CHANGES):
        for moved in ([n + n // 32 + step for n in example], [n - step for n in example]):
            other = _with_known(example, are_known, moved)
            if min(other) > 0 and other != example and is_for(*other):
                yield other


def _far(example: tuple[int, ...], are_known: Sequence[bool], is_for: Callable[..., bool]) -> Iterator[tuple[int, ...]]:
    """At most one much larger and one much smaller size, for which the recording should be equal."""
    steps = [*itertools.product(_FACTORS, range(_TRIED_CHANGES // 4))]
    above = ([n * by + step for n in example] for by, step in steps)
    below = ([max(n // by + step, LEAST) for n in example] for by, step in steps)
    for sizes in (above, below):
        every = (_with_known(example, are_known, moved) for moved in sizes)
        yield from itertools.islice((other for other in every if other != example and is_for(*other)), 1)


def _with_known(example: tuple[int, ...], are_known: Sequence[bool], moved: Sequence[int]) -> tuple[int, ...]:
    """The moved sizes, with those of the example where sizes are known."""
    return tuple([n if k else other for n, k, other in zip(example, are_known, moved, strict=True)])


#: The values that are tried for each size, by the number of sizes.
_TRIED_SIZES = {
    1: (*range(1, 1025), *[2**k + j for k in range(11, 31) for j in (-1, 0, 1, 2, 3, 4, 8, 17)]),
    2: (*range(1, 11), 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 200, 255, 256, 257, 500,
        512, 1000, 1023, 1024, 1025, 4096, 5000, 10007, 65536, 100003, 1 << 20),
    3: (1, 2, 3, 4, 7, 8, 16, 33, 64, 100, 256, 1000, 10007),
    4: (1, 2, 5, 8, 64, 100, 1000),
}  # fmt: skip

#: Sizes near this one are tried first: planning treats few of them specially.
_MIDDLE = 200


def tried_sizes(count: int) -> list[tuple[int, ...]]:
    """The sizes that a program should accept, beginning with those that give the most general variants."""
    every = itertools.product(_TRIED_SIZES[count], repeat=count)
    return sorted(every, key=lambda sizes: sum([abs(math.log(n / _MIDDLE)) for n in sizes]))
