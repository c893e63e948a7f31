"""The differentiable sum: a function that is computed elsewhere (see `interop.foreign`), by one round trip.

Its rule is another sum over the same shards, so it has derivatives of any order.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import cache, wraps
from typing import Any

import numpy as np

from .. import tree
from ..custom.reads import held_by
from ..errors import DispatchError, GradientError, check_callable, located
from ..interop.foreign import Chain, Layout, wrapped
from ..tape.leaks import is_traced
from ..tracebacks import border
from .keeping import Shards
from .rounds import go_round
from .serialized import Sent, sent

__all__ = ["sum_over"]


def _summed(f: Callable, name: str, shards: Shards) -> Callable[..., tuple[Layout, list[np.ndarray]]]:
    """A function that runs f, or what a chain makes of it, over all shards: see `wrapped`."""
    token = uuid.uuid4().hex

    @cache
    def for_workers(by_value: bool) -> Sent:
        return sent(f, f"f, {name:.60},", by_value)

    def run(chain: Chain, structure: tree.Structure, leaves: Sequence[Any]) -> tuple[Layout, list[np.ndarray]]:
        parameters, cotangents = tree.unflatten(structure, leaves[: structure.size]), [*leaves[structure.size :]]
        start = shards.started(for_workers(not shards.is_here), token, chain, parameters, cotangents)
        values, found, count = go_round(shards, start).result()
        has_rows = len(values) > count > 0
        numbers = tuple([i for i, v in enumerate(values[:count]) if has_rows and v.dtype.kind == "f"])
        return Layout(found, count, numbers), values

    return run


def _check_closed(f: Callable) -> None:
    """Raise GradientError where f reads a tensor that tracks, or that has no value: the workers have only a copy."""
    for path, t in held_by(f):
        if t.requires_grad or is_traced(t.node):
            raise GradientError(located(
                f"sum_over: f reads the tensor {path[-1]!r} ({t.aval}), which "
                f"{'requires grad' if t.requires_grad else 'is being traced'}, without being given it",
                "the workers get a copy, so no gradient would flow: make it a parameter of f",
            ))


def sum_over(f: Callable[..., Any], shards: Shards) -> Callable[..., Any]:
    """A function of parameters: the sum over all shards of f(*parameters, *shard).

    f        a function of the parameters and of the arrays of one shard, written with functions of `ad`.  Python runs
             it again for each task; `ad.jit(f)` is traced once, and its derivatives too.  Parameters and results are
             any nesting of arrays and numbers in tuples, lists, dicts and dataclasses
    shards   made by `ad.shards`

    The sum is an ordinary function: it can be differentiated to any order, mapped and compiled.  The value and its
    gradient take one round trip where all results of f are numbers; each further order takes one more.  `ad.vmap` takes
    a round trip for each example.  Integers and truth values are added exactly, as int64, and have no derivative.

    A mean is a quotient of two sums: let f return `ad.sum(loss), len(y)`.

    The workers get a copy of f.  The results are added in a binary tree in the order of the keys, and programs are
    compiled before they first run, so their bits are the same for any number of workers of one kind.

    Raises WorkerError, with the keys, when workers were lost more often than the shards allow; ShapeError and
    DTypeError for results that differ between shards; GradientError where f reads a tensor that requires grad;
    DispatchError for a function that cannot be pickled.  An error of `load` or `f` is raised as it is, with a note that
    names the key.

    >>> import autodiff as ad
    >>> import numpy as np
    >>> def load(key):
    ...     rng = np.random.default_rng(key)
    ...     x = rng.normal(size=(10 + key, 2))
    ...     return x, x @ np.array([1.0, -2.0])
    >>> def squares(w, x, y):
    ...     return ad.sum((x @ w - y) ** 2), len(y)
    >>> total = ad.sum_over(squares, ad.shards(load, range(3)))
    >>> def mean(w):
    ...     loss, count = total(w)
    ...     return loss / count
    >>> np.round(ad.grad(mean)(np.array([1.0, -2.0])), 6)
    array([0., 0.])
    """
    check_callable(f, "sum_over")
    if not isinstance(shards, Shards):
        raise DispatchError(located(
            f"sum_over: shards is {shards!r:.40} ({type(shards).__name__})",
            "make them by ad.shards(load, keys)",
        ))
    _check_closed(f)
    known = shards.programs.get(id(f))
    if known is None:
        name = getattr(f, "__name__", "a function")
        known = wrapped(f"sum_over of {name}", _summed(f, getattr(f, "__name__", repr(f)), shards), is_ours=True)
        shards.programs.put(id(f), known)  # which holds f, so that no other object is there

    @border
    @wraps(known)
    def total(*parameters: Any) -> Any:
        _check_closed(f)
        return known(*parameters)

    return total
