"""Projection for types without a method of their own: the cotangent of `dense`, pulled back."""

from __future__ import annotations

from ..ops import dense, project, stop_gradient
from ..tensor import AbstractTensor
from ..transforms import vjp
from .base import cotangent_of

__all__: list[str] = []


@project.method(object, AbstractTensor)
def _(g, like):
    g = cotangent_of(g, like)
    _, pullback = vjp(dense, like)
    found = pullback(g)[0]
    # A pullback's result depends on nodes that `vjp` made; what tracks is what came in.
    return found if g.requires_grad or like.requires_grad else stop_gradient(found)
