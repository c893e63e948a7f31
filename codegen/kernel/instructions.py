"""Scalar instructions of MLIR's dialects arith and math: one record holds all that the compiler knows of each.

    interpreter (`interpret`)            NumPy's function
    check, printer (`verify`, `mlir`)       how many operands of which types
    emitter (`emit.operations`)          LLVM's name, and the sort of that name
    fusion, loops, cost of a call        the cost of an element
    reductions (`emit.reductions`)       the identity

A property of one instruction alone (a comparison's predicate, a quotient rounded down) is handled by name where needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..records import record
from .nest import F32, F64, I1, I8, I32, I64, INDEX, ScalarType


def _erf(x: float) -> float:
    return math.erf(float(x))


#: Functions of one float, by name: their file in `codegen.emit.math`, NumPy's function, the builder's documentation.
OF_ONE: dict[str, tuple[str, Callable, str]] = {
    "acos": ("arc", np.arccos, "The inverse cosine."),
    "acosh": ("hyperbolic", np.arccosh, "The inverse hyperbolic cosine."),
    "asin": ("arc", np.arcsin, "The inverse sine."),
    "asinh": ("hyperbolic", np.arcsinh, "The inverse hyperbolic sine."),
    "atan": ("arc", np.arctan, "The inverse tangent."),
    "atanh": ("hyperbolic", np.arctanh, "The inverse hyperbolic tangent."),
    "cbrt": ("power", np.cbrt, "The cube root, also of negative numbers."),
    "cos": ("trig", np.cos, "The cosine."),
    "cosh": ("hyperbolic", np.cosh, "The hyperbolic cosine."),
    "erf": ("erf", _erf, "The error function."),
    "exp": ("exp", np.exp, "e to the x."),
    "exp2": ("exp", np.exp2, "2 to the x, whole for whole numbers from 0 on."),
    "expm1": ("exp", np.expm1, "exp(x) - 1 without cancellation."),
    "log": ("log", np.log, "The natural logarithm."),
    "log10": ("log", np.log10, "The logarithm to base 10, whole for powers of 10."),
    "log1p": ("log", np.log1p, "log(1 + x) without cancellation."),
    "log2": ("log", np.log2, "The logarithm to base 2, whole for powers of 2."),
    "sin": ("trig", np.sin, "The sine."),
    "sinh": ("hyperbolic", np.sinh, "The hyperbolic sine."),
    "tan": ("trig", np.tan, "The tangent."),
    "tanh": ("hyperbolic", np.tanh, "The hyperbolic tangent."),
}


# ---------------------------------------------------------------- all instructions


FLOATS = (F32, F64)
INTEGERS = (INDEX, I1, I8, I32, I64)

#: Price, cost and latency of an elementary function: see `Instruction`.
_A_FUNCTION = {"price": 16, "cost": 24, "latency": 48}


@record(frozen=True)
class Instruction:
    """One instruction.

    name       MLIR's name                             llvm      LLVM's name
    sort       of LLVM's name: "opcode", "intrinsic", "function" (of `emit.math`), "cast"; "" if emitted in its own way
    operands   the number of operands                  kinds     the types allowed, one for all operands and the result
    numpy      the function of NumPy scalars; None if operands and result have several types
    price      the cost of computing an element again, in additions, from the measured time of vector loops
    cost       the cost of one full vector register, in additions
    latency    the time until the result is there, in additions that could begin meanwhile
    identity   the operand that leaves the other one unchanged, with which partial results begin; None without one
    """

    name: str
    operands: int
    kinds: tuple[ScalarType, ...]
    numpy: Callable[..., Any] | None
    sort: str
    llvm: str
    price: int = 1
    cost: int = 1
    latency: int = 4
    identity: float | int | None = None


def _truncated_division(x: Any, y: Any) -> int:
    quotient = abs(int(x)) // abs(int(y))
    return quotient if (x < 0) == (y < 0) else -quotient


def _integers(name: str, numpy: Callable[..., Any], llvm: str, sort: str = "opcode", **more: Any) -> Instruction:
    return Instruction(f"arith.{name}", 2, INTEGERS, numpy, sort, llvm, **more)


def _rounding(name: str, numpy: Callable[..., Any], llvm: str = "") -> Instruction:
    return Instruction(f"math.{name}", 1, FLOATS, numpy, "intrinsic", llvm or name)


def _function(name: str, numpy: Callable[..., Any], operands: int = 1) -> Instruction:
    return Instruction(f"math.{name}", operands, FLOATS, numpy, "function", name, **_A_FUNCTION)


def _cast(name: str, llvm: str = "") -> Instruction:
    return Instruction(f"arith.{name}", 1, (), None, "cast", llvm or name)


#: All instructions, by MLIR's name.
INSTRUCTIONS: dict[str, Instruction] = {i.name: i for i in (
    Instruction("arith.addf", 2, FLOATS, np.add, "opcode", "fadd", identity=-0.0),  # -0.0 + 0.0 is 0.0
    Instruction("arith.subf", 2, FLOATS, np.subtract, "opcode", "fsub"),
    Instruction("arith.mulf", 2, FLOATS, np.multiply, "opcode", "fmul", identity=1.0),
    Instruction("arith.divf", 2, FLOATS, np.divide, "opcode", "fdiv", price=4, cost=5, latency=13),
    Instruction("arith.remf", 2, FLOATS, np.fmod, "function", "fmod", price=30, cost=24, latency=48),
    Instruction("arith.negf", 1, FLOATS, np.negative, "opcode", "fneg"),
    Instruction("arith.maximumf", 2, FLOATS, np.maximum, "intrinsic", "maximum", identity=-math.inf),
    Instruction("arith.minimumf", 2, FLOATS, np.minimum, "intrinsic", "minimum", identity=math.inf),
    _integers("addi", np.add, "add", identity=0),
    _integers("subi", np.subtract, "sub"),
    _integers("muli", np.multiply, "mul", identity=1),
    _integers("divsi", _truncated_division, "sdiv", price=10, cost=40),
    _integers("remsi", lambda x, y: int(x) - int(y) * _truncated_division(x, y), "srem", price=10, cost=40),
    _integers("floordivsi", lambda x, y: int(x) // int(y), "sdiv", "", price=12, cost=50),
    _integers("andi", np.bitwise_and, "and", identity=-1),
    _integers("ori", np.bitwise_or, "or", identity=0),
    _integers("xori", np.bitwise_xor, "xor", identity=0),
    _integers("shli", np.left_shift, "shl"),
    _integers("shrsi", np.right_shift, "ashr"),
    _integers("maxsi", np.maximum, "smax", "intrinsic"),
    _integers("minsi", np.minimum, "smin", "intrinsic"),
    _rounding("absf", np.abs, "fabs"),
    _rounding("ceil", np.ceil),
    _rounding("floor", np.floor),
    _rounding("roundeven", np.rint),
    _rounding("trunc", np.trunc),
    Instruction("math.copysign", 2, FLOATS, np.copysign, "intrinsic", "copysign"),
    Instruction("math.fma", 3, FLOATS, lambda x, y, z: x * y + z, "intrinsic", "fma"),
    Instruction("math.sqrt", 1, FLOATS, np.sqrt, "intrinsic", "sqrt", price=5, cost=6, latency=20),
    Instruction("math.powf", 2, FLOATS, np.power, "function", "pow", price=60, cost=24, latency=48),
    _function("atan2", np.arctan2, 2),
    *[_function(name, numpy) for name, (_, numpy, _) in OF_ONE.items()],
    Instruction("arith.cmpf", 2, FLOATS, None, "", "fcmp"),
    Instruction("arith.cmpi", 2, INTEGERS, None, "", "icmp"),
    Instruction("arith.select", 3, INTEGERS + FLOATS, None, "", "select"),
    Instruction("arith.constant", 0, INTEGERS + FLOATS, None, "", ""),
    *[_cast(name) for name in ("index_cast", "sitofp", "uitofp", "fptosi", "bitcast")],
    _cast("extf", "fpext"), _cast("truncf", "fptrunc"),
    _cast("extsi", "sext"), _cast("extui", "zext"), _cast("trunci", "trunc"),
)}  # fmt: skip


def is_function(name: str) -> bool:
    """True if an operation is an elementary function, which `emit.math` defines."""
    found = INSTRUCTIONS.get(name)
    return found is not None and found.sort == "function"


def function_of(name: str) -> str:
    """The elementary function that an operation is, as `emit.math` calls it; "" for any other operation."""
    return INSTRUCTIONS[name].llvm if is_function(name) else ""
