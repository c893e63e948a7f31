"""Values that nobody sees: of a function of `jit` that runs as it is recorded, where a trace would have none (`once`).

Whatever looks at one, or does what is done in another way in a trace, leaves the function: it is traced then.
"""

from __future__ import annotations

import math
from typing import NoReturn

from .record import Recording, state

__all__ = ["Seen", "is_tracing", "see"]


class Seen(BaseException):
    """A function that runs as it is recorded has to be traced."""


def is_tracing() -> bool:
    """True in a trace, for what is done in another way there."""
    now = state.now
    if now.unseen:
        see(now)
    return now.tracing > 0


def see(now: Recording) -> NoReturn:
    """Leave the function that runs; it may catch this, so that it is noted as well."""
    now.unseen = math.inf
    raise Seen
