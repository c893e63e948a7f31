"""Generated Python functions: this module has the library's only call of `exec`.

    call = compile_function("call", "def call(x):\\n return x + y", {"y": 2})

Text is generated where the form of a call (its arguments, the fields of a record, formulas of sizes) decides the work,
and a loop over that form at each call was measured to be slower.  The text never contains anything from the user:
the user's objects are values of the environment, under names that the library chooses.
"""

from __future__ import annotations

from typing import Any


def compile_function(name: str, text: str, env: dict[str, Any]) -> Any:
    """The function of this name that the text defines.  Its globals are `env`, without its own name (a cycle)."""
    exec(text, env)
    return env.pop(name)
