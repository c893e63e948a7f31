"""Calls of Python objects that go straight into a plan: entries as data for `enter` (`entered_call`).

    install(cls, "site", (MODE, Mode, "careful"), slow)    calls of objects of the class look into their slot
    entry = Entry(plan, Call(...), PutTogether)               one known call
    f.site = site([entry, ...])                               what is tried at a call of f, in this order

Where the self-check fails nothing is installed, and Python's own `__call__` stays.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import Aval, dtype_name
from ..lazily import later
from ..records import record
from .launcher import LaunchPlan, PlanBlock, StepTable, raise_status
from .memory import words
from .native import OFFSETS, Self, native
from .slots import offset_of, wrapper

if TYPE_CHECKING:
    from . import call_objects, entered_call, plan_words
else:
    call_objects = later("codegen.runtime.call_objects")
    entered_call = later("codegen.runtime.entered_call")
    plan_words = later("codegen.runtime.plan_words")

__all__ = ["CallForm", "EnteredCall", "can_enter", "install", "site"]

#: Objects that a call may hand around: they lie on the stack.
MOST = 1024


@record(frozen=True)
class CallForm:
    """The form of a call's arguments and result: instructions by the names in `entered_call` and `call_objects`.

    given       number of arguments: the first registers
    has_keywords    whether keywords are given too: their dict is in the next register
    registers   how many there are
    checks      (name, register, object, first register of the parts, count)
    places      registers of the plan's first inputs
    arrays      which of these are arrays: no number is taken for them
    hidden      its further inputs: (False, an array) or (True, a handle on a node that has one)
    holds       whether some inputs lie where somebody may change them, in containers or nodes
    result      (name, operand)
    depth       of the stack that they need
    """

    given: int
    has_keywords: bool
    registers: int
    checks: tuple[tuple[str, int, Any, int, int], ...]
    places: tuple[int, ...]
    arrays: frozenset[int]
    hidden: tuple[tuple[bool, Any], ...]
    holds: bool
    result: tuple[tuple[str, Any], ...]
    depth: int

    @property
    def is_flat(self) -> bool:
        """True if the arguments are the plan's inputs as they are."""
        return not (self.hidden or self.holds) and self.places == tuple(range(self.registers))


def can_enter(plan: LaunchPlan) -> bool:
    """True if calls can go straight into a plan."""
    few = len(plan.inputs) + len(plan.outputs) <= MOST
    return few and all(dtype_name(a.dtype) in call_objects.NUMBER_KINDS for a in plan.outputs if not a.ndim)


class EnteredCall:
    """One known call of a plan, in memory as `enter` reads it."""

    __slots__ = ("_block", "_owned")

    def __init__(self, plan: LaunchPlan, call: CallForm) -> None:
        steps = StepTable(plan.steps, is_long=plan.is_long)
        block = PlanBlock(plan, steps, raise_status, has_scalars=True, arrays=call.arrays)
        owned: list[Any] = [block, call]
        checks = [
            word
            for name, register, thing, parts, count in call.checks
            for word in (entered_call.TAKE_APART.index(name), register, id(thing), parts, count)
        ]
        hidden = [word for is_handle, thing in call.hidden for word in (int(is_handle), id(thing))]
        truths: list[Any] = []
        result: list[int] = []
        for name, operand in call.result:
            word = operand
            if name in ("object", "dict"):
                word = id(operand)
            elif name in ("last", "result") and _is_truth(plan.outputs[operand]):
                truths.append(words([operand, name == "last", id(np.False_), id(np.True_)]))
                name, word = "truth", ctypes.addressof(truths[-1])
            result += (call_objects.PUT_TOGETHER.index(name), word)
        tables = [words(t) for t in (checks, call.places, hidden, [*result, 0, 0])] + truths
        addresses = [ctypes.addressof(t) for t in tables]
        values = dict(
            given=call.given, has_keywords=int(call.has_keywords), registers=max(call.registers, 1),
            check_count=len(call.checks), checks=addresses[0],
            place_count=len(call.places), places=addresses[1],
            hidden_count=len(call.hidden), hidden=addresses[2],
            holds=int(call.holds), is_flat=int(call.is_flat), plan=block.address,
            depth=max(call.depth, 1), result=addresses[3],
        )  # fmt: skip
        self._block = words([values[name] for name in plan_words.ENTRY])
        self._owned = (owned, tables)

    @property
    def address(self) -> int:
        return ctypes.addressof(self._block)


def _is_truth(aval: Aval) -> bool:
    """True for a result in place of which there is NumPy's own false or true: `if` and `is` know these two by their
    identity, so one that was written to stands for one of them."""
    return aval.ndim == 0 and aval.dtype.kind == "b"


def site(entries: Sequence[EnteredCall]) -> Self:
    """The contents of an object's slot."""
    made = Self(struct.pack(f"{len(entries)}P", *[entry.address for entry in entries]))
    made.owned = tuple(entries)
    return made


def install(
    cls: type,
    slot: str,
    mode: tuple[Any, type, str],
    slow: Callable[[Any, tuple, dict[str, Any] | None], Any],
    handles: tuple[type, str, type, str],
    lookers: dict,
) -> bool:
    """Let calls of objects of this class go by `enter`.  For one class of a process.

    slot       of the class, for sites
    mode       a ContextVar of objects of a class, with the slot that is not False when every call goes to `slow`
    slow       slow(self, args, kwargs or None): all other calls
    handles    the class of handles and its slot for nodes, the class of nodes and its slot for values
    lookers    while it is not empty, calls that need the value of a handle go to `slow`
    """
    variable, mode_type, flag = mode
    if not native().launch:
        return False
    fields = dict(
        site_at=offset_of(cls, slot), careful_at=offset_of(mode_type, flag),
        node_at=offset_of(*handles[:2]), value_at=offset_of(*handles[2:]),
        items_at=OFFSETS["ITEMS"],
    )  # fmt: skip
    if None in fields.values():
        return False
    objects = dict(
        mode=variable, lookers=lookers, false=False, site_type=Self, slow=slow, none=None, dict_type=dict,
        array_type=np.ndarray, int_type=int, float_type=float, str_type=str,
    )  # fmt: skip
    values: dict[str, Any] = fields | {name: id(thing) for name, thing in objects.items()}
    # The code holds their addresses to the end of the process.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(objects))
    code = native().code
    address = ctypes.PYFUNCTYPE(ctypes.c_int64)(code.address("entering_words"))()
    (ctypes.c_int64 * len(plan_words.WORDS)).from_address(address)[:] = [values[name] for name in plan_words.WORDS]
    name = "__call__"
    setattr(cls, name, wrapper(cls, vars(type)[name], name, code.address("enter")))
    return True
