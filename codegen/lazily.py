"""Names of a package that are imported when somebody first asks for them (PEP 562).

    __getattr__, __dir__ = lazily(globals(), {"print_dot": "text", "parse": "text"})

`from package import parse` works as ever, and so do `package.parse` and `import *`; `dir(package)` lists the public
names, those of `__all__`.  What is never asked for is never read from disk.

    loops = later("codegen.runtime.loops")

stands for a module, which is imported when something of it is first looked at: for modules that only say how something
is done, and may be imported again if that was interrupted.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

try:
    import _signal as signal  # `signal` makes enumerations of its numbers: half a millisecond
except ImportError:
    import signal

from .garbage import Paused


def lazily(
    package: dict[str, Any], homes: Mapping[str, str], hint: Callable[[str, str], str] = lambda package, name: ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package.

    package     its globals(), which then hold what was asked for
    homes       for each name the module in the package that defines it, or that it is
    hint        the end of the message about a name that is not there, by the name of the package and that
    """

    def find(name: str) -> Any:
        home, itself = homes.get(name), package["__name__"]
        if home is None:
            raise AttributeError(f"module {itself!r} has no attribute {name!r}{hint(itself, name)}")
        module = imported(f"{itself}.{home}")
        value = package[name] = module if name == home else getattr(module, name)
        return value

    return find, lambda: sorted(package.get("__all__", {*package, *homes}))


class _Later:
    """A module that may not have been imported yet."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(_uncollected(self._module), name)
        setattr(self, name, value)
        return value


def later(module: str) -> Any:
    """A stand-in for a module; names that were asked for are kept."""
    return _Later(module)


def imported(name: str) -> ModuleType:
    """A module, imported whole: Ctrl-C waits until it is.

    A module's declarations are made once, so half of one that was interrupted could not be imported again.
    Not in a thread of its own: that would wait for ever for a module whose import asks for this one.
    """
    if name in sys.modules or threading.current_thread() is not threading.main_thread():
        return _uncollected(name)
    came: list[tuple[Any, ...]] = []
    handlers = {n: h for n in sorted(signal.valid_signals(), reverse=True) if callable(h := signal.getsignal(n))}
    try:
        for number in handlers:
            signal.signal(number, lambda *what: came.append(what))
        return _uncollected(name)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, frame in came:
            handlers[number](number, frame)


def _uncollected(name: str) -> ModuleType:
    """A module, imported without a collection: a finaliser that runs amid it may ask for the half that is not there."""
    with Paused():
        return importlib.import_module(name)
