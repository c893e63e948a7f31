"""What a handle can be asked and told: values, gradients, hooks.  `updates` has what changes it in place.

Attached to `Tensor` here, because asking needs the tape and `backward` needs the transformations,
and a handle (`autodiff.tensor`) knows neither.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from ..config import config
from ..errors import (
    ConcretizationError,
    DTypeError,
    GradientError,
    LostGradientWarning,
    ShapeError,
    caller,
    is_shown,
    warn,
)
from ..ops import as_tensor
from ..tape.ask import value_of
from ..tape.leaks import is_traced
from ..tape.leaves import leaf_node
from ..tape.node import LEAF, Leaf, Node
from ..tape.record import ARGUMENT, DETACH, IDENTITY, another, grad_mode, record, state
from ..tensor import Tensor, handle
from . import hooks
from .backward import backward
from .updates import as_leaf

__all__ = ["GradFn", "refuse_discrete_leaf"]


# ---------------------------------------------------------------- values


def _refuse_losing_gradient(t: Tensor, what: str) -> None:
    if t.node.kind.out.requires_grad and not t.masked and grad_mode.get():
        if t.node.value is None and not _is_tracing() and is_traced(t.node):
            return  # it has left its trace and never has a value: who asks for it is told so
        if is_shown():
            return
        raise GradientError(
            f"{what} of a {t.aval} that requires grad would lose its gradient\n"
            f"  called at {caller()}\n"
            "  compute with ad.* functions: ad.asarray makes tensors of operands, ad.stack one of a list of tensors;\n"
            "  t.detach().numpy() has the value alone, through which no gradient flows"
        )


def _is_tracing() -> bool:
    """True if this thread is tracing a function."""
    return threading.get_ident() in config.open.values()


#: What to write instead of what asks for a value, where there is none.
_AS_AN_ARRAY = """use functions of ad instead of NumPy's: ad.stack([a, b]) is np.array([a, b]) of tensors;
  NumPy's array a is read at a traced place by ad.asarray(a)[i]"""
_AS_AN_INDEX = "use ad.fori_loop or ad.scan instead of range(); an array, or a list, a is read by ad.asarray(a)[i]"
_AS_A_NUMBER = "leave it a tensor: ad.exp and the like instead of math.exp, ad.astype instead of float() and int()"
_AS_A_TRUTH = """use ad.where, ad.cond or ad.while_loop instead of `if` and `while`, & and | instead of `and` and `or`,
  ad.minimum and ad.maximum instead of min() and max()"""


def _asked(t: Tensor, what: str, instead: str) -> np.ndarray:
    """The value.  Raises ConcretizationError where a trace has none, with what to write instead."""
    try:
        return value_of(t.node)
    except ConcretizationError:
        if not is_traced(t.node):
            raise
    where = f"  asked at {caller()}: {what} of a {t.aval}"
    if not _is_tracing():
        raise ConcretizationError(
            "the value of a traced argument was asked for after its trace, so it never has one\n"
            f"{where}\n"
            "  a traced function leaves no tensors outside: let it return what is wanted"
        )
    raise ConcretizationError(
        "the value of a traced argument was asked for: inside jit and vmap there are no values yet\n"
        f"{where}\n"
        f"  {instead};\n"
        "  or mark the argument static (static_argnums), in vmap give it in_axes=None"
    )


def _number(t: Tensor, what: str, instead: str = _AS_A_NUMBER) -> Any:
    """The value of a one-element tensor as a Python number, for the user to compute with: it has no history."""
    if t.size != 1:
        raise ShapeError(f"{what}() takes one element, not {t.aval}\n  called at {caller()}")
    value = _asked(t, "the number", instead).item()
    _warn_of_lost_gradient(t, "a Python number")
    return value


def _warn_of_lost_gradient(t: Tensor, made: str) -> None:
    """Warn, once per line, that a value left the function being differentiated.

    Not in the forward and the backward of a custom function: there a derivative through such a value is an error.
    """
    now = state.now
    is_rule = now.body or not (now.start or now.tracing)
    if now.transforming and not is_rule and t.node.kind.out.requires_grad and grad_mode.get():
        warn(
            f"a {t.aval} that is being differentiated became {made}, through which no gradient flows: use functions of "
            "ad (ad.sin, not math.sin).  Where it is meant as a constant, ad.stop_gradient(x) says so",
            LostGradientWarning,
        )


def numpy(t: Tensor) -> np.ndarray:
    """The value as a read-only array: computed now if it is pending.  `np.array(t)` copies.

    Raises GradientError for a tensor that requires grad (outside of no_grad): use t.detach().numpy().

    >>> import autodiff as ad
    >>> ad.tensor([1.0, 2.0]).numpy().flags.writeable
    False
    """
    _refuse_losing_gradient(t, "numpy()")
    return _read_only(t)


def _read_only(t: Tensor) -> np.ndarray:
    view = _asked(t, "the array", _AS_AN_ARRAY).view()
    view.flags.writeable = False
    return view


def array(t: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    """NumPy's protocol: np.asarray(t) is read-only, np.array(t) a copy."""
    _refuse_losing_gradient(t, "np.asarray")
    value = _read_only(t)
    if dtype is not None and np.dtype(dtype) != value.dtype:
        if copy is False:
            raise ValueError(f"a {t.aval} has to be copied to become {np.dtype(dtype)}")
        return value.astype(dtype)
    return value.copy() if copy else value


def item(t: Tensor) -> Any:
    """The value of a one-element tensor as a Python number: computed now if it is pending.

    >>> import autodiff as ad
    >>> ad.tensor([[2]]).item()
    2
    """
    return _number(t, "item")


def tolist(t: Tensor) -> Any:
    """The value as nested lists of Python numbers.

    >>> import autodiff as ad
    >>> ad.tensor([[True, False]]).tolist()
    [[True, False]]
    """
    value = _asked(t, "the list", _AS_AN_ARRAY).tolist()
    _warn_of_lost_gradient(t, "a list of Python numbers")
    return value


def truth(t: Tensor) -> bool:
    """Whether a one-element tensor is not zero: `if t > 0` asks for the value."""
    if t.size != 1:
        raise ShapeError(
            f"the truth of a {t.aval} is ambiguous\n  called at {caller()}\n  use .any() or .all(), or ad.where"
        )
    return bool(_asked(t, "the truth", _AS_A_TRUTH).item())


def index(t: Tensor) -> int:
    """An integer 0-d tensor as an index."""
    if t.shape or t.dtype.kind != "i":
        raise DTypeError(f"only a 0-d integer tensor is an index, not {t.aval}\n  called at {caller()}")
    return int(_asked(t, "the index", _AS_AN_INDEX).item())


def show(t: Tensor) -> str:
    """`f64[3] [1. 2. 3.]`, with "requires grad" behind it where that is so.  Computes a pending value."""
    flag = ", requires grad" if t.requires_grad else ""
    if is_traced(t.node):
        return f"{t.aval} traced{flag}"
    seen = state.now.seen
    before = len(seen)
    value = value_of(t.node)
    del seen[before:]  # a forward that shows a value does not compute with it
    text = np.array2string(value, separator=" ", threshold=1000) if value.shape else repr(value.item())
    joint = "\n" if "\n" in text else " "
    return f"{t.aval}{flag}{joint}{text}"


def page(t: Tensor) -> str:
    """The page for a notebook: shape and dtype in a line of their own, the elements below."""
    from html import escape  # for notebooks only

    text = show(t)
    at = text.find("[", text.find("]")) if t.shape else -1  # where the elements begin
    head, elements = (text, "") if at < 0 else (text[:at].rstrip(), text[at:])
    return f"<div><code>{escape(head)}</code>{elements and f'<pre>{escape(elements)}</pre>'}</div>"


def text(t: Tensor, spec: str) -> str:
    """format(t, ".3f") formats the number of a one-element tensor."""
    return format(item(detach(t)), spec) if spec else show(t)


def detach(t: Tensor) -> Tensor:
    """The same value without history: no gradient flows through it.

    >>> import autodiff as ad
    >>> w = ad.tensor(3.0, requires_grad=True)
    >>> ad.grad(lambda x: x * x.detach())(w)
    f64[] 3.0
    """
    if not t.node.kind.out.requires_grad:
        return another(t)
    y, value = record(DETACH, (t,)), t.node.value
    node = y.node
    # Of what is computed nothing is left to be computed.  A trace must see where a value comes from.
    if type(value) is np.ndarray and type(node) is Node and not config.careful:
        node.value, node.inputs = value, ()
    return y


# ---------------------------------------------------------------- gradients


def _get_grad(t: Tensor) -> Tensor | None:
    identity = t.node.leaf or t.node.retained
    if identity is None:
        if t.requires_grad:
            _warn_not_kept()
        return None
    return identity.grad


def _warn_not_kept() -> None:
    """As PyTorch does: the gradient of what was computed is None, and not because it is zero."""
    warn(".grad of a computed tensor is not kept, only that of leaves: t.retain_grad() before backward() keeps it")


def _set_grad(t: Tensor, value: Any) -> None:
    identity = t.node.leaf or t.node.retained
    if state.now.tracing:
        raise GradientError(f".grad is set inside a traced function\n  called at {caller()}")
    if identity is None:
        raise GradientError(
            f".grad belongs to leaves that require grad; this {t.aval} is none\n"
            f"  called at {caller()}\n"
            "  t.retain_grad() keeps the gradient of a computed tensor; under ad.no_grad() `w -= ...` leaves w the same"
            " leaf, and `w = w - ...` makes another tensor"
        )
    if value is not None:
        value = as_tensor(value, ".grad =", "value")
        if value.aval != t.aval:
            raise _GradAvalError(
                f".grad: {value.aval} is no gradient of {t.aval}\n"
                f"  called at {caller()}\n"
                "  it has the shape and dtype of its tensor: ad.unbroadcast(g, like) adds up, ad.astype converts"
            )
    identity.grad = value


class GradFn:
    """What made a tensor that requires grad: the operation or custom function whose rule backward will run."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node = node

    def name(self) -> str:
        """The operation's or the function's name."""
        call = self._node.call
        return self._node.kind.op.name if call is None else call.function.__name__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GradFn) and self._node is other._node

    def __hash__(self) -> int:
        return hash(self._node)

    def __repr__(self) -> str:
        line = self._node.line
        return f"<backward of {self.name()}{f', recorded at {line}' if line else ''}>"


def _grad_fn(t: Tensor) -> GradFn | None:
    """What made this tensor; None for a leaf and for what does not require grad."""
    node = t.node
    while node.slot is not None or (node.kind.op is IDENTITY and node.leaf is None and node.inputs):
        node = node.inputs[0]
    has_history = node.kind.out.requires_grad and node.leaf is None and node.kind.op not in (LEAF, ARGUMENT)
    return GradFn(node) if has_history and not t.masked else None


class _GradAvalError(GradientError, ShapeError):
    """A .grad of another aval than its tensor."""


def requires_grad_(t: Tensor, flag: bool = True) -> Tensor:
    """Say whether gradients are accumulated for this leaf.  Returns the tensor.   `t.requires_grad = flag` is the same.

    Raises TypeError for a flag that is no bool, DTypeError for integer and bool tensors, GradientError for what is to
    be taken from a tensor that is no leaf.

    >>> import autodiff as ad
    >>> w = ad.tensor(3.0).requires_grad_()
    >>> w
    f64[], requires grad 3.0
    """
    if not isinstance(flag, (bool, np.bool_)):
        raise TypeError(f"requires_grad is True or False, not {flag!r}\n  called at {caller()}")
    if t.node.kind.out.requires_grad == flag:
        return t
    if flag:
        refuse_discrete_leaf(t.dtype)
        t.node = as_leaf(t.node, Leaf())
        return t
    if t.node.leaf is None:
        raise GradientError(
            f"requires_grad can be taken only from a leaf\n  called at {caller()}\n  use t.detach() for a computed one"
        )
    t.node = leaf_node(value_of(t.node))
    return t


def refuse_discrete_leaf(dtype: np.dtype) -> None:
    """Raise DTypeError: only float (and complex) tensors can require gradients."""
    if dtype.kind not in "fc":
        raise DTypeError(
            f"tensors of {dtype} cannot require gradients: a gradient is a limit, and their values are discrete\n"
            f"  called at {caller()}\n"
            "  make it float: ad.tensor(data, dtype=ad.float64, requires_grad=True)"
        )


# ---------------------------------------------------------------- pickling


def _reduce(t: Tensor) -> tuple:
    """A leaf keeps value, dtype and requires_grad; a tensor with history refuses."""
    if t.node.kind.out.requires_grad and t.node.leaf is None:
        raise GradientError(
            f"a tensor with history is not copied or pickled\n  called at {caller()}\n"
            "  use t.detach(), which has the value without the history; what a worker process returns is pickled too"
        )
    return _restored, (value_of(t.node).copy(), t.node.leaf is not None)


def _restored(value: np.ndarray, requires_grad: bool) -> Tensor:
    return handle(leaf_node(value, requires_grad))


def _copy(t: Tensor) -> Tensor:
    """copy.copy: another leaf, or of a computed tensor another handle with the same history."""
    return another(t) if t.node.kind.out.requires_grad and t.node.leaf is None else _deepcopy(t, {})


def _deepcopy(t: Tensor, memo: dict) -> Tensor:
    function, arguments = _reduce(t)
    return function(*arguments)


def _backward(
    t: Tensor,
    gradient: Any = None,
    retain_graph: bool = False,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of this result to the `.grad` of its leaves: see `ad.backward`.

    >>> import autodiff as ad
    >>> w = ad.tensor([1.0, 2.0], requires_grad=True)
    >>> ad.sum(w * w).backward()
    >>> w.grad
    f64[2] [2. 4.]
    """
    backward(t, gradient, retain_graph, create_graph, inputs)


for _name, _function in {
    "numpy": numpy,
    "__array__": array,
    "item": item,
    "tolist": tolist,
    "__float__": lambda t: float(_number(t, "float")),
    "__int__": lambda t: int(_number(t, "int")),
    "__complex__": lambda t: complex(_number(t, "complex")),
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
    "backward": _backward,
    "__reduce__": _reduce,
    "__deepcopy__": _deepcopy,
    "__copy__": _copy,
}.items():
    setattr(Tensor, _name, _function)
