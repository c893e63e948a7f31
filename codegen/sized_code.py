"""Machine code for a graph of unknown extents: one program, into which the numbers of each size are written.

    planned for n = 10007       Buffer(f64[n], ...), Kernel(..., extents=(8 * n,)), Loop(length=n, body=..., ...)

A program is planned for an example, with symbols for the unknown numbers (`symbols`), and again for a second
example: code that used an example's value without a formula gives two different programs, which are rejected.

The launcher reads a program as words in memory (`runtime.launcher`).  Most words are equal for all sizes; the others
follow from the unknowns, and a generated Python function of straight-line code writes them:

    def fill(n0):
        shape0[0] = n0                  an extent of an input
        w += -(-(8 * n0) // 64) * 64    the place of a temporary
        numbers0_2[0] = n0              an argument of a kernel

So a new size needs no planning and no new executable, only about ten us.  The choice of the code for a matrix product
takes 16 us for a size; formulas give it for all sizes that divide into tiles in the same way (`sized_products`).
Temporaries that are never live at one step share a place, as large as the largest; the sharing does not depend on
sizes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from .emit.nests import leaves
from .ir import MOST_BYTES, Aval, Graph
from .numbers import SizedGraph
from .passes import optimize, plan, storage
from .program import Branch, Buffer, BufferProgram, Gemm, Kernel, Loop, Run, Step, While
from .records import NamedTuple, replace
from .runtime.cost import LONG, operations_of
from .runtime.executable import Pieces, SlotLayout, may_refuse
from .runtime.kernels import KernelTable, text_of
from .runtime.launcher import LaunchPlan, NativeStep, PlanBlock, Share, StepTable, builtin_of
from .runtime.loops import addresses, outside_steps
from .runtime.plan_words import PLAN, STEP_WORDS
from .runtime.products import WORDS
from .runtime.share import SHARED, KernelPiece, chunk_of, iterations_and_operations, shared
from .sized_products import SHARE, SizedProduct, put_share
from .symbols import Conditions, NotSymbolic, Symbol, conditions_function, formula, symbol, typical, watched
from .written import compile_function

# ---------------------------------------------------------------- planning with symbols

#: The values of the unknowns in the two examples: primes, so that they hardly equal an extent of the user's.
_LARGE_EXAMPLES = ((10007, 12011, 14009, 16033), (11003, 13007, 15013, 17011))
_SMALL_EXAMPLES = ((103, 107, 109, 113), (107, 109, 113, 127))

#: Fields that serve inspection only, or that the text of `Pieces` covers.
_INSPECTION_FIELDS = frozenset(("graph", "notes", "name", "function", "members", "values", "drawn", "shares"))

#: The records of a program that may contain numbers, with their fields.
_FIELDS: dict[type, list[str]] = {
    kind: [name for name in kind.__match_args__ if name not in _INSPECTION_FIELDS]
    for kind in (Loop, While, Branch, Run, BufferProgram, Buffer, Step, Kernel, Gemm)
}

#: The classes of values that are compared as they are.
_PLAIN = frozenset((int, bool, str, type(None), frozenset))


class SizedProgram(NamedTuple):
    """A program for any values of the unknowns.

    program      the program, with symbols for numbers      pieces   the functions of it that are compiled
    conditions   the conditions on sizes for which planning would have made the same program
    """

    program: BufferProgram
    pieces: Pieces
    conditions: Conditions

    @property
    def limits(self) -> Conditions:
        """The conditions on sizes for which this program is fast enough: no kernel's data exceed the caches, and no
        kernel inside the function of a loop is large enough to be shared among threads.
        """
        program, nests = self.program, self.pieces.nests
        found: list[int] = []
        for step in program.steps:
            if isinstance(step.work, Kernel):
                found.append(sum([program.buffers[b].aval.nbytes for b in step.buffers]) - storage.NONTEMPORAL_BYTES)
            elif nest := nests.get(id(step.work)):
                for work in [leaf.work for k, leaf in enumerate(leaves(step.work)) if k not in nest.outside]:
                    if isinstance(work, Kernel):
                        loops = [p for p in shared(work.function, work.extents) if p.loop is not None]
                        found += [iterations_and_operations(p, work.function, work.extents)[1] - SHARED for p in loops]
        return {(formula(n), "<", True): None for n in found if type(n) is Symbol}


def sized_program(graph: Callable[[Sequence[int]], Graph], is_small: bool = False) -> SizedProgram | None:
    """The program for any values of the unknowns; None if formulas cannot express it.

    graph      a function from values of the unknowns to the graph with symbols of these examples
    is_small   True for examples of about a hundred instead of ten thousand, for choices that depend on size
    """
    examples = _SMALL_EXAMPLES if is_small else _LARGE_EXAMPLES
    try:
        with watched() as conditions:
            first, text = _planned(graph(examples[0]))
        _, other = _planned(graph(examples[1]))
    except Exception:  # some code needs a concrete number: each graph is then planned with constant extents
        return None
    return SizedProgram(*first, conditions) if text == other else None


def _planned(example: Graph) -> tuple[tuple[BufferProgram, Pieces], list[Hashable]]:
    """The program of an example, and its text, with formulas for symbols.  Raises NotSymbolic if there is no text."""
    program = plan.plan(optimize(example))
    pieces = Pieces.of(program)
    text: list[Hashable] = []
    _append_text(program, text)
    for found in pieces.parts.values():
        text += [(text_of(piece.function), piece.form) for piece in found]
    for nest in pieces.nests.values():
        text.append(nest.emitted.text)
        _append_text(nest.numbers, text)
    return (program, pieces), text


def _append_text(value: Any, text: list[Hashable]) -> None:
    """Append the text of a value, with formulas for symbols."""
    kind = type(value)
    if kind is Symbol:
        text.append(formula(value))
    elif kind is Aval:
        text.append(value.dtype.str)
        _append_text(value.shape, text)
    elif kind is tuple:
        text.append(len(value))
        for part in value:
            _append_text(part, text)
    elif kind in _FIELDS:
        text.append(kind.__name__)
        for name in _FIELDS[kind]:
            _append_text(getattr(value, name), text)
    elif kind in _PLAIN:
        text.append(value)
    else:
        raise NotSymbolic(f"no text says what {value!r} is")


# ---------------------------------------------------------------- a program whose numbers are written for each size

#: In the spec of an array, the position of the word with its bytes; and the number of words of a spec.
_BYTES, _SPEC = 5, 6

_WORKSPACE, _IS_LONG = PLAN.index("workspace_bytes"), PLAN.index("is_long")


class _ArgumentRefused(Exception):
    """Raised if an argument is not an array that machine code accepts."""


def _refuse_argument(*_: Any) -> Any:
    raise _ArgumentRefused


class SizedCode:
    """A program with zeros for the numbers that depend on the unknowns, and the function that writes these numbers.

    is_fit    is_fit(*values): True if planning would have made the same program for these values
    """

    def __init__(self, found: SizedProgram, names: Sequence[str], kernels: KernelTable) -> None:
        self.is_fit = conditions_function(found.conditions, names)
        self._names, program = names, found.program
        self._code = found.pieces.loaded(kernels)
        self._env: dict[str, Any] = {
            "share": _put_shared, "addressof": ctypes.addressof, "LONG": LONG, "SHARED": SHARED, "__name__": __name__,
        }  # fmt: skip
        self._fill_lines: list[str] = []
        self._bind_lines: list[str] = []  # generated lines that run once for each copy of the program in memory
        self._owns: dict[Any, None] = {}
        self._tables: list[list[NativeStep]] = []  # the program's steps, then tables of steps inside loops
        inputs, outputs = program.inputs, program.outputs
        layout = SlotLayout(program)
        arrays = ["words", "specs", "offsets"]
        for k, aval in enumerate((*inputs, *outputs)):
            arrays.append(f"shape{k}")
            self._write_numbers(arrays[-1], aval.shape)
        for k, aval in enumerate(outputs):
            self._write_numbers("specs", (aval.nbytes,), k * _SPEC + _BYTES)
        self._write_offsets(layout.offsets, program.workspace_bytes)
        self._add_table([(step, tuple([layout.slots[b] for b in step.buffers])) for step in program.steps])
        offsets, steps = (0,) * len(layout.offsets), tuple(self._tables[0])
        avals = _without_symbols(inputs), _without_symbols(outputs)
        self._template = LaunchPlan(program.name, *avals, offsets, 0, steps, False, tuple(self._owns))
        for t, table in enumerate(self._tables):
            arrays += [f"table{t}", *[f"{what}{t}_{k}" for k in range(len(table)) for what in ("slots", "numbers")]]
        self._fill_lines += [f"w = {formula(operations_of(program))}", f"words[{_IS_LONG}] = w >= LONG", "return w"]
        places, lines = "".join([f" {line}\n" for line in self._bind_lines]), "\n  ".join(self._fill_lines)
        text = f"def bind({', '.join(arrays)}):\n{places} def fill({', '.join(names)}):\n  {lines}\n return fill"
        #: bind(*arrays) -> fill(*values) -> scalar operations
        self._bind = compile_function("bind", text, self._env)
        #: Copies of the program in memory that are idle.  More than one is needed only if several threads call.
        self._frames: list[tuple[Callable, Callable]] = []

    def call(self, values: Sequence[int], arrays: Sequence[Any]) -> tuple[np.ndarray, ...]:
        """The results for these values of the unknowns, which must satisfy `is_fit`."""
        frames = self._frames
        try:
            frame = frames.pop()
        except IndexError:
            frame = self._frame()
        fill, run = frame
        try:
            fill(*values)
            try:
                found: tuple[np.ndarray, ...] = run(*arrays)
            except _ArgumentRefused:
                avals = self._template.inputs
                found = run(*[np.require(x, a.dtype, ["C", "A"]) for x, a in zip(arrays, avals, strict=True)])
            return found
        finally:
            frames.append(frame)

    def _frame(self) -> tuple[Callable, Callable]:
        """A new copy of the program in memory: the function that writes its numbers, and the one that runs it."""
        tables = [StepTable(table) for table in self._tables]
        plan = replace(self._template, owns=(*self._template.owns, *tables[1:]))
        block = PlanBlock(plan, tables[0], _refuse_argument)
        shapes = *block.input_specs.shapes, *block.output_specs.shapes
        fill = self._bind(block.words, block.output_specs.table, block.offsets, *shapes, *_arrays_of(tables))
        return fill, builtin_of(plan.name, block)

    def plan(self, values: Sequence[int], graph: Graph) -> LaunchPlan:
        """The launch plan of this graph, which the program gives for these values."""
        template, tables = self._template, [StepTable(table) for table in self._tables]
        inputs, outputs = (tuple([node.aval for node in nodes]) for nodes in (graph.inputs, graph.outputs))
        words, specs, offsets = [0] * len(PLAN), [0] * (_SPEC * len(outputs)), [0] * len(template.offsets)
        shapes = [[0] * aval.ndim for aval in (*inputs, *outputs)]
        operations = self._bind(words, specs, offsets, *shapes, *_arrays_of(tables))(*values)
        size, is_long, steps = words[_WORKSPACE], bool(words[_IS_LONG]), _steps_of(tables[0])
        owns = *template.owns, *tables[1:]
        return LaunchPlan(graph.name, inputs, outputs, tuple(offsets), size, steps, is_long, owns, operations)

    # ------------------------------------------------------------ generated lines

    def _write_numbers(self, array: str, numbers: Sequence[int], first: int = 0) -> tuple[int, ...]:
        """The numbers with zeros for symbols; generates the lines that write the symbols' values into an array."""
        self._fill_lines += [f"{array}[{k}] = {formula(n)}" for k, n in enumerate(numbers, first) if type(n) is Symbol]
        return tuple([0 if type(n) is Symbol else n for n in numbers])

    def _write_offsets(self, offsets: Sequence[int], size: int) -> None:
        """Generate the lines that write the offset of each temporary, in order, and the size of the workspace."""
        self._fill_lines.append("w = 0")
        end = 0
        for offset in sorted(dict.fromkeys(offsets), key=typical):
            self._fill_lines.append(f"w += {formula(offset - end)}")
            self._fill_lines += [f"offsets[{number}] = w" for number, other in enumerate(offsets) if other == offset]
            end = offset
        self._fill_lines += [
            f"w += {formula(size - end)}",
            f"if w > {MOST_BYTES}: raise MemoryError(f'{{w}} bytes of temporaries: there are fewer than 2**63')",
            f"words[{_WORKSPACE}] = w",
        ]

    def _add_table(self, steps: Iterable[tuple[Step, tuple[int, ...]]]) -> int:
        """Add a table of steps on these slots; return its number."""
        number, made = len(self._tables), list[NativeStep]()
        self._tables.append(made)
        for step, slots in steps:
            match step.work:
                case Kernel() as work:
                    for piece in self._code.parts[id(work)]:
                        made.append(self._kernel(piece, work, slots, number, len(made)))
                case Gemm() as gemm:
                    made.append(self._product(gemm, slots, number, len(made)))
                case Loop() | Branch() | While() as nest:
                    made.append(self._nest(nest, slots, number, len(made)))
        return number

    def _kernel(self, piece: KernelPiece, work: Kernel, slots: tuple[int, ...], t: int, k: int) -> NativeStep:
        kernel = self._code.native[id(piece.function)]
        self._owns[kernel] = None
        numbers, at = f"numbers{t}_{k}", k * STEP_WORDS
        extents = self._write_numbers(numbers, [work.extents[j] for j in piece.indices])
        if piece.chunk:
            total, weight = iterations_and_operations(piece, work.function, work.extents)
            count = len(extents) + 2
            self._env[f"piece{t}_{k}"] = piece
            self._fill_lines += [
                f"{numbers}[{count - 1}] = t = {formula(total)}",
                f"s = {formula(weight)}",
                f"if s >= SHARED or table{t}[{at + SHARE}]: share(table{t}, {at}, {count}, piece{t}_{k}, t, s)",
            ]
            extents = (*extents, 0, 0)
        return NativeStep(kernel.address, tuple([slots[j] for j in piece.memory]), extents)

    def _product(self, gemm: Gemm, slots: tuple[int, ...], t: int, k: int) -> NativeStep:
        self._env[f"product{t}_{k}"] = SizedProduct(gemm, self._names)
        arrays = f"table{t}, {k * STEP_WORDS}, slots{t}_{k}, numbers{t}_{k}"
        self._bind_lines.append(f"put{t}_{k} = product{t}_{k}.placed({arrays}, {slots})")
        self._fill_lines.append(f"put{t}_{k}({', '.join(self._names)})")
        return NativeStep(0, slots, (0,) * WORDS)

    def _nest(self, work: Loop | Branch | While, slots: tuple[int, ...], t: int, k: int) -> NativeStep:
        nest, kernel = self._code.nests[id(work)], self._code.native[id(work)]
        self._owns[kernel] = None
        words = {}
        for leaf, step in outside_steps(work, nest).items():
            inner = self._add_table([(step, tuple(range(len(step.buffers))))])
            words[leaf] = 0, len(self._tables[inner])
            places = [place for place, number in enumerate(nest.numbers) if number == (leaf, 0)]
            self._bind_lines += [f"numbers{t}_{k}[{place}] = addressof(table{inner})" for place in places]
        numbers = nest.filled(addresses(), words)
        return NativeStep(kernel.address, slots, self._write_numbers(f"numbers{t}_{k}", numbers))


def sized_code(graph: SizedGraph, kernels: KernelTable, is_small: bool) -> SizedCode | None:
    """The machine code of a graph; None if formulas cannot express its program, or if a step may refuse its input.

    is_small   True to plan for extents of about a hundred, False for about ten thousand
    """
    names = graph.names
    found = sized_program(
        lambda values: graph.at([symbol(n, v) for n, v in zip(names, values, strict=False)]), is_small
    )
    return None if found is None or may_refuse(found.program) else SizedCode(found, names, kernels)


def _without_symbols(avals: Iterable[Aval]) -> tuple[Aval, ...]:
    return tuple([Aval(tuple([0 if type(n) is Symbol else n for n in a.shape]), a.dtype) for a in avals])


# ---------------------------------------------------------------- steps as words in memory


def _arrays_of(tables: Sequence[StepTable]) -> list[ctypes.Array]:
    """The arrays of the tables that `fill` writes, in the order of the parameters of `bind`."""
    return [array for table in tables for array in (table.table, *table.numbers)]


def _put_shared(table: ctypes.Array, at: int, extents: int, piece: KernelPiece, total: int, weight: int) -> None:
    """Write the words that say how threads share a piece of a kernel."""
    chunk = chunk_of(total, weight, is_tiled=piece.is_tiled)
    put_share(table, at, extents, Share(total, chunk) if chunk < total else None)


def _steps_of(table: StepTable) -> tuple[NativeStep, ...]:
    """The steps that a table in memory holds."""
    found = []
    for k, (slots, numbers) in enumerate(zip(table.numbers[::2], table.numbers[1::2], strict=True)):
        address, *_, extents, _, chunk, total = table.table[k * STEP_WORDS : (k + 1) * STEP_WORDS]
        share = Share(total, chunk) if chunk else None
        found.append(NativeStep(address, tuple(slots), tuple(numbers[: extents - 2] if share else numbers), share))
    return tuple(found)
