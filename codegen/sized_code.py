"""A graph of unknown extents in machine code: one program, whose numbers are written in for each size.

What a launcher reads of a program are words in memory (`runtime.launcher`).  Of a graph of unknown extents most are
the same for all; the others follow from the unknowns, and straight code that was written once writes them:

    def fill(n0):
        a4[0] = n0                      the extents of an input
        w += -(-(8 * n0) // 64) * 64    where a temporary begins
        a7[0] = n0                      what a kernel is called with

So another size costs neither planning nor making what runs it: some ten us.
Temporaries that do not live at the same step share a place, which is as large as the largest; which they are does not
depend on the sizes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .ir import MOST_BYTES, Aval
from .program import BufferProgram, Gemm, Kernel, bodies
from .records import record
from .runtime import native
from .runtime.cost import LONG, operations_of
from .runtime.executable import Pieces, SlotLayout
from .runtime.kernels import KernelTable
from .runtime.launcher import LaunchPlan, NativeStep, PlanBlock, Share, StepTable, builtin_of
from .runtime.plan_words import PLAN, STEP_WORDS
from .runtime.share import SHARED, chunk_of, load
from .sized import SizedGraph
from .sized_products import PRODUCT, SizedProduct, put_share
from .sized_program import sized_program
from .symbols import Symbol, checked, formula, symbol, typical
from .written import defined

#: The word of a step that says whether it is shared.
_SHARE = 4

#: The word of a spec that says how many bytes an array has, and how many words a spec has.
_BYTES, _SPEC = 5, 6


class _Missed(Exception):
    """An argument is not as machine code takes it."""


def _missed(*_: Any) -> Any:
    raise _Missed


class SizedCode:
    """See the file's head.  Made by `sized_code`.

    is_fit    is_fit(*values): whether planning would have decided the same for these
    """

    __slots__ = ("__weakref__", "_dtypes", "_frames", "_made", "is_fit")

    def __init__(
        self, is_fit: Callable[..., bool], made: Callable[[], tuple[Callable, Callable]], dtypes: Sequence[np.dtype]
    ) -> None:
        self.is_fit = is_fit
        self._made = made
        self._dtypes = tuple(dtypes)
        #: Programs that nobody runs now: one is enough but for threads.
        self._frames: list[tuple[Callable, Callable]] = []

    def call(self, values: Sequence[int], arrays: Sequence[Any]) -> tuple[np.ndarray, ...]:
        """The results for these values, which fit."""
        frames = self._frames
        try:
            frame = frames.pop()
        except IndexError:
            frame = self._made()
        fill, run = frame
        try:
            fill(*values)
            try:
                found: tuple[np.ndarray, ...] = run(*arrays)
            except _Missed:
                found = run(*[np.require(a, d, ["C", "A"]) for a, d in zip(arrays, self._dtypes, strict=True)])
            return found
        finally:
            frames.append(frame)


def sized_code(graph: SizedGraph, kernels: KernelTable, is_small: bool) -> SizedCode | None:
    """The machine code of a graph; None where no formula says what runs, or something that is not kernels does.

    is_small   it is planned for extents of some hundred, else of some thousands
    """
    if not native.is_native():
        return None
    names = graph.names
    found = sized_program(
        lambda values: graph.at([symbol(n, v) for n, v in zip(names, values, strict=False)]), is_small
    )
    if found is None:
        return None
    sized, conditions = found
    works = [step.work for step in sized.program.steps]
    if any([bodies(work) or (isinstance(work, Kernel) and work.function.refuses) for work in works]):
        return None
    template = _sized_plan(sized.program, sized.pieces.loaded(kernels))
    env: dict[str, Any] = {"share": _share, "LONG": LONG, "SHARED": SHARED, "__name__": __name__}
    env |= template.constants
    lines = "\n  ".join([*template.lines, "return None"])
    values, arrays = ", ".join(names), ", ".join([f"a{k}" for k in range(template.count)])
    places = "".join([f" {line}\n" for line in template.places])
    bind = defined("bind", f"def bind({arrays}):\n{places} def fill({values}):\n  {lines}\n return fill", env)

    def made() -> tuple[Callable, Callable]:
        block = PlanBlock(template.plan, StepTable(template.plan.steps), _missed)
        return bind(*_arrays_of(block)), builtin_of(template.plan.name, block)

    return SizedCode(checked(conditions, [*names]), made, [i.dtype for i in template.plan.inputs])


def _arrays_of(block: PlanBlock) -> list[ctypes.Array]:
    """The arrays that are written into, in the order of a template's names for them."""
    fixed = [block.words, block.output_specs.table, block.offsets, block.steps.table]
    return [*fixed, *block.input_specs.shapes, *block.output_specs.shapes, *block.steps.numbers]


@record(frozen=True)
class _SizedPlan:
    """plan     with zeros for numbers that depend on the unknowns      lines    of code that writes those
    count    of the arrays they are written to                          constants   that the code names
    places   lines of code that is run once for those arrays
    """

    plan: LaunchPlan
    lines: list[str]
    places: list[str]
    count: int
    constants: dict[str, Any]


_WORDS, _OUTPUTS, _OFFSETS, _STEPS, _FIXED = range(5)


def _sized_plan(program: BufferProgram, code: Pieces) -> _SizedPlan:
    inputs, outputs = program.inputs, program.outputs
    layout = SlotLayout(program)
    lines: list[str] = []
    for k, aval in enumerate((*inputs, *outputs), _FIXED):
        lines += [f"a{k}[{axis}] = {formula(n)}" for axis, n in enumerate(aval.shape) if type(n) is Symbol]
    for k, aval in enumerate(outputs):
        if type(aval.nbytes) is Symbol:
            lines.append(f"a{_OUTPUTS}[{k * _SPEC + _BYTES}] = {formula(aval.nbytes)}")
    lines += _placed(layout.offsets, program.workspace_bytes)
    steps, places, more, constants, owns = _steps(program, code, layout, _FIXED + len(inputs) + len(outputs))
    offsets = (0,) * len(layout.offsets)
    plan = LaunchPlan(program.name, _plain(inputs), _plain(outputs), offsets, 0, tuple(steps), False, owns)
    more.append(f"a{_WORDS}[{PLAN.index('is_long')}] = ({formula(operations_of(program))}) >= LONG")
    count = _FIXED + len(inputs) + len(outputs) + 2 * len(steps)
    return _SizedPlan(plan, [*lines, *more], places, count, constants)


def _plain(avals: Iterable[Aval]) -> tuple[Aval, ...]:
    return tuple([Aval(tuple([0 if type(n) is Symbol else n for n in a.shape]), a.dtype) for a in avals])


def _placed(offsets: Sequence[int], size: int) -> list[str]:
    """The lines that write where temporaries begin, each place after the one before, and how large the workspace is."""
    lines, end = ["w = 0"], 0
    for offset in sorted(dict.fromkeys(offsets), key=typical):
        lines.append(f"w += {formula(offset - end)}")
        lines += [f"a{_OFFSETS}[{number}] = w" for number, other in enumerate(offsets) if other == offset]
        end = offset
    lines.append(f"w += {formula(size - end)}")
    lines.append(f"if w > {MOST_BYTES}: raise MemoryError(f'{{w}} bytes of temporaries: there are fewer than 2**63')")
    return [*lines, f"a{_WORDS}[{PLAN.index('workspace_bytes')}] = w"]


def _steps(
    program: BufferProgram, code: Pieces, layout: SlotLayout, first: int
) -> tuple[list[NativeStep], list[str], list[str], dict[str, Any], tuple]:
    """Steps, the lines that say where products are and that write numbers, what these name, owners of machine code."""
    steps: list[NativeStep] = []
    places: list[str] = []
    lines: list[str] = []
    constants: dict[str, Any] = {}
    owns: dict[Any, None] = {}
    for step in program.steps:
        work, memory = step.work, [layout.slots[b] for b in step.buffers]
        if isinstance(work, Gemm):
            at = len(steps)
            product = constants[f"g{at}"] = SizedProduct(work, tuple(memory))
            numbers, array = "".join([f", {n}" for n in product.given]), f"a{first + 2 * at + 1}"
            places.append(f"q{at} = g{at}.place(a{_STEPS}, {at * STEP_WORDS}, a{first + 2 * at}, {array})")
            lines.append(f"if not q{at}.write({array}{numbers}): q{at}.again({numbers[2:]})")
            steps.append(NativeStep(0, tuple(memory), (0,) * PRODUCT))
            continue
        assert isinstance(work, Kernel)
        for piece in code.parts[id(work)]:
            at, kernel = len(steps), code.native[id(piece.function)]
            owns[kernel] = None
            own = [work.extents[j] for j in piece.indices]
            array = f"a{first + 2 * at + 1}"
            lines += [f"{array}[{k}] = {formula(n)}" for k, n in enumerate(own) if type(n) is Symbol]
            if piece.chunk:
                total, weight = load(piece, work.function, work.extents)
                constants[f"p{at}"] = piece
                lines.append(f"{array}[{len(own) + 1}] = t = {formula(total)}")
                lines.append(f"s = {formula(weight)}")
                words = f"a{_STEPS}, {at * STEP_WORDS}, {len(own) + 2}"
                lines.append(f"if s >= SHARED or a{_STEPS}[{at * STEP_WORDS + _SHARE}]: share({words}, p{at}, t, s)")
                own += [0, 0]
            extents = tuple([0 if type(n) is Symbol else n for n in own])
            steps.append(NativeStep(kernel.address, tuple([memory[j] for j in piece.memory]), extents))
    return steps, places, lines, constants, tuple(owns)


def _share(table: ctypes.Array, at: int, extents: int, piece: Any, total: int, weight: int) -> None:
    """Write how a piece of a kernel is shared."""
    chunk = chunk_of(total, weight, is_tiled=piece.is_tiled)
    put_share(table, at, extents, Share(total, chunk) if chunk < total else None)
