"""Batching rules: an operation for many examples at once, declared with it.

    batch(op, size, xs, mapped, **params) -> tensor

    xs      the inputs; those that differ between examples (`mapped`) have the examples along a new axis 0 of
            this size.  At least one of them does
    result  that of every example, along axis 0

The rules of whole kinds of operations stand here; what is particular to one stands where it is declared.

    elements   elementwise: each example's axes are aligned on the right
    along      one whose parameters name axes, or the shape of the result: axes move up by one
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def along(*axes: str, shapes: Sequence[str] = ()) -> Callable[..., Tensor]:
    """A rule: all inputs have the examples, the parameters named `axes` (numbers, or tuples of them) count
    one axis more, and those named `shapes` are shapes of one axis more."""

    def batch(op: Primitive, size: int, xs: Sequence[Tensor], mapped: Sequence[bool], **params: Any) -> Tensor:
        for name in axes:
            params[name] = up(params[name])
        for name in shapes:
            params[name] = (size, *params[name])
        return record(op, with_examples(size, xs, mapped), tuple(params.values()))

    return batch


def up(axes: Any) -> Any:
    """Axes of an example as axes of all examples."""
    return tuple([a + 1 for a in axes]) if isinstance(axes, tuple) else axes + 1


def to_front(x: Tensor, axis: int) -> Tensor:
    """x with this axis first."""
    return x if axis == 0 else _op("transpose", x, (axis, *[a for a in range(x.ndim) if a != axis]))


def _op(name: str, x: Tensor, parameter: tuple[int, ...]) -> Tensor:
    """An operation that is declared above this file."""
    return record(cast(Primitive, OPS[name]), (x,), (parameter,))
