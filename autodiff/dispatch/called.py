"""The function that the user's program has called, for an error that is found below it."""

from __future__ import annotations

import sys
from inspect import unwrap
from types import FrameType
from typing import Any

from ..frames import is_ours

__all__ = ["brackets", "called", "is_below", "public_name"]

#: The modules in which the names of this library's functions stand.
_HOMES = ("autodiff", "autodiff.linalg", "autodiff.special", "autodiff.fft", "autodiff.random")
_ARRAYS = "arrays stand in a list"
#: Parameters that are a tuple or a list, and how a message says so.
_LISTS = {
    **dict.fromkeys(("shape", "s"), "a shape of several numbers is a tuple"),
    **dict.fromkeys(("axes", "axis"), "several axes are a tuple"),
    **dict.fromkeys(("arrays", "tensors"), _ARRAYS),
    "repetitions": "several repetitions are a tuple",
    "data": "several numbers are one array in a list or tuple",
}


def called() -> tuple[Any, tuple, dict[str, Any]] | None:
    """The outermost function of ours that is running, with its arguments by position and by name.

    None below `brackets`, which calls it again.
    """
    frame: FrameType | None = sys._getframe(2)
    found = None
    while frame is not None and is_ours(home := frame.f_globals.get("__name__", "")):
        code, local = frame.f_code, frame.f_locals
        if code is brackets.__code__:
            return None
        match home, code.co_name:
            case "autodiff.dispatch.generic", "__call__":
                given = [local[name] for name in "abc" if local[name] is not frame.f_globals["OMITTED"]]
                found = local["self"], (*given, *local["rest"]), local["keywords"]
            case "autodiff.ops.template", "run" if local["tensors"] == 0:  # a body without tensors
                found = local["body"], local["args"], local["keywords"]
            case ("autodiff.ops.creation", "full") | ("autodiff.api", "tensor"):
                function = vars(sys.modules[home])[code.co_name]
                given = [local[name] for name in code.co_varnames[: code.co_argcount]]
                defaults = [*function.__defaults__]
                while defaults and given[-1] is defaults.pop():
                    given.pop()
                found = function, tuple(given), {}
        frame = frame.f_back
    return found


def is_below(*modules: str) -> bool:
    """True if one of these modules of ours is running, between here and the user's program."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_ours(home := frame.f_globals.get("__name__", "")):
        if home in modules:
            return True
        frame = frame.f_back
    return False


def brackets() -> str:
    """The line of a message for a call that gives the elements of a list one by one; "" for any other call.

    A call with brackets around numbers is made, and offered only if it is taken.
    """
    function, given, keywords = called() or (None, (), {})
    if function is None or not is_ours(function.__module__):
        return ""
    declared = getattr(function, "declaration", None)
    if declared is not None:
        names, defaults = declared.fixed, declared.defaults
    else:
        names, defaults = function.__code__.co_varnames[: function.__code__.co_argcount], function.__defaults__ or ()
    place = next((i for i, name in enumerate(names) if name in _LISTS), len(names))
    needed = max(len(names) - len(defaults) - place - 1, 0)  # parameters behind the list that have no default
    is_element = _is_array if place < len(names) and _LISTS[names[place]] == _ARRAYS else _is_number
    end = place
    while end < len(given) - needed and is_element(given[end]):
        end += 1
    if end < place + 2:
        return ""
    row, rest = given[place:end], given[end:]
    inner = f"[{', '.join('abcdefghij'[: len(row)])}]"
    if is_element is _is_number:
        inner = str(row)
        try:
            function(*given[:place], row, *rest, **keywords)
        except Exception:
            return ""
    told = [*names[:place], inner, *map(repr, rest), *[f"{name}={x!r:.20}" for name, x in keywords.items()]]
    return f"\n  {_LISTS[names[place]]}: {public_name(function)}({', '.join(told)})"


def _is_number(x: Any) -> bool:
    return hasattr(x, "__index__") and not isinstance(x, bool) and not hasattr(x, "shape")


def _is_array(x: Any) -> bool:
    return hasattr(x, "shape") or isinstance(x, list)


def public_name(function: Any) -> str:
    """`ad.linalg.det`, where a function is one of the library's; else its own name."""
    for home in _HOMES:
        named = getattr(sys.modules.get(home), function.__name__, None)
        if named is not None and unwrap(named) is unwrap(function):
            return f"ad{home.removeprefix('autodiff')}.{function.__name__}"
    return function.__name__
