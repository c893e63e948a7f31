"""Functions of one number that one function computes together, as most of their steps are the same.

    sin(x), cos(x)             sincos
    erf(x), exp(-(x * x))      erfbell;  also written exp(-x * x)
    tanh(x), exp(-(|x| + |x|)) tanhfade
    expm1(x), exp(x)           expm1exp
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..kernel.instructions import function_of, is_function
from ..kernel.nest import Operation, Value
from .math import JOINT

__all__ = ["find_joint"]


def find_joint(operations: Iterable[Operation]) -> Iterator[tuple[str, Value, list[Operation]]]:
    """The function, the number, and what is computed by it, in the order of its results."""
    applied = {_function_of(o): o for o in operations if is_function(o.name)}
    for names, joint in JOINT.items():
        for name, x in applied:
            found = [applied.get((other, x)) for other in names]
            if name == names[0] and None not in found:
                yield joint, x, [o for o in found if o]


def _function_of(operation: Operation) -> tuple[str, Value]:
    """The function that an operation computes, and its argument: exp(-(x * x)) is "bell", exp(-(|x| + |x|)) "fade"."""
    name, x = function_of(operation.name), operation.operands[0]
    is_negative, square = _sign_of(x)
    if name == "exp" and isinstance(square.owner, Operation) and square.owner.name == "arith.mulf":
        a, b = square.owner.operands
        if a is not b:  # -x * x
            (a_is_negative, a), (b_is_negative, b) = _sign_of(a), _sign_of(b)
            is_negative ^= a_is_negative ^ b_is_negative
        if a is b and is_negative:
            return "bell", a
    if name == "exp" and is_negative and isinstance(square.owner, Operation) and square.owner.name == "arith.addf":
        a, b = square.owner.operands
        if a is b and isinstance(a.owner, Operation) and a.owner.name == "math.absf":
            return "fade", a.owner.operands[0]
    return name, x


def _sign_of(x: Value) -> tuple[bool, Value]:
    """True and the operand of a negation; False and the value itself of any other."""
    owner = x.owner
    if isinstance(owner, Operation) and owner.name == "arith.negf":
        return True, owner.operands[0]
    return False, x
