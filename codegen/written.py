"""Functions that are written as text by this library: the one place where text becomes a function.

    call = defined("call", "def call(x):\\n return x + y", {"y": 2})

Text is written where the shape of a call decides what is done (arguments, fields of a record, formulas of sizes), and a
loop that interprets that shape at each call was measured to cost more.  Nothing of a user's is ever in it: objects
are in the environment, under names of ours.
"""

from __future__ import annotations

from typing import Any


def defined(name: str, text: str, env: dict[str, Any]) -> Any:
    """The function of this name that the text defines.  It sees `env`, but does not stay there, which were a cycle."""
    exec(text, env)
    return env.pop(name)
