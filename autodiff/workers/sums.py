"""The differentiable sum.  Its rule is another sum over the same shards, so it has derivatives of any order.

    value     sum over k of f(p, shard_k)
    rows      the same with the gradient of each result, where all results are numbers: one round trip for both
    pull      sum over k of the gradients of f(p, shard_k) at cotangents c: a function of (p, c)
    push      sum over k of the tangents of f(p, shard_k) in a direction d: a function of (p, d)

The rule of `rows` multiplies cotangents and gradients that have arrived; the gradients are results like the value, so
where they are differentiated themselves (a Hessian-vector product) they have cotangents, and the rule adds a `pull`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..api import asarray
from ..custom import function
from ..custom.closures import held_by
from ..errors import DispatchError, GradientError, caller, check_callable
from ..ops import sum as sum_
from ..tape.leaks import is_traced
from ..tape.record import state
from ..tensor import AbstractTensor, Tensor
from ..tracebacks import border
from ..transforms import is_grad_enabled
from .keeping import Shards
from .rounds import go_round
from .serialized import Sent, sent
from .task import Chain

__all__ = ["sum_over"]


class _Layout:
    """The results of one sum: `count` values of f, then a gradient for each number among them and each leaf."""

    __slots__ = ("count", "numbers", "structure")

    def __init__(self, structure: Any, count: int, numbers: tuple[int, ...]) -> None:
        self.structure = structure
        self.count = count
        self.numbers = numbers


class _Job:
    """One of the sums of a program.  Equal jobs are one object.

    structure   the nesting of the parameters
    chain       which function of f is summed
    wrt         the leaves for which its own rule gives gradients
    """

    is_interned = True

    def __init__(self, program: _Program, structure: Any, chain: Chain, wrt: tuple[int, ...]) -> None:
        self.program = program
        self.structure = structure
        self.chain = chain
        self.wrt = wrt

    def run(self, leaves: Sequence[Any]) -> tuple:
        """The layout, and the sums: a round trip."""
        program, size = self.program, self.structure.size
        parameters = tree.unflatten(self.structure, leaves[:size])
        start = program.shards.started(program.sent(), program.token, self.chain, parameters, list(leaves[size:]))
        values, structure, count = go_round(program.shards, start).result()
        has_rows = len(values) > count > 0
        numbers = tuple([i for i, v in enumerate(values[:count]) if has_rows and v.dtype.kind == "f"])
        return _Layout(structure, count, numbers), *values

    def gradients(self, leaves: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """A gradient for each leaf, None where none is wanted."""
        layout, *results = outputs
        found: list[Any] = [None] * len(leaves)
        rows = iter(results[layout.count :]) if layout.numbers else iter(())
        for i in layout.numbers:
            for leaf in self.wrt:
                row = next(rows)
                if cotangents[i] is not None:
                    found[leaf] = _added(found[leaf], cotangents[i] * row)
        first = layout.count if layout.numbers else 0
        outs = [i for i in range(first, len(results)) if cotangents[i] is not None and results[i].dtype.kind in "fc"]
        if outs:
            chain = (*self.chain, ("pull", self.wrt, tuple(outs)))
            pulled = self.program.call(self.structure, chain, [*leaves, *[cotangents[i] for i in outs]])
            for leaf, gradient in zip(self.wrt, pulled[1:], strict=True):
                found[leaf] = _added(found[leaf], gradient)
        return found

    def tangents(self, leaves: Sequence[Any], outputs: Sequence[Any], directions: Sequence[Any]) -> list[Any]:
        """The tangent of each result, None where it is zero: those of numbers are products with their gradients."""
        layout, *results = outputs
        found: list[Any] = [None] * len(results)
        moved = tuple([i for i, d in enumerate(directions) if d is not None])
        rows = iter(results[layout.count :]) if layout.numbers else iter(())
        for i in layout.numbers:
            for leaf in self.wrt:
                row = next(rows)
                if directions[leaf] is not None:
                    found[i] = _added(found[i], sum_(row * directions[leaf]))
        first = layout.count if layout.numbers else 0
        outs = [i for i in range(first, len(results)) if results[i].dtype.kind in "fc"]
        if outs and moved:
            chain = (*self.chain, ("push", moved, tuple(outs)))
            pushed = self.program.call(self.structure, chain, [*leaves, *[directions[i] for i in moved]])
            for i, tangent in zip(outs, pushed[1:], strict=True):
                found[i] = tangent
        return found


def _added(a: Any, b: Any) -> Any:
    return b if a is None else a + b


class _Program:
    """f over some shards: the jobs, and the function with a rule that runs them."""

    def __init__(self, f: Callable, shards: Shards) -> None:
        self.f = f
        self.shards = shards
        self.token = uuid.uuid4().hex
        self.jobs: dict[tuple, _Job] = {}
        self._sent: tuple[bool, Sent] | None = None

        @function
        def summed(job: Any, *leaves: Any) -> Any: ...

        @summed.forward(object, object, host=True)
        def _(ctx: Any, job: Any, *leaves: Any) -> Any:
            ctx.set_materialize_grads(False)
            return job.run(leaves)

        @summed.backward(object, object)
        def _(ctx: Any, *cotangents: Any) -> Any:
            job, leaves = ctx.inputs.job, ctx.inputs.leaves
            return {"job": None, "leaves": tuple(job.gradients(leaves, ctx.outputs, cotangents[1:]))}

        @summed.jvp(object, object)
        def _(ctx: Any, _: Any, directions: Any) -> Any:
            job, leaves = ctx.inputs.job, ctx.inputs.leaves
            return (None, *job.tangents(leaves, ctx.outputs, directions))

        summed.__name__ = f"sum_over of {getattr(f, '__name__', 'a function')}"
        self.summed = summed

    def sent(self) -> Sent:
        """f for the workers."""
        by_value = not self.shards.is_here
        if self._sent is None or self._sent[0] != by_value:
            self._sent = by_value, sent(self.f, f"f, {getattr(self.f, '__name__', repr(self.f)):.60},", by_value)
        return self._sent[1]

    def call(self, structure: Any, chain: Chain, leaves: list[Any], wants_rows: bool = False) -> Sequence[Any]:
        """The layout and the sums of this chain, recorded."""
        _check_closed(self.f)
        wrt = tuple([i for i, x in enumerate(leaves) if isinstance(x, Tensor) and x.requires_grad])
        wrt = wrt if is_grad_enabled() else ()
        if wants_rows and wrt:
            chain = (*chain, ("rows", wrt))
        key = structure, chain, wrt
        job = self.jobs.get(key) or self.jobs.setdefault(key, _Job(self, structure, chain, wrt))
        return self.summed(job, *leaves)


def _check_closed(f: Callable) -> None:
    """Raise GradientError where f reads a tensor that tracks, or that has no value: the workers have only a copy."""
    for path, t in held_by(f):
        if t.requires_grad or is_traced(t.node):
            raise GradientError(
                f"sum_over: f reads the tensor {path[-1]!r} ({t.aval}), which "
                f"{'requires grad' if t.requires_grad else 'is being traced'}, without being given it\n"
                f"  called at {caller()}\n"
                "  the workers get a copy, so no gradient would flow: make it a parameter of f"
            )


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
        raise DispatchError(
            f"sum_over: shards is {shards!r:.40} ({type(shards).__name__})\n  called at {caller()}\n"
            "  make them by ad.shards(load, keys)"
        )
    _check_closed(f)
    program = shards.programs.get(id(f))
    if program is None:
        program = _Program(f, shards)
        shards.programs.put(id(f), program)  # which holds f, so that no other object is there

    @border
    def total(*parameters: Any) -> Any:
        leaves, structure = tree.flatten(parameters)
        leaves = [asarray(x) if isinstance(x, (np.ndarray, np.generic)) else x for x in leaves]
        layout, *values = program.call(structure, (), leaves, wants_rows=True)
        values = values[: layout.count]
        if state.now.captures is None and not any([isinstance(x, AbstractTensor) for x in tree.leaves(parameters)]):
            values = [x.numpy()[()] for x in values]
        return tree.unflatten(layout.structure, values)

    total.__name__ = total.__qualname__ = f"sum_over of {getattr(f, '__name__', 'a function')}"
    return total
