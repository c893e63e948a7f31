"""Bodies made of a body: its pullback, its pushforward, the body of many examples.  Made once, and kept.

    pulled = derived(body, ("pull", places), f, states, scanned, hidden inputs)
    pulled.body, pulled.hidden                  what a loop or branch is recorded with

A body is recorded on arguments that all track, so what its rules record depends on avals, grad mode and the purpose
alone: the derivative of a loop that is met again runs no rule of what is inside of it, at any depth.  Not so where
rules read what no key can name, evaluate, or call methods of the user's: these run each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from codegen.symbols import is_watched

from ..custom.call import CustomCall
from ..custom.keys import users_methods
from ..custom.reads import is_fixed
from ..dispatch import Choices, include, observed
from ..mode import MODE
from ..ops import reshape, where
from ..ops.batching import with_examples
from ..session import namespace
from ..tape.node import Node, data_node, new_number
from ..tape.record import state
from ..tensor import Tensor, handle
from ..transforms.batch.walk import OfAll
from .body import Body, BodyUse, again, hooked_like
from .trace import trace

__all__ = ["applied", "choose", "derived", "of_all", "where_differing"]

_RULES = ("backward", "jvp")

#: By the body and the key of what is wanted of it.
_made_of = namespace("derived body")


class _KeptBody(NamedTuple):
    """A copy that is kept.

    numbers   those that rules state, which are hidden inputs
    choices   of dispatch that it relies on
    """

    body: Body
    numbers: list[Node]
    choices: Choices


def derived(
    base: Body,
    purpose: tuple,
    f: Callable[[list[Tensor]], Sequence[Tensor]],
    states: Sequence[Tensor],
    scanned: Sequence[Tensor],
    hidden: Sequence[Tensor],
) -> BodyUse:
    """The body of f(arguments and hidden inputs), which applies `base`: made once for a purpose.

    Its hidden inputs are these, and tensors that its rules met elsewhere.

    purpose           all that f depends on beside `base` and avals
    states, scanned   arguments are like these, and like elements of those
    """
    arguments = *[t.aval for t in states], *[t.aval.with_shape(t.shape[1:]) for t in scanned]
    avals = arguments, tuple([t.aval for t in hidden])
    key = _key(base, purpose, avals)
    found = None if key is None else _made_of.get((base, key))
    if found is None:

        def values() -> list[list[Tensor]]:
            """Arguments that f may be run on once: see `trace`."""
            return [[*states, *[t[0] for t in scanned], *hidden]]

        return _made(base, key, f, avals, hidden, values if all([t.shape[0] for t in scanned]) else None)
    include(found.choices)
    return BodyUse(found.body, [*hidden, *[handle(data_node(n.kind, n.value)) for n in found.numbers]])


def _key(base: Body, purpose: tuple, avals: tuple) -> tuple | None:
    """The key of all that decides what is recorded; None where no key says it."""
    lines = state.now.lines
    if not base.is_interned_itself or is_watched() or (lines is not None and lines.is_whole):
        return None
    rules = tuple([call.recorded_key() for call in base.calls() if _is_users(call)])
    return None if None in rules else (purpose, MODE.get().tracks, avals, rules)


def _is_users(call: CustomCall) -> bool:
    """True if a rule of a call may read what a program changes."""
    rules = [rule.implementation for rule in map(call.rule, _RULES) if rule is not None]
    return not all([is_fixed(f.__module__) for f in (call.function, call.method.implementation, *rules)])


def _made(
    base: Body, key: tuple | None, f: Callable, avals: tuple, hidden: Sequence[Tensor], values: Callable | None
) -> BodyUse:
    asked, since = state.now.asked, new_number()
    with observed() as choices:
        made = trace(lambda given: list(f(given)), [*avals[0], *avals[1]], values=values, hidden=hidden)
    outside = [t.node for t in made.hidden[len(hidden) :]]
    are_numbers = all([n.number > since and not isinstance(n.value, np.ndarray) for n in outside])
    if key is not None and are_numbers and state.now.asked == asked and not users_methods(choices):
        _made_of.put((base, key), _KeptBody(made.body, outside, choices))
        choices.on_change(partial(_made_of.pop, (base, key)))
    return made


# ---------------------------------------------------------------- of many examples (`vmap`)


def applied(
    body: Body, given: Sequence[Tensor], mapped: Sequence[bool], size: int
) -> list[tuple[Tensor, bool]]:
    """Record a body of one example for all of them: each result, and whether it differs between examples."""
    stands: dict[Node, Node] = {}
    walk = OfAll(size, stands, again)
    for node, t, m in zip([*body.arguments, *body.hidden], given, mapped, strict=True):
        if m:
            walk.found[node] = walk.hooked(node, t)
        else:
            stands[node] = hooked_like(node, t.node)
    walk.go(body.order)
    return [walk.of(n) for n in body.results]


def of_all(pairs: Sequence[tuple[Tensor, bool]], size: int) -> list[Tensor]:
    """All with the examples along axis 0."""
    return list(with_examples(size, [t for t, _ in pairs], [m for _, m in pairs]))


def where_differing(pairs: Iterable[tuple[Tensor, bool]], states: Sequence[bool], size: int) -> list[Tensor]:
    """The states of a loop, those that differ at some step with the examples along axis 0."""
    return [with_examples(size, (t,), (m,))[0] if s else t for (t, m), s in zip(pairs, states, strict=False)]


def choose(chosen: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """For each example one of two results."""
    return where(reshape(chosen, (*chosen.shape, *(1,) * (yes.ndim - 1))), yes, no)
