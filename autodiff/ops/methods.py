"""Methods of tensors, `@`, `t[...]` and NumPy's functions for reductions, moves, indexing and products."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..tensor import AbstractTensor
from .along import take_along_axis
from .angles import cos, sin, tanh
from .arithmetic import abs_, positive
from .comparison import equal
from .complexes import conj, imag, real
from .contraction import dot, inner, matmul, outer, tensordot
from .conversion import astype
from .einsum import einsum
from .elementwise import exp, log, sigmoid, sqrt
from .extremes import cummax, cummin, nanmax, nanmean, nanmin, nansum
from .gathering import take
from .indexing import getitem
from .joining import concatenate, split, stack
from .linalg_basic import diag, diagonal, norm, trace
from .operators import attach, attach_operators, attach_spread
from .padding import pad
from .power import square
from .products import prod
from .protocols import serves
from .rearranging import diff, meshgrid, repeat, roll, tile, unstack
from .reductions import all_, any_, argmax, argmin, max_, min_, sum_
from .rounding import round_
from .scans import cumprod, cumsum
from .selection import clip, relu
from .shaping import (
    broadcast_to,
    expand_dims,
    flip,
    matrix_transpose,
    moveaxis,
    ravel,
    reshape,
    squeeze,
    swapaxes,
    transpose,
)
from .sorting import argsort, sort
from .statistics import log_softmax, logsumexp, mean, softmax, std, var
from .triangles import tril, triu

__all__: list[str] = []


def _rows(self: Any) -> Iterator:
    """The elements along the leading axis.  Raises TypeError for a 0-d tensor."""
    if not self.shape:
        raise TypeError("iteration over a 0-d tensor")
    return (self[i] for i in range(self.shape[0]))


def _holds(self: Any, element: Any) -> bool:
    """True if an element equals this: evaluates the array."""
    return bool(any_(equal(self, element)))


def copy(self: Any) -> Any:
    """A tensor of its own with the same value: in-place updates of one leave the other; gradients flow through it.

    >>> import autodiff as ad
    >>> x = ad.ones(2)
    >>> y = x.copy()
    >>> y[0] = 5.0
    >>> x, y
    (f64[2] [1. 1.], f64[2] [5. 1.])
    """
    return positive(self)


setattr(AbstractTensor, copy.__name__, copy)
attach({
    "sum": sum_,
    "mean": mean,
    "prod": prod,
    "max": max_,
    "min": min_,
    "var": var,
    "std": std,
    "any": any_,
    "all": all_,
    "argmax": argmax,
    "argmin": argmin,
    "cumprod": cumprod,
    "cumsum": cumsum,
    "swapaxes": swapaxes,
    "ravel": ravel,
    "flatten": ravel,
    "squeeze": squeeze,
    "dot": dot,
    "trace": trace,
    "diagonal": diagonal,
    "take": take,
    "repeat": repeat,
    "argsort": argsort,
    "conj": conj,
    "conjugate": conj,
    "astype": astype,
    "broadcast_to": broadcast_to,
    "expand_dims": expand_dims,
    "clip": clip,
    "round": round_,
    "abs": abs_,
    "square": square,
    "sqrt": sqrt,
    "exp": exp,
    "log": log,
    "sin": sin,
    "cos": cos,
    "tanh": tanh,
    "sigmoid": sigmoid,
    "relu": relu,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "logsumexp": logsumexp,
    "__getitem__": getitem,
    "__iter__": _rows,
    "__contains__": _holds,
})
attach_spread({"reshape": reshape}, is_needed=True)
attach_spread({"transpose": transpose}, is_needed=False)
attach_operators({"matmul": matmul})
for _name, _property in {
    "T": property(transpose, doc="""The axes in reverse order.

    >>> import autodiff as ad
    >>> ad.ones((2, 3, 4)).T.shape
    (4, 3, 2)
    """),
    "mT": property(matrix_transpose, doc="""Each matrix transposed: the last two axes exchanged.

    >>> import autodiff as ad
    >>> ad.ones((2, 3, 4)).mT.shape
    (2, 4, 3)
    """),
    "real": property(real, doc="""The real part.

    >>> import autodiff as ad
    >>> ad.tensor([1 + 2j]).real
    f64[1] [1.]
    """),
    "imag": property(imag, doc="""The imaginary part.

    >>> import autodiff as ad
    >>> ad.tensor([1 + 2j]).imag
    f64[1] [2.]
    """),
}.items():
    setattr(AbstractTensor, _name, _property)

for _function, _names in {
    sum_: "sum",
    mean: "mean",
    prod: "prod",
    max_: "max amax",
    min_: "min amin",
    var: "var",
    std: "std",
    any_: "any",
    all_: "all",
    argmax: "argmax",
    argmin: "argmin",
    cumprod: "cumprod",
    nansum: "nansum",
    nanmean: "nanmean",
    nanmax: "nanmax",
    nanmin: "nanmin",
    cumsum: "cumsum",
    reshape: "reshape",
    transpose: "transpose permute_dims",
    swapaxes: "swapaxes",
    moveaxis: "moveaxis",
    matrix_transpose: "matrix_transpose linalg.matrix_transpose",
    broadcast_to: "broadcast_to",
    expand_dims: "expand_dims",
    squeeze: "squeeze",
    ravel: "ravel",
    flip: "flip",
    concatenate: "concatenate",
    stack: "stack",
    split: "split",
    pad: "pad",
    take: "take",
    take_along_axis: "take_along_axis",
    matmul: "matmul linalg.matmul",
    dot: "dot",
    inner: "inner",
    outer: "outer linalg.outer",
    tensordot: "tensordot linalg.tensordot",
    einsum: "einsum",
    trace: "trace",
    diag: "diag",
    diagonal: "diagonal",
    norm: "linalg.norm",
    real: "real",
    imag: "imag",
    tril: "tril",
    roll: "roll",
    tile: "tile",
    repeat: "repeat",
    diff: "diff",
    meshgrid: "meshgrid",
    unstack: "unstack",
    sort: "sort",
    argsort: "argsort",
    triu: "triu",
}.items():
    for _name in _names.split():
        _where: Any = np
        for _part in _name.split("."):
            _where = getattr(_where, _part, None)
        if _where is not None:  # some names are younger than the oldest NumPy we run with
            serves(_function, _where)


def _reducing(function: Callable) -> Callable:
    """The `reduce` of a universal function: over the first axis unless another is named."""

    def reduce(array, axis=0, dtype=None, out=None, keepdims=False, **keywords):
        told = {"dtype": dtype} if dtype is not None else {}
        return function(array, axis, **told, **({"keepdims": True} if keepdims else {}), **keywords)

    return reduce


serves(_reducing(sum_), (np.add, "reduce"))
serves(_reducing(prod), (np.multiply, "reduce"))
serves(_reducing(max_), (np.maximum, "reduce"))
serves(_reducing(min_), (np.minimum, "reduce"))
serves(_reducing(any_), (np.logical_or, "reduce"))
serves(_reducing(all_), (np.logical_and, "reduce"))
serves(_reducing(cumsum), (np.add, "accumulate"))
serves(_reducing(cumprod), (np.multiply, "accumulate"))
serves(_reducing(cummax), (np.maximum, "accumulate"))
serves(_reducing(cummin), (np.minimum, "accumulate"))
