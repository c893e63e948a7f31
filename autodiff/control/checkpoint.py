"""`checkpoint`: what a function computed is computed again in the backward pass instead of kept.

Forward and backward are one graph, in which equal work is shared.  Here it must not be: the arguments that the
backward pass starts from stand behind a barrier, which nothing is moved or shared across.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from codegen.lowering import Map

from .. import tree
from ..custom import function
from ..custom.context import wanted
from ..errors import check_callable
from ..ops import as_tensor
from ..ops.conversion import numpys
from ..ops.primitive import primitive
from ..tape.record import record
from ..tensor import AbstractTensor, Tensor
from ..tracebacks import border
from ..transforms.anomaly import is_watching
from ..transforms.arguments import applied as called
from ..transforms.batch.walk import CALLS
from .body import RECOMPUTED, Body, cut, float_places, mode_of, placed, tracks_of
from .trace import Operands, applied, derived, of_all, trace

__all__ = ["checkpoint"]

#: Classes whose values become tensors in a result.
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


_checkpointed.__name__ = "checkpoint"  # in messages
RECOMPUTED.add(_checkpointed)


def _of_all(size: int, values: dict[str, Any], differ: dict[str, Any]) -> tuple:
    """Many calls at once: what is computed again is computed again for all."""
    body, inputs, mapped = values["body"], values["inputs"], differ["inputs"]

    def f(given: list[Tensor]) -> list[Tensor]:
        return of_all(applied(body, given, mapped, size), size)

    made = derived(body, ("examples of a checkpoint", size, *mapped), f, (), (), inputs)
    return _checkpointed(made.body, tuple(made.hidden))


CALLS[_checkpointed] = _of_all


@_checkpointed.forward
def _(ctx, body, inputs):
    return tuple(body.apply(inputs))


@_checkpointed.backward
def _(ctx, *bars):
    body, inputs = ctx.inputs.body, [record(_barrier, (x,)) for x in ctx.inputs.inputs]
    floats = float_places([n.aval for n in body.graph.outputs])
    # The body was recorded with the others as constants: what it computes of these alone has no rule.
    places = [k for k, is_wanted in enumerate(wanted(ctx, "inputs")) if is_wanted]
    return {"body": None, "inputs": tuple(body.pull(inputs, [bars[k] for k in floats], places))}


@_checkpointed.jvp
def _(ctx, _body, dots):
    body, inputs = ctx.inputs
    places = [k for k, dot in enumerate(dots) if dot is not None]
    results = [n.aval for n in body.graph.outputs]
    floats = float_places(results)

    def pushed(given: list[Tensor]) -> list[Tensor]:
        _, found = body.push(given[: len(inputs)], given[len(inputs) :], places)
        return [found[k] for k in floats]

    given = [*inputs, *[dots[k] for k in places]]
    made = derived(body, ("pushed in a checkpoint", *places), pushed, (), (), given)
    return tuple(placed(_computed(made.body, made.hidden), floats, len(results)))


def _computed(body: Body, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The results, those without a history that depend on nothing by a gradient."""
    with mode_of(body):
        return cut(_checkpointed(body, tuple(inputs)), body.tracking(tracks_of(inputs)))


def checkpoint(f: Callable) -> Callable:
    """A function like `f`, whose intermediate values are computed again in the backward pass instead of kept.

    f   a function of any nestings of tensors, arrays and numbers, also by keyword; other arguments are static, and
        other leaves of its result come back as they are.  It may not evaluate

    >>> import autodiff as ad, numpy as np
    >>> ad.grad(lambda x: ad.checkpoint(lambda x: ad.sin(x) * ad.exp(x))(x).sum())(np.array([0.0]))
    array([1.])
    """

    check_callable(f, "checkpoint")

    @border
    @wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        user, structure = tree.flatten((args, kwargs))
        user = tree.unflatten(structure, [numpys(x) for x in user])
        given = Operands(user, (AbstractTensor, np.ndarray, np.generic))
        if is_watching():
            plain, named = given.values()
            return tree.map(lambda x: as_tensor(x) if isinstance(x, VALUES) else x, f(*plain, **named))
        kept: list[Any] = []
        nesting = tree.LEAF

        def tensors_of(args: tuple, kwargs: dict[str, Any]) -> list[Any]:
            """The result's leaves, without those that are no tensors: these are kept as they are."""
            nonlocal kept, nesting
            found, nesting = tree.flatten(called(f, args, kwargs))
            kept = [None if isinstance(x, VALUES) else x for x in found]
            return [x if isinstance(x, VALUES) else None for x in found]

        traced = trace(tensors_of, *given.examples, values=given.values)
        found = traced.result.filled(_computed(traced.body, [*given.tensors, *traced.hidden]))
        return tree.unflatten(nesting, [k if x is None else x for x, k in zip(found, kept, strict=True)])

    return run
