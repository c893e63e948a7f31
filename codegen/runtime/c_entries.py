"""Programs as other languages call them: by the address of one C function and of what describes the program."""

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

#: By status: texts that callers in other languages show.
MESSAGES = {
    Status.OK: "",
    Status.INDEX_OUT_OF_RANGE: "an index is out of range",
    Status.NO_MEMORY: "there is no memory",
    Status.INTERRUPTED: "it was interrupted, or NumPy refuses these numbers",
    Status.REFUSED: "a matrix is singular, or not positive definite",
}


class CEntry:
    """A program that runs nothing of the user's in Python.

    function, handler   addresses of `call_program` and `xla_call`
    address             of what describes this program, good as long as the entry is there
    """

    __slots__ = ("_kept", "address", "function", "handler", "workspace_bytes")

    def __init__(self, executable: Executable, hidden: Sequence[np.ndarray]) -> None:
        """`hidden`: values of the last inputs, which the entry keeps copies of."""
        plan = executable.plan
        assert plan is not None, "a program that NumPy evaluates"
        code = objects.typed("call_program", lambda module: module.text([c_calls.call_program, c_calls.xla_call]))
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
