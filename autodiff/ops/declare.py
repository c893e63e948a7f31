"""Elementwise operations as public functions: operation and generic function in one declaration.

    exp = unary("exp", partials=lambda y, x: (y,), doc=..., example={"ad.exp(0.0)": "f64[] 1.0"})

Where nothing else is said its value is NumPy's function of that name, and the scalar builder's method of that name is
what compiled code does.  `exp` is a `Function`: users add methods and rules to it; `exp.primitive` is the operation
that its body records, and `natively` says that to the native recorder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from codegen.runtime.record_table import RecordedProgram

from ..custom.function import Function
from ..tape import record
from ..tape.node import Node
from ..tensor import Tensor
from .arguments import common
from .primitive import BOOL, OwnPrimitive, elementwise
from .template import public

#: Expressions, each with what it prints: the end of a documentation.
Example = Mapping[str, str]


class OneNode:
    """Programs of the calls that record one node of an operation, whose operands are the arguments."""

    def __init__(self, operation: OwnPrimitive) -> None:
        self._operation = operation

    def __call__(self, args: tuple, y: Tensor, keywords: dict) -> RecordedProgram | None:
        """The program of a call with these arguments that gave y; None where it recorded something else."""
        node = y.node
        if type(node) is not Node or node.kind.op is not self._operation or len(node.inputs) != len(args):
            return None
        tensors = [type(x) for x in args if isinstance(x, Tensor)]
        number_kind = None
        for x, i in zip(args, node.inputs, strict=True):
            if isinstance(x, Tensor):
                if x.node is not i:
                    return None  # it was converted
            elif any([is_simple(tensor, type(x)) for tensor in tensors]):
                number_kind = i.kind
            else:
                return None
        out = node.kind.out
        step = node.kind, None, tuple(range(len(args)))
        return RecordedProgram(len(args), (step,), out.cls, is_small=out.small, number_kind=number_kind)


def is_simple(tensor: type, number: type) -> bool:
    """True if a number of this class takes the dtype of such a tensor, whatever its value."""
    if hasattr(tensor, "__dispatches_as__"):
        return False  # an argument that stands for a number: what is made of numbers alone is one too
    if number in (float, int):
        return issubclass(tensor, Tensor[np.floating])
    if number is np.float32:
        return issubclass(tensor, (Tensor[np.float32], Tensor[np.float64]))
    return number in (np.float64, np.int64, np.int32) and issubclass(tensor, Tensor[np.float64])


def unary(
    name: str, reference: Callable[..., Any] | None = None, *, doc: str, called: str = "", accepts: str = "f",
    of_complex: Callable[[Tensor], Tensor] | None = None, example: Example | None = None, **declared: Any,
) -> Function:
    """A public function of one argument, and its operation; other parameters as for `elementwise`.

    reference    None: NumPy's function of the same name
    doc          its documentation, without the example
    called       the function's name where it is not that of the operation
    of_complex   what it means for a complex argument, where the operation itself does not take one
    """
    called = called or name
    operation = elementwise(name, reference or getattr(np, called, None), accepts=accepts, **declared)

    def body(x):
        (t,) = common(called, (("x", x),), accepts + "c" if of_complex else accepts)
        return of_complex(t) if of_complex and t.dtype.kind == "c" else record(operation, (t,))

    return published(called, body, documented(example or {}, doc), operation)


def binary(
    name: str, reference: Callable[..., Any] | None = None, *, doc: str, called: str = "", accepts: str = "f",
    on_bool: Callable[[Tensor, Tensor], Tensor] | None = None, example: Example | None = None,
    **declared: Any,
) -> Function:
    """A public function of two arguments, and its operation; other parameters as for `unary`.

    on_bool   what it means for two bool arguments, where the operation itself does not take bool
    """
    called = called or name
    operation = elementwise(name, reference or getattr(np, called, None), accepts=accepts, **declared)
    admitted = accepts + "b" if on_bool else accepts

    def body(x1, x2):
        tensors = common(called, (("x1", x1), ("x2", x2)), admitted)
        if on_bool and tensors[0].node.kind.out.aval.dtype == BOOL:
            return on_bool(*tensors)
        return record(operation, tuple(tensors))

    return published(called, body, documented(example or {}, doc), operation)


def documented(example: Example, *paragraphs: str) -> str:
    """The documentation of a function, with an example at the end."""
    lines = [line for asked, shown in example.items() for line in (f">>> {asked}", *shown.splitlines())]
    return "\n\n    ".join([*paragraphs, "\n    ".join([*lines, ""])])


def composed(name: str, body: Any, told: str, example: Example, tensors: int | None = None) -> Any:
    """A public function that is one expression; `tensors` as for `public`."""
    return public(tensors, name=name, doc=documented(example, told))(body)


def published(
    name: str, body: Any, doc: str, operation: OwnPrimitive, natively: Callable[..., Any] | None = None
) -> Function:
    """The generic function of a body made here: named, documented, and knowing its operation."""
    body.__module__, body.natively = "autodiff", natively or OneNode(operation)
    made: Function = public(records=operation, name=name, doc=doc)(body)
    made.takes_watched = True
    return made
