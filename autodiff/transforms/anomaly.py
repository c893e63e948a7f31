"""Anomaly mode: find the rule that made the first NaN or inf of a backward, and the line of its operation.

While the mode is on, every node keeps the user's line, no backward is answered from a cached plan, and each cotangent
is computed and checked as soon as its rule has run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..config import config
from ..errors import GradientError, caller
from ..mode import MODE, Mode
from ..tape.ask import evaluate
from ..tape.modes import ModeBlock
from ..tape.node import Node
from ..tape.plan import data
from ..tape.record import state
from ..tensor import Tensor


class detect_anomaly(ModeBlock):
    """Raise GradientError inside the block at the first rule whose gradient is nan or inf.

    The error names the operation, the rule, and the line that recorded the operation, if that was inside the block.
    Slow: for debugging, not for production.  Inside the block the functions of `jit`, `scan`, `fori_loop`,
    `while_loop`, `cond` and `checkpoint` run as plain Python, and that of a `vmap` once for each example.

    >>> import autodiff as ad
    >>> x = ad.tensor([0.0, 1.0], requires_grad=True)
    >>> with ad.detect_anomaly():
    ...     ad.sqrt(x).sum().backward()
    Traceback (most recent call last):
    autodiff.errors.GradientError: the derivative of sqrt made inf ...
    """

    def inside(self) -> Mode:
        return MODE.get().others["anomalies", True]


def is_watching() -> bool:
    """True if anomalies are looked for here (never in a trace, which has no values)."""
    return MODE.get().anomalies and not state.now.tracing


def runs_as_written() -> bool:
    """True if `jit`, loops and `cond` run functions as plain Python: in eager mode, and in anomaly mode."""
    return not state.now.tracing and (config.eager or is_watching())


def watch(node: Node, bars: Sequence[Node], made: Sequence[tuple[Node, Node]]) -> None:
    """Raise GradientError if a rule made a NaN or inf, or got one that no rule made.

    The reverse walk calls this for each node.   bars: its cotangents;  made: (input, gradient by the rule) pairs
    """
    evaluate([*bars, *[g for _, g in made]], ends_recording=False)
    for bar in bars:
        if bad := _first_bad(data(bar)):
            name, recorded = _recorded(node)
            raise GradientError(
                f"the gradient that reached {name} is {bad}\n  {recorded}\n  backward at {caller()}\n"
                "  no rule made it: look at the gradient passed to backward, at hooks, and at sums that overflow"
            )
    for i, g in made:
        if bad := _first_bad(data(g)):
            made_it = f"{bad} in the gradient of its input {i.kind.out.aval}"
            raise _fault(node, made_it, f"its rule is {_rule(node)}\n  backward")


def watch_pushed(found: Sequence[tuple[Node, Node]], results: Sequence[Tensor]) -> None:
    """Raise GradientError if the tangent of a result is nan or inf; the error names the first operation that made one.

    Other tangents may be nan or inf: those of a branch not taken.   found: nodes and their tangents, by creation
    """
    evaluate([*[t for _, t in found], *[r.node for r in results]], ends_recording=False)
    if not any([_first_bad(data(r.node)) for r in results]):
        return
    for node, tangent in found:
        if bad := _first_bad(data(tangent)):
            raise _fault(node, f"{bad} in the tangent of its result {node.kind.out.aval}", "called")


def _fault(node: Node, made: str, doing: str) -> GradientError:
    """The error for a rule that made a NaN or inf."""
    name, recorded = _recorded(node)
    return GradientError(
        f"the derivative of {name} made {made}\n  {recorded}\n  {doing} at {caller()}{_forward_is_bad(node)}"
    )


def _first_bad(value: np.ndarray) -> str:
    """`nan at [2]` for the first entry that is not finite; empty when there is none."""
    if value.dtype.kind not in "fc" or np.isfinite(value).all():
        return ""
    where = np.argwhere(~np.isfinite(value))[0]
    entry = value[tuple(where)]
    return f"{entry} at [{', '.join(map(str, where))}]" if value.shape else f"{entry}"


def _recorded(node: Node) -> tuple[str, str]:
    """The name of an operation or function, and the words for the line that recorded it."""
    name = node.kind.op.name if node.call is None else node.call.function.__name__
    operands = node.inputs if node.flow is None else node.inputs[node.flow]
    call = f"{name}({', '.join([str(i.kind.out.aval) for i in operands])})"
    if node.line is None:
        return name, f"{call} was recorded before detect_anomaly; record inside it to see the line"
    return name, f"{call} was recorded at {node.line}"


def _rule(node: Node) -> str:
    call = node.call
    if call is None:
        return "the library's own"
    rule = call.function.rule_for("backward", call.method, call.types)
    return f"at {rule.place}"


def _forward_is_bad(node: Node) -> str:
    """A further line for the message if a forward value is NaN or inf already."""
    inputs = list(node.inputs if node.flow is None else node.inputs[node.flow])
    results = [node] if node.call is None else []
    evaluate([*inputs, *results], ends_recording=False)
    if any(_first_bad(data(i)) for i in inputs):
        return "\n  an input of that call is not finite already"
    if any(_first_bad(data(r)) for r in results):
        return "\n  the result of that call is not finite already"
    return ""
