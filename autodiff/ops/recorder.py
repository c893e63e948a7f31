"""Operations recorded in machine code: what Python recorded once for given operands, put down again.

When a recording repeats (`tape.streak`), operators and functions get C functions in front of their Python
bodies (`codegen.runtime.record`): these know what was recorded for operands of the same kind, and leave
everything else to the bodies.  What they know they learn here, from what a body just recorded:

    y = body(a, b)        dispatch found a body of this library, `run`, whose choice is kept
    run.natively(...)     the steps between a, b and y
    table.learn(...)      by the Outs of a and b (or the class of a number) and grad mode

A registration on a function drops all that is known of it.  Without the launcher, or where its self-check
fails, nothing is put in front and Python records, as it does before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.forks import held_over_fork
from codegen.runtime.record_table import MOST_STATICS, Program, Step, Table

from ..config import Config, config
from ..custom.function import Function
from ..dispatch.reliance import functions
from ..tape.expected import use_native
from ..tape.node import NUMBERS, Kind, Leaf, Node, Out, RichNode
from ..tape.record import DETACH, WHEN_MOVED, Recording, grad_mode, look_at_size, state
from ..tape.streak import WHEN_REPEATED
from ..tensor import AbstractTensor, Tensor
from .operators import BINARY, COMPARISONS, PREFIX
from .template import NATIVE

__all__ = ["install", "is_installed", "uninstall"]


class _Installed:
    """The recorder while it is in front of the Python bodies, and what it replaced."""

    def __init__(self) -> None:
        self.recorder: Any = None
        self.here: tuple[Any, int] = (None, 0)
        self.replaced: list[tuple[type, str, Any]] = []
        self.operators: dict[str, int] = {}
        self.calls: dict[type, int] = {}
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
    with _lock:
        if _now.recorder is None:
            _now.recorder = _set_up()
        if _now.recorder is not None and not _now.replaced:
            _replace_operators()
            _replace_calls()
            _replace_reads()
            _attach()
            use_native(_now.recorder)
            NATIVE.append(_now.recorder)


def uninstall() -> None:
    """Record in Python again."""
    with _lock:
        while _now.replaced:
            cls, name, old = _now.replaced.pop()
            setattr(cls, name, old)
        use_native(None)
        NATIVE.clear()


WHEN_REPEATED.append(install)


def _set_up() -> Any:
    from codegen.runtime.record import Layout, set_up

    return set_up(Layout(
        handle=Tensor, node=Node, rich=RichNode, kind=Kind, out=Out, leaf=Leaf, recording=Recording, config=Config,
        function=Function,
        settings=config, counter=NUMBERS, mode=grad_mode,
        note_small=Recording.note_small, look_at=look_at_size, reads=_reads(),
    ))  # fmt: skip


def _reads() -> dict[str, Callable[..., Any]]:
    """What Python has for what handles are asked."""
    python, grad = vars(Tensor), vars(Tensor)["grad"]

    def set_grad(t: Tensor, *value: Any) -> None:
        grad.__set__(t, *value) if value else grad.__delete__(t)

    names = {"numpy": "numpy", "array": "__array__", "item": "item", "float": "__float__"}
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

# ---------------------------------------------------------------- learning


def _learning(function: Function, table: Table, run: Callable[..., Any]) -> tuple[Callable, Callable]:
    """`slow` and `unknown` of a site: what they call, and what they make of it."""
    latest = [None]  # a static argument that was met once

    def stays(value):
        """Whether a static argument is likely to be the same object when it is met again."""
        if value is None or type(value) is bool or (type(value) is int and value in _KEPT_BY_PYTHON):
            return True
        if type(value) not in (float, tuple, str):
            return False
        is_known, latest[0] = value is latest[0], value
        return is_known

    def slow(*args):
        if not config.careful:
            _attach()
        return run(*args)

    def unknown(*args, **keywords):
        age = table.age
        y = run(*args, **keywords)
        if not config.careful and isinstance(y, Tensor):
            _learn(function, table, age, args, keywords, y, stays)
        return y

    return slow, unknown


#: Python has one object for each of these.
_KEPT_BY_PYTHON = range(-5, 257)


def _learn(
    function: Function, table: Table, age: int, args: tuple, keywords: dict, y: Tensor, stays: Callable[[Any], bool]
) -> None:
    """Remember what was recorded for these arguments."""
    bound, named = function.declaration.bind(args, keywords) if keywords else (args, {})
    serving, full = function.served_by(bound)
    operands = getattr(serving, "tensors", None) or len(args)
    statics = [*[(None, a) for a in args[operands:]], *keywords.items()]
    keys = [_key(x) for x in args[:operands]]
    if None in keys or len(keys) > 2 or not keys or type(y) is not y.node.kind.out.cls:
        return
    if len(statics) > MOST_STATICS or not all([stays(value) for _, value in statics]):
        return
    natively = getattr(serving, "natively", None)
    found = None if natively is None else natively(full, y, named)
    program, holders = (None, None) if found is None else found
    if found is None and _may_be_known_later(serving):
        return
    if program is not None and program.operands != len(keys):
        program = None
    if holders is not None:
        holders.append(table.forget)
    table.learn(age, keys[0], keys[1] if len(keys) > 1 else None, grad_mode.get(), program, statics)


def _may_be_known_later(serving: Any) -> bool:
    """Whether a body makes a template when it is met again."""
    return hasattr(serving, "templates")


def _key(x: Any) -> Any:
    """What an operand is in a table; None for what is not recorded natively."""
    if isinstance(x, Tensor):
        out = x.node.kind.out
        return out if type(x) is out.cls else None
    return type(x) if type(x) in (float, int) else None


def _table(function: Function) -> Table:
    if function.learned is None:
        function.learned = Table()
    return function.learned


# ---------------------------------------------------------------- in front of what


def _replace(cls: type, name: str, example: Any, address: int) -> None:
    from codegen.runtime.record import wrapper

    if address:
        _now.replaced.append((cls, name, cls.__dict__[name]))
        setattr(cls, name, wrapper(cls, example, name, address))


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
            table = _table(function)
            known[word] = make(table, *_learning(function, table, _either(name, mirrored)))
        for one in (name, mirrored):
            _replace(AbstractTensor, one, _example(one), known[word])
    for number, (word, function) in enumerate(COMPARISONS.items()):
        name = f"__{word}__"
        if word not in known:
            table = _table(function)
            python = AbstractTensor.__dict__[name]
            known[word] = recorder.comparison(number, table, *_learning(function, table, python))
        _replace(AbstractTensor, name, _example(name), known[word])
    for word, function in PREFIX.items():
        name = f"__{word}__"
        if word not in known:
            table = _table(function)
            known[word] = recorder.unary(table, *_learning(function, table, AbstractTensor.__dict__[name]))
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
            table = _table(function)
            slow, unknown = _learning(function, table, _bound(python, function))
            operands = getattr(getattr(function, "__wrapped__", None), "tensors", 0)
            function.site = recorder.function_site(table, slow, unknown, operands)
    for cls, python in classes.items():
        if cls not in _now.calls:
            _now.calls[cls] = recorder.call(python)
        _replace(cls, "__call__", vars(type)["__call__"], _now.calls[cls])


def _replace_reads() -> None:
    """What handles are asked, where nothing has to be computed."""
    if not _now.reads:
        table, python = Table(), vars(Tensor)["detach"]

        def unknown(t: Tensor) -> Tensor:
            y = python(t)
            key, node = _key(t), y.node
            if key is not None and type(node) is Node and node.kind.op is DETACH and not config.careful:
                step = Step(node.kind, None, (0,))
                program = Program(1, (step,), node.kind.out.cls, is_small=node.kind.out.small)
                table.learn(table.age, key, None, grad_mode.get(), program)
            return y

        _now.reads = _now.recorder.reads(Tensor, (table, python, unknown))
    for name, made in _now.reads.items():
        _now.replaced.append((Tensor, name, vars(Tensor)[name]))
        setattr(Tensor, name, made)


def _learns(function: Function) -> bool:
    """Whether a function of the library records operations that can be put down again."""
    body = getattr(function, "__wrapped__", None)
    return getattr(function, "warm", None) is not None or hasattr(body, "natively")


def _bound(call: Callable[..., Any], function: Function) -> Callable[..., Any]:
    def python(*args, **keywords):
        return call(function, *args, **keywords)

    return python
