"""Calling a program from Python: one generic native launcher, and a ctypes path that does the same.

The input is a `LaunchPlan`: the types to check, the memory to allocate and the steps to run, as data.  The output
is a callable `f(*arguments) -> tuple of arrays`.

    launcher(plan)        a builtin function; between Python's call and the kernels there is only
                          machine code (`launch`), which calls `PackedCall` if the arguments do not fit.
    PackedCall(plan)      a call by ctypes, with one packed table of pointers: the slow path of the
                          launcher, and its replacement if the self-check fails.
    EarlyCall(plan, ...)  the first call of a program, in a process that has no launcher yet.

Ownership: the builtin function holds its `self`, a bytes object that holds the plan block, the method definition, the
descriptors and the code of the kernels.  There are no cycles, so dropping the function frees these at once.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from ..ir import DTYPES, Aval, OutOfRange, dtype_name
from ..ir import aval as avals
from ..kernel.nest import Status
from ..modes import modes
from ..records import record
from . import memory
from .native import NO_ROOM, OwnedAddress, is_made, is_native, native
from .slots import MethodDefinition
from .threads import sharing


@record(frozen=True)
class NativeStep:
    """A call of the function at `address`, with the pointers in these slots and with these extents.

    The function is `i32 f(ptr pointers, ptr extents)` and returns a `Status`.
    """

    address: int
    slots: tuple[int, ...]
    extents: tuple[int, ...] = ()
    share: Share | None = None


@record(frozen=True)
class Share:
    """The division of a step among threads: `total` iterations in blocks of `chunk`.

    The function of such a step takes two more extents, the first and the end of the iterations to do.
    """

    total: int
    chunk: int

    @property
    def blocks(self) -> int:
        return -(-self.total // self.chunk)


@record(frozen=True)
class LaunchPlan:
    """The data that a launcher needs to run a program.

    Slots are numbered inputs first, then outputs, then temporaries; temporary t lies at byte `offsets[t]` of the
    workspace.  `owns` holds the code of the steps, which must live as long as the plan can run.  If `is_long`, the
    interpreter's lock is released while the steps run.  `operations` counts the scalar operations of one run.
    """

    name: str
    inputs: tuple[Aval, ...]
    outputs: tuple[Aval, ...]
    offsets: tuple[int, ...]
    workspace_bytes: int
    steps: tuple[NativeStep, ...]
    is_long: bool
    owns: tuple[Any, ...] = ()
    operations: int = 0


class StepTable:
    """Steps in memory, as `run_steps` reads them.

    table     the words of each step      numbers   the slots, then the extents, of each step
    """

    __slots__ = ("address", "numbers", "scratch", "table")

    def __init__(self, steps: Sequence[NativeStep]) -> None:
        self.scratch = max((len(step.slots) for step in steps), default=0)
        self.numbers: list[ctypes.Array] = []
        words: list[int] = []
        for step in steps:
            share = step.share
            words += (step.address, len(step.slots), self._keep(step.slots), self._keep(step.extents))
            words += (sharing(), len(step.extents) + 2, share.blocks, share.chunk, share.total) if share else (0,) * 5
        self.table = memory.words(words)
        self.address = ctypes.addressof(self.table)

    def _keep(self, numbers: Sequence[int]) -> int:
        array = memory.words(numbers)
        self.numbers.append(array)
        return ctypes.addressof(array)


class PackedCall:
    """`f(*arguments)` by ctypes.  Converts arguments that the launcher does not take, or raises what is wrong."""

    __slots__ = ("__weakref__", "_plan", "steps")

    def __init__(self, plan: LaunchPlan) -> None:
        self._plan = plan
        self.steps = StepTable(plan.steps)

    def __call__(self, *arguments: Any) -> tuple[np.ndarray, ...]:
        return run_by(self._run, self._plan, arguments)

    def _run(self, addresses: Sequence[int]) -> int:
        run = native().run_program_unlocked if self._plan.is_long else native().run_program
        slots = (ctypes.c_void_p * (len(addresses) + self.steps.scratch))(*addresses)
        scratch = ctypes.addressof(slots) + 8 * len(addresses)
        status: int = run(self.steps.address, len(self._plan.steps), slots, scratch)
        return status


def run_by(run: Callable[[Sequence[int]], int], plan: LaunchPlan, arguments: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """The results of a plan on any arguments, in fresh memory.

    run    a function from the addresses of all slots to a status, as `run_program` returns it
    """
    inputs = checked_arguments(arguments, plan.inputs, plan.name)
    outputs, space = tuple([memory.new(a) for a in plan.outputs]), memory.workspace(plan.workspace_bytes)
    base = memory.address_of(space)
    if status := run([*map(memory.address_of, (*inputs, *outputs)), *[base + offset for offset in plan.offsets]]):
        raise_status(status)
    return outputs


def checked_arguments(arguments: Sequence[Any], avals: Sequence[Aval], name: str) -> list[np.ndarray]:
    """The arguments as packed arrays.  Raises TypeError or ValueError that names the first wrong argument."""
    if len(arguments) != len(avals):
        raise TypeError(f"{name}: expected {len(avals)} arguments ({', '.join(map(str, avals))}), got {len(arguments)}")
    return [
        memory.as_argument(value, aval, place, name)
        for place, (value, aval) in enumerate(zip(arguments, avals, strict=True))
    ]


class Refused(ArithmeticError):
    """A kernel has no result for these numbers: NumPy's references are run instead (`host_steps.WithFallback`)."""


def raise_status(code: int, size: int = 0) -> None:
    """Raise the exception for a status that `run_program` returned (step << 32 | status).

    size    the bytes that could not be allocated: of a result if the step is 0, else of the temporaries
    """
    status = code & 0xFFFFFFFF
    if status == Status.INDEX_OUT_OF_RANGE:
        raise OutOfRange("an index is out of range")
    if status == Status.REFUSED:
        raise Refused("a matrix is singular or not positive definite, or a Fourier transform has nan or inf")
    if status == Status.NO_MEMORY:
        what = "the states of a loop, or what a thread keeps"
        if size:
            what = f"{size} bytes of {'temporaries' if code >> 32 else 'a result'}"
        raise MemoryError(f"no memory for {what}{avals.place()}")
    raise RuntimeError(f"step {code >> 32} of a program failed with status {status}")


def launcher(plan: LaunchPlan) -> Callable[..., tuple[np.ndarray, ...]]:
    """A callable that runs `plan`: by the native launcher if it works in this Python, else `PackedCall`."""
    packed = PackedCall(plan)
    return builtin_of(plan.name, PlanBlock(plan, packed.steps, packed)) if is_native() else packed


#: From this many scalar operations on (some 150 ms, vectorised) threads save more time than making the launcher takes.
_LONGEST = 1_000_000_000

_signature = (ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_locked, _unlocked = ctypes.PYFUNCTYPE(*_signature), ctypes.CFUNCTYPE(*_signature)


def call_of(plan: LaunchPlan, owner: Callable[[], Any]) -> Callable[..., tuple[np.ndarray, ...]]:
    """The callable of a program: the launcher if the process has one or the program is long, else an `EarlyCall`.

    owner   returns the object whose `call` attribute an `EarlyCall` replaces by the launcher; None if it was freed
    """
    return launcher(plan) if is_made() or plan.operations > _LONGEST else EarlyCall(plan, owner)


class EarlyCall:
    """`f(*arguments)`: by ctypes once, then by the launcher.

    The launcher and the thread pool are the same for every program, and LLVM compiles them in some 170 ms, more than
    the kernels of most programs take: a process that computes one gradient would mostly wait for them.  So the first
    call runs step by step, on fresh memory and one thread, and the second call makes the launcher for all programs.
    Both give the same bits: they run the same code, and the chunks of a shared loop do not depend on the threads.
    """

    __slots__ = ("__weakref__", "_launcher", "_owner", "_plan", "_was_called")

    def __init__(self, plan: LaunchPlan, owner: Callable[[], Any]) -> None:
        self._plan, self._owner, self._was_called = plan, owner, False
        self._launcher: Callable[..., tuple[np.ndarray, ...]] | None = None

    def __call__(self, *arguments: Any) -> tuple[np.ndarray, ...]:
        # Only the launcher's machine code can flush subnormal numbers.
        if self._launcher is None and (self._was_called or is_made() or modes.flush_subnormals):
            with suppress(*NO_ROOM):
                self._launcher = launcher(self._plan)
                if (owner := self._owner()) is not None:
                    owner.call = self._launcher
        self._was_called = True
        if self._launcher is None:
            return run_by(partial(_run_steps, self._plan), self._plan, arguments)
        return self._launcher(*arguments)


def _run_steps(plan: LaunchPlan, addresses: Sequence[int]) -> int:
    """Run the steps as `run_program` does, on one thread, by ctypes instead of the launcher's machine code."""
    made = _unlocked if plan.is_long else _locked
    for number, step in enumerate(plan.steps):
        pointers = (ctypes.c_void_p * len(step.slots))(*[addresses[slot] for slot in step.slots])
        extents = step.extents if step.share is None else (*step.extents, 0, step.share.total)
        if status := made(step.address)(pointers, memory.words(extents)):
            return number << 32 | status
    return 0


_METH_FASTCALL = 0x80
_new_builtin = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


def builtin(name: str, address: int, payload: int, *owned: Any) -> Callable[..., Any]:
    """A new builtin function of Python.

    address    the address of its code, a METH_FASTCALL function whose `self` holds the address `payload`
    owned      objects that must live as long as the function
    """
    definition = MethodDefinition(name.encode(), address, _METH_FASTCALL, None)
    self = OwnedAddress(struct.pack("P", payload))
    self.owned = (definition, *owned)
    return _new_builtin(ctypes.addressof(definition), self, None)


def builtin_of(name: str, block: PlanBlock) -> Callable[..., Any]:
    """A builtin function whose code is `launch` and whose `self` is a plan in memory."""
    return builtin(name, native().launch, block.address, block)


class PlanBlock:
    """A plan in memory as machine code reads it, and the objects that must live with it.

    words         the words of `plan_words.PLAN`, which point to the tables below
    input_specs, output_specs, offsets, steps   the tables: specs of arguments and results, temporaries, steps
    has_scalars   if True, 0-d outputs are NumPy scalars, not arrays
    arrays        the places of 0-d inputs that take arrays only, no Python numbers
    """

    __slots__ = ("_owned", "input_specs", "offsets", "output_specs", "steps", "words")

    def __init__(
        self, plan: LaunchPlan, steps: StepTable, slow: Callable[..., Any], *,
        has_scalars: bool = False, arrays: Collection[int] = (),
    ) -> None:  # fmt: skip
        numbers = [(0, 0) if i in arrays else _number(aval) for i, aval in enumerate(plan.inputs)]
        scalars = [_scalar(aval) if has_scalars else (0, 0) for aval in plan.outputs]
        self.input_specs = input_specs = Specs(plan.inputs, numbers)
        self.output_specs = output_specs = Specs(plan.outputs, scalars)
        self.offsets = offsets = memory.words(plan.offsets)
        self.steps = steps
        slots = len(plan.inputs) + len(plan.outputs) + len(plan.offsets)
        frame_words = slots + steps.scratch + 2 * len(plan.inputs) + len(plan.outputs)
        values = dict(
            inputs=len(plan.inputs),
            outputs=len(plan.outputs),
            temporaries=len(plan.offsets),
            steps=len(plan.steps),
            frame_words=frame_words,
            frame_bytes=-(-frame_words * 8 // memory.ALIGNMENT) * memory.ALIGNMENT,
            workspace_bytes=plan.workspace_bytes,
            is_long=int(plan.is_long),
            slots=slots,
            input_specs=input_specs.address,
            output_specs=output_specs.address,
            offsets=ctypes.addressof(offsets),
            step_table=steps.address,
            slow=id(slow),
            fail=id(raise_status),
        )
        self.words = memory.words([values[word] for word in native().facts["plan"]])
        self._owned = (plan, slow, raise_status, native())

    @property
    def address(self) -> int:
        return ctypes.addressof(self.words)


def _number(aval: Aval) -> tuple[int, int]:
    """(the form in which a Python number is written for an input, the class of NumPy scalars); zeros for arrays."""
    kind = native().facts["numbers"].get(dtype_name(aval.dtype), 0) if aval.ndim == 0 else 0
    return kind, id(aval.dtype.type) if kind else 0


def _scalar(aval: Aval) -> tuple[int, int]:
    """(the `tp_alloc` of the NumPy scalar class of a 0-d output, that class); zeros for an array."""
    return (_slot(aval.dtype.type, _TP_ALLOC), id(aval.dtype.type)) if aval.ndim == 0 else (0, 0)


#: Py_tp_alloc of CPython's typeslots.h.
_TP_ALLOC = 47
_slot = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_int)(("PyType_GetSlot", ctypes.pythonapi))


class Specs:
    """The specs that arguments are compared with and outputs are made from: the shape of each, and the table of all."""

    __slots__ = ("_dtypes", "shapes", "table")

    def __init__(self, avals: Sequence[Aval], scalars: Sequence[tuple[int, int]]) -> None:
        self._dtypes: list[np.dtype] = []
        self.shapes: list[ctypes.Array] = []
        words: list[int] = []
        for aval, scalar in zip(avals, scalars, strict=True):
            name, dims = dtype_name(aval.dtype), memory.words(aval.shape)
            dtype = DTYPES.get(name, aval.dtype)  # the one object that NumPy's own arrays point to
            self._dtypes.append(dtype)
            self.shapes.append(dims)
            words += (id(dtype), aval.ndim, ctypes.addressof(dims), *scalar, aval.nbytes)
        self.table = memory.words(words)

    @property
    def address(self) -> int:
        return ctypes.addressof(self.table)
