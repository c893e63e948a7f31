"""A graph of unknown extents in machine code: one program, whose numbers are written in for each size.

    planned for n = 10007       Buffer(f64[n], ...), Kernel(..., extents=(8 * n,)), Loop(length=n, body=..., ...)

A program is planned for an example in which symbols stand for the unknown numbers (`symbols`), and once more for
another: whatever took the number itself, where no formula follows it, differs then.

What a launcher reads of a program are words in memory (`runtime.launcher`).  Of a graph of unknown extents most are
the same for all; the others follow from the unknowns, and straight code that was written once writes them:

    def fill(n0):
        shape0[0] = n0                  the extents of an input
        w += -(-(8 * n0) // 64) * 64    where a temporary begins
        numbers0_2[0] = n0              what a kernel is called with

So another size costs neither planning nor making what runs it: some ten us.  Which step does a product is asked for
each size, and takes 16 us; so for sizes that are cut alike formulas say it.
Temporaries that do not live at the same step share a place, which is as large as the largest; which they are does not
depend on the sizes.
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
from .runtime.share import SHARED, KernelPiece, chunk_of, load, shared
from .sized_products import SHARE, SizedProduct, put_share
from .symbols import Conditions, NotSymbolic, Symbol, checked, formula, symbol, typical, watched
from .written import defined

# ---------------------------------------------------------------- planning with symbols

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


class SizedProgram(NamedTuple):
    """A program for any numbers, which its nests read as formulas, too.

    program      has symbols for numbers           pieces   what is compiled of it
    conditions   on the sizes that planning would treat alike
    """

    program: BufferProgram
    pieces: Pieces
    conditions: Conditions

    @property
    def limits(self) -> Conditions:
        """Conditions on the sizes for which no other program is faster: no kernel goes past the caches, and none that
        is a part of a loop's function is worth sharing.
        """
        program, nests = self.program, self.pieces.nests
        found: list[int] = []
        for step in program.steps:
            if isinstance(step.work, Kernel):
                found.append(sum([program.buffers[b].aval.nbytes for b in step.buffers]) - storage.FAR)
            elif nest := nests.get(id(step.work)):
                for work in [leaf.work for k, leaf in enumerate(leaves(step.work)) if k not in nest.outside]:
                    if isinstance(work, Kernel):
                        loops = [p for p in shared(work.function, work.extents) if p.loop is not None]
                        found += [load(p, work.function, work.extents)[1] - SHARED for p in loops]
        return {(formula(n), "<", True): None for n in found if type(n) is Symbol}


def sized_program(graph: Callable[[Sequence[int]], Graph], is_small: bool = False) -> SizedProgram | None:
    """The program for any values of unknowns; None where no formula says it.

    graph      a graph in which these values, which are symbols' examples, stand for the unknowns
    is_small   the examples are some hundred: where planning decides by size, as for few
    """
    examples = _FEW if is_small else _EXAMPLES
    try:
        with watched() as conditions:
            first, text = _planned(graph(examples[0]))
        _, other = _planned(graph(examples[1]))
    except Exception:  # whatever wants the very number: each graph is planned for itself then
        return None
    return SizedProgram(*first, conditions) if text == other else None


def _planned(example: Graph) -> tuple[tuple[BufferProgram, Pieces], list[Hashable]]:
    """Plan a graph for an example; its text is all that is no number.  Raises NotSymbolic where no text says it."""
    program = plan.plan(optimize(example))
    pieces = Pieces.of(program)
    text: list[Hashable] = []
    _tell(program, text)
    for found in pieces.parts.values():
        text += [(text_of(piece.function), piece.form) for piece in found]
    for nest in pieces.nests.values():
        text.append(nest.emitted.text)
        _tell(nest.numbers, text)
    return (program, pieces), text


def _tell(value: Any, text: list[Hashable]) -> None:
    """Add the text of a value, in which formulas stand for symbols."""
    kind = type(value)
    if kind is Symbol:
        text.append(formula(value))
    elif kind is Aval:
        text.append(value.dtype.str)
        _tell(value.shape, text)
    elif kind is tuple:
        text.append(len(value))
        for part in value:
            _tell(part, text)
    elif kind in _FIELDS:
        text.append(kind.__name__)
        for name in _FIELDS[kind]:
            _tell(getattr(value, name), text)
    elif kind in _PLAIN:
        text.append(value)
    else:
        raise NotSymbolic(f"no text says what {value!r} is")


# ---------------------------------------------------------------- a program whose numbers are written in

#: The word of a spec that says how many bytes an array has, and how many words a spec has.
_BYTES, _SPEC = 5, 6

_WORKSPACE, _IS_LONG = PLAN.index("workspace_bytes"), PLAN.index("is_long")


class _Missed(Exception):
    """An argument is not as machine code takes it."""


def _missed(*_: Any) -> Any:
    raise _Missed


class SizedCode:
    """A program with zeros for numbers that depend on the unknowns, and the function that writes those.

    is_fit    is_fit(*values): True if planning would have decided the same for these
    """

    def __init__(self, found: SizedProgram, names: Sequence[str], kernels: KernelTable) -> None:
        self.is_fit = checked(found.conditions, names)
        self._names, program = names, found.program
        self._code = found.pieces.loaded(kernels)
        self._env: dict[str, Any] = {
            "share": _put_shared, "addressof": ctypes.addressof, "LONG": LONG, "SHARED": SHARED, "__name__": __name__,
        }  # fmt: skip
        self._lines: list[str] = []
        self._places: list[str] = []  # run once for each program in memory
        self._owns: dict[Any, None] = {}
        self._tables: list[list[NativeStep]] = []  # the program's steps; then those that loops run by `run_steps`
        inputs, outputs = program.inputs, program.outputs
        layout = SlotLayout(program)
        arrays = ["words", "specs", "offsets"]
        for k, aval in enumerate((*inputs, *outputs)):
            arrays.append(f"shape{k}")
            self._plain(arrays[-1], aval.shape)
        for k, aval in enumerate(outputs):
            self._plain("specs", (aval.nbytes,), k * _SPEC + _BYTES)
        self._place(layout.offsets, program.workspace_bytes)
        self._table([(step, tuple([layout.slots[b] for b in step.buffers])) for step in program.steps])
        offsets, steps = (0,) * len(layout.offsets), tuple(self._tables[0])
        avals = _without_symbols(inputs), _without_symbols(outputs)
        self._template = LaunchPlan(program.name, *avals, offsets, 0, steps, False, tuple(self._owns))
        for t, table in enumerate(self._tables):
            arrays += [f"table{t}", *[f"{what}{t}_{k}" for k in range(len(table)) for what in ("slots", "numbers")]]
        self._lines += [f"w = {formula(operations_of(program))}", f"words[{_IS_LONG}] = w >= LONG", "return w"]
        places, lines = "".join([f" {line}\n" for line in self._places]), "\n  ".join(self._lines)
        text = f"def bind({', '.join(arrays)}):\n{places} def fill({', '.join(names)}):\n  {lines}\n return fill"
        #: bind(*arrays) -> fill(*values) -> scalar operations
        self._bind = defined("bind", text, self._env)
        #: Programs in memory that nobody runs now: one is enough but for threads.
        self._frames: list[tuple[Callable, Callable]] = []

    def call(self, values: Sequence[int], arrays: Sequence[Any]) -> tuple[np.ndarray, ...]:
        """The results for these values, which fit."""
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
            except _Missed:
                avals = self._template.inputs
                found = run(*[np.require(x, a.dtype, ["C", "A"]) for x, a in zip(arrays, avals, strict=True)])
            return found
        finally:
            frames.append(frame)

    def _frame(self) -> tuple[Callable, Callable]:
        """A program in memory: what writes its numbers, and what runs it."""
        tables = [StepTable(table) for table in self._tables]
        plan = replace(self._template, owns=(*self._template.owns, *tables[1:]))
        block = PlanBlock(plan, tables[0], _missed)
        shapes = *block.input_specs.shapes, *block.output_specs.shapes
        fill = self._bind(block.words, block.output_specs.table, block.offsets, *shapes, *_arrays_of(tables))
        return fill, builtin_of(plan.name, block)

    def plan(self, values: Sequence[int], graph: Graph) -> LaunchPlan:
        """The plan of this graph, which is the program's for these values."""
        template, tables = self._template, [StepTable(table) for table in self._tables]
        inputs, outputs = (tuple([node.aval for node in nodes]) for nodes in (graph.inputs, graph.outputs))
        words, specs, offsets = [0] * len(PLAN), [0] * (_SPEC * len(outputs)), [0] * len(template.offsets)
        shapes = [[0] * aval.ndim for aval in (*inputs, *outputs)]
        operations = self._bind(words, specs, offsets, *shapes, *_arrays_of(tables))(*values)
        size, is_long, steps = words[_WORKSPACE], bool(words[_IS_LONG]), _steps_of(tables[0])
        owns = *template.owns, *tables[1:]
        return LaunchPlan(graph.name, inputs, outputs, tuple(offsets), size, steps, is_long, owns, operations)

    # ------------------------------------------------------------ what is written

    def _plain(self, array: str, numbers: Sequence[int], first: int = 0) -> tuple[int, ...]:
        """Numbers with zeros for those that are formulas, which are written into an array."""
        self._lines += [f"{array}[{k}] = {formula(n)}" for k, n in enumerate(numbers, first) if type(n) is Symbol]
        return tuple([0 if type(n) is Symbol else n for n in numbers])

    def _place(self, offsets: Sequence[int], size: int) -> None:
        """Write where temporaries begin, each place after the one before, and how large the workspace is."""
        self._lines.append("w = 0")
        end = 0
        for offset in sorted(dict.fromkeys(offsets), key=typical):
            self._lines.append(f"w += {formula(offset - end)}")
            self._lines += [f"offsets[{number}] = w" for number, other in enumerate(offsets) if other == offset]
            end = offset
        self._lines += [
            f"w += {formula(size - end)}",
            f"if w > {MOST_BYTES}: raise MemoryError(f'{{w}} bytes of temporaries: there are fewer than 2**63')",
            f"words[{_WORKSPACE}] = w",
        ]

    def _table(self, steps: Iterable[tuple[Step, tuple[int, ...]]]) -> int:
        """Add a table of steps on these slots; its number."""
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
        extents = self._plain(numbers, [work.extents[j] for j in piece.indices])
        if piece.chunk:
            total, weight = load(piece, work.function, work.extents)
            count = len(extents) + 2
            self._env[f"piece{t}_{k}"] = piece
            self._lines += [
                f"{numbers}[{count - 1}] = t = {formula(total)}",
                f"s = {formula(weight)}",
                f"if s >= SHARED or table{t}[{at + SHARE}]: share(table{t}, {at}, {count}, piece{t}_{k}, t, s)",
            ]
            extents = (*extents, 0, 0)
        return NativeStep(kernel.address, tuple([slots[j] for j in piece.memory]), extents)

    def _product(self, gemm: Gemm, slots: tuple[int, ...], t: int, k: int) -> NativeStep:
        self._env[f"product{t}_{k}"] = SizedProduct(gemm, self._names)
        arrays = f"table{t}, {k * STEP_WORDS}, slots{t}_{k}, numbers{t}_{k}"
        self._places.append(f"put{t}_{k} = product{t}_{k}.placed({arrays}, {slots})")
        self._lines.append(f"put{t}_{k}({', '.join(self._names)})")
        return NativeStep(0, slots, (0,) * WORDS)

    def _nest(self, work: Loop | Branch | While, slots: tuple[int, ...], t: int, k: int) -> NativeStep:
        nest, kernel = self._code.nests[id(work)], self._code.native[id(work)]
        self._owns[kernel] = None
        words = {}
        for leaf, step in outside_steps(work, nest).items():
            inner = self._table([(step, tuple(range(len(step.buffers))))])
            words[leaf] = 0, len(self._tables[inner])
            places = [place for place, number in enumerate(nest.numbers) if number == (leaf, 0)]
            self._places += [f"numbers{t}_{k}[{place}] = addressof(table{inner})" for place in places]
        numbers = nest.filled(addresses(), words)
        return NativeStep(kernel.address, slots, self._plain(f"numbers{t}_{k}", numbers))


def sized_code(graph: SizedGraph, kernels: KernelTable, is_small: bool) -> SizedCode | None:
    """The machine code of a graph; None where no formula says what runs, or something that is not kernels does.

    is_small   it is planned for extents of some hundred, else of some thousands
    """
    names = graph.names
    found = sized_program(
        lambda values: graph.at([symbol(n, v) for n, v in zip(names, values, strict=False)]), is_small
    )
    return None if found is None or may_refuse(found.program) else SizedCode(found, names, kernels)


def _without_symbols(avals: Iterable[Aval]) -> tuple[Aval, ...]:
    return tuple([Aval(tuple([0 if type(n) is Symbol else n for n in a.shape]), a.dtype) for a in avals])


# ---------------------------------------------------------------- steps in memory


def _arrays_of(tables: Sequence[StepTable]) -> list[ctypes.Array]:
    """The arrays that are written into, in the order in which `bind` takes them."""
    return [array for table in tables for array in (table.table, *table.numbers)]


def _put_shared(table: ctypes.Array, at: int, extents: int, piece: KernelPiece, total: int, weight: int) -> None:
    """Write how a piece of a kernel is shared."""
    chunk = chunk_of(total, weight, is_tiled=piece.is_tiled)
    put_share(table, at, extents, Share(total, chunk) if chunk < total else None)


def _steps_of(table: StepTable) -> tuple[NativeStep, ...]:
    """The steps that stand in memory."""
    found = []
    for k, (slots, numbers) in enumerate(zip(table.numbers[::2], table.numbers[1::2], strict=True)):
        address, *_, extents, _, chunk, total = table.table[k * STEP_WORDS : (k + 1) * STEP_WORDS]
        share = Share(total, chunk) if chunk else None
        found.append(NativeStep(address, tuple(slots), tuple(numbers[: extents - 2] if share else numbers), share))
    return tuple(found)
