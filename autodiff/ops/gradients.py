"""Functions for rules of custom functions: unbroadcast, project, stop_gradient."""

from __future__ import annotations

from typing import Any

from .. import tree
from ..errors import ShapeError, located
from ..tape import DETACH, another, record
from ..tensor import Tensor
from .conversion import as_tensor, cast_to
from .primitive import sum_to
from .template import public

__all__ = ["project", "stop_gradient", "unbroadcast"]


@public()
def unbroadcast(g, like):
    """The gradient of a value that was broadcast: g summed over the axes that broadcasting repeated.

    g: T[...]  like: U[k...]  →  T[k...]

    Raises ShapeError when the shape of `like` does not broadcast to that of g.

    >>> ad.unbroadcast(ad.ones((2, 3)), ad.zeros(3))
    f64[3] [2. 2. 2.]
    """
    g, like = as_tensor(g, "unbroadcast", "g"), as_tensor(like, "unbroadcast", "like")
    have, want = g.shape, like.shape
    if len(want) > len(have) or any(n not in (1, m) for n, m in zip(reversed(want), reversed(have), strict=False)):
        raise ShapeError(located(f"unbroadcast: a {like.aval} is not broadcast to {g.aval}"))
    return another(g) if have == want else sum_to(g, want)


@public()
def project(g, like) -> Any:
    """A gradient in the structure of the value that it belongs to.

    For a tensor: in its shape (summed where that was broadcast) and its float dtype.  For a structured
    value, of its type: the cotangent of `dense(like)` pulled back to what `like` holds.  A `Diagonal`
    keeps the diagonal, a `Symmetric` the symmetric part; a number that stands in several places, as in
    `Fill`, gets the sum over them.  Types add methods `project.method(object, MyType)`; without one it is
    found by differentiating `dense`.
    Raises ShapeError for a gradient that does not fit.

    >>> ad.project(ad.ones((2, 2)), ad.Diagonal([3.0, 4.0])).diagonal
    f64[2] [1. 1.]
    """


@project.method(object, Tensor)
def _(g, like):
    found = unbroadcast(g, like)
    return cast_to(found, like.dtype) if like.dtype.kind in "fc" else found


@public(1)
def stop_gradient(t):
    """Let no gradient flow through these values; of containers and structured values, through all their tensors.

    t: T[...]  →  T[...]

    >>> ad.grad(lambda x: x * ad.stop_gradient(x))(ad.tensor(3.0))
    f64[] 3.0
    """
    return tree.map(_stopped, t)


def _stopped(x: Any) -> Any:
    if not isinstance(x, Tensor):
        return x
    return record(DETACH, (x,)) if x.node.kind.out.requires_grad else another(x)
