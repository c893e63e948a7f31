# Made by tools/stubs.py from tools/space.pyi.in and the declarations in autodiff/ops: change those, and run it again.

from typing import SupportsIndex

from . import Tensor, _ArrayLike, _operation
from . import erf as erf
from . import erfinv as erfinv
from . import log_softmax as log_softmax
from . import logsumexp as logsumexp
from . import softmax as softmax

@_operation
def beta(a: _ArrayLike, b: _ArrayLike) -> Tensor: ...
@_operation
def betaln(a: _ArrayLike, b: _ArrayLike) -> Tensor: ...
@_operation
def digamma(x: _ArrayLike) -> Tensor: ...
@_operation
def entr(x: _ArrayLike) -> Tensor:
    """-x log(x), one term of an entropy: 0 at 0, -inf below 0.   f[...]  →  f[...]"""
@_operation
def erfc(x: _ArrayLike) -> Tensor:
    """1 - erf(x), with all its digits where it is small.   f[...]  →  f[...]"""
@_operation
def factorial(x: _ArrayLike) -> Tensor: ...
@_operation
def gamma(x: _ArrayLike) -> Tensor:
    """The gamma function, (x - 1)! of whole numbers; nan at negative ones.   f[...]  →  f[...]"""
@_operation
def gammaln(x: _ArrayLike) -> Tensor:
    """The logarithm of |Γ(x)|, inf at its poles.   f[...]  →  f[...]     integers and bool give float64"""
@_operation
def i0(x: _ArrayLike) -> Tensor:
    """The modified Bessel function of the first kind, of order 0.   f[...]  →  f[...]"""
@_operation
def i0e(x: _ArrayLike) -> Tensor:
    """exp(-|x|) times `i0`: it does not overflow.   f[...]  →  f[...]     at 0, where it has a kink, derivative 0"""
@_operation
def i1(x: _ArrayLike) -> Tensor:
    """The modified Bessel function of the first kind, of order 1.   f[...]  →  f[...]"""
@_operation
def i1e(x: _ArrayLike) -> Tensor:
    """exp(-|x|) times `i1`: it does not overflow.   f[...]  →  f[...]"""
@_operation
def kl_div(x1: _ArrayLike, x2: _ArrayLike) -> Tensor:
    """x log(x / y) - x + y: convex, and never negative.   f[...], f[...]  →  f[...]"""
@_operation
def log_ndtr(x: _ArrayLike) -> Tensor:
    """The logarithm of `ndtr`, without underflow.   f[...]  →  f[...]"""
@_operation
def logit(x: _ArrayLike) -> Tensor:
    """log(x / (1 - x)), the inverse of expit.   f[...]  →  f[...]     -inf at 0, inf at 1, nan outside [0, 1]"""
@_operation
def multigammaln(a: _ArrayLike, d: SupportsIndex) -> Tensor: ...
@_operation
def ndtr(x: _ArrayLike) -> Tensor:
    """The probability that a standard normal number is below x.   f[...]  →  f[...]"""
@_operation
def polygamma(n: SupportsIndex, x: _ArrayLike) -> Tensor: ...
@_operation
def rel_entr(x1: _ArrayLike, x2: _ArrayLike) -> Tensor:
    """x log(x / y), one term of a relative entropy: 0 where x is 0 and y >= 0, inf outside of its domain."""
@_operation
def xlog1py(x1: _ArrayLike, x2: _ArrayLike) -> Tensor:
    """x log(1 + y), and 0 where x is 0, whatever number y is.   f[...], f[...]  →  f[...]"""
@_operation
def xlogy(x1: _ArrayLike, x2: _ArrayLike) -> Tensor:
    """x log(y), and 0 where x is 0, whatever number y is.   f[...], f[...]  →  f[...]"""
@_operation
def expit(x: _ArrayLike) -> Tensor:
    """1 / (1 + exp(-x)), without overflow.   f[...]  →  f[...]"""
