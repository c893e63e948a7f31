"""The steps of a program as functions of one module, and data that name them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import emit
from ..emit import Emitted
from ..lowering import Decompose, Fourier
from ..program import Branch, Gemm, HostCall, Kernel, Loop, Program, Step, While, bodies
from ..records import NamedTuple
from ..runtime import c_calls, engine, loop_runs, objects, orders, products, steps_ir
from ..runtime import share as shares
from ..runtime.engine import Passes
from ..runtime.executable import Layout
from ..runtime.launcher import Share
from ..runtime.loops import NativeBody, table_of
from ..runtime.whole import whole
from . import stand_ins
from .data import Data, Label, StepWords, TableOf

__all__ = ["C_FUNCTIONS", "Exported", "NotExportable", "exported"]

#: Functions of the C library that a module may call.
_WORDS = """
    malloc realloc free memcpy memmove memset fma fmaf exp expf exp2 exp2f log logf log2 log2f log10 log10f pow
    powf sin sinf cos cosf tan tanf sqrt sqrtf cbrt cbrtf fmod fmodf floor floorf ceil ceilf trunc truncf rint
    rintf round roundf nearbyint nearbyintf tanh tanhf sinh sinhf cosh coshf atan2 atan2f hypot hypotf ldexp
    ldexpf clock_gettime
"""
C_FUNCTIONS = frozenset(_WORDS.split())


class NotExportable(Exception):
    """A program with steps that need more than machine code.

    steps   of each the operation's name and what it needs
    """

    def __init__(self, steps: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join([f"{name}: {needs}" for name, needs in steps]))
        self.steps = tuple(dict.fromkeys(steps))


class Exported(NamedTuple):
    """A program as an object file.

    object_bytes      the file                    llvm     the same module as LLVM's text, after its passes
    workspace_bytes   that a call needs           calls    functions of the C library that it calls
    """

    object_bytes: bytes
    llvm: str
    workspace_bytes: int
    calls: tuple[str, ...]


def exported(program: Program, name: str, hidden: Sequence[np.ndarray]) -> Exported:
    """A program as the C function `int64_t name(pointers of arguments, of results, workspace)`.

    hidden    values of its last inputs, which become constants of the object

    Raises NotExportable.
    """
    writer = _ExportWriter(name)
    layout, steps = writer.laid_out(program)
    if writer.refused:
        raise NotExportable(writer.refused)
    main = writer.main(program, layout, steps, hidden)
    modules = [*writer.modules(), (main, Passes.VECTORS, {})]
    data, text, calls = engine.joined(modules, (name,))
    missing = [call for call in calls if call not in C_FUNCTIONS]
    if missing:
        raise NotExportable([(call, "a function that is in no C library") for call in missing])
    return Exported(data, text, program.workspace_bytes, tuple(calls))


class _ExportWriter:
    """Collects functions by text, and writes the data of steps."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.data = Data(name)
        self.refused: list[tuple[str, str]] = []
        self._kernels: dict[str, Emitted] = {}
        self._modules: dict[str, tuple[Passes, dict[str, str]]] = {}
        self._share = Label("@run_in_turn")

    # ------------------------------------------------------------ steps

    def laid_out(self, program: Program) -> tuple[Layout, list[StepWords]]:
        """The places of a program's buffers, and its steps."""
        layout = Layout(program)
        return layout, [piece for step in program.steps for piece in self.pieces(step, layout)]

    def pieces(self, step: Step, layout: Layout) -> list[StepWords]:
        """A step, which may be several; none if it is refused."""
        slots = tuple([layout.slots[b] for b in step.buffers])
        match step.work:
            case Kernel(function, extents):
                return [self.kernel(part, slots, extents) for part in shares.shared(function, extents)]
            case Gemm() as gemm:
                return [self.product(gemm, slots)]
            case Loop() | Branch() | While() as nest:
                return [self.nest(nest, slots)]
            case HostCall(node):
                if orders.is_native(node):
                    found = orders.orders_of(node, len(slots))
                    names = self.module(orders.text_of(node), Passes.VECTORS)
                    return [StepWords(names(order.name), slots, order.extents, order.share) for order in found]
                self.refused.append((_called(node), _needs(node)))
        return []

    def kernel(self, part: shares.Piece, slots: tuple[int, ...], extents: tuple[int, ...]) -> StepWords:
        features = engine.target_features()
        share = Share(part.total, part.chunk) if part.chunk < part.total else None
        symbol = self.emitted(emit.emit_function(emit.nameless(part.function), features))
        own = tuple([slots[j] for j in part.memory])
        return StepWords(symbol, own, part.numbers(extents, is_shared=share is not None), share)

    def product(self, gemm: Gemm, slots: tuple[int, ...]) -> StepWords:
        product = products.product_step(gemm)
        name, text = products.text_of(gemm)
        a, b, c = slots
        slots = (b, a, c) if product.is_swapped else slots
        return StepWords(self.module(text, Passes.INLINE)(name), slots, product.extents, product.share)

    def nest(self, work: Loop | Branch | While, slots: tuple[int, ...]) -> StepWords:
        """A loop or branch: one function, or one of `loop_runs` with its words."""
        found = whole(work, len(slots))
        if found is not None:
            numbers = (self.data.function("account_nothing"), *found.numbers[1:])
            return StepWords(self.emitted(found.emitted), slots, numbers, None)
        inside: list[Any] = []
        for _, body, _ in bodies(work):
            layout, steps = self.laid_out(body)
            inside.append(NativeBody(body, layout.offsets, steps))  # type: ignore[arg-type]
        table = table_of(work, len(slots), inside, lambda function: TableOf(function, self.data, self._share))
        text = loop_runs.text(objects.native_module(), table.function)
        return StepWords(self.module(text, Passes.VECTORS)(table.function), slots, tuple(table.numbers), None)

    # ------------------------------------------------------------ functions

    def emitted(self, function: Emitted) -> Label:
        """A kernel, by its text."""
        known = self._kernels.get(function.text)
        if known is None:
            known = self._kernels[function.text] = function.named(f"{self.name}.k{len(self._kernels)}")
        return self.data.function(known.name)

    def module(self, text: str, passes: Passes) -> Callable[[str], Label]:
        """A module of the runtime, by its text; gives the symbols of its functions."""
        names = {name: f"{self.name}.m{len(self._modules)}.{name}" for name in engine.exported_names(text)}
        _, names = self._modules.setdefault(text, (passes, names))
        return lambda name: self.data.function(names[name])

    def modules(self) -> list[tuple[str, Passes, dict[str, str]]]:
        """All modules but the main one: text, passes, new names of functions."""
        features = engine.target_features()
        found = [(text, passes, names) for text, (passes, names) in self._modules.items()]
        if self._kernels:
            found.append((emit.module_of(list(self._kernels.values()), features), Passes.VECTORS, {}))
        return [*found, (stand_ins.text(objects.native_module()), Passes.VECTORS, {})]

    def main(
        self, program: Program, layout: Layout, steps: Sequence[StepWords], hidden: Sequence[np.ndarray]
    ) -> str:
        """The module of the C function."""
        inputs, outputs = len(program.inputs) - len(hidden), len(program.outputs)
        scratch = max((len(step.slots) for step in steps), default=0)
        avals = program.inputs[inputs:]
        values = [self.data.bytes(np.asarray(x, aval.dtype)) for x, aval in zip(hidden, avals, strict=True)]
        described = self.data.words([
            Label("@run_steps"), self.data.steps(steps, self._share), len(steps), inputs, len(hidden), outputs,
            len(layout.offsets), scratch, program.workspace_bytes, self.data.words(values),
            self.data.words(layout.offsets), 0,
        ])  # fmt: skip
        declared = "declare i32 @run_in_turn(ptr, ptr, ptr, i64, i64, i64, i64)\n"
        entrance = _entrance(self.name, described, inputs, outputs)
        module = objects.native_module()
        module.beside(steps_ir.RUN_STEPS + declared + self.data.text() + entrance)
        return module.text([c_calls.call_program])


def _entrance(name: str, described: Label, inputs: int, outputs: int) -> str:
    """The C function, with a pointer for each argument and result."""
    given, made = [f"%a{i}" for i in range(inputs)], [f"%r{i}" for i in range(outputs)]
    lines = [f"define i64 @{name}({', '.join([f'ptr {p}' for p in [*given, *made, '%workspace']])}) {{"]
    for table, pointers in (("%arguments", given), ("%results", made)):
        lines.append(f"  {table} = alloca [{max(len(pointers), 1)} x ptr]")
        for i, pointer in enumerate(pointers):
            lines.append(f"  {table}.{i} = getelementptr ptr, ptr {table}, i64 {i}")
            lines.append(f"  store ptr {pointer}, ptr {table}.{i}")
    tables = "ptr %arguments, ptr %results, ptr %workspace"
    lines += [f"  %status = call i64 @call_program(ptr {described}, {tables})", "  ret i64 %status", "}", ""]
    return "\n".join(lines)


def _called(node: Any) -> str:
    lower = node.op.lower
    return lower.routine if isinstance(lower, Decompose) else node.op.name


def _needs(node: Any) -> str:
    """The reason why a step cannot leave Python."""
    if isinstance(node.op.lower, Decompose):
        return "LAPACK"
    if isinstance(node.op.lower, Fourier):
        return "tables of the Fourier transform that are made in Python"
    return "Python" if node.op.name in ("host", "host_part") else "NumPy"
