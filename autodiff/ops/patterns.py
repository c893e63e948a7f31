"""`x[key]` for ints and slices, recorded from a template: the start of a mini-batch costs no look at the key's meaning.

    X[i : i + 64]      X: f64[1797,64]     pattern ((1, 64),)     starts [i]
    X[i, ::2]                              pattern (None, (2, 32))     starts [i, 0]

The pattern decides what is recorded; the starts are run-time arguments of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.ir import Aval

from ..config import config
from ..dispatch import observed
from ..tape.node import leaf_kind, new_number, out_of
from ..tape.record import grad_mode, state
from ..tensor import Tensor, handle
from .template import LIMIT, Template

__all__ = ["by_pattern"]

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
            _templates.clear()
        _templates[where] = None
        return selected(x, key)
    since = new_number()
    with observed() as choices:
        y = selected(handle(node), key)
    template = Template.of(y, [node], since, choices, numbers=len(starts))
    if template is not None:
        _templates[where] = template
        choices.on_change(lambda: _templates.pop(where, None) and None)
    return y


def _pattern(shape: tuple[int, ...], key: Any) -> tuple[tuple, list[int]] | None:
    """What of a key decides what is recorded, and the starts.  None for other keys, and for one that does not fit."""
    entries = key if type(key) is tuple else (key,)
    if len(entries) > len(shape):
        return None
    parts: list[Any] = []
    starts: list[int] = []
    for extent, entry in zip(shape, entries, strict=False):
        if type(entry) is slice:
            try:
                start, stop, step = entry.indices(extent)
            except (TypeError, ValueError):
                return None
            count = len(range(start, stop, step))
            if count != extent or step != 1:
                starts.append(start if count else 0)
            parts.append((step, count))
        elif type(entry) is int and -extent <= entry < extent:
            if extent != 1:
                starts.append(entry % extent)
            parts.append(None)
        else:
            return None
    return tuple(parts), starts
