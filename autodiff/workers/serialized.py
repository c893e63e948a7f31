"""Functions and keys as bytes, made once for all tasks."""

from __future__ import annotations

import importlib
import pickle
from typing import Any

from ..errors import DispatchError, Error, located

__all__ = ["Sent", "sent"]


class Sent:
    """A value on its way to a worker: bytes for another process, the value itself for a thread of this one."""

    __slots__ = ("data", "value")

    def __init__(self, value: Any, data: bytes | None) -> None:
        self.value = value
        self.data = data

    def __reduce__(self) -> tuple:
        return _arrived, (self.data,)

    def get(self) -> Any:
        """The value.  In another process this may raise whatever importing the user's module raises."""
        return self.value if self.data is None else pickle.loads(self.data)


def _arrived(data: bytes) -> Sent:
    return Sent(None, data)


def sent(value: Any, what: str, by_value: bool) -> Sent:
    """The value for the workers.  Raises DispatchError, with the reason, for a value that no pickle takes.

    what       the name of the value in messages
    by_value   False: the worker is a thread of this process
    """
    if not by_value:
        return Sent(value, None)
    try:
        cloudpickle: Any = importlib.import_module("cloudpickle")
    except ImportError:
        cloudpickle = None
    reason: BaseException | None = None
    for dumps in filter(None, [cloudpickle and cloudpickle.dumps, pickle.dumps]):
        try:
            return Sent(None, dumps(value))
        except Error as error:  # a tensor with a history says itself what to do
            error.add_note(f"  while {what} was pickled for the workers")
            raise
        except Exception as error:
            reason = reason or error
    advice = "leave out what cannot be pickled: open files, locks, generators; load them in `load`"
    if cloudpickle is None:
        advice = "give it a def at the top of a file that the workers can import, or install cloudpickle"
    raise DispatchError(located(f"sum_over: {what} cannot be sent to another process: {reason}", advice)) from reason
