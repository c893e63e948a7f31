"""A host call: one operation of a graph that Python computes each time, between compiled segments.

    host(inputs)  ->  one array, or all of them packed into words of 64 bits
    host_part(packed)  ->  each of them
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from codegen.garbage import set_in_context
from codegen.ir import Aval
from codegen.lowering import Call as HostLowering

from ..mode import MODE
from ..tape.ask import evaluate, value_of
from ..tape.loans import give_back
from ..tape.node import Primitive
from ..tape.record import Recording, record, state, use
from ..tensor import Tensor

__all__ = ["arrays_of", "host_call", "in_own_recording", "note_read_only"]

_WORD = 8


def _packed_reference(*arrays: np.ndarray, run: Callable, avals: tuple[Aval, ...]) -> np.ndarray:
    values = [np.ascontiguousarray(v, a.dtype) for v, a in zip(run(*map(_read_only, arrays)), avals, strict=True)]
    if len(values) == 1:
        return values[0].reshape(avals[0].shape)
    words = np.zeros(sum(map(_words, avals)), np.int64)
    at = 0
    for value, aval in zip(values, avals, strict=True):
        words[at : at + _words(aval)].view(np.uint8)[: value.nbytes] = value.reshape(-1).view(np.uint8)
        at += _words(aval)
    return words


def _words(aval: Aval) -> int:
    return -(-aval.size * aval.dtype.itemsize // _WORD)


def _part_reference(words: np.ndarray, *, at: int, aval: Aval) -> np.ndarray:
    flat = np.ascontiguousarray(words)[at : at + _words(aval)].view(np.uint8)
    return flat[: aval.size * aval.dtype.itemsize].view(aval.dtype).reshape(aval.shape)


def _packed_aval(*_: Aval, run: Callable, avals: tuple[Aval, ...]) -> Aval:
    return avals[0] if len(avals) == 1 else Aval((sum(map(_words, avals)),), np.int64)


class _OfEach(NamedTuple):
    """A host call for every example in turn: equal ones are the same graph shape.

    reference    of an operation on one example, and its parameters;  aval: of what it gives
    mapped       which inputs differ between examples
    """

    reference: Callable
    params: tuple[tuple[str, Any], ...]
    aval: Aval
    size: int
    mapped: tuple[bool, ...]

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        found = np.empty((self.size, *self.aval.shape), self.aval.dtype)
        for i in range(self.size):
            one = [a[i, ...] if m else a for a, m in zip(arrays, self.mapped, strict=True)]
            found[i] = self.reference(*one, **dict(self.params))
        return [found]


def _batch(op: Primitive, size: int, xs: tuple[Tensor, ...], mapped: tuple[bool, ...], **params: Any) -> Tensor:
    """Python is called once for each example, inside of one host call."""
    aval = op.infer(*[x.aval.with_shape(x.shape[m:]) for x, m in zip(xs, mapped, strict=True)], **params)
    assert op.reference is not None
    run = _OfEach(op.reference, tuple(params.items()), aval, size, tuple(mapped))
    return record(_HOST, xs, (run, (aval.with_shape((size, *aval.shape)),)))


#: run(*arrays) -> arrays of `avals`: called by Python each time, between native segments.
_HOST = Primitive(
    "host", infer=_packed_aval, reference=_packed_reference, params=("run", "avals"), lower=HostLowering(),
    discrete=True, heavy=True, batch=_batch, traits=("host",),
)
_PART = Primitive(
    "host_part", infer=lambda words, *, at, aval: aval, reference=_part_reference, params=("at", "aval"),
    lower=HostLowering(), discrete=True, heavy=True, batch=_batch,
)


def host_call(run: Callable, inputs: Sequence[Tensor], avals: Sequence[Aval]) -> list[Tensor]:
    """Record a call of `run(*arrays) -> arrays` of these avals.  Equal `run`s are the same graph shape."""
    if not avals:
        return []
    packed = record(_HOST, tuple(inputs), (run, tuple(avals)))
    if len(avals) == 1:
        return [packed]
    parts, at = [], 0
    for aval in avals:
        parts.append(record(_PART, (packed,), (at, aval)))
        at += _words(aval)
    return parts


@contextmanager
def in_own_recording() -> Iterator[None]:
    """Run a host rule inside of a run: what it records has nothing to do with what is being computed."""
    now = state.now
    use(Recording())
    mode = MODE.get()
    try:
        set_in_context(MODE, mode.off)
        yield
    finally:
        give_back(state.now.lent)
        set_in_context(MODE, mode)
        use(now)


def note_read_only(error: Exception) -> None:
    """Say how to mend a write into an array that a host rule was given."""
    if isinstance(error, ValueError) and "read-only" in str(error):
        error.add_note("arrays that a host rule is given are read-only: write into a copy of its own, np.array(x)")


def arrays_of(tensors: Sequence[Tensor]) -> list[np.ndarray]:
    """The values of tensors as read-only arrays, computed now.  Counts as asking for them."""
    evaluate([t.node for t in tensors], ends_recording=False)
    return [_read_only(value_of(t.node)) for t in tensors]


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view
