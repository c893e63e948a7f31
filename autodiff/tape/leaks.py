"""Results of functions that are not what they seem: a leak of a trace, an array that has lost a gradient.

A set, a function or an object of some class is a leaf of a result: a tensor in it would be the one that was traced.

An array that was made for plain code may depend on a tensor that is no argument:

    f = ad.jit(lambda x: (w * x).sum())     w requires grad
    y = f(array)                            an array, as no argument is a tensor: it is noted
    (y + penalty(w)).backward()             w would get the gradient of one of both: a warning at this line

The warning is given where one takes part in what is recorded.  Only calls that go by Python are noted, the first ones
of each signature; what NumPy made of one is not known, nor is a number that machine code records.
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

#: The most objects behind a leaf that are looked through.
_LIMIT = 10_000
#: Leaves that hold nothing.
BARE = (type(None), bool, int, float, complex, str, bytes)
#: Classes of objects that any object leads to, and that are not its own.
_SHARED = (type, ModuleType)
_NOTHING_OF_A_TRACE = (*BARE, *_SHARED, Tensor)


def is_traced(node: Node, since: float = 0) -> bool:
    """True if a value depends on an argument of a trace; of one whose arguments have numbers from `since` on."""
    found = reached([node], lambda n: n.inputs if n.value is None else ())
    return any(n.kind.op is ARGUMENT and n.number >= since for n in found)


def check_leaves(leaves: Sequence[Any], name: str, transformation: str, since: float = 0) -> None:
    """Raise DispatchError where a leaf of a result holds a tensor that was traced."""
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
    """A traced tensor among the objects that this one refers to, the nearest first."""
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
    """The objects that an object holds: of a function those it captured, not the globals of its module."""
    if isinstance(x, FunctionType):
        return [x.__closure__, x.__defaults__, x.__kwdefaults__, vars(x)]
    return gc.get_referents(x)


# ---------------------------------------------------------------- lost gradients

#: By address: what gives the array (a weak reference) or the NumPy scalar (which takes none), and what is said of it.
LOST: dict[int, tuple[Any, str]] = {}
#: The number of these that are kept: a scalar stays in memory as long as it is here.
_MOST = 64


def note_lost(results: Sequence[Any], function: str, what: str) -> list[Any]:
    """Note results of a function that closes over `what`, which requires grad; those to give to the user.

    They are arrays like any other, but their dtype is an object of its own: machine code that records arrays knows
    dtypes by their addresses, and leaves others to Python.  In a rule nothing is noted: there a second derivative
    through what has no history is an error.
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
    LOST[place] = ref(made, partial(LOST.pop, place)), told  # no Python runs in it, to be interrupted
    return made


def warn_of_lost(x: Any) -> None:
    """Warn, once per line, of an array that takes part in what is recorded and has lost a gradient."""
    found = LOST.get(id(x))
    if found is None or found[0]() is not x or not MODE.get().tracks:
        return
    warn(
        f"the gradient of an operand was lost: {found[1]}, but was called with no tensor among the arguments, so it "
        "gave an array, which has no history.  Pass an argument as a tensor: ad.asarray(x).  Where it is meant as a "
        "constant, ad.tensor(y) says so, or ad.no_grad() around the call",
        LostGradientWarning,
    )
