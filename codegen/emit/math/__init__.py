"""Elementary functions as inline LLVM functions, in f64 and f32.

Each is straight-line scalar code without calls, so that LLVM vectorises the loop around it for
whatever vectors the machine has.  Errors are stated in ulps by each function, the same for both
types; infinities, nan, subnormals and the signs of zeros are right.

Only sin, cos and tan of huge arguments (`trig.LIMITS`: from 1e12 on for f64, 2.6e5 for f32) are
not computed like that.  These functions come in two forms:

    @sin.f64(double %x, ptr %far)       sets the i1 at %far when x is too large, and is then wrong
    @sin.exact.f64(double %x)           calls libm for such an x

A kernel runs with the first, and again with the second when the flag was set (`emit.body`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from .arc import acos, asin, atan, atan2
from .code import Code, Term
from .erf import erf
from .exp import exp, expm1
from .hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh
from .log import log, log1p
from .power import pow_
from .trig import cos, is_far, sin, tan

__all__ = ["FAR", "FUNCTIONS", "definitions"]

#: By MLIR's name, less the dialect.
FUNCTIONS: dict[str, Callable[..., Term]] = {
    "acos": acos, "acosh": acosh, "asin": asin, "asinh": asinh, "atan": atan, "atan2": atan2, "atanh": atanh,
    "cos": cos, "cosh": cosh, "erf": erf, "exp": exp, "expm1": expm1, "log": log, "log1p": log1p, "pow": pow_,
    "sin": sin, "sinh": sinh, "tan": tan, "tanh": tanh,
}  # fmt: skip

#: Those that need another way for huge arguments.
FAR = frozenset({"cos", "sin", "tan"})

_OF_TWO = frozenset({"atan2", "pow"})


def definitions(needed: Iterable[tuple[str, str]], *, has_fma: bool) -> tuple[str, dict[str, str]]:
    """The text of functions given as (name, "f64" or "f32"), and what they declare by name.

    The name may be "sin.exact".  `has_fma`: the machine has fused multiply-adds.
    """
    texts: list[str] = []
    declarations: dict[str, str] = {}
    for name, suffix in sorted(needed):
        text, declared = _definition(name, suffix, has_fma)
        texts.append(text)
        declarations |= declared
    return "\n".join(texts), declarations


@functools.cache
def _definition(name: str, suffix: str, has_fma: bool) -> tuple[str, dict[str, str]]:
    base = name.removesuffix(".exact")
    k = Code(suffix, has_fma=has_fma)
    parameters = [k.argument(p) for p in (("x", "y") if base in _OF_TWO else ("x",))]
    result = FUNCTIONS[base](k, *parameters)
    if base in FAR:
        far = is_far(k, parameters[0])
        if name == base:
            parameters.append(Term(k, "%far", "ptr"))
            k.raise_flag(far, parameters[-1])
        else:
            result = k.otherwise_libm(far, base, parameters[0], result)
    return k.text(name, parameters, result), dict(k.declarations)
