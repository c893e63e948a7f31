"""The frames of the user's program on the stack, and the lines that they have reached.

A frame is not the user's if its module belongs to this library, to one of the numeric libraries of `_LIBRARIES`, to
Python's standard library, or to an installed package of which no loaded module imports this library; nor are frames
further out than the start of a worker process.  So a user's package may be installed, and an error in a function that
SciPy or matplotlib calls names the user's line from which SciPy or matplotlib was called.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from types import CodeType, FrameType, ModuleType
from typing import Any

from codegen.records import NamedTuple

#: Packages that call the user's program, or this library, and are not the user's wherever they are installed.
_LIBRARIES = frozenset((
    "autodiff", "cloudpickle", "codegen", "jax", "joblib", "matplotlib", "mpl_toolkits", "multipledispatch", "numpy",
    "pandas", "scipy", "seaborn", "sklearn", "torch",
))  # fmt: skip
_STANDARD = os.path.dirname(os.__file__) + os.sep
_INSTALLED = re.compile(r"[\\/](?:site|dist)-packages[\\/]")
_IMPORTS_US = re.compile(rb"^[ \t]*(import|from)[ \t]+autodiff\b", re.MULTILINE)


class _Modules(dict[str | None, bool]):
    """For each module, True if its frames are not the user's.  An answer that may still change is not kept."""

    def __missing__(self, module: str | None) -> bool:
        package = (module or "").partition(".")[0]
        file = _file_of(sys.modules.get(module or ""))
        if package in _LIBRARIES:
            found = True
        elif package in sys.stdlib_module_names:  # a file of the user's may have the same name
            found = not file or file.startswith(_STANDARD)
        elif module == "__main__" or not _INSTALLED.search(file):
            found = False
        elif not _uses_us(package):
            return True  # until the package loads a module that imports this library
        else:
            found = False
        self[module] = found
        return found


def _file_of(module: Any) -> str:
    """The source file of a module; "" if there is none.  A lazy module is not loaded for this."""
    return (object.__getattribute__(module, "__dict__").get("__file__") or "") if isinstance(module, ModuleType) else ""


#: Packages without a module that imports this library, and the number of all loaded modules when that was found.
_WITHOUT_US: dict[str, int] = {}


def _uses_us(package: str) -> bool:
    """True if a loaded module of a package imports this library."""
    count = len(sys.modules)
    if _WITHOUT_US.get(package) == count:
        return False
    loaded = [m for name, m in list(sys.modules.items()) if name.partition(".")[0] == package]
    found = any([_imports_us(file) for m in loaded if (file := _file_of(m)).endswith(".py")])
    if not found:
        _WITHOUT_US[package] = count
    return found


@cache
def _imports_us(file: str) -> bool:
    try:
        with open(file, "rb") as source:
            return bool(_IMPORTS_US.search(source.read()))
    except OSError:
        return False


#: True if a frame of the module of this name is not the user's.
is_ours: Callable[[str | None], bool] = _Modules().__getitem__

_new = tuple.__new__

#: Modules that no user's program calls: the command line, and the start of a worker process.
_OUTERMOST = frozenset(("autodiff.cli.app", "multiprocessing.process"))
_NO_FURTHER = _OUTERMOST | {None}


class UserLine(NamedTuple):
    """A place in the user's program, cheap enough to keep for every custom call.

    It holds the code object and the offset in it (no frame, so no locals are kept alive); the number
    of the line is computed when the line is printed.
    """

    code: CodeType
    offset: int

    @property
    def file(self) -> str:
        """The file's full name."""
        return self.code.co_filename

    @property
    def line(self) -> int:
        """The line's number, from 1."""
        for start, end, line in self.code.co_lines():
            if start <= self.offset < end and line is not None:
                return line
        return self.code.co_firstlineno

    @property
    def column(self) -> int:
        """The column where the expression begins, from 1; 0 if it is not known."""
        if self.offset < 0:
            return 0
        *_, column, _ = next(islice(self.code.co_positions(), self.offset // 2, None), (None, None, None, None))
        return 0 if column is None else column + 1

    @property
    def function(self) -> str:
        """The name of the function around it."""
        return self.code.co_qualname.rpartition("<locals>.")[2]

    def __str__(self) -> str:
        place = f"{short_name(self.file)}:{self.line}"
        name = self.function
        return place if name == "<module>" else f"{place}, in {name}"


def user_frames(frame: FrameType | None, stop: FrameType | None = None) -> Iterator[FrameType]:
    """The frames of the user's program, from a frame outwards, up to another one."""
    while frame is not None and frame is not stop:
        name, file = frame.f_globals.get("__name__"), frame.f_code.co_filename
        if not is_ours(name) and not (name == "__main__" and "-packages" in file and _is_installed(file)):
            yield frame
        frame = None if name in _OUTERMOST else frame.f_back


def our_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """The frames that are not the user's, from a frame outwards, up to the first that is."""
    while frame is not None and is_ours(frame.f_globals.get("__name__")):
        yield frame
        frame = frame.f_back


def user_frame() -> FrameType | None:
    """The innermost frame of the user's program; None if there is none on the stack."""
    return next(user_frames(sys._getframe(1)), None)


def _is_installed(file: str) -> bool:
    """True for the main file of an installed package that is not the user's: a worker of Ray's or MPI's runs one."""
    inside = _INSTALLED.split(file)[1:]
    return bool(inside) and is_ours(re.split(r"[\\/]", inside[-1])[0]) and not _imports_us(file)


#: Packages whose frames do not show which module called this library.
_PICKLES = frozenset(("autodiff", "cloudpickle", "codegen", "copy", "copyreg", "pickle"))


def outside() -> str:
    """The module that called this library if no frame is the user's, as in a worker that sends a result back."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (name := frame.f_globals.get("__name__") or "") not in _OUTERMOST:
        if name.partition(".")[0] not in _PICKLES:
            return f"{name}, outside of your program"
        frame = frame.f_back
    return "an unknown place"


#: Packages and modules that draw, show or compare values: an array that they make of a tensor loses no gradient.
#: The list has only those modules of pytest that compare, since its other modules call all tests and doctests.
_SHOWING = re.compile(
    r"(IPython|_pytest\.(approx|assertion|python_api)|matplotlib|mpl_toolkits|numpy\.testing|seaborn)(\.|$)"
)


def is_shown() -> bool:
    """True if a value is asked for by a module that shows or compares values."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        if _SHOWING.match(name):
            return True
        if not is_ours(name):
            return False
        frame = frame.f_back
    return False


def user_line() -> UserLine | None:
    """The present line of the user's program; None if no frame on the stack is the user's."""
    frame = next(user_frames(sys._getframe(1)), None)
    return None if frame is None else UserLine(frame.f_code, frame.f_lasti)


def user_lines(stop: FrameType | None, most: int) -> tuple[UserLine, ...]:
    """The lines of the user's program up to a frame, the innermost first."""
    return tuple([UserLine(f.f_code, f.f_lasti) for f in islice(user_frames(sys._getframe(1), stop), most)])


def nearest_line(depth: int) -> UserLine | None:
    """The present line of the user's program; the search begins `depth` calls further out.

    Reading a frame makes a Python object of it, which takes longer than all the rest.
    """
    while _module_at is not None and (name := _module_at(depth)) not in _NO_FURTHER and is_ours(name):
        depth += 1
    try:
        frame: FrameType | None = sys._getframe(depth)
    except ValueError:  # a thread that runs no code of the user's
        return None
    while frame is not None and is_ours(name := frame.f_globals.get("__name__")):  # a generator takes twice as long
        frame = None if name in _OUTERMOST else frame.f_back
    return None if frame is None else _new(UserLine, (frame.f_code, frame.f_lasti))


_module_at: Callable[[int], str | None] | None = getattr(sys, "_getframemodulename", None)  # from 3.12 on


def written_at(function: Any) -> str:
    """The file and the line where a function is written; "" if they are not known."""
    code = getattr(function, "__code__", None)
    return f"{short_name(code.co_filename)}:{code.co_firstlineno}" if code else ""


def short_name(file: str) -> str:
    """A file's name without its folders, which fits in a message, and is the same on every machine."""
    return file.replace("\\", "/").rpartition("/")[2]
