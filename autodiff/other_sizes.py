"""Calls of a `jit` function at sizes that come once: batches of every length, a window that grows.

A trace and its executable cost several times what one step does that is recorded, whose plan is for any size.  So where
a function was traced at some sizes, another one is recorded when it comes for the first time, and traced when it comes
again:

    sizes.note(key, entry)          a signature was traced
    sizes.is_let_pass(key)          True: this one is to be recorded
    recorded(f, parts, ...)         the results of such a call

The function sees its arguments as in a trace: who asks for a value is refused one, and the trace says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from codegen.runtime.cache import LRU
from codegen.runtime.observed import observers

from . import tree
from .config import config
from .entry import Entry
from .mode import MODE
from .signature import Leaf, as_value
from .stand_ins import standing
from .tape.ask import evaluate
from .tape.leaves import leaf
from .tape.record import state
from .tape.tracing import sealed
from .tensor import Tensor
from .transforms.arguments import applied, array_of, plain_results

__all__ = ["Sizes", "recorded"]

#: So many sizes of a form are traced before another one is let pass.
_TRACED = 2
#: Forms, and signatures that were let pass, of one function.
_FORMS, _MOST = 64, 1024


class Sizes:
    """The signatures of one function, by form: what is left of them without extents."""

    __slots__ = ("_passed", "_traced")

    def __init__(self) -> None:
        #: How many of a form were traced; -1 where each has to be.
        self._traced: LRU = LRU(_FORMS)
        self._passed: LRU = LRU(_MOST)

    def note(self, key: tuple, entry: Entry) -> None:
        """Note that a signature was traced."""
        form = _form(key)
        known = self._traced.get(form) or 0
        self._traced.put(form, known + 1 if entry.is_plain and known >= 0 else -1)

    def is_let_pass(self, key: tuple) -> bool:
        """True if a signature without an entry is one of many sizes, and comes for the first time."""
        now = state.now
        is_alone = not (now.tracing or now.transforming or MODE.get().careful or observers)
        if not (is_alone and config.patience) or (self._traced.get(_form(key)) or 0) < _TRACED or key in self._passed:
            return False
        self._passed.put(key, True)
        return True


def _form(key: tuple) -> tuple:
    structure, parts, mode, arrays = key
    return structure, tuple([p if p[0] == "static" else (p[0], len(p[1]), *p[2:]) for p in parts]), mode, arrays


def recorded(f: Callable, structure: Any, parts: Sequence[Leaf], leaves: Sequence[Any]) -> Any:
    """The result of a call with these arguments, none of which is a tensor.

    Raises what f raises, and ConcretizationError where it asks for a value.
    """
    given = [
        standing(leaf(array_of(x)), x) if p.value is not None and p.key[0] == "array" else as_value(p, x)
        for p, x in zip(parts, leaves, strict=True)
    ]
    args, kwargs = tree.unflatten(structure, given)
    with sealed():
        result = applied(f, args, kwargs)
    found, structure = tree.flatten(result)
    evaluate([x.node for x in found if isinstance(x, Tensor)])
    return tree.unflatten(structure, plain_results(found))
