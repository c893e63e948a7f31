"""Transformations: from recorded graph to recorded graph, with respect to nodes.

    reverse     cotangents over the history, by falling number
    forward     tangents over the history, by rising number
    rules, rule_values  a custom function's rule, what it is given and may return; host rules
    gradient    gradients as values: rule key -> plan -> executable
    backward_pass  the rules run, as more nodes; sums by group
    backward    `.backward()`: into the .grad of leaves, all or none; a history is given up
    arguments   of a transformed function, and its results
    functional  grad, value_and_grad, vjp: of functions, and between tensors
    handles     attributes and methods of handles          updates     in place: `t += x`
    second_order  jacobian, hessian, hvp
    hooks       functions of the user's in the walk; going back inside of going back
    anomaly     detect_anomaly
    batch       vmap: many examples at once
"""

from typing import TYPE_CHECKING

from codegen.lazily import lazily

from ..tape.modes import enable_grad, is_grad_enabled, no_grad
from . import handles
from .anomaly import detect_anomaly
from .backward import backward
from .functional import grad, value_and_grad, vjp

if TYPE_CHECKING:
    from .batch import vmap
    from .forward import jvp
    from .second_order import hessian, hvp, jacobian

__all__ = [
    "backward", "detect_anomaly", "enable_grad", "grad", "handles", "hessian", "hvp", "is_grad_enabled", "jacobian",
    "jvp", "no_grad", "value_and_grad", "vjp", "vmap",
]

# First gradients need none of these.
__getattr__, __dir__ = lazily(
    globals(),
    {"vmap": "batch", "jvp": "forward"} | dict.fromkeys(("hessian", "hvp", "jacobian"), "second_order"),
)
