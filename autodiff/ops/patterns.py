"""`x[key]` for ints, slices, None and `...`, recorded from a template: the start of a mini-batch costs no look at the
key's meaning.

    X[i : i + 64]      X: f64[1797,64]     pattern ((64, 1),)     starts [i]
    X[i, ::2]                              pattern ((-1, 0), (32, 2))     starts [i, 0]
    X[..., None]                           pattern ((-3, 0), (-2, 0))     no starts

The pattern decides what is recorded; the starts are run-time arguments of it.  Machine code reads keys as it is done
here (`codegen.runtime.record_subscript_ir`), and learns from the templates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.runtime.record_table import MOST_STATICS, Program

from ..config import config
from ..dispatch import observed
from ..tape.node import leaf_kind, new_number, out_of
from ..tape.record import grad_mode, state
from ..tensor import Tensor, handle
from .template import LIMIT, Template, drop, empty

__all__ = ["by_pattern", "pattern_of"]

_templates: dict[tuple, Template | None] = {}
_START = leaf_kind(out_of(Aval((), np.dtype(np.int64))))


def by_pattern(selected: Callable[[Tensor, Any], Tensor], x: Tensor, key: Any) -> Tensor:
    """`selected(x, key)`, from a template where a key of this pattern was met before."""
    now = state.now
    node = x.node
    if config.careful or x.masked or now.literal or (node.value is None and node.number < now.start):
        return selected(x, key)
    read = _pattern(node.kind.out.shape, key)
    if read is None:
        return selected(x, key)
    parts, starts = read
    where = (node.kind.out, grad_mode.get(), parts)
    template = _templates.get(where)
    if template is not None:
        return template.put(now, (x,), starts, _START)
    if where not in _templates:
        if len(_templates) >= LIMIT:
            empty(_templates)
        _templates[where] = None
        return selected(x, key)
    since = new_number()
    with observed() as choices:
        y = selected(handle(node), key)
    template = Template.of(y, [node], since, choices, numbers=len(starts))
    if template is not None:
        _templates[where] = template
        choices.on_change(lambda: drop(_templates, where))
    return y


def pattern_of(x: Tensor, key: Any) -> tuple[tuple, Program, Callable[[Callable[[], None]], None]] | None:
    """The pattern of a key, what is recorded for it, and whom to ask to be told when that changes; None: not known."""
    read = _pattern(x.node.kind.out.shape, key)
    if read is None or len(read[0]) > MOST_STATICS:
        return None
    parts, starts = read
    template = _templates.get((x.node.kind.out, grad_mode.get(), parts))
    program = None if template is None else template.program(1 + len(starts), _START)
    return None if template is None or program is None else (parts, program, template.tell)


#: Entries of a pattern: a slice is (how many elements, step).
_INT, _NEW, _REST = (-1, 0), (-2, 0), (-3, 0)


def _pattern(shape: tuple[int, ...], key: Any) -> tuple[tuple, list[int]] | None:
    """What of a key decides what is recorded, and the starts.  None for other keys, and for one that does not fit."""
    entries = key if type(key) is tuple else (key,)
    axis, parts, starts = 0, [], []
    for place, entry in enumerate(entries):
        if entry is None:
            parts.append(_NEW)
            continue
        if entry is Ellipsis:
            rest = entries[place + 1 :]
            axis = len(shape) - sum([e is not None for e in rest])
            if any([e is Ellipsis for e in rest]) or axis < sum([p is not _NEW for p in parts]):
                return None
            parts.append(_REST)
            continue
        if axis >= len(shape):
            return None
        extent, axis = shape[axis], axis + 1
        if type(entry) is slice:
            try:
                start, stop, step = entry.indices(extent)
            except (TypeError, ValueError):
                return None
            count = len(range(start, stop, step))
            if count != extent or step != 1:
                starts.append(start if count else 0)
            parts.append((count, step))
        elif type(entry) is int and -extent <= entry < extent:
            if extent != 1:
                starts.append(entry % extent)
            parts.append(_INT)
        else:
            return None
    return tuple(parts), starts
