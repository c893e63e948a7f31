"""The steps of a program as functions of one module, and data that name them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import emit
from ..emit import Emitted
from ..ir import Node
from ..lowering import Fourier
from ..native import Translation
from ..program import Branch, BufferProgram, Gemm, HostCall, Kernel, Loop, Step, While
from ..records import NamedTuple
from ..runtime import c_calls, engine, orders, product_steps, products
from ..runtime import share as shares
from ..runtime.executable import SlotLayout
from ..runtime.loops import nest_text, outside_steps
from ..runtime.run_steps import run_steps
from ..symbols import NotSymbolic, Symbol, SymbolicFloat
from . import stand_ins
from .data import Data, Label, StepWords

#: Functions of the C library that a module may call.
_WORDS = """
    malloc realloc free memcpy memmove memset fma fmaf exp expf exp2 exp2f log logf log2 log2f log10 log10f pow
    powf sin sinf cos cosf tan tanf sqrt sqrtf cbrt cbrtf fmod fmodf floor floorf ceil ceilf trunc truncf rint
    rintf round roundf nearbyint nearbyintf tanh tanhf sinh sinhf cosh coshf atan2 atan2f hypot hypotf ldexp
    ldexpf clock_gettime
"""
C_FUNCTIONS = frozenset(_WORDS.split())


#: A need of a step that only stands in a program of known sizes.
KNOWN_SIZES = "known sizes"


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
    mlir              its kernels; of a program for any sizes those of the first way
    workspace_bytes   that a call needs           calls    functions of the C library that it calls
    tried             sizes that were tried       sizes    those of them that the program is for
    """

    object_bytes: bytes
    llvm: str
    mlir: str
    workspace_bytes: int
    calls: tuple[str, ...]
    tried: Sequence[tuple[int, ...]] = ()
    sizes: Sequence[tuple[int, ...]] = ()


def exported(program: BufferProgram, name: str, hidden: Sequence[np.ndarray], mlir: str) -> Exported:
    """A program as the C function `int64_t name(pointers of arguments, of results, workspace)`.

    hidden    values of its last inputs, which become constants of the object      mlir    its kernels as text

    Raises NotExportable.
    """
    writer = ExportWriter(name)
    pointers, lines = called(*writer.described(program, hidden))
    entrance = "\n".join([f"define i64 @{name}({', '.join([f'ptr {p}' for p in pointers])}) {{", *lines, "}", ""])
    object_bytes, llvm, calls = writer.joined(entrance, (name,))
    return Exported(object_bytes, llvm, mlir, program.workspace_bytes, calls)


class ExportWriter:
    """Collects functions by text, and writes the data of steps."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.data = Data(name)
        self._refused: list[tuple[str, str]] = []
        self._kernels: dict[str, Emitted] = {}
        self._modules: dict[str, dict[str, str]] = {}

    # ------------------------------------------------------------ steps

    def pieces(self, step: Step, slots: tuple[int, ...]) -> list[StepWords]:
        """A step, which may be several, on these slots; none if it is refused."""
        match step.work:
            case Kernel(function, extents):
                try:
                    return [self.kernel(part, slots, extents) for part in shares.shared(function, extents)]
                except NotSymbolic as error:
                    nodes = step.work.members or [v for v in step.values[-1:] if isinstance(v, Node)]
                    told = ", ".join(dict.fromkeys([node.op.name for node in nodes]))
                    self._refused.append((told or "planning", f"{KNOWN_SIZES}: {error}"))
            case Gemm() as gemm:
                return [self.product(gemm, slots)]
            case Loop() | Branch() | While() as nest:
                return self.nest(nest, slots)
            case HostCall(node):
                if orders.is_native(node):
                    names, order = self.module(orders.text_of(node, Translation())), orders.order_step(node, slots)[0]
                    rows = (0, order.share.total) if order.share else ()
                    return [StepWords(names("order"), order.slots, (*order.extents, *rows))]
                self._refused.append((node.op.name, _needs(node)))
        return []

    def kernel(self, part: shares.KernelPiece, slots: tuple[int, ...], extents: tuple[int, ...]) -> StepWords:
        symbol = self.emitted(emit.emit_function(emit.nameless(part.function), engine.target_features()))
        return StepWords(symbol, tuple([slots[j] for j in part.memory]), part.numbers(extents))

    def product(self, gemm: Gemm, slots: tuple[int, ...]) -> StepWords:
        a, b, c = slots
        is_swapped, extents, text, words = products.form_of(gemm)
        step, names = self.module(product_steps.step_text()), self.module(text)
        tile = self.data.words([names(word) if isinstance(word, str) else word for word in words])
        return StepWords(step("product"), (b, a, c) if is_swapped else slots, (tile, *extents))

    def nest(self, work: Loop | Branch | While, slots: tuple[int, ...]) -> list[StepWords]:
        """A loop or branch."""
        found = nest_text(work, len(slots))
        words = {}
        for k, step in outside_steps(work, found).items():
            pieces = self.pieces(step, tuple(range(len(step.buffers))))
            words[k] = self.data.steps(pieces), len(pieces)
        addresses = {"account": self.data.function("account_nothing"), "run_steps": Label("@run_steps")}
        return [StepWords(self.emitted(found.emitted), slots, found.filled(addresses, words))]

    # ------------------------------------------------------------ functions

    def emitted(self, function: Emitted) -> Label:
        """A kernel, by its text."""
        known = self._kernels.get(function.text)
        if known is None:
            known = self._kernels[function.text] = function.named(f"{self.name}.k{len(self._kernels)}")
        return self.data.function(known.name)

    def module(self, text: str) -> Callable[[str], Label]:
        """A module of the runtime, by its text; gives the symbols of its functions."""
        names = {name: f"{self.name}.m{len(self._modules)}.{name}" for name in engine.exported_names(text)}
        names = self._modules.setdefault(text, names)
        return lambda name: self.data.function(names[name])

    def modules(self) -> list[tuple[str, dict[str, str]]]:
        """All modules but the main one: text, new names of functions."""
        features = engine.target_features()
        found = [*self._modules.items()]
        if self._kernels:
            found.append((emit.module_of(list(self._kernels.values()), features), {}))
        return [*found, (stand_ins.text(Translation()), {})]

    def described(self, program: BufferProgram, hidden: Sequence[Any]) -> tuple[Label, int, int]:
        """A program as `call_program` reads it, and how many arguments and results it has.

        hidden    values of its last inputs: constants of the object, or numbers that sizes decide

        Raises NotExportable.
        """
        layout = SlotLayout(program)
        steps = [p for step in program.steps for p in self.pieces(step, tuple([layout.slots[b] for b in step.buffers]))]
        if self._refused:
            refused, self._refused = self._refused, []
            raise NotExportable(refused)
        inputs, outputs = len(program.inputs) - len(hidden), len(program.outputs)
        scratch = max((len(step.slots) for step in steps), default=0)
        avals = program.inputs[inputs:]
        values = [self.data.number(x, aval.dtype) if type(x) in (Symbol, SymbolicFloat)
                  else self.data.bytes(np.asarray(x, aval.dtype)) for x, aval in zip(hidden, avals, strict=True)]
        described = self.data.words([
            Label("@run_steps"), self.data.steps(steps), len(steps), inputs, len(hidden), outputs,
            len(layout.offsets), scratch, program.workspace_bytes, self.data.words(values),
            self.data.words(layout.offsets), 0,
        ])  # fmt: skip
        return described, inputs, outputs

    def joined(self, entrances: str, names: Sequence[str]) -> tuple[bytes, str, tuple[str, ...]]:
        """The object file of these functions, its text, and what it calls.  Raises NotExportable."""
        module = Translation()
        module.add_text(self.data.text() + entrances)
        main = module.text([c_calls.call_program, run_steps])
        data, text, calls = engine.joined([*self.modules(), (main, {})], names)
        missing = [call for call in calls if call not in C_FUNCTIONS]
        if missing:
            raise NotExportable([(call, "a function that is in no C library") for call in missing])
        return data, text, tuple(calls)


def called(described: Label, inputs: int, outputs: int) -> tuple[list[str], list[str]]:
    """The pointers that a function of a program takes, and the lines that run it and return."""
    given, made = [f"%a{i}" for i in range(inputs)], [f"%r{i}" for i in range(outputs)]
    lines = []
    for table, pointers in (("%arguments", given), ("%results", made)):
        lines.append(f"  {table} = alloca [{max(len(pointers), 1)} x ptr]")
        for i, pointer in enumerate(pointers):
            lines.append(f"  {table}.{i} = getelementptr ptr, ptr {table}, i64 {i}")
            lines.append(f"  store ptr {pointer}, ptr {table}.{i}")
    tables = "ptr %arguments, ptr %results, ptr %workspace"
    lines += [f"  %status = call i64 @call_program(ptr {described}, {tables})", "  ret i64 %status"]
    return [*given, *made, "%workspace"], lines


def _needs(node: Any) -> str:
    """The reason why a step cannot leave Python."""
    if node.op.name in ("eigh", "qr", "svd"):
        return "LAPACK"
    if isinstance(node.op.lower, Fourier):
        return "tables of the Fourier transform that are made in Python"
    return "Python" if node.op.name in ("host", "host_part") else "NumPy"
