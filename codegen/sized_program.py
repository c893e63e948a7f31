"""A program for any numbers: planned for an example in which symbols stand for the unknown ones (`symbols`).

    planned for n = 10007       Buffer(f64[n], ...), Kernel(..., extents=(8 * n,)), Loop(length=n, body=..., ...)
    numbers                     n, 8 * n, n, ...                    every number in it that n decides
    for n = 20                  the same with 20, 160, 20, ...

A graph of a family (`families`) becomes such a program at its own numbers; machine code for any sizes (`sized_code`)
has them written in.  Planning is done for two examples: whatever took the number itself, where no formula follows it,
differs then.

A nest that is one function reads numbers (lengths, places, strides), which follow the program's; of all others each
kernel inside has pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .emit import Emitted
from .emit.nests import kernels_in
from .ir import Aval, Graph
from .kernel.nest import NestFunction
from .passes import optimize, plan
from .passes.storage import in_chains, is_beyond_caches
from .program import Branch, Buffer, BufferProgram, Gemm, Kernel, Loop, Run, Step, While, bodies
from .records import record, replace
from .runtime import loops
from .runtime.executable import Pieces
from .runtime.kernels import NativeKernel, text_of
from .runtime.share import KernelPiece, is_shared, shared, sized
from .symbols import Conditions, NotSymbolic, Symbol, formula, watched

__all__ = ["SizedProgram", "sized_program"]

#: Primes that are no extents of anybody's: what unknowns are in the two examples.
_EXAMPLES = ((10007, 12011, 14009, 16033), (11003, 13007, 15013, 17011))
_FEW = ((103, 107, 109, 113), (107, 109, 113, 127))

#: A function that makes a value from numbers; None for a value that has none.
Made = Callable[[Iterator[int]], Any] | None

#: Records that numbers may be in; fields that are only looked at, or that pieces say.
_RECORDS = frozenset((Loop, While, Branch, Run, BufferProgram, Buffer, Step, Kernel, Gemm))
_LOOKED_AT = frozenset(("graph", "notes", "name", "function", "members", "values", "drawn", "shares"))

#: Classes of values whose text says all.
_PLAIN = frozenset((int, bool, str, type(None), frozenset))


class _OneFunction(NamedTuple):
    """A nest that is one function, and its kernels' pieces, which no threads share."""

    function: loops.NestText
    pieces: list[list[KernelPiece]]


#: The parts of a run, in order: pieces of kernels, nests that are one function; None for another nest, whose parts
#: follow.
_Parts = list["_OneFunction | list[KernelPiece] | None"]


@record(frozen=True)
class SizedProgram:
    """See the file's head.

    program   has symbols for numbers               made      makes it from numbers
    numbers   its own, then those of its nests      parts     what runs of it
    text      all that is no number
    """

    program: BufferProgram
    made: Made
    numbers: list[int]
    parts: _Parts
    text: Hashable

    @property
    def functions(self) -> list[NestFunction | Emitted]:
        """All that has to be compiled."""
        found: list[NestFunction | Emitted] = []
        for part in self.parts:
            if isinstance(part, _OneFunction):
                found.append(part.function.emitted)
            elif part is not None:
                found += [piece.function for piece in part]
        return found

    def at(
        self, numbers: Iterator[int], graph: Graph, native: Mapping[int, NativeKernel]
    ) -> tuple[BufferProgram, Pieces] | None:
        """The program of this graph, which has these numbers, and its code; None where it would be planned otherwise.
        """
        program: BufferProgram = self.made(numbers) if self.made else replace(self.program)
        program.graph = graph
        found = Pieces({}, dict(native), {})
        for step in program.steps:
            sizes = [program.buffers[b].aval.nbytes for b in step.buffers]
            if isinstance(step.work, Kernel) and is_beyond_caches(sizes):
                return None
        return (program, found) if _settle(program.steps, iter(self.parts), numbers, found) else None


def _settle(steps: Sequence[Step], parts: Iterator[Any], numbers: Iterator[int], found: Pieces) -> bool:
    """Put the code of these steps in `found`; False where a nest would run otherwise."""
    for work in [step.work for step in steps]:
        if isinstance(work, Kernel):
            found.parts[id(work)] = _sized(work, next(parts))
        elif bodies(work):
            part = next(parts)
            if part is None:
                if not _settle(_inside(work), parts, numbers, found):
                    return False
                continue
            found.nests[id(work)] = tuple([next(numbers) for _ in part.function.numbers])
            found.native[id(work)] = found.native[id(part.function.emitted)]
            pieces = zip(kernels_in(work) or [], part.pieces, strict=True)
            if any([is_shared(piece) for kernel, own in pieces for piece in _sized(kernel, own)]):
                return False
    return True


def _sized(kernel: Kernel, pieces: Sequence[KernelPiece]) -> list[KernelPiece]:
    return [sized(piece, kernel.function, kernel.extents) for piece in pieces]


def _inside(work: object) -> list[Step]:
    """The steps of all bodies."""
    return [step for _, body, _ in bodies(work) for step in body.steps]


def sized_program(
    graph: Callable[[Sequence[int]], Graph], is_small: bool = False
) -> tuple[SizedProgram, Conditions] | None:
    """The program for any values of unknowns, and the conditions on them; None where no formula says it.

    graph      a graph in which these values, which are symbols' examples, stand for the unknowns
    is_small   the examples are some hundred: where planning decides by size, as for few
    """
    examples = _FEW if is_small else _EXAMPLES
    try:
        with watched() as conditions:
            first = _planned(graph(examples[0]))
        second = _planned(graph(examples[1]))
    except Exception:  # whatever wants the very number: each graph is planned for itself then
        return None
    return (first, conditions) if first.text == second.text else None


def _planned(example: Graph) -> SizedProgram:
    """Plan a graph for an example.  Raises NotSymbolic where no text says what it is."""
    program = plan.place(plan.planned(optimize(example)), in_chains)
    taken = _Numbered()
    made = taken.of(program)
    parts: _Parts = []
    taken.parts(program.steps, parts)
    return SizedProgram(program, made, taken.numbers, parts, tuple(taken.text))


class _Numbered:
    """The numbers of a value and its text, as it is gone through."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.text: list[Hashable] = []

    def of(self, value: Any) -> Made:
        """A function that makes the value again."""
        kind = type(value)
        if kind is Symbol:
            self.numbers.append(value)
            self.text.append(formula(value))
            return next
        if kind is Aval:
            self.text.append(value.dtype.str)
            shape = self.several(value.shape)
            return None if shape is None else lambda numbers: Aval(tuple(shape(numbers)), value.dtype)
        if kind is tuple:
            parts = self.several(value)
            return None if parts is None else lambda numbers: tuple(parts(numbers))
        if kind in _RECORDS:
            names = [name for name in kind.__match_args__ if name not in _LOOKED_AT]
            self.text.append(kind.__name__)
            fields = [(name, part) for name in names if (part := self.of(getattr(value, name)))]
            return (lambda numbers: replace(value, **{n: part(numbers) for n, part in fields})) if fields else None
        if kind not in _PLAIN:
            raise NotSymbolic(f"no text says what {value!r} is")
        self.text.append(value)
        return None

    def several(self, values: Sequence[Any]) -> Callable[[Iterator[int]], list[Any]] | None:
        """A function that makes several values."""
        self.text.append(len(values))
        parts = [(self.of(v), v) for v in values]
        if all(part is None for part, _ in parts):
            return None
        return lambda numbers: [v if part is None else part(numbers) for part, v in parts]

    def parts(self, steps: Sequence[Step], found: _Parts) -> None:
        """The parts of these steps that run."""
        for step in steps:
            work = step.work
            if isinstance(work, Kernel):
                own = shared(work.function, work.extents)
                found.append(own)
                self.text += [(text_of(piece.function), piece.form) for piece in own]
            elif bodies(work):
                function = loops.whole(work, len(step.buffers))
                if function is None:
                    found.append(None)
                    self.parts(_inside(work), found)
                else:
                    pieces = [shared(k.function, k.extents) for k in kernels_in(work) or []]
                    found.append(_OneFunction(function, pieces))
                    self.numbers += function.numbers
                    self.text.append(function.emitted.text)
