"""Circular and hyperbolic functions, and their inverses."""

from __future__ import annotations

import numpy as np

from codegen.lowering import Map

from ..custom.function import Function
from .declare import binary, unary
from .slopes import arc_slope, arccosh_slope, arcsinh_slope, arctanh_slope, turn

__all__ = [
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cos", "cosh", "sin", "sinh", "tan",
    "tanh",
]  # fmt: skip

# ---------------------------------------------------------------- circular functions

sin = unary(
    "sin",
    np.sin,
    accepts="fc",
    partials=lambda y, x: (cos(x),),
    lower=Map(lambda k, x: k.sin(x)),
    doc="The sine of x in radians.   f[...]  →  f[...]",
)
cos: Function = unary(
    "cos",
    np.cos,
    accepts="fc",
    partials=lambda y, x: (-sin(x),),
    lower=Map(lambda k, x: k.cos(x)),
    doc="The cosine of x in radians.   f[...]  →  f[...]",
)
tan = unary(
    "tan",
    np.tan,
    accepts="fc",
    partials=lambda y, x: (1 + y * y,),
    lower=Map(lambda k, x: k.tan(x)),
    doc="The tangent of x in radians.   f[...]  →  f[...]",
)
arcsin = unary(
    "arcsin",
    np.arcsin,
    partials=lambda y, x: (arc_slope(x),),
    lower=Map(lambda k, x: k.asin(x)),
    doc="The angle in [-π/2, π/2] whose sine is x.   f[...]  →  f[...]     nan outside [-1, 1]",
)
arccos = unary(
    "arccos",
    np.arccos,
    partials=lambda y, x: (-arc_slope(x),),
    lower=Map(lambda k, x: k.acos(x)),
    doc="The angle in [0, π] whose cosine is x.   f[...]  →  f[...]     nan outside [-1, 1]",
)
arctan = unary(
    "arctan",
    np.arctan,
    partials=lambda y, x: (1 / (1 + x * x),),
    lower=Map(lambda k, x: k.atan(x)),
    doc="The angle in [-π/2, π/2] whose tangent is x.   f[...]  →  f[...]",
)
arctan2 = binary(
    "arctan2",
    np.arctan2,
    partials=lambda y, a, b: (lambda: turn(b, a), lambda: -turn(a, b)),
    lower=Map(lambda k, a, b: k.atan2(a, b)),
    doc="""The angle of the point (x2, x1), in [-π, π].   f[...], f[...]  →  f[...]

    The derivative at (0, 0) is nan: the angle jumps there.
    """,
)


# ---------------------------------------------------------------- hyperbolic functions

sinh = unary(
    "sinh",
    np.sinh,
    accepts="fc",
    partials=lambda y, x: (cosh(x),),
    lower=Map(lambda k, x: k.sinh(x)),
    doc="The hyperbolic sine.   f[...]  →  f[...]",
)
cosh: Function = unary(
    "cosh",
    np.cosh,
    accepts="fc",
    partials=lambda y, x: (sinh(x),),
    lower=Map(lambda k, x: k.cosh(x)),
    doc="The hyperbolic cosine.   f[...]  →  f[...]",
)
tanh = unary(
    "tanh",
    np.tanh,
    accepts="fc",
    partials=lambda y, x: (1 - y * y,),
    lower=Map(lambda k, x: k.tanh(x)),
    doc="The hyperbolic tangent.   f[...]  →  f[...]",
)
arcsinh = unary(
    "arcsinh",
    np.arcsinh,
    partials=lambda y, x: (arcsinh_slope(x),),
    lower=Map(lambda k, x: k.asinh(x)),
    doc="The inverse hyperbolic sine.   f[...]  →  f[...]",
)
arccosh = unary(
    "arccosh",
    np.arccosh,
    partials=lambda y, x: (arccosh_slope(x),),
    lower=Map(lambda k, x: k.acosh(x)),
    doc="The inverse hyperbolic cosine, not negative.   f[...]  →  f[...]     nan below 1",
)
arctanh = unary(
    "arctanh",
    np.arctanh,
    partials=lambda y, x: (arctanh_slope(x),),
    lower=Map(lambda k, x: k.atanh(x)),
    doc="The inverse hyperbolic tangent.   f[...]  →  f[...]     nan outside [-1, 1]",
)
