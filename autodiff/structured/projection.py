"""Projection for types without a method of their own: the cotangent of `dense`, pulled back."""

from __future__ import annotations

from ..ops import dense, project
from ..tensor import AbstractTensor
from ..transforms import vjp
from .base import cotangent_of

__all__: list[str] = []


@project.method(object, AbstractTensor)
def _(gradient, like):
    _, pullback = vjp(dense, like)
    return pullback(cotangent_of(gradient, like))[0]
