"""Attributes and methods of tensors: gradients, copies, and those of `values` and `hooks`.  In-place ones: `updates`.

They are attached to `Tensor` here: evaluating needs the tape, `backward` needs the transformations, and the module
of the class (`autodiff.tensor`) imports neither.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.records import record as fields

from ..errors import DTypeError, GradientError, GradientShapeError, located, warn
from ..ops import as_tensor
from ..tape.ask import value_of
from ..tape.leaves import leaf_node
from ..tape.node import LEAF, Leaf, Node
from ..tape.record import ARGUMENT, IDENTITY, as_new_result, state
from ..tensor import Tensor, handle
from ..tracebacks import border
from . import hooks
from .backward import backward_of
from .updates import as_leaf
from .values import array, detach, index, item, number, numpy, page, show, text, tolist, truth

# ---------------------------------------------------------------- gradients


def _get_grad(t: Tensor) -> Tensor | None:
    identity = t.node.leaf or t.node.retained
    if identity is None:
        if t.requires_grad:  # warn as PyTorch does: None here does not mean that the gradient is zero
            mend = "t.retain_grad() before backward() keeps it"
            warn(f".grad of a computed tensor is not kept, only that of leaves: {mend}")
        return None
    return identity.grad


def _set_grad(t: Tensor, value: Any) -> None:
    identity = t.node.leaf or t.node.retained
    if state.now.is_traced():
        raise GradientError(located(".grad is set inside a traced function"))
    if identity is None:
        raise GradientError(located(
            f".grad belongs to leaves that require grad; this {t.aval} is none",
            "t.retain_grad() keeps the gradient of a computed tensor; under ad.no_grad() `w -= ...` leaves w the "
            "same leaf, and `w = w - ...` makes another tensor",
        ))
    if value is not None:
        value = as_tensor(value, ".grad =", "value")
        if value.aval != t.aval:
            raise GradientShapeError(located(
                f".grad: {value.aval} is no gradient of {t.aval}",
                "it has the shape and dtype of its tensor: ad.unbroadcast(g, like) adds up, ad.astype converts",
            ))
    identity.grad = value


@fields(frozen=True, slots=True)
class GradFn:
    """The operation or custom function that made a tensor that requires grad; a backward runs its rule."""

    _node: Node

    def name(self) -> str:
        """The name of the operation or function."""
        call = self._node.call
        return self._node.kind.op.name if call is None else call.function.__name__

    def description(self) -> str:
        """The name, and the user's line if it is known, as the end of a sentence."""
        line = self._node.line
        return f"{self.name()}{f', recorded at {line}' if line else ''}"

    def __repr__(self) -> str:
        return f"<backward of {self.description()}>"


def _grad_fn(t: Tensor) -> GradFn | None:
    """The function that made this tensor; None for a leaf and for a tensor that does not require grad."""
    node = t.node
    while node.slot is not None or (node.kind.op is IDENTITY and node.leaf is None and node.inputs):
        node = node.inputs[0]
    has_history = node.kind.out.requires_grad and node.leaf is None and node.kind.op not in (LEAF, ARGUMENT)
    return GradFn(node) if has_history and not t.masked else None


def requires_grad_(t: Tensor, flag: bool = True) -> Tensor:
    """Set whether gradients accumulate in this leaf, and return the tensor.   `t.requires_grad = flag` does the same.

    Raises TypeError for a flag that is no bool, DTypeError for integer and bool tensors, GradientError for False on a
    tensor that is no leaf.

    >>> import autodiff as ad
    >>> w = ad.tensor(3.0).requires_grad_()
    >>> w
    f64[], requires grad 3.0
    """
    if not isinstance(flag, (bool, np.bool_)):
        raise TypeError(located(f"requires_grad is True or False, not {flag!r}"))
    if t.node.kind.out.requires_grad == flag:
        return t
    if flag:
        refuse_discrete_leaf(t.dtype)
        t.node = as_leaf(t.node, Leaf())
        return t
    if t.node.leaf is None:
        raise GradientError(located("requires_grad can be taken only from a leaf", "use t.detach() for a computed one"))
    t.node = leaf_node(value_of(t.node))
    return t


def refuse_discrete_leaf(dtype: np.dtype) -> None:
    """Raise DTypeError for a dtype that has no gradients: only float and complex tensors have them."""
    if dtype.kind not in "fc":
        raise DTypeError(located(
            f"tensors of {dtype} cannot require gradients: a gradient is a limit, and their values are discrete",
            "make it float: ad.tensor(data, dtype=ad.float64, requires_grad=True)",
        ))


# ---------------------------------------------------------------- pickling


def _reduce(t: Tensor) -> tuple:
    """The pickled form: value, dtype and requires_grad of a leaf.  Raises GradientError for a tensor with history."""
    if t.node.kind.out.requires_grad and t.node.leaf is None:
        fn = _grad_fn(t)
        raise GradientError(located(
            f"a tensor with history is not copied or pickled: {t.aval}{f', made by {fn.description()}' if fn else ''}",
            "use t.detach(), which has the value without the history; what a worker process returns is pickled too",
        ))
    return _restored, (value_of(t.node).copy(), t.node.leaf is not None)


def _restored(value: np.ndarray, requires_grad: bool) -> Tensor:
    return handle(leaf_node(value, requires_grad))


def _copy(t: Tensor) -> Tensor:
    """copy.copy: a new leaf; for a computed tensor, a new handle with the same history."""
    return as_new_result(t) if t.node.kind.out.requires_grad and t.node.leaf is None else _deepcopy(t, {})


def _deepcopy(t: Tensor, memo: dict) -> Tensor:
    function, arguments = _reduce(t)
    return function(*arguments)


def _converted(kind: type) -> Callable[[Tensor], Any]:
    name = kind.__name__

    @border
    def convert(t: Tensor) -> Any:
        return kind(number(t, name))

    return convert


for _name, _function in {
    "numpy": numpy,
    "__array__": array,
    "item": item,
    "tolist": tolist,
    "__float__": _converted(float),
    "__int__": _converted(int),
    "__complex__": _converted(complex),
    "__bool__": truth,
    "__index__": index,
    "__repr__": show,
    "_repr_html_": page,
    "__format__": text,
    "detach": detach,
    "grad": property(_get_grad, _set_grad, doc="""The accumulated gradient of a leaf: a tensor, or None.

    >>> import autodiff as ad
    >>> w = ad.tensor(3.0, requires_grad=True)
    >>> (w * w).backward()
    >>> (w * w).backward()
    >>> w.grad
    f64[] 12.0
    """),
    "requires_grad_": requires_grad_,
    "requires_grad": vars(Tensor)["requires_grad"].setter(requires_grad_),
    "grad_fn": property(_grad_fn, doc="""The operation that made this tensor, by name() and line; None for a leaf.

    >>> import autodiff as ad
    >>> w = ad.tensor(3.0, requires_grad=True)
    >>> (2 * w).grad_fn.name()
    'mul'
    """),
    "retain_grad": hooks.retain_grad,
    "register_hook": hooks.register_hook,
    "register_post_accumulate_grad_hook": hooks.register_post_accumulate_grad_hook,
    "backward": backward_of,
    "__reduce__": _reduce,
    "__deepcopy__": _deepcopy,
    "__copy__": _copy,
}.items():
    setattr(Tensor, _name, _function)
