"""Circular and hyperbolic functions, and their inverses."""

from __future__ import annotations

import numpy as np

from codegen.lowering import Map

from ..custom.function import Function
from .declare import binary, unary
from .slopes import arc_slope, arccosh_slope, arcsinh_slope, arctanh_slope, tanh_slope, turn

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
    doc="""The sine of x in radians.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.grad(ad.grad(ad.sin))(ad.tensor(ad.pi / 2))
    f64[] -1.0
    """,
)
cos: Function = unary(
    "cos",
    np.cos,
    accepts="fc",
    partials=lambda y, x: (-sin(x),),
    lower=Map(lambda k, x: k.cos(x)),
    doc="""The cosine of x in radians.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.grad(ad.cos)(ad.tensor(ad.pi / 2))
    f64[] -1.0
    """,
)
tan = unary(
    "tan",
    np.tan,
    accepts="fc",
    partials=lambda y, x: (1 + y * y,),
    lower=Map(lambda k, x: k.tan(x)),
    doc="""The tangent of x in radians.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.grad(ad.tan)(ad.tensor(0.0))
    f64[] 1.0
    """,
)
arcsin = unary(
    "arcsin",
    np.arcsin,
    partials=lambda y, x: (arc_slope(x),),
    lower=Map(lambda k, x: k.asin(x)),
    doc="""The angle in [-π/2, π/2] whose sine is x.   f[...]  →  f[...]     nan outside [-1, 1]

    >>> import autodiff as ad
    >>> ad.arcsin([1.0, 2.0])
    f64[2] [1.57079633        nan]
    >>> ad.grad(ad.arcsin)(ad.tensor(0.0))
    f64[] 1.0
    """,
)
arccos = unary(
    "arccos",
    np.arccos,
    partials=lambda y, x: (-arc_slope(x),),
    lower=Map(lambda k, x: k.acos(x)),
    doc="""The angle in [0, π] whose cosine is x.   f[...]  →  f[...]     nan outside [-1, 1]

    >>> import autodiff as ad
    >>> ad.arccos([1.0, -1.0, 2.0])
    f64[3] [0.         3.14159265        nan]
    """,
)
arctan = unary(
    "arctan",
    np.arctan,
    partials=lambda y, x: (1 / (1 + x * x),),
    lower=Map(lambda k, x: k.atan(x)),
    doc="""The angle in [-π/2, π/2] whose tangent is x.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.arctan([1.0, ad.inf])
    f64[2] [0.78539816 1.57079633]
    """,
)
arctan2 = binary(
    "arctan2",
    np.arctan2,
    partials=lambda y, a, b: (lambda: turn(b, a), lambda: -turn(a, b)),
    lower=Map(lambda k, a, b: k.atan2(a, b)),
    doc="""The angle of the point (x2, x1), in [-π, π].   f[...], f[...]  →  f[...]

    The derivative at (0, 0) is nan: the angle jumps there.

    >>> import autodiff as ad
    >>> ad.arctan2([1.0, -1.0], [-1.0, -1.0])
    f64[2] [ 2.35619449 -2.35619449]
    """,
)


# ---------------------------------------------------------------- hyperbolic functions

sinh = unary(
    "sinh",
    np.sinh,
    accepts="fc",
    partials=lambda y, x: (cosh(x),),
    lower=Map(lambda k, x: k.sinh(x)),
    doc="""The hyperbolic sine.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.grad(ad.sinh)(ad.tensor(0.0))
    f64[] 1.0
    """,
)
cosh: Function = unary(
    "cosh",
    np.cosh,
    accepts="fc",
    partials=lambda y, x: (sinh(x),),
    lower=Map(lambda k, x: k.cosh(x)),
    doc="""The hyperbolic cosine.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.cosh(0.0)
    f64[] 1.0
    >>> ad.grad(ad.grad(ad.cosh))(ad.tensor(0.0))
    f64[] 1.0
    """,
)
tanh = unary(
    "tanh",
    np.tanh,
    accepts="fc",
    partials=lambda y, x: (tanh_slope(x, y) if x.dtype.kind == "f" else 1 - y * y,),
    lower=Map(lambda k, x: k.tanh(x)),
    doc="""The hyperbolic tangent.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.tanh([0.0, 1000.0])
    f64[2] [0. 1.]
    >>> ad.grad(ad.tanh)(ad.tensor(0.0))
    f64[] 1.0
    """,
)
arcsinh = unary(
    "arcsinh",
    np.arcsinh,
    partials=lambda y, x: (arcsinh_slope(x),),
    lower=Map(lambda k, x: k.asinh(x)),
    doc="""The inverse hyperbolic sine.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.grad(ad.arcsinh)(ad.tensor(0.0))
    f64[] 1.0
    """,
)
arccosh = unary(
    "arccosh",
    np.arccosh,
    partials=lambda y, x: (arccosh_slope(x),),
    lower=Map(lambda k, x: k.acosh(x)),
    doc="""The inverse hyperbolic cosine, not negative.   f[...]  →  f[...]     nan below 1

    >>> import autodiff as ad
    >>> ad.arccosh([1.0, 0.5])
    f64[2] [ 0. nan]
    """,
)
arctanh = unary(
    "arctanh",
    np.arctanh,
    partials=lambda y, x: (arctanh_slope(x),),
    lower=Map(lambda k, x: k.atanh(x)),
    doc="""The inverse hyperbolic tangent.   f[...]  →  f[...]     nan outside [-1, 1]

    >>> import autodiff as ad
    >>> ad.arctanh([0.5, 1.0, 2.0])
    f64[3] [0.54930614        inf        nan]
    """,
)
