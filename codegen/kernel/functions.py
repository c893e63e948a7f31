"""The functions of one float that kernels have: the dialect `math` of MLIR, what each is, and NumPy's function for it.

The scalar builder, the instructions and the emitters take their names from here; `codegen.emit.math` writes them, in
files of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

__all__ = ["OF_ONE"]


def _erf(x: float) -> float:
    return math.erf(float(x))


#: By name: the file of `codegen.emit.math` that writes it, NumPy's function, the documentation of the builder's method.
OF_ONE: dict[str, tuple[str, Callable, str]] = {
    "acos": ("arc", np.arccos, "The inverse cosine."),
    "acosh": ("hyperbolic", np.arccosh, "The inverse hyperbolic cosine."),
    "asin": ("arc", np.arcsin, "The inverse sine."),
    "asinh": ("hyperbolic", np.arcsinh, "The inverse hyperbolic sine."),
    "atan": ("arc", np.arctan, "The inverse tangent."),
    "atanh": ("hyperbolic", np.arctanh, "The inverse hyperbolic tangent."),
    "cbrt": ("cbrt", np.cbrt, "The cube root, also of negative numbers."),
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
