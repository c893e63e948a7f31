"""Programs of rules that a key finds: of custom calls, and of operations that look at how a cotangent was recorded.

The rule of any other operation is decided by its kind (`rule_programs`).  A user's rule may read anything: a key says
what it reads, the numbers of the call and values that it has by name (`Call.recorded_key`).  The rule of |x| looks at
its cotangent: a key says what it sees (`ops.cancelling.seen_by`).  Where there is a key, the rule runs twice, and then
what it recorded is put down again

    tensors = again(programs, key, given, run)        # run() runs the rule, given these nodes

until a method is registered that it relies on.  A rule that asks for a value, or reads what no key says, always runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..custom.keys import users_methods
from ..dispatch import observed
from ..mode import MODE
from ..session import namespace
from ..tape.node import CONSTANT, Node, new_number
from ..tape.record import state
from ..tensor import Tensor, handle
from .rule_programs import RuleProgram, RulePrograms

__all__ = ["again"]

#: By key: True for a rule that ran once, False for one that runs each time, or its program.
_rules = namespace("rule")


def again(
    programs: RulePrograms | None, key: Any, given: Sequence[Node], run: Callable[[], Sequence[Tensor | None]]
) -> Sequence[Tensor | None]:
    """run(), or what it recorded the last time behind such nodes.

    key      all that decides what it records, beside the given nodes and grad mode; None: no key says it
    given    the nodes that the rule gets
    """
    now = state.now
    if programs is None or key is None or now.lines is not None or now.captures is not None:
        return run()
    places: dict[Node, int] = {}
    wires = tuple([places.setdefault(n, len(places)) for n in given])
    nodes = list(places)
    told = tuple([n.kind if n.kind.op is CONSTANT else n.kind.out for n in nodes])
    key = (key, wires, told, MODE.get().tracks, now.tracing > 0)
    known = _rules.get(key)
    if type(known) is RuleProgram:
        return [None if n is None else handle(n) for n in programs.put(known, nodes)]
    if known is None:
        _rules.put(key, True)
    return _learnt(key, places, run) if known else run()


def _learnt(
    key: Any, places: dict[Node, int], run: Callable[[], Sequence[Tensor | None]]
) -> Sequence[Tensor | None]:
    """Run a rule, and keep what it records, if that can be put down again."""
    asked, start = state.now.asked, new_number()
    program = RuleProgram(0, ())
    with observed() as choices:
        found = run()
    is_decided = state.now.asked == asked and not users_methods(choices)
    if is_decided and program.learn(found, places, len(places), start, choices, is_users=True):
        choices.on_change(lambda: _rules.pop(key))
        _rules.put(key, program, len(places))
    else:
        _rules.put(key, False)
    return found
