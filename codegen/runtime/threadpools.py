"""The threads of this library in `threadpoolctl`, which lists and limits those of all libraries in a process.

    with threadpoolctl.threadpool_limits(1): ...    # our loops run on one thread, too

`threadpoolctl` finds a library by a shared file that the process has loaded.  Our code is in none, so we answer for
NumPy's, which is always loaded.  Nothing is imported: the controller is registered when somebody imports
`threadpoolctl`, before or after us.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from . import threads

__all__ = ["announce"]

_NAME = "threadpoolctl"


def announce() -> None:
    """Register with `threadpoolctl`: now where it is imported, else as soon as it is."""
    module = sys.modules.get(_NAME)
    if module is None:
        sys.meta_path.insert(0, _PoolWatch())
    else:
        _register(module)


class _PoolWatch:
    """A finder of modules that finds `threadpoolctl` once, and has our controller registered after its import."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != _NAME:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _register(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # once it has run
        return spec


def _register(threadpoolctl: Any) -> None:
    """Add our controller.  Versions before 3.2 know no others than their own."""
    if not hasattr(threadpoolctl, "register"):
        return

    class AutodiffController(threadpoolctl.LibController):
        """The threads that share large loops."""

        user_api = internal_api = "autodiff"
        filename_prefixes = ("_multiarray_umath",)

        def set_additional_attributes(self) -> None:
            self.prefix, self.filepath = "autodiff", __file__

        def get_num_threads(self) -> int:
            return threads.threads()

        def set_num_threads(self, num_threads: int) -> None:
            threads.limit_threads(num_threads)

        def get_version(self) -> None:
            """None: the version is that of `autodiff`."""

    threadpoolctl.register(AutodiffController)
