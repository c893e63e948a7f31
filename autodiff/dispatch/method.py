"""Methods: one implementation, for arguments of certain types.

Some stand in modules that are imported when what they are for is first used.  No call can need such a method before: it
takes values of types that its own module defines.  But who lists methods wants all of them, and so does who compares
one's own with them: not the library itself.

    late("autodiff.structured")     at import: it has methods
    complete()                      now they are registered
    is_own(f)                       whether the library wrote it
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from codegen.lazily import imported

from ..tracebacks import shorten
from .declaration import place_of
from .signature import Signature

__all__ = ["RULES", "Method", "complete", "is_own", "late"]

#: The kinds of methods that are no programs but rules of one.
RULES = ("backward", "jvp")


class Method:
    """One implementation of a generic function, or one rule of it.

    function        the generic function
    implementation  what the user wrote
    signature       the types it takes; for a rule, those of the call's *inputs*
    kind            "method"    a program: differentiated by what it is made of
                    "forward"   half of a pair, takes `ctx` first
                    "backward"  "jvp"   rules
    host            whether it wants NumPy arrays and Python, each time
    out             avals of a host forward's outputs, if given
    place           `linear.py:12`
    rules           rules attached to it: they serve it and nothing else

    Calling it runs it, whatever dispatch would choose.
    """

    def __init__(
        self,
        function: Any,
        implementation: Callable,
        signature: Signature,
        kind: str,
        *,
        host: bool = False,
        out: Any = None,
        attached_to: Method | None = None,
    ) -> None:
        self.function = function
        self.implementation = implementation
        self.signature = signature
        self.kind = kind
        self.host = host
        self.out = out
        self.attached_to = attached_to
        self.place = place_of(implementation)
        self.rules: dict[str, Method] = {}
        self.__doc__ = implementation.__doc__

    def backward(self, implementation: Callable | None = None, /, *, host: bool = False) -> Any:
        """Attach the rule that pulls cotangents back through this method: `@scale.backward`."""
        return self.function._attach(self, "backward", implementation, host)

    def jvp(self, implementation: Callable | None = None, /) -> Any:
        """Attach the rule that pushes tangents forward through this method: `@scale.jvp`."""
        return self.function._attach(self, "jvp", implementation, False)

    def delete(self) -> None:
        """Take it out of its function; calls are resolved again.  Deleting twice does nothing."""
        self.function._remove(self)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Run this method.  Raises DispatchError when the arguments are not of its types."""
        try:
            return self.function._call_method(self, args, keywords)
        except Exception as error:
            shorten(error)
            raise

    @property
    def source(self) -> tuple[str, str]:
        """The file and module that it was written in."""
        written = inspect.unwrap(self.implementation)
        code = getattr(written, "__code__", None)
        return (code.co_filename if code else "", getattr(written, "__module__", None) or "")

    def heading(self) -> str:
        """`linear(input: Matrix, weight: Matrix, bias: Vector | None)`."""
        names = self.function.declaration.names
        stars = [""] * len(names)
        if self.signature.variadic:
            stars[-1] = "*"
        parts = [
            star + name if repr(choice) == "object" else f"{star}{name}: {choice}"
            for star, name, choice in zip(stars, names, self.signature.choices, strict=True)
        ]
        return f"{self.function.__name__}({', '.join(parts)})"

    def __repr__(self) -> str:
        kind = "" if self.kind == "method" else f"  {'host ' if self.host else ''}{self.kind}"
        return f"{self.heading()}{kind}  {self.place}"


# ---------------------------------------------------------------- methods that come late

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
