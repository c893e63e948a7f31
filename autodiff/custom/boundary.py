"""Boundaries: one node per call of a forward/backward pair, which carries the rule.

Forward runs once per recorded call (twice if `Entered.closed` needs a second run to know what forward read), and its
operations are recorded like any.  The boundary is the identity in value, and has the user's rule as its derivative:

    one output        boundary(*call's inputs, *extras, body output)
    several outputs   call(*call's inputs, *extras, *body outputs)
                      pick(call, body output)  for each of them

Extras are saved intermediates, and outputs that carry no gradient.  Cotangents flow to the call's inputs only;
reverse mode never enters the body.  A tracking tensor that forward closes over is an input too, after the
arguments; no rule gives it a gradient (`reads`).  (A method with a `jvp` and no backward is the exception: its
boundary is transparent to reverse mode, and cotangents flow to the body.)  Inside forward, handles of inputs are
masked (they report requires_grad False), but body nodes keep their history, so a derivative can go through a saved
intermediate: second order is right.

A value that Python made outside of the tape from values inside has an unknown derivative: an array that a host rule
computes, and any result that a rule made after it evaluated a tensor.  Such a value also gets a node that passes it on
and lists the nodes that it may depend on (`without_history`).  A derivative through that node is an error, never a
silent zero.  A first derivative of a host rule does not go through such a node.

A host call is one operation of a graph that Python computes at each run:

    host(inputs)  ->  one array, or all of them packed into words of 64 bits
    host_part(packed)  ->  each of them
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn
from weakref import ref

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Call as HostLowering

from ..errors import GradientError
from ..frames import UserLine
from ..mode import MODE
from ..tape.node import Kind, Node, Out, Primitive, RichNode, leaf_kind, one_kind, out_of, rich_node, store_bounded
from ..tape.plan import read_only
from ..tape.record import record, result_handle
from ..tensor import Tensor, handle
from .call import CustomCall

_BOUNDARY = Primitive("boundary", infer=lambda x: x, reference=lambda x: x)
_CALL = Primitive("call", infer=lambda: None, reference=None)
_CALL_KIND = Kind(_CALL, (), out_of(Aval((), np.float64), True))  # the value of a call node is never read
_TOKEN_KIND = leaf_kind(out_of(Aval((), np.int64)))

_next_token = itertools.count(1).__next__
_calls: dict[int, ref[CustomCall]] = {}


class _Kinds(dict[Out, Kind]):
    """The kind of a boundary with one output, and of a node that picks one of several, by the Out of the body."""

    def __missing__(self, out: Out) -> Kind:
        tracking = out_of(out.aval, True)
        return store_bounded(self, out, one_kind((_BOUNDARY, tracking), _BOUNDARY, (), tracking))


boundary_kind = _Kinds().__getitem__


def boundary_node(call: CustomCall, inputs: Sequence[Node], flow: slice) -> RichNode:
    """The node that stands for a call: the boundary of one output, the call of several."""
    kind = boundary_kind(inputs[-1].kind.out) if call.is_one else _CALL_KIND
    node = rich_node(kind, tuple(inputs), call=call)
    node.body = len(inputs) - 1 if call.is_one else None
    node.flow, node.line = flow, call.line
    return node


def call_of(token: int) -> CustomCall:
    """The call of a token, which exists as long as its boundary is alive."""
    return _calls[token]()  # type: ignore[return-value]  # alive, as its boundary is


def outputs_of(call: CustomCall, inputs: Sequence[Node], flow: slice, masked: bool) -> list[Tensor]:
    """The tracked outputs of a call, behind its boundary.   inputs: those of the boundary, the body's outputs last"""
    node = boundary_node(call, inputs, flow)
    if call.is_one:
        return [result_handle(node, masked)]
    body = inputs[len(inputs) - len(call.avals) :]
    return [result_handle(_pick(node, k, b), masked) for k, b in enumerate(body)]


def token_of(call: CustomCall) -> Node:
    """A number that identifies the call, as an input of the graph: it is part of no key."""
    number = _next_token()
    _calls[number] = ref(call, partial(_calls.pop, number))
    return rich_node(_TOKEN_KIND, (), np.asarray(number), call=call)


def _pick(call: Node, slot: int, body: Node) -> RichNode:
    node = rich_node(boundary_kind(body.kind.out), (call, body))
    node.body, node.flow, node.slot = 1, slice(0, 1), slot
    return node


def output_of(node: Node, slot: int) -> Tensor:
    """Tracked output `slot` of a call, read back behind its boundary."""
    call = node.call
    if call.is_one:
        return handle(node)
    body = node.inputs[len(node.inputs) - len(call.avals) + slot]
    return handle(_pick(node, slot, body))


# ---------------------------------------------------------------- values without a known history


class HistorylessError(GradientError):
    """A derivative was needed through a value whose derivative is unknown."""


def _refuse(_: Any, y: Tensor, *_others: Any) -> NoReturn:
    (what,) = y.node.kind.params
    raise HistorylessError(
        f"a derivative was asked for through {what}, which has none: it was computed outside of the tape\n"
        f"  called at {y.node.line}\n"
        "  write that factor as another ad.function with a backward of its own, or compute it with ad.* operations"
    )


_HISTORYLESS = Primitive(
    "historyless", infer=lambda x, *_, what: x, reference=None, params=("what",), pull=_refuse, push=_refuse
)


def without_history(t: Tensor, sources: Iterable[Node], what: str, line: UserLine | None) -> Tensor:
    """The value of `t`; a derivative through it to any of `sources` raises an error with `what` and `line`.

    If gradients are off or no source tracks, no derivative can be lost, and the result is `t` itself.
    """
    if not MODE.get().tracks or t.dtype.kind not in "fc":
        return t
    tracked = tuple([n for n in dict.fromkeys(sources) if n.kind.out.requires_grad])
    if not tracked:
        return t
    out = out_of(t.aval, True)
    node = rich_node(one_kind((_HISTORYLESS, what, out), _HISTORYLESS, (what,), out), (t.node, *tracked))
    node.body, node.flow, node.line = 0, slice(1, None), line
    return handle(node)


# ---------------------------------------------------------------- Python as an operation of a graph

_WORD = 8


def _packed_reference(*arrays: np.ndarray, run: Callable, avals: tuple[Aval, ...]) -> np.ndarray:
    values = [np.ascontiguousarray(v, a.dtype) for v, a in zip(run(*map(read_only, arrays)), avals, strict=True)]
    if len(values) == 1:
        return values[0].reshape(avals[0].shape)
    words = [np.zeros(_words(aval), np.int64) for aval in avals]
    for own, value in zip(words, values, strict=True):
        own.view(np.uint8)[: value.nbytes] = value.reshape(-1).view(np.uint8)
    return np.concatenate(words)


def _words(aval: Aval) -> int:
    return -(-aval.size * aval.dtype.itemsize // _WORD)


def _part_reference(words: np.ndarray, *, at: int, aval: Aval) -> np.ndarray:
    flat = np.ascontiguousarray(words)[at : at + _words(aval)].view(np.uint8)
    return flat[: aval.size * aval.dtype.itemsize].view(aval.dtype).reshape(aval.shape)


def _packed_aval(*_: Aval, run: Callable, avals: tuple[Aval, ...]) -> Aval:
    return avals[0] if len(avals) == 1 else Aval((sum(map(_words, avals)),), np.int64)


class _OfEach(NamedTuple):
    """A host call for each example in turn.  Equal objects make equal graphs.

    reference    the function for one example, and its parameters;  aval: that of its result
    mapped       for each input, True if it differs between examples
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
    """The batching rule: Python is called once for each example, inside one host call."""
    aval = op.infer(*[x.aval.with_shape(x.shape[m:]) for x, m in zip(xs, mapped, strict=True)], **params)
    assert op.reference is not None
    run = _OfEach(op.reference, tuple(params.items()), aval, size, tuple(mapped))
    return record(_HOST, xs, (run, (aval.with_shape((size, *aval.shape)),)))


#: run(*arrays) -> arrays of `avals`: Python calls it at each run of the graph (`codegen.runtime.host_steps`).
_HOST = Primitive(
    "host", infer=_packed_aval, reference=_packed_reference, params=("run", "avals"), lower=HostLowering(),
    discrete=True, heavy=True, batch=_batch, traits=("host",),
)
_PART = Primitive(
    "host_part", infer=lambda words, *, at, aval: aval, reference=_part_reference, params=("at", "aval"),
    lower=HostLowering(), discrete=True, heavy=True, batch=_batch,
)


def host_call(run: Callable, inputs: Sequence[Tensor], avals: Sequence[Aval]) -> list[Tensor]:
    """Record a call of `run(*arrays) -> arrays` of these avals.  Equal `run`s make equal graphs."""
    if not avals:
        return []
    packed = record(_HOST, tuple(inputs), (run, tuple(avals)))
    if len(avals) == 1:
        return [packed]
    starts = itertools.accumulate(map(_words, avals), initial=0)
    return [record(_PART, (packed,), (at, aval)) for at, aval in zip(starts, avals, strict=False)]
