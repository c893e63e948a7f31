"""Known calls of a jit function as data, for machine code that takes arguments apart and puts results together.

    f({"w": w, "b": b}, x) -> (y, {"n": n})

    arguments   two; the first is a dict with the keys "w" and "b"; w, b and x are the inputs of the plan
    result      in the order of assembly: y, n, a dict of one value, a tuple of two values

Machine code knows tuples, lists, dicts, namedtuples, arrays, numbers, tensors and static objects.  For everything else
it calls Python functions: for other containers, for static objects that may change, for an entry that depends on the
contents of arrays.  A call with tensors that track records the traced operations, from a template.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.runtime.entered import CallForm, EnteredCall, new_entry

from . import tree
from .argument_leaves import ARRAYS, has_key, is_unchanging
from .config import config
from .entry import SignatureEntry, Signed, is_narrow
from .mode import MODE
from .ops.template import Template
from .tape import machine
from .tape.leaves import fits, leaf
from .tape.node import Node
from .tape.record import ARGUMENT, is_masked, look_at_size, result_handle, state
from .tensor import AbstractTensor, Tensor, handle
from .tracebacks import border

#: The most objects of a call in machine code, which has them on the stack: a larger call runs in Python.
MOST = 4096


def entered_call(entry: SignatureEntry, signed: Signed) -> EnteredCall | None:
    """The calls of a signature as data for machine code; None if they have to run in Python."""
    given = [x.given for x in signed.leaves if x.value is not None and isinstance(x.given, AbstractTensor)]
    if not all([isinstance(x, Tensor) and type(x) is x.node.kind.out.cls and not x.masked for x in given]):
        return None
    form = _LeavesForm(signed, bool(given))
    if any([x.node.kind.out.requires_grad for x in given]):
        form.python_function = _recording(entry, [x.value for x in signed.leaves])
        if form.python_function is None:
            return None
    elif entry.executable is None or entry.executable.plan is None or (given and entry.tracks):
        return None
    elif given:
        if any([t.node.kind.out.requires_grad or all([t is not h for h in entry.hidden]) for t in entry.tensors]):
            return None  # a call may have to track a captured tensor, now or later
        for h in entry.hidden:
            if isinstance(h, Tensor):  # the tensor must still not track
                form.check("handle", form.constant(h), h.node.kind.out)
    elif entry.tensors:
        # While a function is differentiated, in any thread, a call may have to track the captured tensors.
        form.check("empty", 0, config.transforming)
    has_fixed = entry.has_fixed
    if has_fixed is not None:
        form.check("parts", form.constant(has_fixed), lambda holds: () if holds() else None)
    if any([sum([n.kind.op is ARGUMENT for n in made_of]) > 1 for made_of in entry.narrow.values()]):
        return None
    form.check_leaves(signed, entry)
    if form.python_function is None:
        for h in entry.hidden:  # hidden inputs, whose present contents each call uses
            constant = form.constant(h.value if isinstance(h, Node) else h)
            form.inputs.append(form.check("value", constant, None, 1) if isinstance(h, Tensor) else constant)
        form.put_together(entry.structure, list(zip(entry.outputs, entry.results, strict=True)))
    if form.registers + len(form.inputs) + len(form.result) > MOST:
        return None
    return new_entry(None if form.python_function else entry.executable.plan, form)


def _recording(entry: SignatureEntry, leaves: Sequence[Any]) -> Callable[..., Tensor | None] | None:
    """A function that records the traced operations of a resulting tensor; it gives None for calls that do not fit."""
    arguments = entry.arguments
    met = [(t, node) for node, t in entry.captures.items()]
    if entry.structure.cls is not None or not isinstance(entry.results[0], Node) or not MODE.get().tracks:
        return None
    if not all([isinstance(t, Tensor) and t.node is node for t, node in met]):
        return None  # the present contents of an array count at each call
    if not all([isinstance(x, Tensor) for x in leaves]):
        return None
    if not all([a.kind.out is x.node.kind.out and not a.hooks for a, x in zip(arguments, leaves, strict=True)]):
        return None
    template = Template.of([handle(entry.results[0])], arguments, 0, entry.choices)
    if template is None or not template.steps:
        return None
    mode, put = MODE.get, None

    def record(*tensors: Tensor) -> Tensor | None:
        nonlocal put
        now = state.now
        if not mode().tracks:
            return None
        for t, node in met:  # the template has the nodes of these tensors, which must not have changed
            if t.node is not node:
                return None
        start = now.start
        for t in tensors:
            node = t.node
            if t.masked or (node.value is None and node.number < start):
                return None
        if put is None and machine.asks is not None:
            program = template.program(len(arguments))
            put = program is not None and machine.asks.putter(program)
        if put:
            y: Tensor = put(now, *tensors)
            return y
        (made,) = template.record_on([t.node for t in tensors])
        assert made is not None
        if made.number > now.look_at:
            look_at_size(now, made.inputs)
        return result_handle(made, now.forward_depth != 0 and is_masked(tensors))

    return record


class _LeavesForm(CallForm):
    """The instructions of a call.  On each level, registers are in the order of `tree.flatten`."""

    def __init__(self, signed: Signed, are_tensors: bool) -> None:
        args, kwargs = signed.structure.children
        super().__init__(len(args.children), bool(kwargs.children), has_scalars=not are_tensors)
        self.top = (*args.children, kwargs) if self.has_keywords else args.children

    # ------------------------------------------------------------ arguments

    def check_leaves(self, signed: Signed, entry: SignatureEntry) -> None:
        """Add instructions that take the arguments apart, and check each leaf."""
        found: list[int] = []
        for register, child in enumerate(self.top):
            self._take_apart(child, register, found)
        for register, (key, value, x) in zip(found, signed.leaves, strict=True):
            if value is None:
                if is_unchanging(x):
                    self.check("object", register, x)
                else:
                    self.check("parts", register, partial(has_key, key[1]))
                continue
            if key[0] in ARRAYS:  # numbers, NumPy's too, dispatch as numbers, never as arrays
                self.arrays.append(len(self.inputs))
            if key[0] != "array" or isinstance(x, Tensor):
                self.check("class", register, type(x))
            argument = entry.arguments[len(self.inputs)]
            for made_of in entry.narrow.values():
                if argument in made_of and not isinstance(x, Tensor):
                    self.check("parts", register, partial(_narrow, made_of, argument))
            if isinstance(x, Tensor):
                self.check("handle", register, x.node.kind.out)
                if self.python_function is None:
                    register = self.check("value", register, None, 1)
            self.inputs.append(register)

    def _take_apart(self, structure: tree.Structure, register: int, found: list[int]) -> None:
        """Add instructions for the object in a register; `found` gets the registers of leaves, in order."""
        cls, count = structure.cls, len(structure.children)
        if cls is None:
            found.append(register)
            return
        if cls is list or cls is tuple or (issubclass(cls, tuple) and hasattr(cls, "_fields")):
            first = self.check("list" if cls is list else "tuple", register, cls, count)
        elif cls is dict:
            first = self.check("dict", register, structure.rest, count)
        else:
            self.check("class", register, cls)
            first = self.check("parts", register, _splitter(structure), count)
        for i, child in enumerate(structure.children):
            self._take_apart(child, first + i, found)

    # ------------------------------------------------------------ results

    def put_together(self, structure: tree.Structure, left: list[tuple[int | None, Any]]) -> None:
        """Add instructions that put a result together; its leaves are removed from `left` as they are used."""
        cls = structure.cls
        if cls is None:
            position, given = left.pop(0)
            if position is None:
                self.result.append(("object", given))
                return
            is_last = all([position != other for other, _ in left])
            self.result.append(("last" if is_last else "result", position))
            if not self.has_scalars:
                self.result.append(("call", leaf))
            elif given.kind.out.aval == Aval((), np.bool_):  # NumPy's two bools are known by their identity
                self.result.append(("truth", None))
            return
        for child in structure.children:
            self.put_together(child, left)
        if cls is dict:
            self.result.append(("dict", structure.rest))
            return
        self.result.append(("tuple" if cls is tuple else "list", len(structure.children)))
        if cls is not tuple and cls is not list:
            self.result.append(("call", border(tree.joiner(structure))))


def _narrow(made_of: list[Node], argument: Node, number: Any) -> tuple | None:
    """() if the int that is computed from a number fits int32, else None."""
    return () if (fits(number) if made_of[-1] is argument else is_narrow(made_of, {argument: number})) else None


def _splitter(structure: tree.Structure) -> Callable[[Any], tuple | None]:
    """A function that takes a container apart by the methods of its class; it gives None for another structure."""
    exact, count = structure.exact, len(structure.children)

    def split(container: Any) -> tuple | None:
        parts, rest = tree.split(container)
        return tuple(parts) if tree.exactly(rest) == exact and len(parts) == count else None

    return split
