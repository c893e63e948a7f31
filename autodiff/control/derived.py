"""Bodies made of a body: its pullback, its pushforward, the body of many examples.  Made once, and kept.

    pulled = derived(body, ("pull", places), f, avals of arguments, hidden inputs)
    pulled.body, pulled.hidden                  what a loop or branch is recorded with

A body is recorded on arguments that all track, so what its rules record depends on avals, grad mode and the purpose
alone: the derivative of a loop that is met again runs no rule of what is inside of it, at any depth.  Not so where
rules read what no key can name, evaluate, or call methods of the user's: these run each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from codegen.ir import Aval
from codegen.symbols import is_watched

from ..custom.call import Call
from ..custom.reads import is_fixed
from ..custom.relied import users_methods
from ..dispatch import Choices, include, observed
from ..session import namespace
from ..tape.node import Node, data_node, new_number
from ..tape.record import grad_mode, state
from ..tensor import Tensor, handle
from .body import Body, interned
from .trace import recorded

__all__ = ["MadeBody", "derived"]

_RULES = ("backward", "jvp")

#: By the body and the key of what is wanted of it.
_made_of = namespace("derived body")


class MadeBody(NamedTuple):
    """A body made of another one, as it is used here.

    reads    numbers of the hidden inputs that were given which it reads
    hidden   its hidden inputs: these, and tensors that its rules met elsewhere
    """

    body: Body
    reads: tuple[int, ...]
    hidden: list[Tensor]


class _KeptBody(NamedTuple):
    """A copy that is kept.

    numbers   those that rules state, which are hidden inputs
    choices   of dispatch that it relies on
    """

    body: Body
    reads: tuple[int, ...]
    numbers: list[Node]
    choices: Choices


def derived(
    base: Body,
    purpose: tuple,
    f: Callable[[list[Tensor], list[Tensor]], Sequence[Tensor]],
    arguments: Sequence[Aval],
    hidden: Sequence[Tensor] = (),
    values: Callable[[], tuple[list[Tensor], list[Tensor]]] | None = None,
) -> MadeBody:
    """The body of f(arguments, hidden inputs), which applies `base`: made once for a purpose.

    purpose   all that f depends on beside `base` and avals
    values    gives arguments and hidden inputs that f may be run on once: see `trace`
    """
    avals = tuple(arguments), tuple([t.aval for t in hidden])
    key = _key(base, purpose, avals)
    found = None if key is None else _made_of.get((base, key))
    if found is None:
        return _made(base, key, f, avals, hidden, values)
    include(found.choices)
    numbers = [handle(data_node(n.kind, n.value)) for n in found.numbers]
    return MadeBody(found.body, found.reads, [*[hidden[k] for k in found.reads], *numbers])


def _key(base: Body, purpose: tuple, avals: tuple) -> tuple | None:
    """The key of all that decides what is recorded; None where no key says it."""
    lines = state.now.lines
    if not base.is_interned_itself or is_watched() or (lines is not None and lines.is_whole):
        return None
    rules = tuple([call.emission_key() for call in base.calls() if _is_users(call)])
    return None if None in rules else (purpose, grad_mode.get(), avals, rules)


def _is_users(call: Call) -> bool:
    """True if a rule of a call may read what a program changes."""
    rules = [rule.implementation for rule in map(call.rule, _RULES) if rule is not None]
    return not all([is_fixed(f.__module__) for f in (call.function, call.method.implementation, *rules)])


def _made(
    base: Body, key: tuple | None, f: Callable, avals: tuple, hidden: Sequence[Tensor], values: Callable | None
) -> MadeBody:
    asked, since = state.now.asked, new_number()
    with observed() as choices:
        made = recorded(lambda *given: list(f(*given)), tuple(map(list, avals)), values)
    count = len(avals[0])
    met = {i for n in made.order for i in n.inputs}.union(made.results)
    reads = tuple([k for k, n in enumerate(made.arguments[count:]) if n in met])
    inner = [made.arguments[count + k] for k in reads]
    outside = [t.node for t in made.hidden]
    body = interned(made.arguments[:count], [*inner, *outside], made.results, made.order)
    are_numbers = all([n.number > since and not isinstance(n.value, np.ndarray) for n in outside])
    if key is not None and are_numbers and state.now.asked == asked and not users_methods(choices):
        _made_of.put((base, key), _KeptBody(body, reads, outside, choices))
        choices.on_change(partial(_made_of.pop, (base, key)))
    return MadeBody(body, reads, [*[hidden[k] for k in reads], *made.hidden])
