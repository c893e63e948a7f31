"""In-place operators, in native Python: `t += x` and its kin.

    update        records `t + x` at the operator's site, and gives the handle its node
    updated_leaf  a leaf that wants gradients stays one: the node of its update is a rich one of the same leaf

The kind of such a node is what the Out of the result knows of once Python has made one (`as_leaf`).  Where the aval
changes, gradients are recorded, or the node has more than a leaf, Python's `unknown` of the site is called.
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
from .recorder_sites import at_site, named_sites, sites
from .recorder_tables import is_miss, key_of
from .recording_structs import RawNode, RawRecording, RawRich, tape

#: The first site of binary operators, and of those in place.
OPERATORS, UPDATES = FIRST["binary"], FIRST["in_place"]
#: In place of a node: Python is to give the handle one.
PYTHON = 1


@native
def updated_leaf(old: ptr[RawRich], value: ptr[RawNode], mode: ptr) -> own:
    """The node that a handle on a leaf gets, of the same leaf, with the value of another node: as `contents`."""
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
def contents(t: ptr, y: ptr, now: ptr[RawRecording], mode: ptr) -> own:
    """The node that a handle gets for what the operator gave, a new reference; null with an exception, or PYTHON."""
    found = local(ptr[RawNode], 2)
    y_key = key_of(y, now, found)
    t_key = key_of(t, now, found + 1)
    if is_miss(y_key) or is_miss(t_key) or found[0] is None or found[1] is None:
        return ptr(PYTHON)
    # In a custom forward the handle's mask changes as well.
    if found[0].value is not tape.none or now.body is not tape.zero:
        return ptr(PYTHON)
    if found[1].type is not tape.plain_type:
        return updated_leaf(ptr[RawRich](found[1]), found[0], mode)
    if y_key is not t_key or is_captured(found[1], now):
        return ptr(PYTHON)
    return held(found[0])


@native
def update(number: i64, t: ptr, x: ptr) -> own:
    """`t += x`: the handle, a new reference; null with an exception.   number: of the site, and of the operator's"""
    site = sites + (UPDATES + number)
    mode = local(ptr, 1)
    if recording_now(mode) is None:
        return py.call_two(site.slow, t, x)
    y: own = at_site(sites + (OPERATORS + number), t, x)
    if y is tape.not_implemented:
        return py.call_two(site.slow, t, x)
    if y is None:
        return None
    now = recording_now(mode)  # Python may have run meanwhile
    made: own[RawNode] = ptr(PYTHON) if now is None else contents(t, y, now, mode[0])
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
