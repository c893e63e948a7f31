"""Programs that other languages can call: the address of a C function, and that of a description of the program."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernel.nest import Status
from ..lazily import later
from . import loops, memory, objects
from .executable import Executable
from .launcher import StepTable

if TYPE_CHECKING:
    from . import c_calls
else:
    c_calls = later("codegen.runtime.c_calls")

#: The text for each status, which callers in other languages show.
MESSAGES = {
    Status.OK: "",
    Status.INDEX_OUT_OF_RANGE: "an index is out of range",
    Status.NO_MEMORY: "there is no memory",
    Status.INTERRUPTED: "it was interrupted, or NumPy refuses these numbers",
    Status.REFUSED: "a matrix is singular or not positive definite, or a Fourier transform has nan or inf",
}


class CEntry:
    """A program without Python functions of the user, callable from C and XLA.

    function, handler   addresses of `call_program` and `xla_call`
    address             the address of the `DescribedProgram`, valid as long as this object lives
    """

    __slots__ = ("_kept", "address", "function", "handler", "workspace_bytes")

    def __init__(self, executable: Executable, hidden: Sequence[np.ndarray]) -> None:
        """`hidden`: the values of the last inputs, of which the entry keeps copies."""
        plan = executable.plan
        assert plan is not None, "a program that NumPy evaluates"
        code = objects.native_code("call_program", lambda module: module.text([c_calls.call_program, c_calls.xla_call]))
        steps = StepTable(plan.steps)
        avals = plan.inputs[len(plan.inputs) - len(hidden) :]
        values = [np.array(x, aval.dtype, order="C") for x, aval in zip(hidden, avals, strict=True)]
        texts = [ctypes.create_string_buffer(f"{plan.name}: {MESSAGES[status]}".encode()) for status in Status]
        pointers = memory.words([memory.address_of(x) for x in values])
        offsets, messages = memory.words(plan.offsets), memory.words([ctypes.addressof(text) for text in texts])
        numbers = (
            loops.addresses()["run_for_c"], steps.address, len(plan.steps), len(plan.inputs) - len(values),
            len(values), len(plan.outputs), len(plan.offsets), steps.scratch, plan.workspace_bytes,
            ctypes.addressof(pointers), ctypes.addressof(offsets), ctypes.addressof(messages),
        )  # fmt: skip
        block = ctypes.create_string_buffer(struct.pack(f"{len(numbers)}q", *numbers))
        self._kept: tuple[Any, ...] = (plan, steps, values, texts, pointers, offsets, messages, block, code)
        self.address = ctypes.addressof(block)
        self.function, self.handler = code.address("call_program"), code.address("xla_call")
        self.workspace_bytes = plan.workspace_bytes
