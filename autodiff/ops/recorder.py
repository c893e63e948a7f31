"""Operations recorded in machine code: what Python recorded once for given operands, put down again.

Machine code is made once a recorded program has repeated.  Then operators and functions get C functions in front of
their Python bodies (`in_front`): these know what was recorded for
operands of the same kind, and leave everything else to the bodies.  What they know they learn from what a body just
recorded:

    y = body(a, b)        dispatch found a body of this library, `run`, whose choice is kept
    run.natively(...)     the steps between a, b and y
    table.learn(...)      by the Outs of a and b (or the class of a number), what is static, and grad mode

A registration on a function drops all that is known of it.  Without the launcher, or where its self-check
fails, nothing is put in front and Python records, as it does before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from codegen.forks import held_over_fork
from codegen.garbage import Paused
from codegen.lazily import later
from codegen.runtime.native import NO_ROOM

from ..custom.function import Function
from ..mode import MODE, Mode
from ..tape import leaves
from ..tape.behind import emissions
from ..tape.known import told
from ..tape.loans import FEW, LENT, Lender, prune
from ..tape.machine import use_asks
from ..tape.node import CONSTANT, LEAF, NUMBERS, Kind, Leaf, Node, Out, RichNode
from ..tape.peel import stretches
from ..tape.plan import COUNTS, Plan, commit_lock, plans
from ..tape.record import (
    ALIASES,
    ARGUMENT,
    PENDING_LIMIT,
    SMALL_LIMIT,
    WHEN_MOVED,
    Recording,
    force,
    look_at_size,
    state,
)
from ..tensor import Tensor
from .in_front import Front
from .patterns import START
from .template import NATIVE

__all__ = ["install", "install_once", "is_installed", "uninstall"]


native = later("codegen.runtime.record")



class _Installed:
    """The recorder, and what of it is in front of the Python bodies."""

    def __init__(self) -> None:
        self.recorder: Any = None
        #: Whether somebody said that it is to be in front, or is not to be.
        self.is_settled = False
        self.here: tuple[Any, int] = (None, 0)
        self.front: Front | None = None


_now = _Installed()
#: Threads attach one after the other: one with the recording of another would write into what that one frees.
_attaching = held_over_fork(threading.RLock())
_lock = held_over_fork(threading.RLock())


def is_installed() -> bool:
    """True if operations are recorded natively."""
    return _now.front is not None and bool(_now.front.replaced)


def install() -> None:
    """Put the native recorder in front of operators and functions; nothing where it does not work."""
    with Paused(), _lock:  # a finaliser would record amid it
        if _now.recorder is None:
            with suppress(*NO_ROOM):
                _now.recorder = _set_up()
        if _now.recorder is not None and not is_installed():
            try:
                _put_in_front(_now.recorder)
            except BaseException:  # an interrupt, say: not half of it
                uninstall()
                _now.is_settled = False
                raise
        _now.is_settled = True


def _put_in_front(recorder: Any) -> None:
    if _now.front is None:
        _now.front = Front(recorder, _attach)
    _now.front.put()
    _attach()
    use_asks(recorder)
    leaves.use_native(recorder)
    NATIVE.append(recorder)


def install_once() -> bool:
    """Before an ask: install it, if nobody said otherwise.  True: that is all.

    Nobody waits here: another thread that is at it may wait for what this one, or a finaliser amid it, holds.
    """
    if not _lock.acquire(blocking=False):
        return False
    try:
        if not _now.is_settled:
            install()
            stretches.clear()  # what was made meanwhile asks Python
        return True
    finally:
        _lock.release()


def uninstall() -> None:
    """Record in Python again."""
    with _lock:
        _now.is_settled = True
        if _now.front is not None:
            _now.front.take_away()
        use_asks(None)
        leaves.use_native(None)
        NATIVE.clear()


def _set_up() -> Any:
    return native.set_up(native.Layout(
        handle=Tensor, node=Node, rich=RichNode, kind=Kind, out=Out, leaf=Leaf, recording=Recording, mode_type=Mode,
        function=Function,
        counter=NUMBERS, mode=MODE,
        note_small=Recording.note_small, note_updated=Recording.note_updated, look_at=look_at_size, force=force,
        reads=_reads(), plan=Plan, start_kind=START, counts=COUNTS, plans=plans,
        emissions=emissions, lock=commit_lock, operations=(LEAF, CONSTANT), told=told,
        aliases=tuple(ALIASES), argument=ARGUMENT,
        limits=(PENDING_LIMIT, SMALL_LIMIT, FEW), lender=Lender, lent=LENT, prune=prune,
    ))  # fmt: skip


def _reads() -> dict[str, Callable[..., Any]]:
    """The Python functions of the reads of handles."""
    python, grad = vars(Tensor), vars(Tensor)["grad"]

    def set_grad(t: Tensor, *value: Any) -> None:
        grad.__set__(t, *value) if value else grad.__delete__(t)

    names = {"numpy": "numpy", "array": "__array__", "item": "item", "float": "__float__", "bool": "__bool__"}
    return {name: python[word] for name, word in names.items()} | {"get_grad": grad.__get__, "set_grad": set_grad}


# ---------------------------------------------------------------- where this thread records


def _attach() -> None:
    """Record natively where this thread records now."""
    here = (state.now, threading.get_ident())
    if _now.here != here:
        with _attaching:
            _now.here = here
            _now.recorder.attach(here[0])


def _moved() -> None:
    if _now.recorder is not None:
        with _attaching:
            _now.here = (None, 0)
            _now.recorder.detach()


WHEN_MOVED.append(_moved)
