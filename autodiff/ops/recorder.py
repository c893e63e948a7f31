"""Operations recorded in machine code: what Python recorded once for given operands, put down again.

When a recording repeats (`tape.streak`), machine code is made, beside what the program does.  When it is there,
operators and functions get C functions in front of their Python bodies (`codegen.runtime.record`): these know what
was recorded for operands of the same kind, and leave everything else to the bodies.  What they know they learn here,
from what a body just recorded:

    y = body(a, b)        dispatch found a body of this library, `run`, whose choice is kept
    run.natively(...)     the steps between a, b and y
    table.learn(...)      by the Outs of a and b (or the class of a number), what is static, and grad mode

A registration on a function drops all that is known of it.  Without the launcher, or where its self-check
fails, nothing is put in front and Python records, as it does before.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from codegen.forks import held_over_fork
from codegen.garbage import Paused
from codegen.lazily import later
from codegen.runtime.record_table import Program, Step, Table

from ..config import Config, config
from ..custom.function import Function
from ..dispatch.reliance import functions
from ..tape import leaves
from ..tape.check import checks
from ..tape.expected import use_native
from ..tape.leaves import known_kind
from ..tape.loans import LENT, Lender, prune
from ..tape.node import NUMBERS, Kind, Leaf, Node, Out, RichNode
from ..tape.peel import clear_stretches
from ..tape.plan import COUNTS, Plan
from ..tape.record import (
    DETACH,
    PENDING_LIMIT,
    SMALL_LIMIT,
    WHEN_MOVED,
    Recording,
    force,
    grad_mode,
    look_at_size,
    state,
)
from ..tensor import AbstractTensor, Tensor, handle
from .indexing import READ, WRITE, getitem, index_update
from .learner import ALL, Learner, key_of
from .operators import BINARY, COMPARISONS, METHODS, PREFIX
from .patterns import START
from .template import NATIVE

__all__ = ["advance", "install", "is_installed", "uninstall"]


native = later("codegen.runtime.record")

#: So many asks of what repeats, or so many recorded nodes, pay for the code: a program of a few steps would only wait
#: for it at its end.  From so many on it is awaited: whoever goes on repeats it for long, and Python takes some 2 us
#: longer for each node, and for each ask 50.
LEAST_ASKS, MOST_ASKS = 4, 8
LEAST_NODES, MOST_NODES = 400, 800


class _Installed:
    """The recorder while it is in front of the Python bodies, and what it replaced."""

    def __init__(self) -> None:
        self.code: Any = None
        self.asks = 0
        self.first_node: int | None = None
        self.recorder: Any = None
        #: Whether somebody said that it is to be in front, or is not to be.
        self.is_settled = False
        self.here: tuple[Any, int] = (None, 0)
        self.replaced: list[tuple[type, str, Any]] = []
        self.operators: dict[str, int] = {}
        self.calls: dict[type, int] = {}
        self.methods: dict[str, Any] = {}
        self.reads: dict[str, Any] = {}


_now = _Installed()
#: Threads attach one after the other: one with the recording of another would write into what that one frees.
_attaching = held_over_fork(threading.RLock())
_lock = held_over_fork(threading.RLock())


def is_installed() -> bool:
    """Whether operations are recorded natively."""
    return bool(_now.replaced)


def install() -> None:
    """Put the native recorder in front of operators and functions; nothing where it does not work."""
    with Paused(), _lock:  # a finaliser would record amid it
        if _now.recorder is None:
            _now.recorder = _set_up()
        if _now.recorder is not None and not _now.replaced:
            try:
                _put_in_front(_now.recorder)
            except BaseException:  # an interrupt, say: not half of it
                uninstall()
                _now.is_settled = False
                raise
        _now.is_settled = True


def _put_in_front(recorder: Any) -> None:
    for do in (_replace_operators, _replace_calls, _replace_methods, _replace_reads, _attach):
        do()
    use_native(recorder)
    leaves.use_native(recorder)
    NATIVE.append(recorder)


def advance() -> bool:
    """Before an ask: have the machine code made if that pays, or install it if it is there by now.  True: that is all.

    In a forked child, which has no thread that is at it, the code is made when this is called next.
    Nobody waits here: another thread that is at it may wait for what this one, or a finaliser amid it, holds.
    """
    if not _lock.acquire(blocking=False):
        return False
    try:
        if _now.is_settled:
            return True
        _now.asks += 1
        if _now.first_node is None:
            _now.first_node = state.now.start
        nodes = state.now.start - _now.first_node
        if _now.asks < LEAST_ASKS and nodes < LEAST_NODES:
            return False
        is_dear = _now.asks >= MOST_ASKS or nodes >= MOST_NODES
        if not _begun().is_done() and not is_dear:
            return False
        install()
        checks.clear()  # what was made meanwhile asks Python
        clear_stretches()
        return True
    finally:
        _lock.release()


def _begun() -> Any:
    """The machine code, which is being made or is there."""
    if _now.code is None:
        _now.code = native.begin()
    return _now.code


def uninstall() -> None:
    """Record in Python again."""
    with _lock:
        _now.is_settled = True
        while _now.replaced:
            cls, name, old = _now.replaced.pop()
            setattr(cls, name, old)
        use_native(None)
        leaves.use_native(None)
        NATIVE.clear()


def _set_up() -> Any:
    return native.set_up(native.Layout(
        handle=Tensor, node=Node, rich=RichNode, kind=Kind, out=Out, leaf=Leaf, recording=Recording, config=Config,
        function=Function,
        settings=config, counter=NUMBERS, mode=grad_mode,
        note_small=Recording.note_small, note_updated=Recording.note_updated, look_at=look_at_size, force=force,
        reads=_reads(), plan=Plan, start_kind=START, counts=COUNTS, answers=checks.answers,
        limits=(PENDING_LIMIT, SMALL_LIMIT), lender=Lender, lent=LENT, prune=prune,
    ), _begun().result())  # fmt: skip


def _reads() -> dict[str, Callable[..., Any]]:
    """What Python has for what handles are asked."""
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

#: What a site learns, and who is called where it knows nothing.
_learner = functools.partial(Learner, _attach)


def _table(function: Function) -> Table:
    if function.learned is None:
        function.learned = Table()
    return function.learned


# ---------------------------------------------------------------- in front of what


def _replace(cls: type, name: str, example: Any, address: int) -> None:
    if address:
        _now.replaced.append((cls, name, cls.__dict__[name]))
        setattr(cls, name, native.wrapper(cls, example, name, address))


#: Classes of Python's and NumPy's own that have all the operators: their slots say what kind each is.
_EXAMPLES = (int, np.ndarray)


def _example(name: str) -> Any:
    return next(vars(c)[name] for c in _EXAMPLES if name in vars(c))


def _replace_operators() -> None:
    recorder, known = _now.recorder, _now.operators
    for word, function in BINARY.items():
        make = recorder.power if word == "pow" else recorder.binary
        name, mirrored = f"__{word}__", f"__r{word}__"
        if word not in known:
            learner = _learner(function, _table(function), _either(name, mirrored), None if word == "pow" else ALL)
            known[word] = make(learner.table, learner.slow, learner.unknown)
        for one in (name, mirrored):
            _replace(AbstractTensor, one, _example(one), known[word])
        update = f"__i{word}__"
        if update not in known:
            python = vars(Tensor)[update]
            known[update] = 0 if word == "pow" else recorder.in_place(known[word], python, python.rebound)
        _replace(Tensor, update, _example(update), known[update])
    for number, (word, function) in enumerate(COMPARISONS.items()):
        name = f"__{word}__"
        if word not in known:
            learner = _learner(function, _table(function), AbstractTensor.__dict__[name])
            known[word] = recorder.comparison(number, learner.table, learner.slow, learner.unknown)
        _replace(AbstractTensor, name, _example(name), known[word])
    for word, function in PREFIX.items():
        name = f"__{word}__"
        if word not in known:
            learner = _learner(function, _table(function), AbstractTensor.__dict__[name])
            known[word] = recorder.unary(learner.table, learner.slow, learner.unknown)
        _replace(AbstractTensor, name, _example(name), known[word])


def _either(name: str, mirrored: str) -> Callable[[Any, Any], Any]:
    """The operator of the left operand if it is ours, else the mirrored one of the right operand."""
    forward, reflected = AbstractTensor.__dict__[name], AbstractTensor.__dict__[mirrored]

    def operator(left, right):
        return forward(left, right) if isinstance(left, AbstractTensor) else reflected(right, left)

    return operator


def _replace_calls() -> None:
    """Calls of the functions that have something to learn."""
    recorder = _now.recorder
    classes = {}
    for function in functions():
        cls = type(function)
        python = cls.__dict__.get("__call__")
        if python is None or not isinstance(function, Function) or not _learns(function):
            continue
        classes[cls] = python
        if not hasattr(function, "site"):
            wanted = _wanted(function)
            learner = _learner(function, _table(function), _bound(python, function), wanted)
            function.site = recorder.function_site(learner.table, learner.slow, learner.unknown, wanted)
    for cls, python in classes.items():
        if cls not in _now.calls:
            _now.calls[cls] = recorder.call(python)
        _replace(cls, "__call__", vars(type)["__call__"], _now.calls[cls])


def _wanted(function: Function) -> int:
    """Which arguments of a function are operands."""
    return getattr(getattr(function, "__wrapped__", None), "tensors", ALL)


def _replace_methods() -> None:
    """Methods that call functions which have something to learn, and `x[key]`."""
    recorder, known = _now.recorder, _now.methods
    for name, (function, canonical) in METHODS.items():
        if not isinstance(function, Function) or not _learns(function):
            continue
        if name not in known:
            table, wanted = _table(function), _wanted(function)
            if canonical is not None:  # the function itself does not take such arguments
                table = table.another()
            learner = _learner(function, table, AbstractTensor.__dict__[name], wanted, canonical)
            known[name] = recorder.method(table, learner.slow, learner.unknown, wanted, AbstractTensor, name)
        if known[name]:
            _put(AbstractTensor, name, known[name])
    if "__getitem__" not in known:
        known["__getitem__"] = _subscript()
        known["__setitem__"] = _assignment()
    _put(AbstractTensor, "__getitem__", known["__getitem__"])
    _put(Tensor, "__setitem__", known["__setitem__"])


def _put(cls: type, name: str, made: Any) -> None:
    _now.replaced.append((cls, name, vars(cls)[name]))
    setattr(cls, name, made)


def _subscript() -> Any:
    """`x[key]`, which learns from the templates of patterns."""
    python, table = vars(AbstractTensor)["__getitem__"], _table(getitem)

    def slow(x: Any, key: Any) -> Any:
        if not config.careful:
            _attach()
        return python(x, key)

    def unknown(x: Tensor, key: Any) -> Any:
        age = table.age
        y = python(x, key)
        if not config.careful and key_of(x) is not None and _runs_own(getitem, (x, key)):
            _learn_pattern(table, age, READ.known(x, key))
        return y

    # The one class of Python's whose slot wrapper is that of mappings alone.
    example = vars(MappingProxyType)["__getitem__"]
    return native.wrapper(AbstractTensor, example, "__getitem__", _now.recorder.subscript(table, slow, unknown))


def _assignment() -> Any:
    """`x[key] = value`, in the same way."""
    python, table = vars(Tensor)["__setitem__"], _table(index_update)

    def slow(x: Tensor, key: Any, *value: Any) -> None:
        if not value:
            raise AttributeError("__delitem__")  # as Python says of a class that has none
        if not config.careful:
            _attach()
        python(x, key, *value)

    def unknown(x: Tensor, key: Any, value: Any) -> None:
        age, old = table.age, handle(x.node)
        python(x, key, value)
        if not config.careful and key_of(old) is not None and _runs_own(index_update, (old, key, value)):
            _learn_pattern(table, age, WRITE.known(old, key, value))

    address = _now.recorder.assignment(table, slow, unknown)
    return native.wrapper(Tensor, vars(dict)["__setitem__"], "__setitem__", address)


def _runs_own(function: Function, args: tuple) -> bool:
    """Whether such a call runs the function's own body, and nothing that a user registered."""
    classes = []
    for place, argument in enumerate(args):
        kind = known_kind(argument) if type(argument) is np.ndarray else None
        if kind is not None and function.names_class(place, np.ndarray):
            return False
        classes.append(type(argument) if kind is None else kind.out.cls)
    method = function.find(tuple(classes))
    return method is not None and function.implementation(method, tuple(classes)) is function.__wrapped__


def _learn_pattern(table: Table, age: int, found: tuple[list, tuple, Program, Callable] | None) -> None:
    if found is not None:
        keys, parts, program, tell = found
        tell(table.forget)
        table.learn(age, keys, grad_mode.get(), program, parts, are_words=True)


def _replace_reads() -> None:
    """What handles are asked, where nothing has to be computed."""
    if not _now.reads:
        table, python = Table(), vars(Tensor)["detach"]

        def unknown(t: Tensor) -> Tensor:
            y = python(t)
            key, node = key_of(t), y.node
            if key is not None and type(node) is Node and node.kind.op is DETACH and not config.careful:
                step = Step(node.kind, None, (0,))
                program = Program(1, (step,), node.kind.out.cls, is_small=node.kind.out.small)
                table.learn(table.age, [key], grad_mode.get(), program)
            return y

        _now.reads = _now.recorder.reads(Tensor, (table, python, unknown))
    for name, made in _now.reads.items():
        _put(Tensor, name, made)


def _learns(function: Function) -> bool:
    """Whether a function of the library records operations that can be put down again."""
    body = getattr(function, "__wrapped__", None)
    return getattr(function, "warm", None) is not None or hasattr(body, "natively")


def _bound(call: Callable[..., Any], function: Function) -> Callable[..., Any]:
    def python(*args, **keywords):
        return call(function, *args, **keywords)

    return python
