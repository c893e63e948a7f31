"""`x[key]` and `x[key] = v` for ints, slices, None, `...` and index arrays, recorded from a template: the start of a
mini-batch costs no look at the key's meaning.

    X[i : i + 64]      X: f64[1797,64]     pattern ((64, 1),)     starts [i]
    X[i, ::2]                              pattern ((-1, 0), (32, 2))     starts [i, 0]
    X[..., None]                           pattern ((-3, 0), (-2, 0))     no starts
    X[:, rows]         rows: i64[8]        pattern ((1797, 1), (-4, 0))   no starts, an index array

The pattern decides what is recorded, with the avals of index arrays; these, and the starts, are run-time arguments.
Machine code reads keys as it is done here (`codegen.runtime.recorder_subscripts`), and learns from the templates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from codegen.ir import OPS, Aval
from codegen.records import NamedTuple
from codegen.runtime.record_table import MOST_OPERANDS, MOST_STATICS, RecordedProgram
from codegen.symbols import Symbol

from ..dispatch import Choices, observed
from ..mode import MODE
from ..tape.leaves import known_kind
from ..tape.node import Kind, Out, data_node, kind_of, leaf_kind, new_number, out_of
from ..tape.record import identity_of, state
from ..tensor import Tensor, handle
from .arguments import check_known
from .conversion import as_tensor
from .primitive import I64
from .template import LIMIT, Bounds, Template, drop, empty

__all__ = ["START", "Patterned"]

#: The kind of a leaf that says where a slice or an int starts.
START = leaf_kind(out_of(Aval((), I64)))

#: For a pattern whose recording cannot be put down again.
_NEVER: Any = False


class _Read(NamedTuple):
    """A key taken apart: its pattern, starts in the order of their leaves, index arrays and their extents."""

    parts: tuple
    starts: list[int]
    indices: list[Any]
    extents: list[int]
    has_ints: bool


class Patterned:
    """`run(x, key, *more)`, of further tensors too, from templates by the pattern of the key.

    is_part   it is `x[key]`: of keys without arrays the pattern itself says what is recorded
    """

    def __init__(self, run: Callable[..., Tensor], *, is_part: bool = False) -> None:
        self.run, self.is_part = run, is_part
        self.templates: dict[tuple, Template | None] = {}
        #: The last key that was read, which has no arrays: (Out, key, what it says).
        self._latest: tuple[Out, Any, _Read] | None = None

    def record(self, x: Tensor, key: Any, *more: Tensor) -> Tensor:
        """`run(x, key, *more)`, from a template where a key of this pattern was met before."""
        now, run = state.now, self.run
        out = x.node.kind.out
        read = None if MODE.get().watching or now.literal else _pattern(out.shape, key)
        if read is None:
            return run(x, key, *more)
        xs = (x, *more)
        if not read.indices:
            self._latest = out, key, read
        else:
            tensors = [as_tensor(i, "x[...]", "an index") for i in read.indices]
            key = _with_tensors(key, tensors)
            xs += tuple(tensors)
        nodes = [t.node for t in xs]
        start = now.start
        if any([t.masked for t in xs]) or any([n.value is None and n.number < start for n in nodes]):
            return run(x, key, *more)
        where = (MODE.get().tracks, read.parts, *[n.kind.out for n in nodes])
        template = self.templates.get(where)
        if template:
            return template.put(now, xs, read.starts, START)
        if template is _NEVER:
            return run(x, key, *more)
        steps = _part(out, read) if self.is_part and not read.indices else None
        if steps:
            template = Template(steps, _NO_CHOICES)
        if where not in self.templates:
            if len(self.templates) >= LIMIT:
                empty(self.templates)
            self.templates[where] = None
            if not steps:
                return run(x, key, *more)
        elif steps:
            self.templates[where] = template
        if template:
            return template.record([*nodes, *[data_node(START, n) for n in read.starts]], False)
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

    def known(self, x: Tensor, key: Any, *more: Any) -> tuple[list, tuple, RecordedProgram, Callable] | None:
        """The table's key of a key and further operands, the pattern, what is recorded for them, and whom to ask to be
        told when that changes.  None: machine code does not know it.
        """
        out, latest = x.node.kind.out, self._latest
        is_latest = latest is not None and latest[0] is out and latest[1] is key
        read = latest[2] if is_latest and latest is not None else _pattern(out.shape, key)
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
        template = self.templates.get((MODE.get().tracks, read.parts, out, *outs))
        if not template:
            return None
        of_number = [leaf_kind(o) for operand, o in zip(more, outs, strict=False) if type(operand) in (int, float)]
        program = template.program(1 + len(keys) + len(read.starts), of_number[0] if of_number else None, keeps=False)
        return None if program is None else ([out, *keys], read.parts, program, template.tell)


def _key_and_out(x: Tensor, operand: Any) -> tuple[Any, Out] | None:
    """The key of an operand in a table, and the Out of its node; None for one that is not recorded natively."""
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
    """The operands that are index arrays, and the extents that they are for."""
    if not read.indices:
        return None
    return Bounds(partial(check_known, name="x[...]"), tuple(enumerate(read.extents, first)))


def _is_index(entry: Any) -> bool:
    """True if an entry of a key is an array of integers."""
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


#: The facts that the meaning of a key without arrays relies on.
_NO_CHOICES = Choices()


def _part(out: Out, read: _Read) -> list[tuple[Kind, None, tuple[int, ...]]]:
    """The nodes of `x[key]` for a key without arrays, x being operand 0 and starts the others: a slice, and a reshape
    that drops the axes of ints and makes new ones.  Nothing where it records something else.
    """
    axes: list[int] = []
    by: list[int] = []
    extents: list[int] = []
    shape: list[int] = []
    left = sum([part not in (_NEW, _REST) for part in read.parts])
    for count, step in (*read.parts, _REST):
        axis = len(extents)
        if (count, step) == _NEW:
            shape.append(1)
        elif (count, step) == _REST:
            rest = out.shape[axis : len(out.shape) - left]
            extents += rest
            shape += rest
        else:
            left -= 1
            is_int = (count, step) == _INT
            if is_int:
                count, step = 1, 1
            if count != out.shape[axis] or step != 1:
                axes.append(axis)
                by.append(step)
            extents.append(count)
            if not is_int:
                shape.append(count)
    steps: list[tuple[Kind, None, tuple[int, ...]]] = []
    if axes:
        starts = (START.out,) * len(axes)
        steps.append((_kind("slice", (out, *starts), (tuple(axes), tuple(by), tuple(extents)), extents), None,
                      tuple(range(1 + len(axes)))))  # fmt: skip
    if shape != extents:
        given = steps[-1][0].out if steps else out
        steps.append((_kind("reshape", (given,), (tuple(shape),), shape), None, (1 + len(axes) if axes else 0,)))
    return steps


def _kind(name: str, outs: tuple[Out, ...], params: tuple, shape: Sequence[int]) -> Kind:
    op: Any = OPS[name]
    mode = MODE.get().tracks
    return op.memo[mode].get((outs, params)) or kind_of(op, params, outs, mode, Aval(tuple(shape), outs[0].aval.dtype))


def _pattern(shape: tuple[int, ...], key: Any) -> _Read | None:
    """The part of a key that decides what is recorded, and the rest.  None for keys of other kinds or that do not fit.

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
        if type(extent) is Symbol:
            return None
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
