"""Checks of the results of functions: tensors that leak from a trace, and arrays that have lost a gradient.

A set, a function or an object of some class is a leaf of a result: a tensor inside it would be the traced one.

A function that is called with arrays gives an array, which may depend on a tensor that is no argument:

    f = ad.jit(lambda x: (w * x).sum())     w requires grad
    y = f(array)                            an array, as no argument is a tensor: the array is noted
    (y + penalty(w)).backward()             w would get the gradient of the penalty alone: a warning at this line

The warning is given where a noted array becomes an operand.  Only results of calls in Python are noted, the first ones
of each signature; arrays that NumPy computes from them are not, and numbers that machine code records are not checked.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from functools import partial
from types import FunctionType, ModuleType
from typing import Any
from weakref import ref

import numpy as np

from ..errors import DispatchError, LostGradientWarning, caller, warn, with_article
from ..mode import MODE
from ..tensor import Tensor
from .node import Node
from .record import ARGUMENT, state
from .walk import reached

#: The most objects that are searched behind a leaf.
_LIMIT = 10_000
#: Classes of leaves that hold no other objects.
BARE = (type(None), bool, int, float, complex, str, bytes)
#: Classes of objects that every object refers to, but that do not belong to it.
_SHARED = (type, ModuleType)
_NOTHING_OF_A_TRACE = (*BARE, *_SHARED, Tensor)


def is_traced(node: Node, since: float = 0) -> bool:
    """True if a value depends on an argument of a trace.   since: only arguments with numbers from it on count"""
    found = reached([node], lambda n: n.inputs if n.value is None else ())
    return any(n.kind.op is ARGUMENT and n.number >= since for n in found)


def check_leaves(leaves: Sequence[Any], name: str, transformation: str, since: float = 0) -> None:
    """Raise DispatchError if a leaf of a result holds a traced tensor."""
    for x in leaves:
        if not isinstance(x, _NOTHING_OF_A_TRACE) and (held := _held(x, since)) is not None:
            kind = "a function" if isinstance(x, FunctionType) else with_article(type(x).__name__)
            raise DispatchError(
                f"{transformation}: {name} returned {kind} that holds a tensor of the trace, {held.aval}\n"
                f"  called at {caller()}\n  {_mend(x)}"
            )


def _mend(x: Any) -> str:
    if callable(x):
        return "call it inside, and return what it gives"
    if isinstance(x, (list, tuple, dict)):
        return f"return a plain tuple, list or dict, or register {type(x).__name__} with ad.tree.register"
    return "return tensors in tuples, lists, dicts or dataclasses, or register the class with ad.tree.register"


def _held(x: Any, since: float) -> Tensor | None:
    """The nearest traced tensor among the objects to which an object leads by references; None if there is none."""
    seen = {id(x)}
    level = [x]
    while level and len(seen) < _LIMIT:
        below = []
        for one in level:
            for child in _referents(one):
                if isinstance(child, Tensor):
                    if is_traced(child.node, since):
                        return child
                elif not isinstance(child, _SHARED) and id(child) not in seen:
                    seen.add(id(child))
                    below.append(child)
        level = below
    return None


def _referents(x: Any) -> Sequence[Any]:
    """The objects to which an object refers: of a function those that it captured, not the globals of its module."""
    if isinstance(x, FunctionType):
        return [x.__closure__, x.__defaults__, x.__kwdefaults__, vars(x)]
    return gc.get_referents(x)


# ---------------------------------------------------------------- lost gradients

#: By address: a callable that gives the array (a weak reference) or the NumPy scalar (which has none), and a text.
LOST: dict[int, tuple[Any, str]] = {}
#: The most entries of LOST: a scalar stays in memory as long as it has an entry.
_MOST = 64


def note_lost(results: Sequence[Any], function: str, what: str) -> list[Any]:
    """Note the results of a function that closes over `what`, which requires grad; returns the results for the user.

    The noted arrays are usual arrays, but each has a new dtype object: machine code that records arrays knows dtypes by
    address, and leaves arrays of other dtypes to Python.  In a rule nothing is noted: there a second derivative through
    a result without a history is an error.
    """
    told = f"{function} closes over {what} that requires grad"
    found = []
    for x in results:
        if isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "fc" and state.now.start:
            x = _noted(x, told)
        found.append(x)
    return found


def _noted(x: Any, told: str) -> Any:
    for oldest in list(LOST)[: 1 - _MOST]:
        LOST.pop(oldest, None)
    if not isinstance(x, np.ndarray):
        LOST[id(x)] = lambda: x, told
        return x
    made = np.empty(x.shape, np.dtype(x.dtype, copy=True))
    made[...] = x
    place = id(made)
    LOST[place] = ref(made, partial(LOST.pop, place)), told  # runs no Python, so no interrupt stops it
    return made


def warn_of_lost(x: Any) -> None:
    """Warn, once per line, if an operand of a recorded operation is an array that has lost a gradient."""
    found = LOST.get(id(x))
    if found is None or found[0]() is not x or not MODE.get().tracks:
        return
    warn(
        f"the gradient of an operand was lost: {found[1]}, but was called with no tensor among the arguments, so it "
        "gave an array, which has no history.  Pass an argument as a tensor: ad.asarray(x).  Where it is meant as a "
        "constant, ad.tensor(y) says so, or ad.no_grad() around the call",
        LostGradientWarning,
    )
