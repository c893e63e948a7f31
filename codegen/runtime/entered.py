"""Calls of Python objects that run a plan directly: the data of entries for the machine code `enter` (`entered_call`).

    install(cls, "site", (MODE, Mode, "careful"), slow, ...)    calls of objects of the class try the slot's entries
    f.site = site([new_entry(plan, form), ...])               the entries that a call of f tries, in this order
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .launcher import LaunchPlan, PlanBlock, StepTable, raise_status
from .memory import words
from .native import OwnedAddress, is_native, native, new_block
from .slots import offset_of, wrapper

#: The addresses of NumPy's two bool objects: a 0-d bool result is one of them, so that `is` works on it.
_TRUTHS = words([id(np.False_), id(np.True_)])


class CallForm:
    """The form of a call's arguments and result: instructions by the names in `entered_call` and `call_objects`."""

    def __init__(self, given: int, has_keywords: bool, *, has_scalars: bool = True) -> None:
        self.given = given  # the number of positional arguments, which are the first registers
        self.has_keywords = has_keywords  # the dict of keyword arguments is the next register
        self.has_scalars = has_scalars  # 0-d results are NumPy scalars, not arrays
        self.registers = given + has_keywords  # the number of registers
        self.checks: list[tuple[str, int, Any, int, int]] = []  # name, register, object, first register of parts, count
        self.inputs: list[int] = []  # the registers of the plan's inputs
        self.arrays: list[int] = []  # the inputs that take arrays only, no Python numbers
        self.result: list[tuple[str, Any]] = []  # (name, operand) of each instruction
        self.python_function: Callable | None = None  # the Python function that gets the inputs if there is no plan

    def check(self, name: str, register: int, thing: Any, count: int = 0) -> int:
        """Add an instruction; return the first register of its parts."""
        first = self.registers
        self.checks.append((name, register, thing, first, count))
        self.registers += count
        return first

    def constant(self, thing: Any) -> int:
        """Add a register that holds a constant object; return its number."""
        return self.check("constant", 0, thing, 1)


class EnteredCall(OwnedAddress):
    """One known call: the address of its `plan_words.EntryWords`."""


def new_entry(plan: LaunchPlan | None, call: CallForm) -> EnteredCall:
    """A known call, of a plan or of the form's function `python_function`, in memory as `enter` reads it."""
    block, facts = None, native().facts
    if plan is not None:
        steps = StepTable(plan.steps)
        block = PlanBlock(plan, steps, raise_status, has_scalars=call.has_scalars, arrays=call.arrays)
    checks = [
        word
        for name, register, thing, parts, count in call.checks
        for word in (facts["take apart"].index(name), register, id(thing), parts, count)
    ]
    result = []
    for name, operand in call.result:
        word = id(operand) if name in ("object", "dict", "call") else operand
        word = ctypes.addressof(_TRUTHS) if name == "truth" else word
        result += [facts["put together"].index(name), word]
    made: EnteredCall = new_block(
        EnteredCall, facts["entry"], {"checks": checks, "inputs": call.inputs, "result": [*result, 0, 0]}, block, call,
        given=call.given, has_keywords=int(call.has_keywords), registers=max(call.registers, 1),
        check_count=len(call.checks), input_count=len(call.inputs), plan=0 if block is None else block.address,
        python_function=id(call.python_function), depth=len(call.result) + 1,
    )  # fmt: skip
    return made


def site(entries: Sequence[EnteredCall]) -> OwnedAddress:
    """The content of an object's slot: the addresses of these entries, which it keeps alive."""
    made = OwnedAddress(b"".join(entries))
    made.owned = tuple(entries)
    return made


def install(
    cls: type,
    slot: str,
    mode: tuple[Any, type, str],
    slow: Callable[[Any, tuple, dict[str, Any] | None], Any],
    handles: Sequence[tuple[type, str]],
) -> bool:
    """Make `enter` the `__call__` of a class, which may be done for one class of a process.  Return True if it was.

    slot       the name of the slot of the class that holds a site
    mode       a ContextVar, the class of its values, and their slot that is False unless every call must go to `slow`
    slow       slow(self, args, kwargs or None), called if no entry fits
    handles    (class, slot) of: a handle's node, a node's value, a node's kind, a kind's result
    """
    variable, mode_type, flag = mode
    if not is_native():
        return False
    fields = dict(site_at=offset_of(cls, slot), careful_at=offset_of(mode_type, flag))
    names = ("node_at", "value_at", "kind_at", "out_at")
    fields |= {name: offset_of(*place) for name, place in zip(names, handles, strict=True)}
    objects = dict(
        mode=variable, false=False, site_type=OwnedAddress, slow=slow, none=None, dict_type=dict, str_type=str,
        error_type=Exception,
    )  # fmt: skip
    # Machine code holds the addresses of these objects to the end of the process.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(objects))
    native().write_entering(fields | {name: id(thing) for name, thing in objects.items()})
    name = "__call__"
    setattr(cls, name, wrapper(cls, vars(type)[name], name, native().code.address("enter")))
    return True
