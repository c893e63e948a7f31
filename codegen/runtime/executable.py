"""Executables: a program with its machine code, ready to be called.

    executable = Executable(program, table)
    loss, gradient = executable.call(x, w)

`call` takes one packed array (or, for a 0-d input, a number) per graph input and gives a tuple of
new arrays; 0-d outputs are 0-d arrays.  It never returns memory of its inputs, keeps nothing between
calls, and may be called by several threads at once and from within a host call.

Kernels, matrix products, loops and branches become native steps, which the native launcher runs with no Python in
between.  A host call, an operation that NumPy or the user's Python computes, is a native step that calls Python.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import Graph, Node, evaluate
from ..lazily import imported, later
from ..lowering import Fourier
from ..modes import modes
from ..program import (
    Branch,
    Buffer,
    BufferProgram,
    Gemm,
    HostCall,
    Kernel,
    Loop,
    Step,
    While,
    every_step,
    observers,
)
from ..records import NamedTuple
from ..symbols import typical
from .kernels import KernelTable, NativeKernel
from .launcher import LaunchPlan, NativeStep, Share, StepTable, call_of, launcher

if TYPE_CHECKING:
    from ..emit.debug import PlaceOf
    from ..emit.nests import NestText
    from . import cost, fourier, host_steps, loops, orders, products
    from . import share as shares
    from .share import KernelPiece
else:
    cost = later("codegen.runtime.cost")
    fourier = later("codegen.runtime.fourier")
    host_steps = later("codegen.runtime.host_steps")
    loops = later("codegen.runtime.loops")
    orders = later("codegen.runtime.orders")
    products = later("codegen.runtime.products")
    shares = later("codegen.runtime.share")


class Executable:
    """A program that can be called.

    call        call(*inputs) -> tuple of arrays.  It may outlive the executable.  Read the attribute anew at each
                call: the launcher may replace it
    name, inputs, outputs   as in the program, which is not stored: it is many times as large
    plan        the steps and what the launcher needs to run them; None if NumPy evaluates the graph
    python_operations       the names of the operations that Python computes
    """

    __slots__ = ("__weakref__", "call", "inputs", "name", "outputs", "plan", "python_operations")

    call: Callable[..., tuple[np.ndarray, ...]]
    plan: LaunchPlan | None

    def __init__(
        self,
        program: BufferProgram,
        kernels: KernelTable,
        keep: Callable[[LaunchPlan, Sequence[Any]], None] | None = None,
    ) -> None:
        """`keep(plan, owners)` is called if the plan can be stored: kernels and products that refuse no numbers."""
        code = Pieces.of(program).loaded(kernels)
        layout, exchanges = SlotLayout(program), [observe(program) for observe in observers]
        pieces: list[_Owning] = []
        for step in program.steps:
            for piece in _pieces(step, tuple([layout.slots[b] for b in step.buffers]), code):
                for exchange in exchanges:
                    piece = exchange(step, piece)
                pieces.append(piece)
        steps = tuple([piece.step for piece in pieces])
        owns = tuple(dict.fromkeys([owner for piece in pieces for owner in piece.owners]))
        operations = cost.operations_of(program)
        plan = LaunchPlan(
            program.name, program.inputs, program.outputs, layout.offsets, program.workspace_bytes, steps,
            operations >= cost.LONG, owns, operations,
        )  # fmt: skip
        called = [work.node for step, _, _ in every_step(program) if isinstance(work := step.work, HostCall)]
        self.python_operations = tuple([node.op.name for node in called if not _is_native(node)])
        refuses = may_refuse(program)
        self._set_plan(plan, program.graph if refuses else None)
        if keep and not refuses and all(isinstance(step.work, Kernel | Gemm) for step in program.steps):
            keep(plan, [piece.owners[0] for piece in pieces])

    @classmethod
    def of(cls, plan: LaunchPlan, fallback: Graph | None = None) -> Executable:
        """The executable of a plan of machine code.  `fallback`: the graph that NumPy evaluates if a kernel refuses."""
        self = cls.__new__(cls)
        self.python_operations = ()
        self._set_plan(plan, fallback)
        return self

    def _set_plan(self, plan: LaunchPlan, fallback: Graph | None) -> None:
        """Set the attributes from a plan, and make the function that runs the plan."""
        self.plan = plan
        self.name, self.inputs, self.outputs = plan.name, plan.inputs, plan.outputs
        owner: Any = self if fallback is None else host_steps.WithFallback(fallback)
        owner.call = launcher(plan) if self.python_operations else call_of(plan, weakref.ref(owner))
        if owner is not self:
            self.call = owner

    @classmethod
    def by_numpy(cls, graph: Graph) -> Executable:
        """An executable that NumPy evaluates, without any machine code."""
        self = cls.__new__(cls)
        self.name, self.plan, self.call = graph.name, None, partial(evaluate, graph)
        self.python_operations = tuple([node.op.name for node in graph.nodes])
        self.inputs, self.outputs = (tuple([node.aval for node in nodes]) for nodes in (graph.inputs, graph.outputs))
        return self

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, avals)) for avals in (self.inputs, self.outputs))
        return f"<Executable {self.name}({inputs}) -> ({outputs})>"


class SlotLayout:
    """The slots of buffers in the table of pointers: inputs, then outputs, then temporaries.

    offsets     the offset of each temporary in the workspace
    slots       the slot of each buffer, by its number in the program
    """

    def __init__(self, program: BufferProgram) -> None:
        inputs, outputs = len(program.inputs), len(program.outputs)
        slots: list[int] = []
        temporaries: list[Buffer] = []
        for buffer in program.buffers:
            if buffer.role == "input":
                slot = buffer.place
            elif buffer.role == "output":
                slot = inputs + buffer.place
            else:
                assert buffer.role == "temporary", f"a buffer of role {buffer.role!r}"
                end = typical(buffer.place + buffer.aval.nbytes)
                assert end <= typical(program.workspace_bytes), "a buffer beyond the workspace"
                slot = inputs + outputs + len(temporaries)
                temporaries.append(buffer)
            slots.append(slot)
        self.slots = tuple(slots)
        self.offsets = tuple([buffer.place for buffer in temporaries])
        written = {slots[b] for step in program.steps for b in step.buffers}
        for place, aval in enumerate(program.outputs):
            is_written = not aval.size or inputs + place in written
            assert is_written, f"nothing writes output {place} ({aval}) of {program.name}"


class _Owning(NamedTuple):
    """A native step, and the objects that keep its machine code loaded."""

    step: NativeStep
    owners: tuple[object, ...]


def coded(program: BufferProgram, place_of: PlaceOf | None) -> Iterator[tuple[Step, NestText | None]]:
    """The steps that are compiled to a function each: (kernel, None), (loop or branch, its text).

    The kernels that a loop calls come after the loop.
    """
    for step in program.steps:
        if isinstance(step.work, Kernel):
            yield step, None
        elif isinstance(step.work, Loop | Branch | While):
            nest = loops.nest_text(step.work, len(step.buffers), place_of)
            yield step, nest
            yield from [(s, None) for s in loops.outside_steps(step.work, nest).values() if isinstance(s.work, Kernel)]


class Pieces(NamedTuple):
    """The parts of a program that are compiled: `parts` and `nests` have the pieces of each kernel and the text of each
    loop or branch, by `id(work)`; `native` their machine code, by the id of a piece's function or by `id(work)`.
    """

    parts: dict[int, list[KernelPiece]]
    nests: dict[int, NestText]
    native: dict[int, NativeKernel]

    @classmethod
    def of(cls, program: BufferProgram) -> Pieces:
        """The pieces of a program, not yet compiled."""
        found = cls({}, {}, {})
        place_of = imported("codegen.runtime.told").place_of_node if modes.debug_info else None
        for step, nest in coded(program, place_of):
            if nest is not None:
                found.nests[id(step.work)] = nest
            elif isinstance(work := step.work, Kernel):
                found.parts[id(work)] = shares.shared(work.function, work.extents)
        return found

    def loaded(self, kernels: KernelTable) -> Pieces:
        """A copy of these pieces with their machine code, compiled or from the cache."""
        functions = [part.function for found in self.parts.values() for part in found]
        native = kernels.load([*functions, *[nest.emitted for nest in self.nests.values()]])
        native.update({number: native[id(nest.emitted)] for number, nest in self.nests.items()})
        return self._replace(native=native)


def _pieces(step: Step, slots: tuple[int, ...], code: Pieces) -> list[_Owning]:
    """The native steps of one step on these slots; a kernel may become several."""
    match step.work:
        case Kernel(_, extents) as work:
            parts = code.parts[id(work)]
            return [_kernel_step(part, code.native[id(part.function)], slots, extents) for part in parts]
        case Gemm() as gemm:
            product = products.product_step(gemm)
            a, b, c = slots
            slots = (b, a, c) if product.is_swapped else slots
            return [_Owning(NativeStep(product.address, slots, product.extents, product.share), (product,))]
        case Loop() | Branch() | While() as nest:
            return [_nested_step(nest, slots, code)]
        case HostCall(node):
            if orders.is_native(node):
                return [_Owning(*orders.order_step(node, slots))]
            if fourier.is_native(node):
                return [_Owning(*fourier.fourier_step(node, slots))]
            return [_Owning(*host_steps.host_step(node, slots))]
    raise AssertionError(f"a step of unknown work {step.work!r}")


def _is_native(node: Node) -> bool:
    """True if a host call is done by machine code (sorts and Fourier transforms)."""
    return orders.is_native(node) or fourier.is_native(node)


def may_refuse(program: BufferProgram) -> bool:
    """True if a step may refuse some numbers; NumPy's references then raise an error or return a value."""
    works = [step.work for step, _, _ in every_step(program)]
    return any([
        work.function.refuses if isinstance(work, Kernel)
        else isinstance(work, HostCall) and isinstance(work.node.op.lower, Fourier) and fourier.is_native(work.node)
        for work in works
    ])  # fmt: skip


def _kernel_step(part: KernelPiece, kernel: NativeKernel, slots: tuple[int, ...], extents: tuple[int, ...]) -> _Owning:
    share = Share(part.total, part.chunk) if part.chunk < part.total else None
    own, numbers = tuple([slots[j] for j in part.memory]), part.numbers(extents, is_shared=share is not None)
    return _Owning(NativeStep(kernel.address, own, numbers, share), (kernel,))


def _nested_step(work: Loop | Branch | While, slots: tuple[int, ...], code: Pieces) -> _Owning:
    """The native step of a loop or branch; the steps that its function calls are tables of their own."""
    nest, kernel = code.nests[id(work)], code.native[id(work)]
    owners: list[object] = [kernel]
    words = {}
    for k, step in loops.outside_steps(work, nest).items():
        pieces = _pieces(step, tuple(range(len(step.buffers))), code)
        table = StepTable([piece.step for piece in pieces])
        words[k] = table.address, len(pieces)
        owners += [table, *[owner for piece in pieces for owner in piece.owners]]
    return _Owning(NativeStep(kernel.address, slots, nest.filled(loops.addresses(), words)), tuple(owners))
