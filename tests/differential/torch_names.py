"""PyTorch in the place of this library: the same text of a program, run by a peer."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import torch

__all__ = ["NAMES"]


class _Names(SimpleNamespace):
    """A function written out below; all others as PyTorch has them."""

    def __getattr__(self, name: str):
        return getattr(torch, name)


def _axes(x, axis):
    return tuple(range(x.ndim)) if axis is None else axis


def _over(function):
    return lambda x, axis=None, keepdims=False: function(x, dim=_axes(x, axis), keepdim=keepdims)


def _along(function):
    return lambda x, axis=0: function(x, dim=axis)


def _with_numbers(function):
    """A function of two tensors of which one may be a number."""

    def run(a, b):
        like = a if isinstance(a, torch.Tensor) else b
        return function(*(x if isinstance(x, torch.Tensor) else torch.as_tensor(x, dtype=like.dtype) for x in (a, b)))

    return run


def _prod(x, axis=None, keepdims=False):
    axes = _axes(x, axis)
    for a in sorted([a % x.ndim for a in ((axes,) if isinstance(axes, int) else axes)], reverse=True):
        x = x.prod(dim=a, keepdim=keepdims)
    return x


def _var(x, axis=None, keepdims=False):
    return x.var(dim=_axes(x, axis), correction=0, keepdim=keepdims)


def _pad(x, pad_width, constant_values=0.0):
    widths = [(pad_width, pad_width)] * x.ndim if isinstance(pad_width, int) else pad_width
    return torch.nn.functional.pad(x, [n for pair in reversed(widths) for n in pair], value=constant_values)


def ladder(*shape):
    """As in `helpers`."""
    return torch.as_tensor(np.cos(1.0 + np.arange(math.prod(shape))).reshape(shape))


_AD = _Names(
    sum=_over(torch.sum), mean=_over(torch.mean), max=_over(torch.amax), min=_over(torch.amin), prod=_prod, var=_var,
    std=lambda x, axis=None, keepdims=False: torch.sqrt(_var(x, axis, keepdims)), logsumexp=_over(torch.logsumexp),
    softmax=_along(torch.softmax), log_softmax=_along(torch.log_softmax), cumsum=_along(torch.cumsum),
    cumprod=_along(torch.cumprod), logaddexp=torch.logaddexp,
    argmax=_along(torch.argmax), concatenate=_along(torch.cat), stack=_along(torch.stack), expand_dims=torch.unsqueeze,
    take_along_axis=lambda x, index, axis: torch.take_along_dim(x, index, dim=axis), power=torch.pow,
    split=lambda x, n, axis=0: torch.tensor_split(x, n, dim=axis), transpose=lambda x, axes: x.permute(axes),
    flip=lambda x, axis=None: torch.flip(x, tuple(range(x.ndim)) if axis is None else (axis,)), pad=_pad,
    tensordot=lambda a, b, axes: torch.tensordot(a, b, dims=axes), softplus=torch.nn.functional.softplus,
    maximum=_with_numbers(torch.maximum), minimum=_with_numbers(torch.minimum), hypot=torch.hypot, round=torch.round,
)  # fmt: skip

NAMES = {
    "ad": _AD,
    "affine": lambda x, w, b=None: x @ w if b is None else x @ w + b,
    "compiled_product": lambda a, b: torch.tanh(a) * b,
    "compiled_wave": lambda z: torch.sin(z) * z + 0.25,
    "cubed": lambda x: x**3,
    "damped": lambda x, rate=0.5: x / (1.0 + rate * x * x),
    "gaussian": lambda x: torch.exp(-x * x),
    "ladder": ladder,
    "polar": lambda x, y: (x * x + y * y, x * y),
    "scaled": lambda x, c: x * c,
}
