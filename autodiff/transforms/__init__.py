"""Transformations: each records new nodes from a recording, such as the nodes of its derivative.

    reverse, forward    pass cotangents back over the history, last node first; pass tangents on, first node first
    rules, rule_values, rule_programs    rules of custom functions and host rules; the library's own rules as programs
    backward_pass, gradient    record the gradients as nodes, summed by group; compute gradients as arrays, by a plan
    backward, functional, second_order, batch    `.backward()`; grad, value_and_grad, vjp; jacobian, hessian, hvp; vmap
    handles, values, updates    attributes and methods of tensors; their values as arrays; in-place updates: `t += x`
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

# Imported on first use: a first gradient needs none of these.
__getattr__, __dir__ = lazily(
    globals(),
    {"vmap": "batch", "jvp": "forward"} | dict.fromkeys(("hessian", "hvp", "jacobian"), "second_order"),
)
