"""The generic function that the user's program has called, for an error that is found below it."""

from __future__ import annotations

import re
import sys
from types import FrameType
from typing import TYPE_CHECKING

from ..errors import is_ours
from .resolution import types_of_call
from .warm import OMITTED

if TYPE_CHECKING:
    from .generic import GenericFunction

__all__ = ["operation_called", "public_name"]

#: The modules in which the names of this library's functions stand.
_HOMES = ("autodiff", "autodiff.linalg", "autodiff.special", "autodiff.fft", "autodiff.random")
#: The types of numbers in the types of a call: a method for one of them is seldom all that is meant.
_NUMBER = re.compile(r"\b(?<!\.)(bool|int|float|complex)\b")


def operation_called() -> tuple[GenericFunction, str] | None:
    """The outermost function of ours that is running, and the types to register a method with that takes the call."""
    frame: FrameType | None = sys._getframe(1)
    found = None
    while frame is not None and is_ours(frame.f_globals.get("__name__")):
        if frame.f_code.co_name == "call" and frame.f_globals.get("__name__") == "autodiff.dispatch.warm":
            found = frame.f_locals
        frame = frame.f_back
    if found is None or found["rest"]:
        return None
    function = found["self"]
    given = [v for name, v in found.items() if name[1:].isdecimal() and v is not OMITTED]
    return function, _NUMBER.sub("ad.Number", types_of_call(function, [*map(type, given)]))


def public_name(function: GenericFunction) -> str:
    """`ad.linalg.det`, where a function is one of the library's; else its own name."""
    for home in _HOMES:
        if getattr(sys.modules.get(home), function.__name__, None) is function:
            return f"ad{home.removeprefix('autodiff')}.{function.__name__}"
    return function.__name__
