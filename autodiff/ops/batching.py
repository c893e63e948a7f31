"""Batching rules: an operation for many examples at once, declared with it.

    batch(op, size, xs, mapped, **params) -> tensor

    xs      the inputs; those that differ between examples (`mapped`) have the examples along a new axis 0 of
            this size.  At least one of them does
    result  that of every example, along axis 0

The rules of whole kinds of operations stand here; what is particular to one stands where it is declared.

    elements   elementwise: each example's axes are aligned on the right
    along      all others: axes that parameters name move up by one
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from codegen.ir import OPS

from ..tape import Primitive, record
from ..tensor import Tensor


def with_examples(size: int, xs: Sequence[Tensor], mapped: Sequence[bool]) -> tuple[Tensor, ...]:
    """All inputs with the examples along axis 0: what is the same for all is repeated."""
    return tuple([x if m else _op("broadcast_to", x, (size, *x.shape)) for x, m in zip(xs, mapped, strict=True)])


def elements(op: Primitive, size: int, xs: Sequence[Tensor], mapped: Sequence[bool], **params: Any) -> Tensor:
    """Elementwise: an example of few axes gets axes of extent 1 in front, so that the examples stay first."""
    rank = max([x.ndim - m for x, m in zip(xs, mapped, strict=True)])
    aligned = [
        _op("reshape", x, (size, *(1,) * (rank + 1 - x.ndim), *x.shape[1:])) if m and x.ndim <= rank else x
        for x, m in zip(xs, mapped, strict=True)
    ]
    return record(op, tuple(aligned), tuple(params.values()))


def along(op: Primitive, size: int, xs: Sequence[Tensor], mapped: Sequence[bool], **params: Any) -> Tensor:
    """All inputs have the examples: `axis` and `axes`, numbers or tuples of them, count one axis more, and so has a
    `shape`."""
    for name in {"axis", "axes"}.intersection(params):
        params[name] = up(params[name])
    if "shape" in params:
        params["shape"] = (size, *params["shape"])
    return record(op, with_examples(size, xs, mapped), tuple(params.values()))


def up(axes: Any) -> Any:
    """Axes of an example as axes of all examples."""
    return tuple([a + 1 for a in axes]) if isinstance(axes, tuple) else axes + 1


def to_front(x: Tensor, axis: int) -> Tensor:
    """x with this axis first."""
    return x if axis == 0 else _op("transpose", x, (axis, *[a for a in range(x.ndim) if a != axis]))


def _op(name: str, x: Tensor, parameter: tuple[int, ...]) -> Tensor:
    """An operation that is declared above this file."""
    return record(cast(Primitive, OPS[name]), (x,), (parameter,))
