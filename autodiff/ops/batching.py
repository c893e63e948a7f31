"""Batching rules: how an operation is recorded for many examples at once (`batch=` of its declaration).

    batch(op, size, xs, mapped, **params) -> tensor

    xs      the inputs; those that differ between examples (`mapped`) have the examples along a new axis 0 of
            this size.  At least one of them does
    result  the results of all examples, along axis 0

The rules that many operations share stand here; the rule of a single operation stands at its declaration.

    elements   for elementwise operations: each example's axes are aligned on the right
    along      for all other operations: axes that parameters name move up by one
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from codegen.ir import OPS

from ..tape import Primitive, record
from ..tensor import Tensor


def with_examples(size: int, xs: Sequence[Tensor], mapped: Sequence[bool]) -> tuple[Tensor, ...]:
    """All inputs with the examples along axis 0; an input that is the same for all examples is repeated."""
    return tuple([x if m else _op("broadcast_to", x, (size, *x.shape)) for x, m in zip(xs, mapped, strict=True)])


def elements(op: Primitive, size: int, xs: Sequence[Tensor], mapped: Sequence[bool], **params: Any) -> Tensor:
    """The rule of elementwise operations: examples of lower rank get leading axes of extent 1, behind axis 0."""
    rank = max([x.ndim - m for x, m in zip(xs, mapped, strict=True)])
    aligned = [
        _op("reshape", x, (size, *(1,) * (rank + 1 - x.ndim), *x.shape[1:])) if m and x.ndim <= rank else x
        for x, m in zip(xs, mapped, strict=True)
    ]
    return record(op, tuple(aligned), tuple(params.values()))


def along(op: Primitive, size: int, xs: Sequence[Tensor], mapped: Sequence[bool], **params: Any) -> Tensor:
    """The rule of other operations: all inputs get the examples; `axis` and `axes` (numbers or tuples) move up by one,
    and a `shape` gets the extent of axis 0 in front."""
    for name in {"axis", "axes"}.intersection(params):
        params[name] = up(params[name])
    if "shape" in params:
        params["shape"] = (size, *params["shape"])
    return record(op, with_examples(size, xs, mapped), tuple(params.values()))


def up(axes: Any) -> Any:
    """Axes of one example as axes of the tensor of all examples: one higher."""
    return tuple([a + 1 for a in axes]) if isinstance(axes, tuple) else axes + 1


def to_front(x: Tensor, axis: int) -> Tensor:
    """x with the given axis first."""
    return x if axis == 0 else _op("transpose", x, (axis, *[a for a in range(x.ndim) if a != axis]))


def _op(name: str, x: Tensor, parameter: tuple[int, ...]) -> Tensor:
    """Record an operation that is found by name: the files that declare operations import this file."""
    return record(cast(Primitive, OPS[name]), (x,), (parameter,))
