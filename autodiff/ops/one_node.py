"""The program of a call that records one node, for the native recorder (`learner` asks a body for it as `natively`)."""

from __future__ import annotations

import numpy as np

from codegen.runtime.record_table import Program, Step

from ..tape.node import Node
from ..tensor import Tensor
from .primitive import Operation

__all__ = ["OneNode", "is_simple"]


class OneNode:
    """Programs of the calls that record one node of an operation, whose operands are the arguments."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation

    def __call__(self, args: tuple, y: Tensor, keywords: dict) -> tuple[Program, None] | None:
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
        step = Step(node.kind, None, tuple(range(len(args))))
        return Program(len(args), (step,), out.cls, is_small=out.small, number_kind=number_kind), None


def is_simple(tensor: type, number: type) -> bool:
    """True if a number of this class takes the dtype of such a tensor, whatever its value."""
    if hasattr(tensor, "__dispatches_as__"):
        return False  # an argument that stands for a number: what is made of numbers alone is one too
    if number in (float, int):
        return issubclass(tensor, Tensor[np.floating])
    if number is np.float32:
        return issubclass(tensor, (Tensor[np.float32], Tensor[np.float64]))
    return number in (np.float64, np.int64, np.int32) and issubclass(tensor, Tensor[np.float64])
