"""`checkpoint`: what a function computed is computed again in the backward pass instead of kept.

Forward and backward are one graph, in which equal work is shared.  Here it must not be: the arguments that the
backward pass starts from stand behind a barrier, which nothing is moved or shared across.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from codegen.lowering import Map

from .. import tree
from ..custom import function
from ..errors import check_callable
from ..ops import as_tensor
from ..ops.primitive import primitive
from ..tape.record import record
from ..tensor import AbstractTensor, Tensor
from ..transforms.batch.walk import CALLS
from .batching import checkpoint_of_all
from .body import RECOMPUTED, float_places, mode_of, trace

__all__ = ["checkpoint"]

#: What becomes a tensor in a result.
VALUES = (AbstractTensor, np.ndarray, np.generic, bool, int, float, complex)

_barrier = primitive(
    "barrier",
    lambda x: np.array(x),
    infer=lambda x: x,
    lower=Map(lambda k, x: x),
    vjp=lambda y_bar, y, x: (y_bar,),
    jvp=lambda dxs, y, x: dxs[0],
    traits=("elementwise",),
)


@function
def _checkpointed(body, inputs): ...


RECOMPUTED.add(_checkpointed)
CALLS[_checkpointed] = checkpoint_of_all(_checkpointed)


@_checkpointed.forward
def _(ctx, body, inputs):
    return tuple(body.apply(inputs))


@_checkpointed.backward
def _(ctx, *bars):
    body, inputs = ctx.inputs.body, [record(_barrier, (x,)) for x in ctx.inputs.inputs]
    floats = float_places([n.aval for n in body.graph.outputs])
    # The body was recorded with the others as constants: what it computes of these alone has no rule.
    wanted = [k for k in float_places(inputs) if ctx.inputs.inputs[k].requires_grad]
    return {"body": None, "inputs": tuple(body.pull(inputs, [bars[k] for k in floats], wanted))}


def checkpoint(f: Callable) -> Callable:
    """The same function; what happens in it is computed again in the backward pass instead of kept.

    f   of any nestings of tensors, arrays and numbers, also by keyword; other arguments are static, and other leaves
        of its result come back as they are.  It is recorded, so it asks for no values

    >>> import autodiff as ad, numpy as np
    >>> ad.grad(lambda x: ad.checkpoint(lambda x: ad.sin(x) * ad.exp(x))(x).sum())(np.array([0.0]))
    array([1.])
    """

    check_callable(f, "checkpoint")

    @wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten((args, kwargs))
        leaves = [as_tensor(x) if isinstance(x, (AbstractTensor, np.ndarray, np.generic)) else x for x in leaves]
        examples = tree.unflatten(structure, [x.aval if isinstance(x, Tensor) else x for x in leaves])
        kept: list[Any] = []
        nesting = tree.LEAF

        def tensors_of(args: tuple, kwargs: dict[str, Any]) -> list[Any]:
            """The result's leaves, without those that are no tensors: these are kept as they are."""
            nonlocal kept, nesting
            found, nesting = tree.flatten(f(*args, **kwargs))
            kept = [None if isinstance(x, VALUES) else x for x in found]
            return [x if isinstance(x, VALUES) else None for x in found]

        traced = trace(tensors_of, *examples, values=lambda: tree.unflatten(structure, leaves))
        given = tuple([x for x in leaves if isinstance(x, Tensor)])
        with mode_of(traced.body):
            found = traced.result.filled(_checkpointed(traced.body, (*given, *traced.hidden)))
        return tree.unflatten(nesting, [k if x is None else x for x, k in zip(found, kept, strict=True)])

    return run
