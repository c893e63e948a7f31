"""In-place operators, in native Python: `t += x` and the like.

    update        record `t + x` at the operator's site, and give the handle the new node
    updated_leaf  make the rich node of an updated leaf: a leaf that requires gradients keeps its identity

The Out of the result has the kind of such a node (`as_leaf`) once Python has made one.  If the aval changes, gradients
are recorded, or the node has more than a leaf, the site's Python function `unknown` is called.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from typing import Any

from ..native import held, i64, local, native, own, ptr
from . import recording_objects as py
from .record_table import FIRST
from .recorder_life import FIRST_RICH, LAST_RICH, new_rich
from .recorder_nodes import is_captured, next_number, recording_now
from .recorder_put import rebind
from .recorder_sites import named_sites, record_or_call, sites
from .recorder_tables import is_miss, key_of
from .recording_structs import RawNode, RawRecording, RawRich, tape

#: The first site of binary operators, and of those in place.
OPERATORS, UPDATES = FIRST["binary"], FIRST["in_place"]
#: Stands for a node that Python has to give to the handle.
PYTHON = 1


@native
def updated_leaf(old: ptr[RawRich], value: ptr[RawNode], mode: ptr) -> own:
    """A new node of the same leaf with the value of another node, for its handle.  Returns as `node_for_update`."""
    leaf = old.leaf
    kind = value.kind.out.as_leaf
    if mode is not tape.false or leaf is None or py.class_of(leaf) is not tape.leaf_type or kind is None:
        return ptr(PYTHON)
    if py.class_of(kind) is not tape.kind_type or kind.out is not old.kind.out:
        return ptr(PYTHON)
    n: own[RawRich] = new_rich()
    if n is None:
        return None
    n.kind = held(kind)
    n.leaf = held(leaf)
    n.first = held(value)
    n.value = held(tape.none)
    words = ptr[own](n)
    for word in range(FIRST_RICH, LAST_RICH):
        if words[word] is None:
            words[word] = held(tape.none)
    n.number = next_number()
    return n


@native
def node_for_update(t: ptr, y: ptr, now: ptr[RawRecording], mode: ptr) -> own:
    """The node that a handle `t` gets for the result `y`, a new reference; null with an exception, or PYTHON."""
    found = local(ptr[RawNode], 2)
    y_key = key_of(y, now, found)
    t_key = key_of(t, now, found + 1)
    if is_miss(y_key) or is_miss(t_key) or found[0] is None or found[1] is None:
        return ptr(PYTHON)
    # In a custom forward the handle's mask changes as well, which is left to Python.
    if found[0].value is not tape.none or now.forward_depth is not tape.zero:
        return ptr(PYTHON)
    if found[1].type is not tape.plain_type:
        return updated_leaf(ptr[RawRich](found[1]), found[0], mode)
    if y_key is not t_key or is_captured(found[1], now):
        return ptr(PYTHON)
    return held(found[0])


@native
def update(number: i64, t: ptr, x: ptr) -> own:
    """`t += x`: the handle, a new reference; null with an exception.   number: of the in-place and the binary site"""
    site = sites + (UPDATES + number)
    mode = local(ptr, 1)
    if recording_now(mode) is None:
        return py.call_two(site.slow, t, x)
    y: own = record_or_call(sites + (OPERATORS + number), t, x)
    if y is tape.not_implemented:
        return py.call_two(site.slow, t, x)
    if y is None:
        return None
    now = recording_now(mode)  # Python may have run meanwhile
    made: own[RawNode] = ptr(PYTHON) if now is None else node_for_update(t, y, now, mode[0])
    if made is ptr(PYTHON):
        return py.call_two(site.unknown, t, y)
    if made is None or rebind(now, t, made) != 0:
        return None
    return held(t)


def _in_place(number: int) -> Any:
    @native
    def in_place(t: ptr, x: ptr) -> own:
        return update(number - UPDATES, t, x)

    return in_place


IN_PLACE = named_sites("in_place", _in_place)
