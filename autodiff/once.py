"""Calls of a `jit` function with sizes that do not come again: they run as they are recorded, and are not traced.

A batch that grows by one at each step, sentences of every length: each call has a signature of its own.  A trace, the
rules behind it and a plan take milliseconds, the same function as a known recording of any size (`tape.sizes`) a tenth
of that.  So where the latest traces of a function differ in extents alone, and none of them was called again, another
size runs as it is recorded (`Traces.call`); if it comes a second time it is traced.

The function notices nothing of it: what it is given has values, but who looks at one, or does what is done in another
way in a trace, leaves the function (`Recording.see`), which is then traced from its beginning.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from codegen.garbage import set_in_context

from . import tree
from .argument_leaves import SCALAR
from .mode import MODE
from .ops import as_tensor
from .tape.ask import evaluate
from .tape.leaks import BARE
from .tape.leaves import number_like_traced
from .tape.node import new_number
from .tape.record import NeedsTrace, state
from .tensor import AbstractTensor, Tensor
from .transforms.arguments import applied, constant_of, copied_constant, plain_results

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .entry import Signed

__all__ = ["MISS", "run_as_written", "run_inside", "run_unseen"]

#: The answer for a call that has to be traced.
MISS: Any = object()


def run_unseen(f: Callable, signed: Signed) -> Any:
    """The result of a call as it is recorded, compiled at once as that of a trace; MISS where it has to be traced."""
    now, mode = state.now, MODE.get()
    is_plain = not now.transforming and not any([isinstance(x.value, Tensor) for x in signed.leaves])
    lends = now.lends
    try:  # an interrupt may come at any call from here on
        set_in_context(MODE, mode.but("lightly"))
        now.unseen, now.lends = new_number(), lends or is_plain
        leaves, structure = tree.flatten(run_as_written(f, signed, shares=is_plain))
        leaves = [as_tensor(x) if isinstance(x, (np.ndarray, np.generic, AbstractTensor)) else x for x in leaves]
        nodes = [x.node for x in leaves if isinstance(x, Tensor)]
        _check(leaves)
        if now.unseen == math.inf:
            return MISS  # it caught what was to leave it
        if is_plain:
            if any([n.kind.out.requires_grad for n in nodes]):
                return MISS  # an entry says whose gradient is lost
            evaluate(nodes)
            now.unseen = 0  # from here on the values are the caller's
            leaves = plain_results(leaves)
        return tree.unflatten(structure, leaves)
    except NeedsTrace:
        return MISS
    finally:
        now.unseen, now.lends = 0, lends
        set_in_context(MODE, mode)


def run_inside(f: Callable, signed: Signed) -> Any:
    """The result of another function of `jit`, called by one that runs as it is recorded."""
    result = run_as_written(f, signed)
    _check(tree.leaves(result))
    return result


def _check(leaves: Sequence[Any]) -> None:
    """Leave the function if some leaf of a result is an object, of which a trace says if it may be one."""
    if not all([isinstance(x, (AbstractTensor, np.ndarray, np.generic, *BARE)) for x in leaves]):
        state.now.see()


def run_as_written(f: Callable, signed: Signed, shares: bool = False) -> Any:
    """The result of a function of arguments as in a trace, but for their values.

    shares    arrays are shared with the caller: the results are computed before he goes on
    """
    leaves = []
    for key, value, given in signed.leaves:
        if value is not None and key[0] != "array" and not isinstance(given, Tensor):
            given = number_like_traced(given, key[2], weak=key[0] != SCALAR)  # a number in a trace
        leaves.append(constant_of(given) if shares else copied_constant(given))
    args, kwargs = tree.unflatten(signed.structure, leaves)
    return applied(f, args, kwargs)
