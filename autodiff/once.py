"""Calls of a `jit` function with sizes that do not come again: they run as they are recorded, and are not traced.

A batch that grows by one at each step, sentences of every length: each call has a signature of its own.  A trace, the
rules behind it and a plan take milliseconds, the same function as a known recording of any size (`tape.sizes`) a tenth
of that.  So where the latest traces of a function differ in extents alone, and none of them was called again, another
size runs as it is recorded; if it comes a second time it is traced.

The function notices nothing of it: what it is given has values, but nobody may look at them (`tape.unseen`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from codegen.records import NamedTuple
from codegen.runtime.cache import LRU

from . import tree
from .calling import MISS
from .config import config
from .ops import as_tensor
from .signature import ArgumentLeaf, as_value
from .tape.ask import evaluate
from .tape.leaks import BARE
from .tape.node import new_number
from .tape.record import state
from .tape.unseen import Seen
from .tensor import AbstractTensor, Tensor
from .transforms.arguments import applied, constant_of, copied_constant, plain_results

if TYPE_CHECKING:
    from collections.abc import Callable

    from .entry import SignatureEntry

__all__ = ["Signed", "comes_once", "run_inside", "run_unseen"]

#: So many traces that were not called again let the next size run as it is recorded.
TRACES = 3


class Signed(NamedTuple):
    """A call taken apart: its signature, and the leaves of its arguments."""

    key: tuple
    structure: tree.Structure
    parts: list[ArgumentLeaf]
    leaves: list[Any]

    def without_extents(self) -> tuple:
        """The signature without extents: equal for calls that differ in these alone."""
        structure, parts, *rest = self.key
        return structure, tuple([p if p[0] == "static" else (p[0], len(p[1]), *p[2:]) for p in parts]), *rest


def comes_once(signed: Signed, entries: LRU, latest: Sequence[tuple[tuple, tuple]], met: LRU) -> bool:
    """True if a signature that has no entry is expected not to come again.

    latest    signatures that were traced last, and what is left of them without extents
    met       those that ran as they were recorded: this one is noted
    """
    now = state.now
    compiles_at_once = not config.patience or config.deterministic
    if len(latest) < TRACES or now.tracing or now.unseen or compiles_at_once or signed.key in entries:
        return False
    form = signed.without_extents()
    if any([other != form or not _is_for_once(entries.get(key)) for key, other in latest]):
        return False
    if met.get(signed.key):
        return False  # it comes again: it is traced
    met.put(signed.key, True)
    return True


def _is_for_once(entry: SignatureEntry | None) -> bool:
    """True for an entry that was not called again, and that reads nothing from outside that a mode may depend on."""
    return entry is not None and not (entry.is_repeated or entry.of_tensors is not None or entry.fixed or entry.tensors)


def run_unseen(f: Callable, signed: Signed) -> Any:
    """The result of a call as it is recorded; MISS where it has to be traced."""
    now = state.now
    is_plain = not now.transforming and not any([isinstance(x, AbstractTensor) for x in signed.leaves])
    lends = now.lends
    try:  # an interrupt may come at any call from here on
        now.unseen, now.lends = new_number(), lends or is_plain
        leaves, structure = tree.flatten(run_inside(f, signed, shares=is_plain))
        is_left = now.unseen == math.inf  # it caught what was to leave it
    except Seen:
        return MISS
    finally:
        now.unseen, now.lends = 0, lends
    leaves = [as_tensor(x) if isinstance(x, (np.ndarray, np.generic, AbstractTensor)) else x for x in leaves]
    if is_left or not all([isinstance(x, (Tensor, *BARE)) for x in leaves]):
        return MISS
    if is_plain:
        evaluate([x.node for x in leaves if isinstance(x, Tensor)])
        leaves = plain_results(leaves)
    return tree.unflatten(structure, leaves)


def run_inside(f: Callable, signed: Signed, shares: bool = False) -> Any:
    """Run a function on arguments as in a trace, but for their values, inside of one that nobody sees.

    shares    arrays are shared with the caller: the results are computed before he goes on
    """
    values = [x if p.key[0] == "array" else as_value(p, x) for p, x in zip(signed.parts, signed.leaves, strict=True)]
    args, kwargs = tree.unflatten(signed.structure, [constant_of(x) if shares else copied_constant(x) for x in values])
    return applied(f, args, kwargs)
