"""Operations recorded in machine code: what Python recorded once for given operands, put down again.

Machine code is made once that pays (`tape.machine`).  Then operators, functions, methods and reads get C functions in
front of their Python bodies, each with a table (`codegen.runtime.record`): these know what was recorded for operands
of the same kind, and leave everything else to the bodies.  What they know they learn from what a body just recorded:

    y = body(a, b)        dispatch found a body of this library, `run`, whose choice is kept
    run.natively(...)     the steps between a, b and y
    table.learn(...)      by the Outs of a and b (or the class of a number), what is static, and grad mode

Operands of new shapes are not worth learning until they come again.  Where the body records one node of tensors (an
elementwise operation, a product of matrices, a slice), Python then gives its kind alone (`Learner.kind`).

A registration on a function drops all that is known of it.  Without the launcher, or where its self-check
fails, nothing is put in front and Python records, as it does before.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import numpy as np

from codegen.forks import held_over_fork
from codegen.garbage import Paused
from codegen.lazily import later
from codegen.runtime.native import NO_ROOM
from codegen.runtime.record_table import RecordTable, forget_all

from ..custom.function import Function
from ..dispatch.reliance import functions
from ..mode import MODE, Mode
from ..session import at_reset, plans
from ..tape.cut import segments
from ..tape.loans import FEW, held
from ..tape.machine import use_asks
from ..tape.node import CONSTANT, LEAF, NUMBERS, Kind, Leaf, Node, Out, RichNode
from ..tape.plan import COUNTS, Plan, commit_lock
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
from ..tape.segment import Segment
from ..tensor import AbstractTensor, Tensor
from ..tracebacks import border
from .arithmetic import accumulated
from .indexing import getitem, index_update
from .learner import ALL, Learner, SubscriptLearner
from .operators import BINARY, COMPARISONS, METHODS, PREFIX
from .slicing import START
from .template import WHEN_DECLARED

native = later("codegen.runtime.record")


_CALLED_IN_PYTHON = vars(Function)["__call__"]
#: A class, a name of it, and what stands there.
Place = tuple[type, str, Any]


class Front:
    """The C functions in front of Python, and the Python ones that they replaced.

    attach    attach(): the recorder records where this thread does
    """

    def __init__(self, recorder: Any, attach: Callable[[], None]) -> None:
        self.recorder, self.attach = recorder, attach
        self.replaced: list[Place] = []
        #: The learner of a site, and the function that is called where the site knows nothing.
        self._learner = functools.partial(Learner, attach)
        recorder.begin_sites()  # an interrupt may have ended this before
        reads = [(Tensor, name, made) for name, made in recorder.reads(Tensor).items()]
        self._made = [*self._operators(), *self._methods(), *self._subscripts(), *reads]

    def put(self) -> None:
        """Put all of it in front of Python."""
        for function in functions():
            self.give_site(function)
        for cls, name, made in self._made:
            self.replaced.append((cls, name, vars(cls)[name]))
            setattr(cls, name, made)

    def take_away(self) -> None:
        """Python has its own again."""
        while self.replaced:
            cls, name, old = self.replaced.pop()
            setattr(cls, name, old)

    def _table(self, function: Function) -> RecordTable:
        if function.learned is None:
            function.learned = RecordTable(self.recorder.place_for)
        return function.learned

    def _operators(self) -> Iterator[Place]:
        recorder = self.recorder
        for word, function in BINARY.items():
            sort, wanted = ("power", None) if word == "pow" else ("binary", ALL)
            name, mirrored, update = f"__{word}__", f"__r{word}__", f"__i{word}__"
            learner = self._learner(function, self._table(function), _either(name, mirrored), wanted)
            address = recorder.site(sort, learner.table, learner.slow, learner.unknown)
            yield from _slots(AbstractTensor, (name, mirrored), address)
            if word != "pow":
                python = vars(Tensor)[update]
                yield from _slots(Tensor, (update,), recorder.site("in_place", None, python, python.rebound))
        for word, function in (COMPARISONS | PREFIX).items():
            name, sort = f"__{word}__", "compare" if word in COMPARISONS else "unary"
            learner = self._learner(function, self._table(function), vars(AbstractTensor)[name])
            address = recorder.site(sort, learner.table, learner.slow, learner.unknown)
            yield from _slots(AbstractTensor, (name,), address)
        address = recorder.site("called", None, _CALLED_IN_PYTHON, _CALLED_IN_PYTHON)
        yield Function, "__call__", native.wrapper(Function, vars(type)["__call__"], "__call__", address)

    def give_site(self, function: Any) -> None:
        """A site for a function, if it has something to learn."""
        if not isinstance(function, Function) or not _learns(function) or hasattr(function, "site"):
            return
        if function.declaration.variadic is None:
            wanted, python = _wanted(function), border(functools.partial(_CALLED_IN_PYTHON, function))
            learner = self._learner(function, self._table(function), python, wanted)
            function.site = self.recorder.function_site(learner.table, learner.slow, learner.unknown, wanted)

    def _methods(self) -> Iterator[Place]:
        """Methods that call functions which have something to learn."""
        for name, (function, canonical) in METHODS.items():
            if not isinstance(function, Function) or not _learns(function):
                continue
            table, wanted = self._table(function), _wanted(function)
            if canonical is not None:  # the function itself does not take such arguments
                table = table.dependent_table()
            learner = self._learner(function, table, vars(AbstractTensor)[name], wanted, canonical)
            made = self.recorder.method(table, learner.slow, learner.unknown, wanted, AbstractTensor, name)
            if made:
                yield AbstractTensor, name, made

    def _subscripts(self) -> Iterator[Place]:
        """`x[key]` and `x[key] = value`.  Of Python's classes one has a slot wrapper of mappings alone."""
        for sort, cls, name, function, example in (
            ("subscript", AbstractTensor, "__getitem__", getitem, MappingProxyType),
            ("assign", Tensor, "__setitem__", index_update, dict),
        ):
            table, run = self._table(function), vars(cls)[name]
            learner = SubscriptLearner(self.attach, function, table, run, self.recorder.key_words)
            address = self.recorder.site(sort, table, learner.slow, learner.unknown)
            yield cls, name, native.wrapper(cls, vars(example)[name], name, address)


at_reset(forget_all)  # what operations record for operands of known kinds


def _slots(cls: type, names: Sequence[str], address: int) -> list[Place]:
    """The slots of operators with a C function in them; none where there is none.

    An operator of Python's or NumPy's own is the example, whose slot says of which kind it is.
    """
    examples = [(name, vars(int).get(name) or vars(np.ndarray)[name]) for name in names]
    return [(cls, name, native.wrapper(cls, example, name, address)) for name, example in examples if address]


def _either(name: str, mirrored: str) -> Callable[[Any, Any], Any]:
    """The operator of the left operand if it is ours, else the mirrored one of the right operand."""
    forward, reflected = AbstractTensor.__dict__[name], AbstractTensor.__dict__[mirrored]

    @border
    def operator(left, right):
        return forward(left, right) if isinstance(left, AbstractTensor) else reflected(right, left)

    return operator


def _wanted(function: Function) -> int:
    """The arguments of a function that are operands."""
    return getattr(getattr(function, "__wrapped__", None), "tensors", ALL)


def _learns(function: Function) -> bool:
    """True if a function of the library records operations that can be put down again."""
    return hasattr(getattr(function, "__wrapped__", None), "natively")


# ---------------------------------------------------------------- installing it


class _Installed:
    """The recorder, and what of it is in front of the Python bodies."""

    def __init__(self) -> None:
        self.recorder: Any = None
        #: True if somebody said that it is to be in front, or is not to be.
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
    WHEN_DECLARED.append(_now.front.give_site)  # files of functions are imported late, too


def install_once() -> bool:
    """Install it, if nobody said otherwise.  True: that is all.

    Nobody waits here: another thread that is at it may wait for what this one, or a finaliser amid it, holds.
    """
    if not _lock.acquire(blocking=False):
        return False
    try:
        if not _now.is_settled:
            install()
            segments.clear()  # what was made meanwhile asks Python
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
        WHEN_DECLARED.clear()


def _set_up() -> Any:
    python = vars(Tensor)
    classes = {
        "plain": Node, "rich": RichNode, "handle": Tensor, "kind": Kind, "out": Out, "leaf": Leaf, "plan": Plan,
        "recording": Recording, "mode": Mode, "function": Function, "segment": Segment,
    }  # fmt: skip
    objects = {
        "counter": NUMBERS, "mode": MODE, "note_small": Recording.note_small, "note_updated": Recording.note_updated,
        "look_at": look_at_size, "force": force, "start_kind": START, "counts": COUNTS, "plans": plans,
        "lock": commit_lock, "leaf_op": LEAF, "constant_op": CONSTANT, "argument_op": ARGUMENT,
        "aliases": tuple(ALIASES), "pending_limit": PENDING_LIMIT, "first_limit": SMALL_LIMIT,
        "few": FEW, "held": held, "python_numpy": python["numpy"], "python_array": python["__array__"],
        "python_item": python["item"], "python_float": python["__float__"], "python_bool": python["__bool__"],
        "python_set_grad": python["grad"].fset, "accumulated": accumulated,
    }  # fmt: skip
    return native.set_up(native.RecordLayout(classes, objects))


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
