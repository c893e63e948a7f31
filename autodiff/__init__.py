"""Automatic differentiation of Python functions, for users who also write derivative rules of their own.

Operations on tensors are recorded, and the operations of their gradients are recorded in the same way.  A recorded
program that repeats is fused and compiled to native code, which is cached: each later turn of a loop only runs it.
A user's function is generic: the types of its arguments choose its forward method and its backward method.

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

# Imported modules stay in memory, so garbage collections during the import find nothing: they take a twentieth of its
# time (process time, median of twelve each: 209 ms with collections, 200 without; Zen 4).
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
    from .errors import hint_in as _hint
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

if _TYPE_CHECKING:  # editors find here the documentation of names that are imported later; the stub has their types
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

# Names that many programs never use are imported when they are first accessed.
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
globals()["bool"] = bool_  # the Array API requires this name; `from autodiff import *` leaves it out
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
