"""Steps that run programs of their own, for any extents: loops and branches as they were planned, and their amounts.

    planned for an example      Loop(length=n, body=Program(...), ...)      n stands for any
    amounts                     n, 8 * n, ...                               every number in it that n decides
    for n = 20                  the same with 20, 160, ...

A nest that is one function reads numbers (lengths, places, strides), which are amounts too; of all others each
kernel inside has pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .emit import Emitted
from .emit.nests import kernels_in
from .ir import Aval
from .kernel.nest import Function
from .program import Branch, Buffer, Gemm, Kernel, Loop, Program, Run, Step, While, bodies
from .records import record, replace
from .runtime import whole
from .runtime.executable import Pieces
from .runtime.kernels import NativeKernel, text_of
from .runtime.share import Piece, is_shared, shared, sized
from .symbols import NotSymbolic, Symbol, formula

__all__ = ["Control", "Nest", "nest_of"]

#: Steps that run programs of their own.
Control = Loop | While | Branch


#: What makes a value from amounts; None for a value that has none.
Made = Callable[[Iterator[int]], Any] | None

#: Records that amounts may be in; fields that are only looked at, or that pieces say.
_RECORDS = frozenset((Loop, While, Branch, Run, Program, Buffer, Step, Kernel, Gemm))
_LOOKED_AT = frozenset(("graph", "notes", "name", "function", "members", "values", "drawn", "shares"))

#: Classes of values whose text says all.
_PLAIN = frozenset((int, bool, str, type(None), frozenset))


class _OneFunction(NamedTuple):
    """A nest that is one function, and its kernels' pieces, which no threads share."""

    function: whole.Nest
    pieces: list[list[Piece]]


#: What runs of a nest, in order: nests that are one function, pieces of kernels in others, for which None stands.
_Parts = list["_OneFunction | list[Piece] | None"]


@record(frozen=True)
class Nest:
    """A loop or branch as it was planned for an example.

    made    makes it from amounts               amounts   its own, then those of its functions
    parts   what runs of it                     text      all that is no amount
    """

    work: Control
    made: Made
    amounts: list[int]
    parts: _Parts
    text: Hashable

    @property
    def functions(self) -> list[Function | Emitted]:
        """All that has to be compiled."""
        found: list[Function | Emitted] = []
        for part in self.parts:
            if isinstance(part, _OneFunction):
                found.append(part.function.emitted)
            elif part is not None:
                found += [piece.function for piece in part]
        return found

    def at(self, amounts: Iterator[int], native: Mapping[int, NativeKernel], found: Pieces) -> Control | None:
        """The nest for these amounts, whose code is put in `found`; None where it would run otherwise."""
        work = self.made(amounts) if self.made else self.work
        is_fit = self._settle(work, iter(self.parts), amounts, native, found)
        return work if is_fit else None

    def _settle(self, work: Control, parts: Iterator[Any], amounts: Any, native: Any, found: Pieces) -> bool:
        part = next(parts)
        if part is not None:
            found.nests[id(work)] = tuple([next(amounts) for _ in part.function.numbers])
            found.native[id(work)] = native[id(part.function.emitted)]
            kernels = kernels_in(work) or []
            if not self.made:
                return True
            pieces = [piece for k, of_k in zip(kernels, part.pieces, strict=True) for piece in _sized(k, of_k)]
            return not any(map(is_shared, pieces))
        for step in _steps(work):
            if isinstance(step.work, Kernel):
                found.parts[id(step.work)] = _sized(step.work, next(parts))
            elif isinstance(step.work, Control) and not self._settle(step.work, parts, amounts, native, found):
                return False
        return True


def _sized(kernel: Kernel, pieces: Sequence[Piece]) -> list[Piece]:
    return [sized(piece, kernel.function, kernel.extents) for piece in pieces]


def _steps(work: Control) -> list[Step]:
    """The steps of all bodies."""
    return [step for _, body, _ in bodies(work) for step in body.steps]


def nest_of(work: Control, buffers: int) -> Nest:
    """The nest that was planned for a step on so many buffers.  Raises NotSymbolic where no text says what it is."""
    taken = _Amounts()
    made = taken.of(work)
    parts: _Parts = []
    taken.parts(work, buffers, parts)
    return Nest(work, made, taken.amounts, parts, tuple(taken.text))


class _Amounts:
    """The amounts of a value and its text, as it is gone through."""

    def __init__(self) -> None:
        self.amounts: list[int] = []
        self.text: list[Hashable] = []

    def of(self, value: Any) -> Made:
        """A function that makes the value again."""
        kind = type(value)
        if kind is Symbol:
            self.amounts.append(value)
            self.text.append(formula(value))
            return next
        if kind is Aval:
            self.text.append(value.dtype.str)
            shape = self.several(value.shape)
            return None if shape is None else lambda amounts: Aval(tuple(shape(amounts)), value.dtype)
        if kind is tuple:
            parts = self.several(value)
            return None if parts is None else lambda amounts: tuple(parts(amounts))
        if kind in _RECORDS:
            names = [name for name in kind.__match_args__ if name not in _LOOKED_AT]
            self.text.append(kind.__name__)
            fields = self.several([getattr(value, name) for name in names])
            if fields is None:
                return None
            return lambda amounts: replace(value, **dict(zip(names, fields(amounts), strict=True)))
        if kind not in _PLAIN:
            raise NotSymbolic(f"no text says what {value!r} is")
        self.text.append(value)
        return None

    def parts(self, work: Control, buffers: int, found: _Parts) -> None:
        """The parts of a nest that run."""
        function = whole.whole(work, buffers)
        if function is not None:
            pieces = [shared(k.function, k.extents) for k in kernels_in(work) or []]
            found.append(_OneFunction(function, pieces))
            self.amounts += function.numbers
            self.text.append(function.emitted.text)
            return
        found.append(None)
        for step in _steps(work):
            if isinstance(step.work, Kernel):
                own = shared(step.work.function, step.work.extents)
                found.append(own)
                self.text += [(text_of(piece.function), piece.form) for piece in own]
            elif isinstance(step.work, Control):
                self.parts(step.work, len(step.buffers), found)

    def several(self, values: Sequence[Any]) -> Callable[[Iterator[int]], list[Any]] | None:
        """A function that makes several values."""
        self.text.append(len(values))
        parts = [(self.of(v), v) for v in values]
        if all(part is None for part, _ in parts):
            return None
        return lambda amounts: [v if part is None else part(amounts) for part, v in parts]
