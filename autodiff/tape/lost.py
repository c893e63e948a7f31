"""Arrays that have lost a gradient: results for plain code that depend on a tensor that is no argument.

    f = ad.jit(lambda x: (w * x).sum())     w requires grad
    y = f(array)                            an array, as no argument is a tensor: it is noted
    (y + penalty(w)).backward()             w would get the gradient of one of both: a warning at this line

An array that is printed, stored or plotted has lost nothing that anybody wanted; so the warning is given where one
takes part in what is recorded.  Only calls that go by Python are noted, the first ones of each signature: of a
program that always does it these are enough, and known calls take no longer.  What NumPy made of one is not known;
nor is a number that machine code records, which it does where Python has recorded one like it before.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from weakref import ref

import numpy as np

from ..errors import LostGradientWarning, warn
from ..mode import MODE
from .record import state

__all__ = ["LOST", "note_lost", "warn_of_lost"]

#: By address: what gives the array (a weak reference) or the NumPy scalar (which takes none), and what is said of it.
LOST: dict[int, tuple[Any, str]] = {}
#: How many are kept: a scalar stays in memory as long as it is here.
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
