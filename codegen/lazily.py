"""Names of a package that are imported when somebody first asks for them (PEP 562).

    __getattr__, __dir__ = lazily(globals(), {"print_dot": "dot", "parse": "text"})

`from package import parse` works as ever, and so do `package.parse`, `dir(package)` and `import *`; what
is never asked for is never read from disk.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["lazily"]


def lazily(package: dict[str, Any], homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package.

    package     its globals(), which then hold what was asked for
    homes       for each name the module in the package that defines it, or that it is
    """

    def find(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        module = importlib.import_module(f".{home}", package["__name__"])
        value = package[name] = module if name == home else getattr(module, name)
        return value

    return find, lambda: sorted({*package, *homes})
