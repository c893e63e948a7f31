"""`x[key]` and `x[key] = v` for ints, slices, None, `...` and index arrays, recorded from a template: the start of a
mini-batch costs no look at the key's meaning.

    X[i : i + 64]      X: f64[1797,64]     pattern ((64, 1),)     starts [i]
    X[i, ::2]                              pattern ((-1, 0), (32, 2))     starts [i, 0]
    X[..., None]                           pattern ((-3, 0), (-2, 0))     no starts
    X[:, rows]         rows: i64[8]        pattern ((1797, 1), (-4, 0))   no starts, an index array

The pattern decides what is recorded, with the avals of index arrays; these, and the starts, are run-time arguments.
Machine code reads keys as it is done here (`codegen.runtime.record_key_ir`), and learns from the templates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.records import NamedTuple
from codegen.runtime.record_table import MOST_OPERANDS, MOST_STATICS, Program

from ..config import config
from ..dispatch import observed
from ..tape.leaves import known_kind
from ..tape.node import Out, leaf_kind, new_number, out_of
from ..tape.record import grad_mode, identity_of, state
from ..tensor import Tensor, handle
from .arguments import check_known
from .conversion import as_tensor
from .template import LIMIT, Bounds, Template, drop, empty

__all__ = ["START", "Patterned"]

#: The kind of a leaf that says where a slice or an int starts.
START = leaf_kind(out_of(Aval((), np.dtype(np.int64))))

#: For a pattern whose recording cannot be put down again.
_NEVER: Any = False


class _Read(NamedTuple):
    """What a key says: its pattern, starts in the order of their leaves, index arrays and the extents they are for."""

    parts: tuple
    starts: list[int]
    indices: list[Any]
    extents: list[int]
    has_ints: bool


class Patterned:
    """`run(x, key, *more)`, of further tensors too, from templates by the pattern of the key."""

    def __init__(self, run: Callable[..., Tensor]) -> None:
        self.run = run
        self.templates: dict[tuple, Template | None] = {}

    def record(self, x: Tensor, key: Any, *more: Tensor) -> Tensor:
        """`run(x, key, *more)`, from a template where a key of this pattern was met before."""
        now, run = state.now, self.run
        read = None if config.watching or now.literal else _pattern(x.node.kind.out.shape, key)
        if read is None:
            return run(x, key, *more)
        xs = (x, *more)
        if read.indices:
            tensors = [as_tensor(i, "x[...]", "an index") for i in read.indices]
            key = _with_tensors(key, tensors)
            xs += tuple(tensors)
        nodes = [t.node for t in xs]
        start = now.start
        if any([t.masked for t in xs]) or any([n.value is None and n.number < start for n in nodes]):
            return run(x, key, *more)
        where = (grad_mode.get(), read.parts, *[n.kind.out for n in nodes])
        template = self.templates.get(where)
        if template:
            return template.put(now, xs, read.starts, START)
        if template is _NEVER:
            return run(x, key, *more)
        if where not in self.templates:
            if len(self.templates) >= LIMIT:
                empty(self.templates)
            self.templates[where] = None
            return run(x, key, *more)
        return self._watched(where, read, xs, key, len(more))

    def _watched(self, where: tuple, read: _Read, xs: tuple[Tensor, ...], key: Any, more: int) -> Tensor:
        """The body once more, and a template of what it recorded."""
        given: list[Tensor] = []
        for t in xs:  # the same tensor twice is two arguments
            again = any([t.node is g.node for g in given])
            node = identity_of(t.node, requires_grad=t.node.kind.out.requires_grad) if again else t.node
            given.append(handle(node))
        since = new_number()
        count = 1 + more
        with observed() as choices:
            y = self.run(given[0], _with_tensors(key, given[count:]), *given[1:count])
        template = Template.of(y, [t.node for t in given], since, choices, numbers=len(read.starts))
        self.templates[where] = template or _NEVER
        if template is None:
            return self.run(xs[0], key, *xs[1:count])
        template.bounds = _bounds(read, count)
        choices.on_change(lambda: drop(self.templates, where))
        return template.put(state.now, xs, read.starts, START)

    def known(self, x: Tensor, key: Any, *more: Any) -> tuple[list, tuple, Program, Callable] | None:
        """What a key and further operands are in a table, the pattern, what is recorded for them, and whom to ask to be
        told when that changes.  None: machine code does not know it.
        """
        read = _pattern(x.node.kind.out.shape, key)
        if read is None or len(read.parts) > MOST_STATICS or (read.has_ints and read.indices):
            return None
        operands = [*more, *read.indices]
        keys, outs = [], []
        for operand in operands:
            found = _key_and_out(x, operand)
            if found is None:
                return None
            keys.append(found[0])
            outs.append(found[1])
        if len(keys) >= MOST_OPERANDS:
            return None
        out = x.node.kind.out
        template = self.templates.get((grad_mode.get(), read.parts, out, *outs))
        if not template:
            return None
        of_number = [leaf_kind(o) for operand, o in zip(more, outs, strict=False) if type(operand) in (int, float)]
        program = template.program(1 + len(keys) + len(read.starts), of_number[0] if of_number else None, keeps=False)
        return None if program is None else ([out, *keys], read.parts, program, template.tell)


def _key_and_out(x: Tensor, operand: Any) -> tuple[Any, Out] | None:
    """What an operand is in a table, and the Out of its node; None for what is not recorded natively."""
    if isinstance(operand, Tensor):
        out = operand.node.kind.out
        return (out, out) if type(operand) is out.cls else None
    if type(operand) is np.ndarray:
        kind = known_kind(operand)
        return None if kind is None else (kind, kind.out)
    dtype = x.node.kind.out.aval.dtype
    is_number = type(operand) in (int, float) and dtype.kind == "f"
    return (type(operand), out_of(Aval((), dtype))) if is_number else None


def _bounds(read: _Read, first: int) -> Bounds | None:
    """Which operands are index arrays, and for which extents."""
    if not read.indices:
        return None
    return Bounds(partial(check_known, name="x[...]"), tuple(enumerate(read.extents, first)))


def _is_index(entry: Any) -> bool:
    """Whether an entry of a key is an array of integers."""
    if isinstance(entry, Tensor):
        return entry.node.kind.out.aval.dtype.kind == "i"
    return type(entry) is np.ndarray and entry.dtype.kind == "i" and entry.dtype.itemsize >= 4


def _with_tensors(key: Any, tensors: Sequence[Tensor]) -> Any:
    """A key with these tensors for its index arrays."""
    if not tensors:
        return key
    left = iter(tensors)
    return tuple([next(left) if _is_index(e) else e for e in key]) if type(key) is tuple else next(left)


#: Entries of a pattern: a slice is (how many elements, step).
_INT, _NEW, _REST, _INDEX = (-1, 0), (-2, 0), (-3, 0), (-4, 0)


def _pattern(shape: tuple[int, ...], key: Any) -> _Read | None:
    """What of a key decides what is recorded, and the rest.  None for other keys, and for one that does not fit.

    Beside index arrays ints are such themselves, which `_selection` makes before the starts of slices.
    """
    entries = key if type(key) is tuple else (key,)
    indices = [e for e in entries if _is_index(e)]
    axis, parts = 0, []
    ints: list[int] = []
    starts: list[int] = []
    extents = []
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
        elif (type(entry) is int or isinstance(entry, np.integer)) and -extent <= entry < extent:
            if extent != 1 or indices:
                ints.append(int(entry) % extent)
                if not indices:
                    starts.append(ints[-1])
            parts.append(_INT)
        elif indices and _is_index(entry):
            extents.append(extent)
            parts.append(_INDEX)
        else:
            return None
    return _Read(tuple(parts), [*ints, *starts] if indices else starts, indices, extents, _INT in parts)
