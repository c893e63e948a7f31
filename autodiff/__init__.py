"""Automatic differentiation for people who write their own functions.

A function is generic: it has forward and backward methods chosen by the types of its arguments.  What a
program computes is recorded; the gradient is more of the same; the whole is fused and becomes
native code, kept per graph shape, so that a loop pays only for arithmetic.

>>> import autodiff as ad
>>> x = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
f64[3] [2. 4. 6.]
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

import numpy as _np

from codegen.garbage import PausedForLastingObjects as _PausedForLastingObjects
from codegen.lazily import lazily as _lazily

# All that is imported stays, so there is nothing to collect: looking for it again and again takes a twentieth of the
# time (process time, median of twelve each: 209 ms with, 200 without; Zen 4).
with _PausedForLastingObjects():
    from . import ops, tree
    from .api import asarray, cache_info, clear_cache, max_compiles, tensor
    from .config import config
    from .custom import function
    from .dispatch import late as _late
    from .errors import (
        AmbiguityError,
        ConcretizationError,
        DispatchError,
        DTypeError,
        Error,
        GradientError,
        LinAlgError,
        LostGradientWarning,
        ShapeError,
        WorkerError,
    )
    from .jit import jit
    from .named_types import Matrix, Number, Scalar, Vector
    from .ops import *  # every public operation, under its own name
    from .tape.misses import explain
    from .tensor import AbstractTensor, Tensor
    from .transforms import (
        backward,
        detect_anomaly,
        enable_grad,
        grad,
        is_grad_enabled,
        no_grad,
        value_and_grad,
        vjp,
    )

if _TYPE_CHECKING:  # where editors find the documentation of what is imported later; types are in the stub
    from . import fft, interop, linalg, random, special
    from .array_api import __array_namespace_info__ as __array_namespace_info__
    from .array_api import can_cast, finfo, from_dlpack, iinfo, isdtype, result_type
    from .control import checkpoint, cond, fori_loop, scan, while_loop
    from .custom.context import BackwardContext, ForwardContext
    from .dispatch import ambiguities, coverage, methods, which, which_backward
    from .exporting import export
    from .inspection import inspect
    from .profiling import profile
    from .structured import (
        Cholesky,
        Diagonal,
        Fill,
        LowerTriangular,
        OneHot,
        Permutation,
        Symmetric,
        UniformScaling,
        UpperTriangular,
    )
    from .testing import check_gradients
    from .transforms import hessian, hvp, jacobian, jvp, vmap
    from .workers import shards, sum_over


def _hint(name: str) -> str:
    from .elsewhere import OF_FUNCTIONS, hint  # for this message only

    return hint(OF_FUNCTIONS, name)


# Names that many programs never use are imported when they are first asked for.
__getattr__, __dir__ = _lazily(
    globals(),
    dict.fromkeys(("checkpoint", "cond", "control", "fori_loop", "scan", "while_loop"), "control")
    | dict.fromkeys(
        ("Cholesky", "Diagonal", "Fill", "LowerTriangular", "OneHot", "Permutation", "Symmetric", "UniformScaling",
         "UpperTriangular", "structured"), "structured")
    | dict.fromkeys(("ambiguities", "coverage", "methods", "which", "which_backward"), "dispatch")
    | dict.fromkeys(
        ("__array_namespace_info__", "can_cast", "finfo", "from_dlpack", "iinfo", "isdtype", "result_type"),
        "array_api")
    | dict.fromkeys(("hessian", "hvp", "jacobian", "jvp", "vmap"), "transforms")
    | {"check_gradients": "testing", "export": "exporting", "inspect": "inspection", "inspection": "inspection",
       "profile": "profiling", "testing": "testing"}
    | dict.fromkeys(("BackwardContext", "ForwardContext"), "custom.context")
    | dict.fromkeys(("shards", "sum_over", "workers"), "workers")
    | {name: name for name in ("fft", "interop", "linalg", "random", "special")}
    | dict.fromkeys(ops.LATER, "ops"),
    _hint,
)  # fmt: skip
_late("autodiff.structured")
_late("autodiff.control")

__version__ = "0.1.0"

float32, float64 = _np.float32, _np.float64
int32, int64 = _np.int32, _np.int64
complex64, complex128 = _np.complex64, _np.complex128
bool_ = _np.bool_
floating, integer, complexfloating = _np.floating, _np.integer, _np.complexfloating
globals()["bool"] = bool_  # the Array API's name, which is not exported
__array_api_version__ = "2024.12"
pi, e, inf, nan, newaxis = _np.pi, _np.e, _np.inf, _np.nan, None

__all__ = [
    "AbstractTensor", "AmbiguityError", "BackwardContext", "Cholesky", "ConcretizationError", "DTypeError", "Diagonal",
    "DispatchError", "Error", "Fill", "ForwardContext", "GradientError", "LinAlgError", "LostGradientWarning",
    "LowerTriangular", "Matrix", "Number", "OneHot", "Permutation", "Scalar", "ShapeError", "Symmetric", "Tensor",
    "UniformScaling", "UpperTriangular", "Vector", "ambiguities", "asarray", "backward", "bool_", "cache_info",
    "checkpoint", "clear_cache", "complex64", "complex128", "complexfloating", "cond", "config", "coverage", "e",
    "enable_grad", "export", "float32", "float64", "floating", "fori_loop", "function", "grad", "inf", "inspect",
    "int32", "int64", "integer", "is_grad_enabled", "jit", "jvp", "max_compiles", "methods", "nan", "newaxis",
    "no_grad", "ops", "pi", "profile", "scan", "tensor", "tree", "value_and_grad", "vjp", "which", "which_backward",
    "while_loop",
]
__all__ += ["check_gradients", "detect_anomaly", "explain", "fft", "hessian", "hvp", "interop", "jacobian", "linalg"]
__all__ += ["can_cast", "finfo", "from_dlpack", "iinfo", "isdtype", "result_type"]
__all__ += ["WorkerError", "random", "shards", "special", "sum_over", "vmap", *ops.__all__, *ops.LATER]
