"""`Function`: a generic function that the tape knows.

A `forward` method runs inside a boundary; so does an ordinary method for whose types a `backward` is
registered: its rule replaces the derivative of its program.  Arrays dispatch as, and arrive as, the
constant tensor of their dtype and rank, unless a method names np.ndarray.  Where no method takes
a number but one takes a 0-d tensor, the number is converted; where none takes a structured value,
`ad.dense` writes it out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codegen.ir import DTYPES

from ..dispatch import GenericFunction
from ..dispatch.method import Method
from ..dispatch.signature import dispatched, type_name
from ..errors import UserLine
from ..tape.record import identity_of, leaf, number_leaf, taken
from ..tensor import AbstractTensor, Tensor, handle
from .forward import call_forward

__all__ = ["CONVERSIONS", "Function", "function"]

_KNOWN = frozenset(DTYPES.values())
_NUMBERS = {bool: np.dtype(np.bool_), int: np.dtype(np.int64), float: np.dtype(np.float64)}

#: What else may be tried where no method fits: structured value -> tensor.  Filled by `ops.conversion`.
CONVERSIONS: list[Callable[[AbstractTensor], Tensor]] = []


class Function(GenericFunction):
    """A generic function of this library: see `ad.function`."""

    is_generic_function = True
    primitive: Any = None

    # ------------------------------------------------------------ what a call runs

    def implementation(self, method: Method, classes: tuple[type, ...]) -> Callable:
        """The method itself, or a boundary around it where a rule replaces its derivative."""
        run = method.implementation
        backward = self.rule_for("backward", method, classes)
        if method.kind == "forward":

            def inside(ctx: Any, args: tuple, keywords: dict) -> Any:
                return run(ctx, *args, **keywords)

        elif backward is not None or self.rule_for("jvp", method, classes) is not None:

            def inside(ctx: Any, args: tuple, keywords: dict) -> Any:
                return run(*args, **keywords)

        else:
            return run
        names = self.declaration.fixed
        variadic = self.declaration.variadic
        has_token = backward is not None and backward.host
        transparent = method.kind == "method" and backward is None

        def call(*args: Any, **keywords: Any) -> Any:
            arguments = dict(zip(names, args, strict=False))
            if variadic is not None:
                arguments[variadic] = args[len(names) :]
            arguments.update(keywords)

            def body(ctx: Any, inner: dict[str, Any]) -> Any:
                values = tuple([inner[n] for n in names])
                if variadic is not None:
                    values += inner[variadic]
                return inside(ctx, values, {k: inner[k] for k in keywords})

            return call_forward(self, method, body, arguments, classes, has_token, transparent)

        return call

    # ------------------------------------------------------------ arguments

    adopted = (np.ndarray,)

    def adopt(self, argument: Any) -> Any:
        """An array of one of our dtypes as a constant tensor (a copy: a tensor's value never changes)."""
        return taken(argument, argument.dtype) if argument.dtype in _KNOWN else argument

    def convert(self, arguments: tuple, classes: tuple[type, ...]) -> Sequence | None:
        """Numbers as 0-d tensors; then structured values, and a user's own types, written out."""
        if any(c in _NUMBERS or issubclass(c, np.generic) for c in map(dispatched, map(type, arguments))):
            return [_as_scalar(a) for a in arguments]
        if any(isinstance(a, AbstractTensor) and not isinstance(a, Tensor) for a in arguments):
            return [_as_dense(a) for a in arguments]
        return None

    # ------------------------------------------------------------ rules

    def explain_missing_rule(self, method: Method, classes: Sequence[type], line: UserLine | None) -> str:
        """The message for a gradient that is asked for and has no rule."""
        types = ", ".join(type_name(c) for c in classes)
        rules = [f"    {rule!r}" for rule in self.rules["backward"]]
        known = "\n  the rules there are:\n" + "\n".join(rules) if rules else ""
        return (
            f"{self.__name__}({types}) has no backward\n"
            f"  its forward is at {method.place}, called at {line or 'an unknown place'}{known}\n"
            f"  register one: @{self.__name__}.backward({types})"
        )


def _as_scalar(a: Any) -> Any:
    if isinstance(a, Tensor) and dispatched(type(a)) is not type(a):
        return handle(identity_of(a.node, requires_grad=a.node.kind.out.requires_grad))
    if type(a) in _NUMBERS:
        return number_leaf(a, _NUMBERS[type(a)])
    return leaf(np.asarray(a)) if isinstance(a, np.generic) and a.dtype in _KNOWN else a


def _as_dense(a: Any) -> Any:
    if isinstance(a, AbstractTensor) and not isinstance(a, Tensor):
        for convert in CONVERSIONS:
            return convert(a)
    return a


def function(declaration: Callable) -> Function:
    """Declare a generic function.

    The declaration's parameters are those of every method.  A body (more than a docstring, `...` or `pass`)
    is the least specific method.

    `f.method(*types)` adds a program in other operations; it needs no rule.  `f.forward(*types)` and
    `f.backward(*types)` add a pair that replaces differentiation: forward gets a `ctx`, backward the
    `ctx` and the cotangents of the outputs, and returns those of the inputs.

    >>> import autodiff as ad
    >>> @ad.function
    ... def cube(x): ...
    >>> @cube.forward(ad.Tensor)
    ... def _(ctx, x):
    ...     ctx.save_for_backward(x=x)
    ...     return x * x * x
    >>> @cube.backward(ad.Tensor)
    ... def _(ctx, g):
    ...     return {"x": 3 * g * ctx.saved_variables.x ** 2}
    >>> x = ad.tensor(2.0, requires_grad=True)
    >>> cube(x).backward()
    >>> x.grad
    f64[] 12.0
    """
    return Function.declare(declaration)
