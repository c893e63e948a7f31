"""Locals on the ways through a function: none is used before it has a value, and no borrowed one when it is stale.

Python code may let the owner of a borrowed object go, so a borrowed local is stale after it.  The blocks of a function
and the ways between them are followed until nothing changes: in front of each block stand the locals that have a value
on every way to it, and those that are stale on one of them, with the line that made them so.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

__all__ = ["refuse_wrong_uses"]

#: For each local that has a value: 0, or the line since which it is stale.
_State = dict[str, int]


def refuse_wrong_uses(
    happenings: Mapping[str, Sequence[tuple[str, Any]]],
    ways: Mapping[str, Sequence[str]],
    borrowed: Set[str],
    refuse: Callable[[ast.AST, str], Exception],
) -> None:
    """Raise what `refuse` makes for the first wrong use.

    happenings   by block, in order: ("set", name), ("use", the node of a name), ("python", the line that runs it)
    ways         the blocks that may follow a block
    """
    before: dict[str, _State] = {".entry": {}}
    changed = [".entry"]
    while changed:
        block = changed.pop()
        after = _through(happenings[block], dict(before[block]), borrowed)
        for following in ways[block]:
            old = before.get(following, after)
            met = {name: line or after[name] for name, line in old.items() if name in after}
            if following not in before or met != old:
                before[following] = met
                changed.append(following)
    for block, state in before.items():
        _through(happenings[block], dict(state), borrowed, refuse)


def _through(
    happenings: Sequence[tuple[str, Any]],
    state: _State,
    borrowed: Set[str],
    refuse: Callable[[ast.AST, str], Exception] | None = None,
) -> _State:
    """The state behind a block."""
    for what, about in happenings:
        if what == "set":
            state[about] = 0
        elif what == "python":
            state.update({name: about for name in borrowed if state.get(name) == 0})
        elif refuse and about.id not in state:
            raise refuse(about, f"{about.id} has no value on every way to here")
        elif refuse and (line := state[about.id]):
            raise refuse(about, f"{about.id} is borrowed, and line {line} may run Python code: hold it in a local")
    return state
