"""Methods in modules that are imported when what they are for is first used.

No call can need such a method before: it takes values of types that its own module defines.  But who lists
methods wants all of them, and so does who compares one's own with them: not the library itself.

    late("autodiff.structured")     at import: it has methods
    complete()                      now they are registered
    is_own(f)                       whether the library wrote it
"""

from __future__ import annotations

from typing import Any

from codegen.lazily import imported

__all__ = ["complete", "is_own", "late"]

_LIBRARY = __name__.partition(".")[0] + "."

_modules: list[str] = []


def late(module: str) -> None:
    """A module registers methods when it is imported, which may be later."""
    _modules.append(module)


def complete() -> None:
    """Import what was announced."""
    while _modules:
        name = _modules[0]
        imported(name)
        _modules[:] = [module for module in _modules if module != name]


def is_own(thing: Any) -> bool:
    """True if a function or class is written in the library itself."""
    return (getattr(thing, "__module__", None) or "").startswith(_LIBRARY)
