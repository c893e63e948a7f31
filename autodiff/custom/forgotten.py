"""A method or rule whose author forgot the `return`."""

from __future__ import annotations

import dis
import inspect
import re
from linecache import getline
from typing import Any

from ..errors import GradientError

__all__ = ["refuse_forgotten"]


def refuse_forgotten(method: Any, where: str, mend: str) -> None:
    """Raise GradientError for a method or rule that gave None because its code ends without a `return`.

    Who writes `return None` means it; Python itself cannot tell the two apart, so the code is looked at.
    """
    if method is not None and _ends_without_return(method.implementation):
        raise GradientError(f"{where} returned nothing: its code can end without `return`\n  {mend}")


#: A line of a program that says `return None`.
_RETURN_NONE = re.compile(r"\breturn\s*(None\s*)?([;#]|$)")


#: The instructions with which the running version of Python ends a function that has no `return`.
_END = [(i.opname, i.argval) for i in dis.get_instructions(lambda: None)][1:]


def _ends_without_return(function: Any) -> bool:
    """True of a function that can come to its end, and says `return None` nowhere, as far as its source is known."""
    code = getattr(inspect.unwrap(getattr(function, "func", function)), "__code__", None)
    if code is None or code.co_name == "<lambda>":
        return False
    steps = [(i.opname, i.argval) for i in dis.get_instructions(code)]
    ends = [steps[k : k + len(_END)] == _END for k in range(len(steps))]
    lines = {line for *_, line in code.co_lines() if line is not None}
    return any(ends) and not any([_RETURN_NONE.search(getline(code.co_filename, n).rstrip()) for n in lines])
