"""Circular and hyperbolic functions, and their inverses."""

from __future__ import annotations

from ..custom.function import Function
from .declare import binary, unary
from .slopes import arc_slope, arccosh_slope, arcsinh_slope, arctanh_slope, tanh_slope, turn

__all__ = [
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cos", "cosh", "sin", "sinh", "tan",
    "tanh",
]  # fmt: skip

# ---------------------------------------------------------------- circular functions

sin = unary("sin", accepts="fc", partials=lambda y, x: (cos(x),), doc="""The sine of x in radians.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.grad(ad.grad(ad.sin))(ad.tensor(ad.pi / 2))
    f64[] -1.0
    """)
cos: Function = unary("cos", accepts="fc", partials=lambda y, x: (-sin(x),),
    doc="""The cosine of x in radians.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.grad(ad.cos)(ad.tensor(ad.pi / 2))
    f64[] -1.0
    """)
tan = unary("tan", accepts="fc", partials=lambda y, x: (1 + y * y,),
    doc="""The tangent of x in radians.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.grad(ad.tan)(ad.tensor(0.0))
    f64[] 1.0
    """)
arcsin = unary("arcsin", partials=lambda y, x: (arc_slope(x),), lower="asin",
    doc="""The angle in [-π/2, π/2] whose sine is x.   f[...]  →  f[...]     nan outside [-1, 1]

    >>> import autodiff as ad
    >>> ad.arcsin([1.0, 2.0])
    f64[2] [1.57079633        nan]
    >>> ad.grad(ad.arcsin)(ad.tensor(0.0))
    f64[] 1.0
    """)
arccos = unary("arccos", partials=lambda y, x: (-arc_slope(x),), lower="acos",
    doc="""The angle in [0, π] whose cosine is x.   f[...]  →  f[...]     nan outside [-1, 1]

    >>> import autodiff as ad
    >>> ad.arccos([1.0, -1.0, 2.0])
    f64[3] [0.         3.14159265        nan]
    """)
arctan = unary("arctan", partials=lambda y, x: (1 / (1 + x * x),), lower="atan",
    doc="""The angle in [-π/2, π/2] whose tangent is x.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.arctan([1.0, ad.inf])
    f64[2] [0.78539816 1.57079633]
    """)
arctan2 = binary("arctan2", partials=lambda y, a, b: (lambda: turn(b, a), lambda: -turn(a, b)), lower="atan2",
    doc="""The angle of the point (x2, x1), in [-π, π].   f[...], f[...]  →  f[...]

    The derivative at (0, 0) is nan: the angle jumps there.

    >>> import autodiff as ad
    >>> ad.arctan2([1.0, -1.0], [-1.0, -1.0])
    f64[2] [ 2.35619449 -2.35619449]
    """)


# ---------------------------------------------------------------- hyperbolic functions

sinh = unary("sinh", accepts="fc", partials=lambda y, x: (cosh(x),), doc="""The hyperbolic sine.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.grad(ad.sinh)(ad.tensor(0.0))
    f64[] 1.0
    """)
cosh: Function = unary("cosh", accepts="fc", partials=lambda y, x: (sinh(x),),
    doc="""The hyperbolic cosine.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.cosh(0.0)
    f64[] 1.0
    >>> ad.grad(ad.grad(ad.cosh))(ad.tensor(0.0))
    f64[] 1.0
    """)
tanh = unary("tanh", accepts="fc", partials=lambda y, x: (tanh_slope(x, y) if x.dtype.kind == "f" else 1 - y * y,),
    doc="""The hyperbolic tangent.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.tanh([0.0, 1000.0])
    f64[2] [0. 1.]
    >>> ad.grad(ad.tanh)(ad.tensor(0.0))
    f64[] 1.0
    """)
arcsinh = unary("arcsinh", partials=lambda y, x: (arcsinh_slope(x),), lower="asinh",
    doc="""The inverse hyperbolic sine.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.grad(ad.arcsinh)(ad.tensor(0.0))
    f64[] 1.0
    """)
arccosh = unary("arccosh", partials=lambda y, x: (arccosh_slope(x),), lower="acosh",
    doc="""The inverse hyperbolic cosine, not negative.   f[...]  →  f[...]     nan below 1

    >>> import autodiff as ad
    >>> ad.arccosh([1.0, 0.5])
    f64[2] [ 0. nan]
    """)
arctanh = unary("arctanh", partials=lambda y, x: (arctanh_slope(x),), lower="atanh",
    doc="""The inverse hyperbolic tangent.   f[...]  →  f[...]     nan outside [-1, 1]

    >>> import autodiff as ad
    >>> ad.arctanh([0.5, 1.0, 2.0])
    f64[3] [0.54930614        inf        nan]
    """)
