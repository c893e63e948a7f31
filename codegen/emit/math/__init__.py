"""Elementary functions as LLVM functions of vectors or of single numbers, in f64 and f32.

    @exp.f64(double %x)     @exp.v8f64(<8 x double> %x)     @exp.v16f32(<16 x float> %x)

Each is straight-line arithmetic that is inlined into its loop.  Errors are stated in ulps by each
function, the same for both types; infinities, nan, subnormals and the signs of zeros are right.

Only sin, cos and tan of huge arguments (`trig.LIMITS`: from 1e12 on for f64, 2.6e5 for f32) are
not computed like that: a branch, which is never taken on ordinary numbers, asks libm for those.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from ..target import Target
from ..types import vector_type
from .arc import acos, asin, atan, atan2
from .code import Code, Term
from .erf import erf
from .exp import exp, expm1
from .hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh
from .log import log, log1p, log2, log10
from .power import pow_
from .trig import cos, is_far, sin, tan

__all__ = ["FUNCTIONS", "JOINT", "Need", "definitions"]

#: By MLIR's name, less the dialect.
FUNCTIONS: dict[str, Callable[..., Term]] = {
    "acos": acos, "acosh": acosh, "asin": asin, "asinh": asinh, "atan": atan, "atan2": atan2, "atanh": atanh,
    "cos": cos, "cosh": cosh, "erf": erf, "exp": exp, "expm1": expm1, "log": log, "log1p": log1p, "log2": log2,
    "log10": log10, "pow": pow_,    "sin": sin, "sinh": sinh, "tan": tan, "tanh": tanh,
}  # fmt: skip

#: Those that need another way for huge arguments.
_FAR = frozenset({"cos", "sin", "tan"})
#: What two functions of one number are together: most of their steps are the same.  The result is a struct.
JOINT = {("sin", "cos"): "sincos"}
_PARTS = {joint: parts for parts, joint in JOINT.items()}
_OF_TWO = frozenset({"atan2", "pow"})

#: (name, "f64" or "f32", lanes)
Need = tuple[str, str, int]


#: A function called more often than this by one kernel is not inlined.  Calls cost a quarter of the speed
#: and save two fifths of LLVM's time (579 operations, 50 calls: 1.12 against .89 ms, 100 against 177 ms),
#: which grows with the kernel.
_INLINED_CALLS = 64


def definitions(calls: Mapping[Need, int], target: Target) -> tuple[str, dict[str, str]]:
    """The text of these functions for a machine, and what they declare by name.

    calls       how often a kernel calls each, at most
    """
    texts: list[str] = []
    declarations: dict[str, str] = {}
    for (name, suffix, lanes), count in sorted(calls.items()):
        text, declared = _definition(name, suffix, lanes, target)
        texts.append(text if count <= _INLINED_CALLS else text.replace(" alwaysinline ", " noinline "))
        declarations |= declared
    return "\n".join(texts), declarations


@functools.cache
def _definition(name: str, suffix: str, lanes: int, target: Target) -> tuple[str, dict[str, str]]:
    k = Code(suffix, target, lanes)
    parameters = [k.argument(p) for p in (("x", "y") if name in _OF_TWO else ("x",))]
    parts = _PARTS.get(name, (name,))
    results = [FUNCTIONS[part](k, *parameters) for part in parts]
    if _FAR.isdisjoint(parts):
        return k.text(name, parameters, results), dict(k.declarations)
    (x,) = parameters
    callees = [k.name_of(f"{name}.{part}.far" if len(parts) > 1 else f"{name}.far") for part in parts]
    results = k.otherwise_call(is_far(k, x), callees, x, results)
    text = k.text(name, parameters, results)
    declarations = dict(k.declarations)
    for part, callee in zip(parts, callees, strict=True):
        far, declared = _far(part, callee, suffix, lanes, target)
        text, declarations = text + far, declarations | declared
    return text, declarations


def _far(name: str, callee: str, suffix: str, lanes: int, target: Target) -> tuple[str, dict[str, str]]:
    """The function (x, near): libm's where x is far, near elsewhere; lane by lane."""
    k = Code(suffix, target)
    x, near = k.argument("x.lane"), k.argument("near.lane")
    libm = name if k.double else f"{name}f"
    k.declarations[libm] = f"declare {k.float} @{libm}({k.float})"
    chosen = k.select(is_far(k, x), k.append(f"call {k.float} @{libm}({k.float} {x.name})", k.float), near)
    lines = "\n".join(k.lines)
    type = vector_type(k.float, lanes)
    if lanes == 1:
        text = f"{lines}\n  ret {type} {chosen.name}\n"
        x_name, near_name = x.name, near.name
    else:
        # By way of memory: LLVM is slow at lanes whose number is not constant.
        x_name, near_name = "%x", "%near"
        text = f"""entry:
  %xs = alloca {type}
  %ys = alloca {type}
  store {type} {x_name}, ptr %xs
  store {type} {near_name}, ptr %ys
  br label %loop
loop:
  %j = phi i64 [ 0, %entry ], [ %j.next, %loop ]
  %x.j = getelementptr {k.float}, ptr %xs, i64 %j
  %y.j = getelementptr {k.float}, ptr %ys, i64 %j
  {x.name} = load {k.float}, ptr %x.j
  {near.name} = load {k.float}, ptr %y.j
{lines}
  store {k.float} {chosen.name}, ptr %y.j
  %j.next = add i64 %j, 1
  %more = icmp ult i64 %j.next, {lanes}
  br i1 %more, label %loop, label %done
done:
  %y = load {type}, ptr %ys
  ret {type} %y
"""
    head = f"define internal {type} @{callee}({type} {x_name}, {type} {near_name}) noinline cold nounwind"
    return f"{head} {{\n{text}}}\n", k.declarations
