"""The functions of one real number around exp: exponentials, logarithms, and those of statistics and learning."""

from __future__ import annotations

import math

import numpy as np

from codegen.lowering import Map

from ..custom.function import Function
from .declare import unary
from .slopes import sigmoid_slope

__all__ = ["erf", "exp", "expm1", "log", "log1p", "log2", "log10", "sigmoid", "softplus", "sqrt"]

# ---------------------------------------------------------------- exponentials and logarithms

exp = unary("exp", accepts="fc", partials=lambda y, x: (y,), doc="""e to the power x.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.exp([0.0, -ad.inf])
    f64[2] [1. 0.]
    >>> ad.grad(ad.grad(ad.exp))(ad.tensor(0.0))
    f64[] 1.0
    """)
expm1 = unary("expm1", partials=lambda y, x: (exp(x),), doc="""exp(x) - 1, accurate near 0.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.expm1(1e-20)
    f64[] 1e-20
    >>> ad.exp(1e-20) - 1
    f64[] 0.0
    """)
log = unary("log", accepts="fc", partials=lambda y, x: (1 / x,),
    doc="""The natural logarithm.   f[...]  →  f[...]     -inf at 0, nan below

    >>> import autodiff as ad
    >>> ad.log([1.0, 0.0, -1.0])
    f64[3] [  0. -inf  nan]
    >>> ad.log(-1 + 0j)
    c128[] 3.141592653589793j
    """)
log1p = unary("log1p", partials=lambda y, x: (1 / (1 + x),),
    doc="""log(1 + x), accurate near 0.   f[...]  →  f[...]     -inf at -1, nan below

    >>> import autodiff as ad
    >>> ad.log1p(1e-20)
    f64[] 1e-20
    >>> ad.log(1 + 1e-20)
    f64[] 0.0
    """)
log2 = unary("log2", partials=lambda y, x: (1 / math.log(2) / x,), doc="""The logarithm to base 2.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.log2([8.0, 0.0])
    f64[2] [  3. -inf]
    """)
log10 = unary(
    "log10",
    partials=lambda y, x: (math.log10(math.e) / x,),  # 1 / log(10) is rounded twice
    doc="""The logarithm to base 10.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.log10([1000.0, 0.0])
    f64[2] [  3. -inf]
    """,
)
sqrt = unary(
    "sqrt",
    accepts="fc",
    partials=lambda y, x: (0.5 / (y + 0.0),),  # the root of -0.0 is -0.0, and its slope inf
    doc="""The square root.   f[...]  →  f[...]     nan below 0; the derivative at 0 is inf

    >>> import autodiff as ad
    >>> ad.sqrt([4.0, -1.0])
    f64[2] [ 2. nan]
    >>> ad.grad(ad.sqrt)(ad.tensor(0.0))
    f64[] inf
    >>> ad.sqrt(-1 + 0j)
    c128[] 1j
    """,
)

# ---------------------------------------------------------------- functions of statistics and learning


def _erf_reference(x: np.ndarray) -> np.ndarray:
    """The C library's erf, element by element: about 60 ns each, right to less than one ulp."""
    return np.fromiter(map(math.erf, x.ravel().tolist()), x.dtype, x.size).reshape(x.shape)


erf = unary("erf", _erf_reference, partials=lambda y, x: (2 / math.sqrt(math.pi) * exp(-(x * x)),),
    doc="""The error function, 2/√π ∫₀ˣ exp(-t²) dt.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.erf([0.0, ad.inf])
    f64[2] [0. 1.]
    """)


def _sigmoid_reference(x: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, x.dtype.type(1)) / (1 + small)


def _sigmoid_scalar(k, x):
    one = k.constant(1, like=x)
    small = k.exp(k.neg(k.abs(x)))
    # 1 / (1 + small) is 1 less a share, small / (1 + small) is small less one of it: what the sum and the quotient
    # are rounded by counts as little as the share does.
    share = k.div(small, k.add(one, small))
    whole = k.select(k.lt(x, k.constant(0, like=x)), small, one)
    return k.sub(whole, k.mul(whole, share))


sigmoid: Function = unary("sigmoid", _sigmoid_reference, partials=lambda y, x: (sigmoid_slope(x, y),),
    lower=Map(_sigmoid_scalar),
    doc="""1 / (1 + exp(-x)), without overflow.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.sigmoid([0.0, 1000.0])
    f64[2] [0.5 1. ]
    >>> ad.grad(ad.sigmoid)(ad.tensor(0.0))
    f64[] 0.25
    """)


def _softplus_reference(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, x.dtype.type(0)) + np.log1p(np.exp(-np.abs(x)))


softplus = unary("softplus", _softplus_reference, partials=lambda y, x: (sigmoid(x),),
    lower=Map(lambda k, x: k.add(k.maximum(x, k.constant(0, like=x)), k.log1p(k.exp(k.neg(k.abs(x)))))),
    doc="""log(1 + exp(x)), without overflow.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.softplus([0.0, 50.0])
    f64[2] [ 0.69314718 50.        ]
    >>> ad.grad(ad.softplus)(ad.tensor(0.0))
    f64[] 0.5
    """)
