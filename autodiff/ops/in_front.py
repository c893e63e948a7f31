"""C functions in front of the Python bodies while machine code records: operators, calls, methods, reads.

Each gets a C function with a table (`codegen.runtime.record`), which learns from what its Python body records.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from codegen.lazily import later
from codegen.runtime.record_table import Program, Step, Table, forget_all

from ..custom.function import Function
from ..dispatch.reliance import functions
from ..mode import MODE
from ..session import at_reset
from ..tape.leaves import known_kind
from ..tape.node import Node
from ..tape.record import DETACH
from ..tensor import AbstractTensor, Tensor, handle
from ..tracebacks import border
from .indexing import READ, WRITE, getitem, index_update
from .learner import ALL, Learner, Room, key_of
from .operators import BINARY, COMPARISONS, METHODS, PREFIX

__all__ = ["Front"]

native = later("codegen.runtime.record")


class Front:
    """The C functions in front of Python, and the Python ones that they replaced.

    attach    attach(): the recorder records where this thread does
    """

    def __init__(self, recorder: Any, attach: Callable[[], None]) -> None:
        self.recorder, self.attach = recorder, attach
        self.replaced: list[tuple[type, str, Any]] = []
        self.operators: dict[str, int] = {}
        self.call = 0
        self.methods: dict[str, Any] = {}
        self.reads: dict[str, Any] = {}
        #: What a site learns, and who is called where it knows nothing.
        self._learner = functools.partial(Learner, attach)

    def put(self) -> None:
        """Put all of it in front of Python."""
        for do in (self._replace_operators, self._replace_calls, self._replace_methods, self._replace_reads):
            do()

    def take_away(self) -> None:
        """Python has its own again."""
        while self.replaced:
            cls, name, old = self.replaced.pop()
            setattr(cls, name, old)

    def _replace(self, cls: type, name: str, example: Any, address: int) -> None:
        if address:
            self.replaced.append((cls, name, cls.__dict__[name]))
            setattr(cls, name, native.wrapper(cls, example, name, address))

    def _replace_operators(self) -> None:
        recorder, known = self.recorder, self.operators
        for word, function in BINARY.items():
            make = recorder.power if word == "pow" else recorder.binary
            name, mirrored = f"__{word}__", f"__r{word}__"
            if word not in known:
                either, wanted = _either(name, mirrored), None if word == "pow" else ALL
                learner = self._learner(function, _table(function), either, wanted)
                known[word] = make(learner.table, learner.slow, learner.unknown)
            for one in (name, mirrored):
                self._replace(AbstractTensor, one, _example(one), known[word])
            update = f"__i{word}__"
            if update not in known:
                python = vars(Tensor)[update]
                known[update] = 0 if word == "pow" else recorder.in_place(known[word], python, python.rebound)
            self._replace(Tensor, update, _example(update), known[update])
        for number, (word, function) in enumerate(COMPARISONS.items()):
            name = f"__{word}__"
            if word not in known:
                learner = self._learner(function, _table(function), AbstractTensor.__dict__[name])
                known[word] = recorder.comparison(number, learner.table, learner.slow, learner.unknown)
            self._replace(AbstractTensor, name, _example(name), known[word])
        for word, function in PREFIX.items():
            name = f"__{word}__"
            if word not in known:
                learner = self._learner(function, _table(function), AbstractTensor.__dict__[name])
                known[word] = recorder.unary(learner.table, learner.slow, learner.unknown)
            self._replace(AbstractTensor, name, _example(name), known[word])

    def _replace_calls(self) -> None:
        """Calls of the functions that have something to learn."""
        recorder, python = self.recorder, vars(Function)["__call__"]
        for function in functions():
            if not isinstance(function, Function) or not _learns(function) or hasattr(function, "site"):
                continue
            if function.declaration.variadic is None:
                wanted = _wanted(function)
                learner = self._learner(function, _table(function), border(functools.partial(python, function)), wanted)
                function.site = recorder.function_site(learner.table, learner.slow, learner.unknown, wanted)
        self.call = self.call or recorder.call(python)
        self._replace(Function, "__call__", vars(type)["__call__"], self.call)

    def _replace_methods(self) -> None:
        """Methods that call functions which have something to learn, and `x[key]`."""
        recorder, known = self.recorder, self.methods
        for name, (function, canonical) in METHODS.items():
            if not isinstance(function, Function) or not _learns(function):
                continue
            if name not in known:
                table, wanted = _table(function), _wanted(function)
                if canonical is not None:  # the function itself does not take such arguments
                    table = table.another()
                learner = self._learner(function, table, AbstractTensor.__dict__[name], wanted, canonical)
                known[name] = recorder.method(table, learner.slow, learner.unknown, wanted, AbstractTensor, name)
            if known[name]:
                self._put(AbstractTensor, name, known[name])
        if "__getitem__" not in known:
            known["__getitem__"] = self._subscript()
            known["__setitem__"] = self._assignment()
        self._put(AbstractTensor, "__getitem__", known["__getitem__"])
        self._put(Tensor, "__setitem__", known["__setitem__"])

    def _put(self, cls: type, name: str, made: Any) -> None:
        self.replaced.append((cls, name, vars(cls)[name]))
        setattr(cls, name, made)

    def _subscript(self) -> Any:
        """`x[key]`, which learns from the templates of patterns."""
        python, table = vars(AbstractTensor)["__getitem__"], _table(getitem)
        room = Room(table)

        def slow(x: Any, key: Any) -> Any:
            if not MODE.get().watching:
                self.attach()
            return python(x, key)

        def unknown(x: Tensor, key: Any) -> Any:
            age = table.age
            y = python(x, key)
            if not MODE.get().watching and key_of(x) is not None:
                found = READ.known(x, key)
                if found is not None and room.is_left((*found[0], found[1])) and _runs_own(getitem, (x, key)):
                    _learn_pattern(table, age, *found)
            return y

        # The one class of Python's whose slot wrapper is that of mappings alone.
        example = vars(MappingProxyType)["__getitem__"]
        return native.wrapper(AbstractTensor, example, "__getitem__", self.recorder.subscript(table, slow, unknown))

    def _assignment(self) -> Any:
        """`x[key] = value`, in the same way."""
        python, table = vars(Tensor)["__setitem__"], _table(index_update)

        def slow(x: Tensor, key: Any, *value: Any) -> None:
            if not value:
                raise AttributeError("__delitem__")  # as Python says of a class that has none
            if not MODE.get().careful:
                self.attach()
            python(x, key, *value)

        def unknown(x: Tensor, key: Any, value: Any) -> None:
            age, old = table.age, handle(x.node)
            python(x, key, value)
            # Under no_grad the part of a result that stays keeps its derivative: Python records that.
            if not MODE.get().careful and key_of(old) is not None and (MODE.get().tracks or not old.requires_grad):
                found = WRITE.known(old, key, value)
                if found is not None and _runs_own(index_update, (old, key, value)):
                    _learn_pattern(table, age, *found)

        address = self.recorder.assignment(table, slow, unknown)
        return native.wrapper(Tensor, vars(dict)["__setitem__"], "__setitem__", address)

    def _replace_reads(self) -> None:
        """Replace the reads of handles for which nothing has to be computed."""
        if not self.reads:
            table, python = Table(), vars(Tensor)["detach"]

            def unknown(t: Tensor) -> Tensor:
                y = python(t)
                key, node = key_of(t), y.node
                if key is not None and type(node) is Node and node.kind.op is DETACH and not MODE.get().careful:
                    step = Step(node.kind, None, (0,))
                    program = Program(1, (step,), node.kind.out.cls, is_small=node.kind.out.small)
                    table.learn(table.age, [key], MODE.get().tracks, program)
                return y

            self.reads = self.recorder.reads(Tensor, (table, python, unknown))
        for name, made in self.reads.items():
            self._put(Tensor, name, made)


at_reset(forget_all)  # what operations record for operands of known kinds


def _table(function: Function) -> Table:
    if function.learned is None:
        function.learned = Table()
    return function.learned


#: Classes of Python's and NumPy's own that have all the operators: their slots say what kind each is.
_EXAMPLES = (int, np.ndarray)


def _example(name: str) -> Any:
    return next(vars(c)[name] for c in _EXAMPLES if name in vars(c))


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


def _runs_own(function: Function, args: tuple) -> bool:
    """True if such a call runs the function's own body, and nothing that a user registered."""
    classes = []
    for place, argument in enumerate(args):
        kind = known_kind(argument) if type(argument) is np.ndarray else None
        if kind is not None and function.names_class(place, np.ndarray):
            return False
        classes.append(type(argument) if kind is None else kind.out.cls)
    method = function.find(tuple(classes))
    return method is not None and function.implementation(method, tuple(classes)) is function.__wrapped__


def _learn_pattern(table: Table, age: int, keys: list, parts: tuple, program: Program, tell: Callable) -> None:
    tell(table.forget)
    table.learn(age, keys, MODE.get().tracks, program, parts, are_words=True)


def _learns(function: Function) -> bool:
    """True if a function of the library records operations that can be put down again."""
    return hasattr(getattr(function, "__wrapped__", None), "natively")
