"""Recording by number of inputs: the hot path of every elementwise operation.

`tape.record` serves any number of inputs and every circumstance.  What is made here knows the classes
of its one or two arguments and takes the common case in straight-line code, written out from one
text: a known kind, operands that are leaves or belong to this recording, nothing to look at more
closely.  Everything else goes to `slow`, which converts, promotes and calls `record`.

An `Elementwise` function chooses among these bodies when dispatch meets new classes, so a warm call
looks at no type but in the dispatch cache.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.records import NamedTuple
from codegen.runtime.record_table import Program, Step

from ..config import config
from ..tape.node import Kind, Node, Out, kept, leaf_kind, new_number, out_of
from ..tape.record import grad_mode, is_masked, look_at_size, state
from ..tensor import Tensor
from .primitive import Operation

__all__ = ["Body", "binary_body", "body_of", "is_simple", "unary_body"]

_new = object.__new__

#: The body of a function for arguments of given classes.
Body = Callable[[tuple[type, ...]], Callable[..., Tensor]]


class _Operand(NamedTuple):
    """One argument of a body: `x1`, a tensor or a number, whose node is `a`.

    beside   of a number: the tensor whose dtype it takes
    """

    argument: str
    node: str
    beside: str = ""

    @property
    def is_number(self) -> bool:
        return bool(self.beside)


_TEXT = """
def made_for(kinds, missed):
    def record({arguments}):
        {nodes}
        kind = kinds[grad_mode()].get({key})
        now = state.now
        if kind is None or config.watching{older}:
            return missed({arguments})
        made = new(Node)
        made.kind = kind
        made.inputs = ({inputs},)
        made.value = None
        made.number = number = new_number()
        out = kind.out
        y = new(out.cls)
        y.node = made
        y.masked = now.body != 0 and ({all_masked} or is_masked(({tensors},)))
        if out.small:
            now.note_small(y)
        if number > now.look_at:
            look_at_size(now, made.inputs)
        return y
    return record
"""


@functools.cache
def _written(operands: tuple[_Operand, ...]) -> Callable[..., Callable[..., Tensor]]:
    """What makes the body for these operands, from an operation's tables: compiled once for all operations."""
    tensors = [o for o in operands if not o.is_number]
    # A number in the library's own rules is a constant, and that is `slow`'s business.
    nodes = [f"{o.node} = {o.argument}.node" for o in tensors]
    nodes += [
        f"{o.node} = number_beside({o.argument}, {o.beside}.node.kind.out)" for o in operands if o.is_number
    ]
    outs = [f"{o.node}.kind.out" for o in operands]
    text = _TEXT.format(
        arguments=", ".join(o.argument for o in operands),
        nodes="\n        ".join(nodes),
        key=f"({', '.join(outs)})" if len(outs) > 1 else outs[0],
        older="".join([" or now.literal" for o in operands if o.is_number])
        + "".join([f" or ({o.node}.value is None and {o.node}.number < now.start)" for o in tensors]),
        inputs=", ".join(o.node for o in operands),
        tensors=", ".join(o.argument for o in tensors),
        all_masked=" and ".join(f"{o.argument}.masked" for o in tensors),
    )
    env: dict[str, Any] = {
        "Node": Node,
        "__name__": __name__,  # an error's line is the user's: the first frame outside of this library
        "config": config,
        "grad_mode": grad_mode.get,
        "is_masked": is_masked,
        "look_at_size": look_at_size,
        "new": _new,
        "new_number": new_number,
        "number_beside": _number_beside,
        "state": state,
    }
    exec(text, env)  # our own text; nothing of the user's is in it
    return env["made_for"]


def _body(operation: Operation, slow: Callable[..., Tensor], operands: Sequence[_Operand]) -> Callable[..., Tensor]:
    """The straight-line body for these operands.

    `kinds` keeps, by grad mode and the Outs of the inputs, what `operation.memo` has for them.
    """
    kinds: tuple[dict[Any, Kind], dict[Any, Kind]] = ({}, {})
    numbers = [o for o in operands if o.is_number]

    def missed(*args: Any) -> Tensor:
        y = slow(*args)
        if not numbers:
            outs = tuple([x.node.kind.out for x in args])
            mode = grad_mode.get()
            found = operation.memo[mode].get((outs, ()))
            if found is not None:
                kept(kinds[mode], outs if len(outs) > 1 else outs[0], found)
        return y

    def missed_beside(*args: Any) -> Tensor:
        y = slow(*args)
        node = y.node
        if node.kind.op is operation and len(node.inputs) == len(args) and not state.now.literal:
            mode = grad_mode.get()
            kept(kinds[mode], tuple([i.kind.out for i in node.inputs]), node.kind)
        return y

    def natively(args: tuple, y: Tensor, keywords: dict) -> tuple[Program, None] | None:
        """What the native recorder puts down for such arguments, when y is what these gave."""
        node = y.node
        given = [None if o.is_number else x.node for o, x in zip(operands, args, strict=True)]
        if type(node) is not Node or node.kind.op is not operation or len(node.inputs) != len(given):
            return None
        if any(x is not None and x is not i for x, i in zip(given, node.inputs, strict=True)):
            return None
        out = node.kind.out
        number_kind = next((i.kind for x, i in zip(given, node.inputs, strict=True) if x is None), None)
        step = Step(node.kind, None, tuple(range(len(args))))
        return Program(len(args), (step,), out.cls, is_small=out.small, number_kind=number_kind), None

    body: Any = _written(tuple(operands))(kinds, missed_beside if numbers else missed)
    body.natively = natively
    return body


def _when_called(
    operation: Operation, slow: Callable[..., Tensor]
) -> Callable[[tuple[_Operand, ...]], Callable[..., Tensor]]:
    """A function that gives the body for operands, which is made when it is first asked for: most never are."""
    made: dict[tuple[_Operand, ...], Callable[..., Tensor]] = {}

    def body(operands: tuple[_Operand, ...]) -> Callable[..., Tensor]:
        return made.get(operands) or made.setdefault(operands, _body(operation, slow, operands))

    return body


_ONE = (_Operand("x", "a"),)
_BOTH = (_Operand("x1", "a"), _Operand("x2", "b"))
_NUMBER_RIGHT = (_Operand("x1", "a"), _Operand("x2", "b", "x1"))
_NUMBER_LEFT = (_Operand("x1", "a", "x2"), _Operand("x2", "b"))


def unary_body(operation: Operation, slow: Callable[[Any], Tensor]) -> Body:
    """Bodies of a function of one argument.  `slow` records whatever the others do not know."""
    body = _when_called(operation, slow)
    return lambda classes: body(_ONE) if issubclass(classes[0], Tensor) else slow


def binary_body(operation: Operation, slow: Callable[[Any, Any], Tensor]) -> Body:
    """Bodies of a function of two arguments.  `slow` records whatever the others do not know."""
    body = _when_called(operation, slow)

    def choose(classes):
        left, right = classes
        if issubclass(left, Tensor):
            if issubclass(right, Tensor):
                return body(_BOTH)
            return body(_NUMBER_RIGHT) if is_simple(left, right) else slow
        return body(_NUMBER_LEFT) if issubclass(right, Tensor) and is_simple(right, left) else slow

    return choose


def body_of(operation: Operation, slow: Callable[..., Tensor], names: Sequence[str]) -> Callable[[dict[str, str]], Any]:
    """What gives a function's body where some arguments are numbers: for their names, whose dtype each takes."""
    body = _when_called(operation, slow)
    return lambda beside: body(tuple([_Operand(name, f"n{i}", beside.get(name, "")) for i, name in enumerate(names)]))


def is_simple(tensor: type, number: type) -> bool:
    """Whether a number of this class takes the dtype of such a tensor, whatever its value."""
    if hasattr(tensor, "__dispatches_as__"):
        return False  # an argument that stands for a number: what is made of numbers alone is one too
    if number in (float, int):
        return issubclass(tensor, Tensor[np.floating])
    if number is np.float32:
        return issubclass(tensor, (Tensor[np.float32], Tensor[np.float64]))
    return number in (np.float64, np.int64, np.int32) and issubclass(tensor, Tensor[np.float64])


_NUMBER_KINDS: dict[Out, Kind] = {}


def _number_beside(number: float, out: Out) -> Node:
    """The leaf of a number that takes the dtype of what it meets: a run-time argument."""
    kind = _NUMBER_KINDS.get(out)
    if kind is None:
        kind = kept(_NUMBER_KINDS, out, leaf_kind(out_of(Aval((), out.aval.dtype))))
    node = _new(Node)
    node.kind = kind
    node.inputs = ()
    node.value = number if type(number) is float else float(number)
    node.number = new_number()
    return node
