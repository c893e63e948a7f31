"""Leaks of a trace: tensors without values, in objects that are not taken apart, which it must not hand out.

Results are rebuilt from their leaves (`tree`).  A set, a function or an object of some class is a leaf: a tensor in it
would be the one that was traced, which never gets a value.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from types import FunctionType, ModuleType
from typing import Any

from ..errors import DispatchError, caller, with_article
from ..tensor import Tensor
from .node import Node
from .record import ARGUMENT
from .walk import reached

__all__ = ["check_leaves", "is_traced"]

#: So many objects behind a leaf are looked through.
_LIMIT = 10_000
#: Leaves that hold nothing.
_BARE = (type(None), bool, int, float, complex, str, bytes)
#: What any object leads to, and is not its own.
_SHARED = (type, ModuleType)
_NOTHING_OF_A_TRACE = (*_BARE, *_SHARED, Tensor)


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
