"""The values of tensors: as arrays, numbers, truths, text.  In a trace, the error says what to write instead."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ConcretizationError, DTypeError, GradientError, LostGradientWarning, ShapeError, located, warn
from ..frames import is_shown
from ..mode import MODE
from ..ops import stop_gradient
from ..tape.ask import value_of
from ..tape.leaks import is_traced
from ..tape.node import Node
from ..tape.plan import read_only
from ..tape.program import is_tracing, without_value
from ..tape.record import DETACH, as_new_result, record, state
from ..tensor import Tensor
from ..tracebacks import border, shorten


def _refuse_losing_gradient(t: Tensor, what: str) -> None:
    if t.node.kind.out.requires_grad and not t.masked and MODE.get().tracks:
        if t.node.value is None and not is_tracing() and is_traced(t.node):
            return  # it left its trace and never gets a value: the code that evaluates it raises a better error
        if is_shown():
            return
        raise GradientError(located(
            f"{what} of a {t.aval} that requires grad would lose its gradient",
            "compute with ad.* functions: ad.asarray makes tensors of operands, ad.stack one of a list of tensors;\n"
            "  t.detach().numpy() has the value alone, through which no gradient flows",
        ))


#: Advice for code in a trace that needs a value.
_AS_AN_ARRAY = """use functions of ad instead of NumPy's: ad.stack([a, b]) is np.array([a, b]) of tensors;
  NumPy's array a is read at a traced place by ad.asarray(a)[i]"""
_AS_AN_INDEX = "use ad.fori_loop or ad.scan instead of range(); an array, or a list, a is read by ad.asarray(a)[i]"
_AS_A_NUMBER = "leave it a tensor: ad.exp and the like instead of math.exp, ad.astype instead of float() and int()"
_AS_A_TRUTH = """use ad.where, ad.cond or ad.while_loop instead of `if` and `while`, & and | instead of `and` and `or`,
  ad.minimum and ad.maximum instead of min() and max()"""


def _asked(t: Tensor, what: str, instead: str) -> np.ndarray:
    """The value.  Raises ConcretizationError in a trace, with advice what to write instead."""
    try:
        return value_of(t.node)
    except ConcretizationError:
        if not is_traced(t.node):
            raise
    raise without_value(f": {what} of a {t.aval}", instead)


def number(t: Tensor, what: str, instead: str = _AS_A_NUMBER) -> Any:
    """The value of a one-element tensor as a Python number, for the user: no gradient flows through the number."""
    if t.size != 1:
        raise ShapeError(located(f"{what}() takes one element, not {t.aval}", "t.tolist() gives all, t[i] one of them"))
    value = _asked(t, "the number", instead).item()
    _warn_of_lost_gradient(t, "a Python number")
    return value


def _warn_of_lost_gradient(t: Tensor, made: str) -> None:
    """Warn, once per line, that a value left the function that is being differentiated.

    No warning in the forward and the backward of a custom function: there a derivative through the value is an error.
    """
    now = state.now
    is_rule = now.forward_depth or not (now.start or now.tracing)
    if now.transforming and not is_rule and t.node.kind.out.requires_grad and MODE.get().tracks:
        warn(
            f"a {t.aval} that is being differentiated became {made}, through which no gradient flows: use functions of "
            "ad (ad.sin, not math.sin).  Where it is meant as a constant, ad.stop_gradient(x) says so",
            LostGradientWarning,
        )


@border
def numpy(t: Tensor) -> np.ndarray:
    """The value as a read-only array; a pending value is computed now.  `np.array(t)` copies.

    Raises GradientError for a tensor that requires grad (outside of no_grad): use t.detach().numpy().

    >>> import autodiff as ad
    >>> ad.tensor([1.0, 2.0]).numpy().flags.writeable
    False
    """
    _refuse_losing_gradient(t, "numpy()")
    return read_only(_asked(t, "the array", _AS_AN_ARRAY))


@border
def array(t: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    """NumPy's protocol: np.asarray(t) is read-only, np.array(t) a copy."""
    _refuse_losing_gradient(t, "np.asarray")
    value = read_only(_asked(t, "the array", _AS_AN_ARRAY))
    if dtype is not None and np.dtype(dtype) != value.dtype:
        if copy is False:
            raise ValueError(f"a {t.aval} has to be copied to become {np.dtype(dtype)}")
        return value.astype(dtype)
    return value.copy() if copy else value


@border
def item(t: Tensor) -> Any:
    """The value of a one-element tensor as a Python number; a pending value is computed now.

    >>> import autodiff as ad
    >>> ad.tensor([[2]]).item()
    2
    """
    return number(t, "item")


@border
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
    """True if a one-element tensor is not zero; `if t > 0` evaluates the tensor."""
    try:  # without `border`, which costs one more call: loops evaluate a condition at each step
        if t.size != 1:
            raise ShapeError(located(f"the truth of a {t.aval} is ambiguous", "use .any() or .all(), or ad.where"))
        return bool(_asked(t, "the truth", _AS_A_TRUTH).item())
    except Exception as error:
        shorten(error)
        raise


@border
def index(t: Tensor) -> int:
    """An integer 0-d tensor as an index."""
    if t.shape or t.dtype.kind != "i":
        raise DTypeError(located(f"only a 0-d integer tensor is an index, not {t.aval}"))
    return int(_asked(t, "the index", _AS_AN_INDEX).item())


@border
def show(t: Tensor) -> str:
    """`f64[3] [1. 2. 3.]`, or `f64[3], requires grad [1. 2. 3.]`.  A pending value is computed."""
    flag = ", requires grad" if t.requires_grad else ""
    if is_traced(t.node):
        return f"{t.aval} traced{flag}"
    seen = state.now.asked_in_forward
    before = len(seen)
    value = value_of(t.node)
    del seen[before:]  # not counted as seen: a forward that shows a value does not compute with it
    text = np.array2string(value, separator=" ", threshold=1000) if value.shape else repr(value.item())
    joint = "\n" if "\n" in text else " "
    return f"{t.aval}{flag}{joint}{text}"


def page(t: Tensor) -> str:
    """The HTML for a notebook: shape and dtype on the first line, the elements below."""
    from html import escape  # only notebooks need it

    text = show(t)
    at = text.find("[", text.find("]")) if t.shape else -1  # where the elements begin
    head, elements = (text, "") if at < 0 else (text[:at].rstrip(), text[at:])
    return f"<div><code>{escape(head)}</code>{elements and f'<pre>{escape(elements)}</pre>'}</div>"


@border
def text(t: Tensor, spec: str) -> str:
    """The text of format(t, spec): ".3f" formats the number of a one-element tensor, "" shows the tensor."""
    return format(number(detach(t), "format"), spec) if spec else show(t)


def detach(t: Tensor) -> Tensor:
    """A tensor of the same value without history: no gradient flows through it.

    >>> import autodiff as ad
    >>> w = ad.tensor(3.0, requires_grad=True)
    >>> ad.grad(lambda x: x * x.detach())(w)
    f64[] 3.0
    """
    if not t.node.kind.out.requires_grad:
        return as_new_result(t)
    value = t.node.value
    if value is None:
        return stop_gradient(t)  # an operation: machine code can record it
    y = record(DETACH, (t,))
    node = y.node
    # A computed value needs no inputs any more.  In a trace the inputs stay: they show where the value comes from.
    if type(value) is np.ndarray and type(node) is Node and not MODE.get().careful:
        node.value, node.inputs = value, ()
    return y
