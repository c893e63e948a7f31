"""The native recorder: machine code that records again the nodes that a Python body recorded before.

The machine code is built once it pays (`tape.machine`).  Then operators, functions, methods and reads get C functions
in front of their Python bodies, each with a table (`codegen.runtime.record`).  A C function records the nodes that the
table has for operands of the same kind, and calls the Python body for all others.  A table learns from a body's call:

    y = body(a, b)           dispatch chose a body of this library, `run`; the template relies on this choice
    run.call_program(...)    the program: the steps that were recorded between a, b and y
    table.learn(...)         the key: the Outs of a and b (or the class of a number), the static arguments, grad mode

Operands of new shapes are not learned until they come a second time.  If the body records one node on tensors (an
elementwise operation, a product of matrices, a slice), Python then gives the node's kind alone (`Learner.kind`).

Registering a method on a function clears its table.  Without the launcher, or if the launcher's self-check fails,
no C function is put in front, and the Python bodies record.
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
from ..tape.machine import use_asks
from ..tape.node import CONSTANT, LEAF, NUMBERS, Kind, Leaf, Node, Out, RichNode
from ..tape.plan import COUNTS, Plan, commit_lock
from ..tape.record import (
    ALIASES,
    ARGUMENT,
    ON_SWITCH,
    PENDING_LIMIT,
    SMALL_LIMIT,
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
#: A class, the name of an attribute, and the attribute's value.
Place = tuple[type, str, Any]


class Front:
    """The C functions in front of Python, and the Python ones that they replaced.

    attach    attach(): make the recorder append to the recording of this thread
    """

    def __init__(self, recorder: Any, attach: Callable[[], None]) -> None:
        self.recorder, self.attach = recorder, attach
        self.replaced: list[Place] = []
        #: Makes the learner of a site, which has the function to call if the site's table has no answer.
        self._learner = functools.partial(Learner, attach)
        recorder.begin_sites()  # an interrupt may have ended an earlier attempt halfway
        reads = [(Tensor, name, made) for name, made in recorder.reads(Tensor).items()]
        self._made = [*self._operators(), *self._methods(), *self._subscripts(), *reads]

    def install(self) -> None:
        """Put the C functions in front of the Python ones."""
        for function in functions():
            self.give_site(function)
        for cls, name, made in self._made:
            self.replaced.append((cls, name, vars(cls)[name]))
            setattr(cls, name, made)

    def remove(self) -> None:
        """Restore the Python functions."""
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
            learner = self._learner(function, self._table(function), _forward_or_mirrored(name, mirrored), wanted)
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
        """Give a function a site, if its calls can be learned."""
        if not isinstance(function, Function) or not _learns(function) or hasattr(function, "site"):
            return
        if function.declaration.variadic is None:
            wanted, python = _wanted(function), border(functools.partial(_CALLED_IN_PYTHON, function))
            learner = self._learner(function, self._table(function), python, wanted)
            function.site = self.recorder.function_site(learner.table, learner.slow, learner.unknown, wanted)

    def _methods(self) -> Iterator[Place]:
        """The C methods for those methods whose function can be learned."""
        for name, (function, canonical) in METHODS.items():
            if not isinstance(function, Function) or not _learns(function):
                continue
            table, wanted = self._table(function), _wanted(function)
            if canonical is not None:  # the function takes other arguments than the method: dependent_table table
                table = table.dependent_table()
            learner = self._learner(function, table, vars(AbstractTensor)[name], wanted, canonical)
            made = self.recorder.method(table, learner.slow, learner.unknown, wanted, AbstractTensor, name)
            if made:
                yield AbstractTensor, name, made

    def _subscripts(self) -> Iterator[Place]:
        """`x[key]` and `x[key] = value`.  The example classes have slot wrappers of mappings, not of sequences."""
        for sort, cls, name, function, example in (
            ("subscript", AbstractTensor, "__getitem__", getitem, MappingProxyType),
            ("assign", Tensor, "__setitem__", index_update, dict),
        ):
            table, run = self._table(function), vars(cls)[name]
            learner = SubscriptLearner(self.attach, function, table, run, self.recorder.key_words)
            address = self.recorder.site(sort, table, learner.slow, learner.unknown)
            yield cls, name, native.wrapper(cls, vars(example)[name], name, address)


at_reset(forget_all)  # a session's reset clears all tables


def _slots(cls: type, names: Sequence[str], address: int) -> list[Place]:
    """Operators that call the C function at an address; none if the address is 0.

    An operator of Python's int or NumPy's array serves as the example, which says what kind of slot is needed.
    """
    examples = [(name, vars(int).get(name) or vars(np.ndarray)[name]) for name in names]
    return [(cls, name, native.wrapper(cls, example, name, address)) for name, example in examples if address]


def _forward_or_mirrored(name: str, mirrored: str) -> Callable[[Any, Any], Any]:
    """A function of two operands: the operator of a left tensor, else the mirrored operator of the right one."""
    forward, reflected = AbstractTensor.__dict__[name], AbstractTensor.__dict__[mirrored]

    @border
    def operator(left, right):
        return forward(left, right) if isinstance(left, AbstractTensor) else reflected(right, left)

    return operator


def _wanted(function: Function) -> int:
    """The number of leading arguments that are operands, or one of the codes `ALL`, `ITEMS`, `NONE`."""
    return getattr(getattr(function, "__wrapped__", None), "tensors", ALL)


def _learns(function: Function) -> bool:
    """True if a function belongs to the library and its calls can be recorded again from a program."""
    return hasattr(getattr(function, "__wrapped__", None), "call_program")


# ---------------------------------------------------------------- installing the recorder


class _Installed:
    """The state of the native recorder in this process."""

    def __init__(self) -> None:
        self.recorder: Any = None
        #: True once `install` or `uninstall` was called: `install_once` then does nothing.
        self.is_settled = False
        self.here: tuple[Any, int] = (None, 0)
        self.front: Front | None = None


_installed = _Installed()
#: Held while a thread attaches: a thread attached to another's recording would write into memory that is freed.
_attaching = held_over_fork(threading.RLock())
_lock = held_over_fork(threading.RLock())


def is_installed() -> bool:
    """True if operations are recorded natively."""
    return _installed.front is not None and bool(_installed.front.replaced)


def install() -> None:
    """Put the native recorder in front of operators and functions; do nothing if it cannot be set up."""
    with Paused(), _lock:  # a finaliser could record while the functions are exchanged
        if _installed.recorder is None:
            with suppress(*NO_ROOM):
                _installed.recorder = _set_up()
        if _installed.recorder is not None and not is_installed():
            try:
                _put_in_front(_installed.recorder)
            except BaseException:  # an interrupt, for example: do not leave half of them in front
                uninstall()
                _installed.is_settled = False
                raise
        _installed.is_settled = True


def _put_in_front(recorder: Any) -> None:
    if _installed.front is None:
        _installed.front = Front(recorder, _attach)
    _installed.front.install()
    _attach()
    use_asks(recorder)
    WHEN_DECLARED.append(_installed.front.give_site)  # some files of functions are imported later


def install_once() -> bool:
    """Install the recorder unless `install` or `uninstall` was called.  False: another thread is busy; call again.

    This never waits for the lock: the thread that holds it may wait for a lock of this thread or its finalisers.
    """
    if not _lock.acquire(blocking=False):
        return False
    try:
        if not _installed.is_settled:
            install()
            segments.clear()  # segments made until now call Python
        return True
    finally:
        _lock.release()


def uninstall() -> None:
    """Record in Python again."""
    with _lock:
        _installed.is_settled = True
        if _installed.front is not None:
            _installed.front.remove()
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
        "python_numpy": python["numpy"], "python_array": python["__array__"],
        "python_item": python["item"], "python_float": python["__float__"], "python_bool": python["__bool__"],
        "accumulated": accumulated,
    }  # fmt: skip
    return native.set_up(native.RecordLayout(classes, objects))


# ---------------------------------------------------------------- the recording of this thread


def _attach() -> None:
    """Make the native recorder append to this thread's current recording."""
    here = (state.now, threading.get_ident())
    if _installed.here != here:
        with _attaching:
            _installed.here = here
            _installed.recorder.attach(here[0])


def _moved() -> None:
    if _installed.recorder is not None:
        with _attaching:
            _installed.here = (None, 0)
            _installed.recorder.detach()


ON_SWITCH.append(_moved)
