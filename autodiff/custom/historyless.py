"""Values that were made outside of the library from values inside: their history is unknown.

An array that a host rule computes, and whatever is made of a value that a rule has asked for, has no
derivative that anybody could tell.  Such a value gets a node that passes it on and lists what it may depend
on; to differentiate through that node is an error, never a silent zero.  Not to is fine: the first
derivative of a host rule never meets it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from ..errors import GradientError
from ..frames import UserLine
from ..mode import MODE
from ..tape.node import Kind, Node, Out, Primitive, kept, one_kind, out_of, rich_node
from ..tensor import Tensor, handle

__all__ = ["HistorylessError", "without_history"]


class HistorylessError(GradientError):
    """A derivative was asked for through a value whose history nobody knows."""


def _refuse(_bar: Any, y: Tensor, *_: Any) -> NoReturn:
    (what,) = y.node.kind.params
    raise HistorylessError(
        f"a derivative was asked for through {what}, which has none: it was computed outside of the tape\n"
        f"  called at {y.node.line}\n"
        "  write that factor as another ad.function with a backward of its own, or compute it with ad.* operations"
    )


def _push(dxs: Any, y: Tensor, *_: Any) -> NoReturn:
    _refuse(dxs, y)


_HISTORYLESS = Primitive(
    "historyless", infer=lambda x, *_, what: x, reference=None, params=("what",), pull=_refuse, push=_push
)
_KINDS: dict[tuple[str, Out], Kind] = {}


def without_history(t: Tensor, sources: Iterable[Node], what: str, line: UserLine | None) -> Tensor:
    """The value of `t`; a derivative through it to any of `sources` is refused, naming `what` and `line`.

    Where no gradients are recorded or none of the sources tracks, nothing can be lost, and it is `t` itself.
    """
    if not MODE.get().tracks or t.dtype.kind not in "fc":
        return t
    tracked = tuple([n for n in dict.fromkeys(sources) if n.kind.out.requires_grad])
    if not tracked:
        return t
    key = (what, out_of(t.aval, True))
    kind = _KINDS.get(key)
    if kind is None:
        kind = kept(_KINDS, key, one_kind((_HISTORYLESS, *key), _HISTORYLESS, (what,), key[1]))
    node = rich_node(kind, (t.node, *tracked))
    node.body, node.flow, node.line = 0, slice(1, None), line
    return handle(node)
