"""A program for any numbers: planned for an example in which symbols stand for the unknown ones (`symbols`).

    planned for n = 10007       Buffer(f64[n], ...), Kernel(..., extents=(8 * n,)), Loop(length=n, body=..., ...)
    for n = 20                  the same with 20 and 160 in their places

A graph of a family (`families`) becomes such a program at its own numbers; machine code for any sizes (`sized_code`)
has them written in.  Planning is done for two examples: whatever took the number itself, where no formula follows it,
differs then.

A nest that is one function reads numbers (lengths, places, strides), which are replaced likewise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from .emit.nests import leaves
from .ir import Aval, Graph
from .passes import optimize, plan
from .passes.storage import is_beyond_caches
from .program import Branch, Buffer, BufferProgram, Gemm, Kernel, Loop, Run, Step, While
from .records import record, replace
from .runtime.executable import Pieces
from .runtime.kernels import KernelTable, text_of
from .runtime.share import KernelPiece, is_shared, shared, sized
from .symbols import Conditions, NotSymbolic, Symbol, evaluated, formula, watched

#: Primes that are no extents of anybody's: what unknowns are in the two examples.
_EXAMPLES = ((10007, 12011, 14009, 16033), (11003, 13007, 15013, 17011))
_FEW = ((103, 107, 109, 113), (107, 109, 113, 127))

#: Fields that are only looked at, or that pieces say.
_LOOKED_AT = frozenset(("graph", "notes", "name", "function", "members", "values", "drawn", "shares"))

#: Records that numbers may be in, with the names of the fields where they are.
_FIELDS: dict[type, list[str]] = {
    kind: [name for name in kind.__match_args__ if name not in _LOOKED_AT]
    for kind in (Loop, While, Branch, Run, BufferProgram, Buffer, Step, Kernel, Gemm)
}

#: Classes of values whose text says all.
_PLAIN = frozenset((int, bool, str, type(None), frozenset))


@record(frozen=True)
class SizedProgram:
    """See the file's head.

    program    has symbols for numbers              formulas   of all its numbers, by the symbols' ids
    symbolic   all values in it that have symbols, by their ids
    pieces     what is compiled of it               inside     kernels of nests that are one function, with their pieces
    text       all that is no number
    """

    program: BufferProgram
    formulas: dict[int, Symbol]
    symbolic: dict[int, Any]
    pieces: Pieces
    inside: list[tuple[Kernel, list[KernelPiece]]]
    text: Hashable

    def at(self, names: Sequence[str], kernels: KernelTable) -> Callable[..., tuple[BufferProgram, Pieces] | None]:
        """A function of a graph and of values of its symbols that gives the program and its code; None where it would
        be planned otherwise.
        """
        compute = evaluated([*self.formulas.values()], [*names])
        loaded = functools.cache(lambda: self.pieces.loaded(kernels))

        def made(graph: Graph, *values: int) -> tuple[BufferProgram, Pieces] | None:
            numbers = dict(zip(self.formulas, compute(*values), strict=True))
            works: dict[int, Any] = {}
            program: BufferProgram = replace(_filled(self.program, self, numbers, works), graph=graph)
            for step in program.steps:
                sizes = [program.buffers[b].aval.nbytes for b in step.buffers]
                if isinstance(step.work, Kernel) and is_beyond_caches(sizes):
                    return None
            inside = [(w, pieces) for kernel, pieces in self.inside if (w := works.get(id(kernel)))]
            if any([is_shared(piece) for kernel, pieces in inside for piece in _sized(kernel, pieces)]):
                return None
            code = loaded()
            parts, nests, native = dict(code.parts), dict(code.nests), dict(code.native)
            for number, work in works.items():
                if number in parts:
                    parts[id(work)] = _sized(work, parts[number])
                elif number in nests:
                    nest = nests[number]
                    nests[id(work)] = nest._replace(numbers=_filled(nest.numbers, self, numbers, works))
                    native[id(work)] = native[number]
            return program, Pieces(parts, nests, native)

        return made


def _sized(kernel: Kernel, pieces: Sequence[KernelPiece]) -> list[KernelPiece]:
    return [sized(piece, kernel.function, kernel.extents) for piece in pieces]


def _filled(value: Any, sized: SizedProgram, numbers: dict[int, int], works: dict[int, Any]) -> Any:
    """A value with these numbers for its symbols.

    numbers   by the ids of symbols        works   the records that were made, by the ids of those with symbols
    """
    if id(value) not in sized.symbolic:
        return value
    kind = type(value)
    if kind is Symbol:
        return numbers[id(value)]
    if kind is tuple:
        return tuple([_filled(v, sized, numbers, works) for v in value])
    if kind is Aval:
        return Aval(_filled(value.shape, sized, numbers, works), value.dtype)
    found = {name: _filled(getattr(value, name), sized, numbers, works) for name in _FIELDS[kind]}
    made = works[id(value)] = replace(value, **found)
    return made


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
    program = plan.plan(optimize(example))
    pieces = Pieces.of(program)
    text: list[Hashable] = []
    symbolic: dict[int, Any] = {}
    _tell(program, text, symbolic)
    for found in pieces.parts.values():
        text += [(text_of(piece.function), piece.form) for piece in found]
    for nest in pieces.nests.values():
        text.append(nest.emitted.text)
        _tell(nest.numbers, text, symbolic)
    works = [(symbolic[number], nest.outside) for number, nest in pieces.nests.items() if number in symbolic]
    leafs = [s.work for work, outside in works for k, s in enumerate(leaves(work)) if k not in outside]
    inside = [(k, shared(k.function, k.extents)) for k in leafs if isinstance(k, Kernel)]
    formulas = {number: x for number, x in symbolic.items() if type(x) is Symbol}
    return SizedProgram(program, formulas, symbolic, pieces, inside, tuple(text))


def _tell(value: Any, text: list[Hashable], symbolic: dict[int, Any]) -> bool:
    """Add the text of a value, in which formulas stand for symbols; True if it has some."""
    kind = type(value)
    is_symbolic = kind is Symbol
    if kind is Symbol:
        text.append(formula(value))
    elif kind is Aval:
        text.append(value.dtype.str)
        is_symbolic = _tell(value.shape, text, symbolic)
    elif kind is tuple:
        text.append(len(value))
        is_symbolic = any([_tell(part, text, symbolic) for part in value])
    elif kind in _FIELDS:
        text.append(kind.__name__)
        is_symbolic = any([_tell(getattr(value, name), text, symbolic) for name in _FIELDS[kind]])
    elif kind in _PLAIN:
        text.append(value)
    else:
        raise NotSymbolic(f"no text says what {value!r} is")
    if is_symbolic:
        symbolic[id(value)] = value
    return is_symbolic
