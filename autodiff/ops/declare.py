"""Elementwise operations as public functions: operation and generic function in one declaration.

    exp = unary("exp", np.exp, partials=..., lower=..., doc=...)

`exp` is a `Function`: users add methods and rules to it; `exp.primitive` is the operation that its
body records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codegen.lowering import Lowering

from ..custom import Function, function
from ..tape import record
from ..tensor import Tensor
from .primitive import Operation, elementwise
from .promotion import common
from .warm import binary_body, unary_body

__all__ = ["binary", "public", "unary"]


def unary(
    name: str,
    reference: Callable[..., Any],
    *,
    doc: str,
    called: str = "",
    partials: Callable[..., tuple] | None,
    lower: Lowering,
    accepts: str = "f",
    result: str | None = None,
    masks: bool = False,
    traits: Sequence[str] = (),
) -> Function:
    """A public function of one argument, and its operation; parameters as for `elementwise`.

    called   the function's name where it is not that of the operation
    """
    called = called or name
    operation = elementwise(
        name, reference, partials=partials, lower=lower, accepts=accepts, result=result, masks=masks, traits=traits
    )

    def slow(x: Any) -> Tensor:
        return record(operation, tuple(common(called, (("x", x),), accepts)))

    return public(called, unary_body(operation, slow), doc, operation)


def binary(
    name: str,
    reference: Callable[..., Any],
    *,
    doc: str,
    called: str = "",
    partials: Callable[..., tuple] | None,
    lower: Lowering,
    accepts: str = "f",
    result: str | None = None,
    masks: bool = False,
    traits: Sequence[str] = (),
    on_bool: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Function:
    """A public function of two arguments, and its operation; parameters as for `elementwise`.

    called    the function's name where it is not that of the operation
    on_bool   what it means for two bool arguments, where the operation itself does not take bool
    """
    called = called or name
    operation = elementwise(
        name, reference, partials=partials, lower=lower, accepts=accepts, result=result, masks=masks, traits=traits
    )
    admitted = accepts + "b" if on_bool else accepts

    def slow(x1: Any, x2: Any) -> Tensor:
        tensors = common(called, (("x1", x1), ("x2", x2)), admitted)
        if on_bool and tensors[0].dtype == np.bool_:
            return on_bool(*tensors)
        return record(operation, tuple(tensors))

    return public(called, binary_body(operation, slow), doc, operation)


def public(name: str, body: Callable[..., Any], doc: str, operation: Operation) -> Function:
    """The generic function of a body made here: named, documented, and knowing its operation."""
    body.__name__ = body.__qualname__ = name
    body.__module__ = "autodiff"
    body.__doc__ = doc
    made = function(body)
    made.primitive = operation
    return made
