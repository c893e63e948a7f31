"""Modes of a context: gradients on or off (no_grad, enable_grad), and looking for anomalies (detect_anomaly).

Threads and asyncio tasks do not see each other's.  While anomalies are looked for, every node keeps the user's line,
no backward is answered from a plan, and each cotangent is computed and looked at as soon as its rule has run: an error
says which rule made the first NaN or inf, and where its operation was recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any

import numpy as np

from codegen.garbage import set_in_context

from ..config import config
from ..errors import GradientError, caller
from ..mode import MODE
from ..tape.ask import evaluate
from ..tape.node import Node
from ..tape.plan import data
from ..tape.record import state
from ..tensor import Tensor

__all__ = [
    "detect_anomaly", "enable_grad", "is_grad_enabled", "is_watching", "no_grad", "runs_as_written", "tracking",
    "watch_pushed", "watcher",
]  # fmt: skip


class _GradMode:
    """A context manager, re-entrant, that is also a decorator."""

    _value: bool

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        mode = MODE.get()
        self._before.append(mode.tracks)
        set_in_context(MODE, mode.on if self._value else mode.off)

    def __exit__(self, *_: object) -> None:
        mode = MODE.get()
        set_in_context(MODE, mode.on if self._before.pop() else mode.off)

    def __call__(self, f: Callable) -> Callable:
        """Decorate a function: it runs in this mode."""
        mode = type(self)

        @wraps(f)
        def run(*args: Any, **kwargs: Any) -> Any:
            with mode():
                return f(*args, **kwargs)

        return run


class no_grad(_GradMode):
    """Record operations without gradients inside the block; leaves may be updated in place.

    Gradients flow on through values that were computed before the block.  Of `x[i] = v` inside it, the elements that
    are set become constants; gradients flow through the others.
    It means the same inside functions of `grad`, `jit`, `vmap` and loops.

    >>> import autodiff as ad
    >>> w = ad.tensor(1.0, requires_grad=True)
    >>> with ad.no_grad():
    ...     w -= 0.5
    >>> w
    f64[], requires grad 0.5
    """

    _value = False


class enable_grad(_GradMode):
    """Record operations with gradients inside the block, also under `no_grad`.

    >>> import autodiff as ad
    >>> w = ad.tensor(3.0, requires_grad=True)
    >>> with ad.no_grad(), ad.enable_grad():
    ...     y = w * w
    >>> y.requires_grad
    True
    """

    _value = True


_UNCHANGED: AbstractContextManager[None] = nullcontext()


def tracking() -> AbstractContextManager[None]:
    """`enable_grad()`, which costs nothing where gradients are on."""
    return _UNCHANGED if MODE.get().tracks else enable_grad()


def is_grad_enabled() -> bool:
    """True if operations are recorded with gradients now.

    >>> import autodiff as ad
    >>> with ad.no_grad():
    ...     ad.is_grad_enabled()
    False
    """
    return MODE.get().tracks


# ---------------------------------------------------------------- anomalies


class detect_anomaly:
    """Raise GradientError inside the block at the first rule whose gradient is nan or inf.

    The error names the operation, the line that recorded it (if that was inside, too) and the rule.  Slow: for
    looking, not for production.  Inside the block the functions of `jit`, `scan`, `fori_loop`, `while_loop`, `cond`
    and `checkpoint` are run as plain Python, and that of a `vmap` for one example after the other.

    >>> import autodiff as ad
    >>> x = ad.tensor([0.0, 1.0], requires_grad=True)
    >>> with ad.detect_anomaly():
    ...     ad.sqrt(x).sum().backward()
    Traceback (most recent call last):
    autodiff.errors.GradientError: the derivative of sqrt made inf ...
    """

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        mode = MODE.get()
        self._before.append(mode.anomalies)
        set_in_context(MODE, mode.but("anomalies"))

    def __exit__(self, *_: object) -> None:
        set_in_context(MODE, MODE.get().but("anomalies", self._before.pop()))


def is_watching() -> bool:
    """True if anomalies are looked for here (never in a trace: there are no values)."""
    return MODE.get().anomalies and not state.now.tracing


def runs_as_written() -> bool:
    """True where `jit`, loops and `cond` run functions as plain Python: in eager mode, and to look for anomalies."""
    return not state.now.tracing and (config.eager or is_watching())


def watcher() -> Callable[[Node, Sequence[Node], Sequence[tuple[Node, Node]]], None] | None:
    """The function that the reverse walk calls with each node, its cotangents, and what its rule made of them."""
    return _watch if is_watching() else None


def _watch(node: Node, bars: Sequence[Node], made: Sequence[tuple[Node, Node]]) -> None:
    """Raise GradientError if a rule made a NaN or inf, or was given one that no rule made."""
    evaluate([*bars, *[g for _, g in made]], ends_recording=False)
    name = node.kind.op.name if node.call is None else node.call.function.__name__
    for bar in bars:
        if bad := _first_bad(data(bar)):
            raise GradientError(
                f"the gradient that reached {name} is {bad}\n"
                f"  {_recorded(node, name)}\n  backward at {caller()}\n"
                "  no rule made it: look at the gradient passed to backward, at hooks, and at sums that overflow"
            )
    for i, g in made:
        if bad := _first_bad(data(g)):
            raise GradientError(
                f"the derivative of {name} made {bad} in the gradient of its input {i.kind.out.aval}\n"
                f"  {_recorded(node, name)}\n  its rule is {_rule(node)}\n  backward at {caller()}"
                f"{_forward_is_bad(node)}"
            )


def watch_pushed(found: Sequence[tuple[Node, Node]], results: Sequence[Tensor]) -> None:
    """Raise GradientError if the tangent of a result is nan or inf: of the first operation that made one.

    Others may be: those of a branch that was not taken.   found: nodes and their tangents, by creation
    """
    evaluate([*[t for _, t in found], *[r.node for r in results]], ends_recording=False)
    if not any([_first_bad(data(r.node)) for r in results]):
        return
    for node, tangent in found:
        if bad := _first_bad(data(tangent)):
            name = node.kind.op.name if node.call is None else node.call.function.__name__
            raise GradientError(
                f"the derivative of {name} made {bad} in the tangent of its result {node.kind.out.aval}\n"
                f"  {_recorded(node, name)}\n  called at {caller()}{_forward_is_bad(node)}"
            )


def _first_bad(value: np.ndarray) -> str:
    """`nan at [2]` for the first entry that is not finite; empty when there is none."""
    if value.dtype.kind not in "fc" or np.isfinite(value).all():
        return ""
    where = np.argwhere(~np.isfinite(value))[0]
    entry = value[tuple(where)]
    return f"{entry} at [{', '.join(map(str, where))}]" if value.shape else f"{entry}"


def _recorded(node: Node, name: str) -> str:
    operands = node.inputs if node.flow is None else node.inputs[node.flow]
    call = f"{name}({', '.join([str(i.kind.out.aval) for i in operands])})"
    if node.line is None:
        return f"{call} was recorded before detect_anomaly; record inside it to see the line"
    return f"{call} was recorded at {node.line}"


def _rule(node: Node) -> str:
    call = node.call
    if call is None:
        return "the library's own"
    rule = call.function.rule_for("backward", call.method, call.types)
    return f"at {rule.place}"


def _forward_is_bad(node: Node) -> str:
    """A further line where the forward values are NaN or inf already."""
    inputs = list(node.inputs if node.flow is None else node.inputs[node.flow])
    results = [node] if node.call is None else []
    evaluate([*inputs, *results], ends_recording=False)
    if any(_first_bad(data(i)) for i in inputs):
        return "\n  an input of that call is not finite already"
    if any(_first_bad(data(r)) for r in results):
        return "\n  the result of that call is not finite already"
    return ""
