"""Learners: from a call that Python recorded they make the program by which machine code records the next like it.

The body of the function runs once more, on examples (`template`); also `x[key]` and `x[key] = v`, if the key has ints,
slices, None, `...` and index arrays only.

    X[i : i + 64]      X: f64[1797,64]     pattern ((64, 1),)     starts [i]
    X[i, ::2]                              pattern ((-1, 0), (32, 2))     starts [i, 0]
    X[..., None]                           pattern ((-3, 0), (-2, 0))     no starts
    X[:, rows]         rows: i64[8]        pattern ((1797, 1), (-4, 0))   no starts, an index array

The pattern and the avals of index arrays decide what is recorded; index arrays and starts are run-time arguments.
Machine code reads the pattern (`codegen.runtime.recorder_subscripts`).  Sites are made in `ops.recorder`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.runtime.cache import LearningFilter
from codegen.runtime.record_table import MOST_OPERANDS, MOST_STATICS, NESTED, RecordTable

from ..config import config
from ..custom.function import Function
from ..mode import MODE
from ..tape.leaves import known_kind
from ..tape.node import Kind, Out, kind_of, leaf_kind, out_of
from ..tape.record import state
from ..tensor import Tensor, handle
from ..tracebacks import border
from .indexing import behind_mask, getitem, index_update
from .slicing import kind_of_slice
from .template import ITEMS, NONE, of_examples, results_of

#: `wanted` of a site whose arguments are all operands.  For n > 0 the first n are operands, and the others static.
ALL = 0


class Learner:
    """The functions `slow` and `unknown` that a site calls when its table has no program for a call.

    attach      makes machine code record for this thread
    table, run  the programs of the function; the function in Python, which records the call
    wanted      which arguments are operands; None: those of a power, whose exponent is static if it is a number
    canonical   canonical(args): the arguments of a method as those of the function
    """

    def __init__(
        self,
        attach: Callable[[], None],
        function: Function,
        table: RecordTable,
        run: Callable[..., Any],
        wanted: int | None = ALL,
        canonical: Callable[[tuple], tuple] | None = None,
    ) -> None:
        self.attach, self.function, self.table, self.run = attach, function, table, run
        self.wanted, self.canonical = wanted, canonical
        self.statics = LearningFilter(at_once=False)
        self.result_aval: Any = getattr(function.__wrapped__, "result_aval", None)
        if self.result_aval is not None:
            table.ask(self.kind)

    def kind(self, *outs: Out) -> Kind | None:
        """The kind of the one node that the body records for tensors of these Outs; None if Python has to record it."""
        avals = [out.aval for out in outs]
        if any([out.weak or out.aval.dtype is not avals[0].dtype for out in outs]):
            return None
        if not self.function.is_served_by_body(*[out.cls for out in outs]):
            return None
        try:
            aval = self.result_aval(*avals)
        except Exception:
            return None  # Python raises the error, with the user's line
        # Tested last, as it notes that the keys were met: where it is not reached, `unknown` does so.
        if aval is None or self.is_expected_again(outs):
            return None
        return kind_of(self.function.primitive, (), outs, MODE.get().tracks, aval)

    @border
    def slow(self, *args: Any, **keywords: Any) -> Any:
        """Run a call in Python, in a state in which machine code records nothing, perhaps only for the moment."""
        if not MODE.get().watching:
            self.attach()
        return self.run(*args, **keywords)

    @border
    def unknown(self, *args: Any, **keywords: Any) -> Any:
        """Run a call in Python for whose arguments the table has no program; learn one if they are met again."""
        ordered = self.canonical(args) if self.canonical else args
        if MODE.get().watching or not self.function.binds(ordered, keywords):
            return self.run(*args, **keywords)
        age = self.table.age
        given, _ = self.split_operands(args, keywords)
        keys = [key_of(x) for x in given]
        if np.ndarray in map(type, given):
            args, keywords = self.adopted(args, keywords)
            given, _ = self.split_operands(args, keywords)
        y = self.run(*args, **keywords)
        if results_of(y)[0] and self.is_expected_again(keys):
            self.learn(age, keys, args, keywords, y)
        return y

    def is_expected_again(self, keys: Sequence[Any]) -> bool:
        """True if operands with these keys are worth learning."""
        return not config.patience or self.table.learning.admits(tuple(keys))

    def adopted(self, args: tuple, keywords: dict) -> tuple[tuple, dict]:
        """The arguments with constant tensors in place of operands that are arrays, as dispatch would make them."""
        function, wanted = self.function, self.wanted
        if wanted == ITEMS:
            return (type(args[0])([_adopted(function, x) for x in args[0]]), *args[1:]), keywords
        if function.names_arrays:
            return args, keywords
        count = wanted if wanted else len(args)
        fresh = (*[_adopted(function, x) for x in args[:count]], *args[count:])
        return fresh, keywords if wanted != ALL else {name: _adopted(function, x) for name, x in keywords.items()}

    def learn(self, age: int, keys: Sequence[Any], args: tuple, keywords: dict, y: Any) -> None:
        """Put the program of a call, whose operands have these keys and whose result is y, into the table."""
        xs, statics = self.split_operands(args, keywords)
        are_plain = [type(x) is x.node.kind.out.cls for x in results_of(y)[0]]
        if len(keys) > MOST_OPERANDS or None in keys or not all(are_plain):
            return
        if len(statics) > MOST_STATICS or not all([self.is_static_worth_learning(value) for _, value in statics]):
            return
        if self.canonical is not None:
            args = self.canonical(args)
        bound, named = self.function.declaration.bind(args, keywords) if keywords else (args, {})
        serving, full = self.function.served_by(bound)
        call_program = getattr(serving, "call_program", None)
        operands = xs if self.wanted != ITEMS else args[:1]
        is_in_order = all([x is given for x, given in zip(operands, full, strict=False)])
        takes_numbers, are_tensors = not hasattr(serving, "tensors"), all([isinstance(x, Tensor) for x in xs])
        if state.now.literal and not (takes_numbers and are_tensors):
            return  # a rule records numbers as constants
        if not (takes_numbers or are_tensors or self.wanted == ITEMS):
            return  # an operand is a number or an array, not a tensor
        program = call_program(full, y, named, len(keys)) if call_program is not None and is_in_order else None
        if program is not None and program.choices is not None:
            program.choices.on_change(self.table.forget)
        self.table.learn(age, keys, MODE.get().tracks, program, [(name, _copied(value)) for name, value in statics])

    def split_operands(self, args: tuple, keywords: dict) -> tuple[Sequence[Any], list[tuple[str | None, Any]]]:
        """The operands of a call, and (name, value) of its static arguments, separated as machine code does it."""
        wanted = self.wanted
        if wanted is None:
            wanted = 1 if type(args[1]) in (int, float) else 2
        if wanted == ALL:
            return (*args, *keywords.values()), [(name, None) for name in keywords]
        count = 0 if wanted == NONE else wanted
        operands, rest = args[:count], args[count:]
        if wanted == ITEMS:
            operands, rest = args[0] if type(args[0]) in (list, tuple) else (), args[1:]
        return operands, [*[(None, a) for a in rest], *keywords.items()]

    def is_static_worth_learning(self, value: Any) -> bool:
        """True if a static argument can be found again, and is likely to be met again."""
        is_usual = value in _SMALL_INTS if type(value) is int else type(value) not in (float, tuple, list)
        # The text of a long list would take much memory.
        return _is_found_again(value) and (is_usual or self.statics.admits(hash(repr(value))))


def _is_found_again(value: Any, depth: int = NESTED) -> bool:
    """True for a static argument that machine code compares by value, or that is always the same object."""
    cls = type(value)
    if cls in (tuple, list):
        return depth > 0 and all([_is_found_again(item, depth - 1) for item in value])
    if cls is int:
        return -(1 << 63) <= value < 1 << 63
    if cls is str:
        return sys.intern(value) is value
    return cls in (bool, float, type(None)) or isinstance(value, (type, np.dtype))


def _copied(value: Any) -> Any:
    """A static argument with copies of its lists, which may change later."""
    cls = type(value)
    return cls(map(_copied, value)) if cls in (tuple, list) else value


#: Axes and similar numbers, which are learnt at the first call.
_SMALL_INTS = range(-5, 257)


def _adopted(function: Function, x: Any) -> Any:
    return function.adopt(x) if type(x) is np.ndarray else x


def key_of(x: Any) -> Any:
    """The key of an operand in a table; None for an operand that machine code does not take."""
    if isinstance(x, Tensor):
        out = x.node.kind.out
        return out if type(x) is out.cls else None
    if type(x) is np.ndarray:
        return known_kind(x)
    return type(x) if type(x) in _NUMBERS else None


#: Python's number types whose numbers can become leaves of a float dtype.
_PYTHON = frozenset((float, int))
#: Classes of numbers that machine code takes.
_NUMBERS = frozenset((float, int, complex, np.float64, np.float32, np.int64))


class SubscriptLearner(Learner):
    """The learner of `x[key]` and of `x[key] = value`, whose programs are found by the pattern of the key.

    words_of    words_of(x, key): the pattern, as machine code reads it (`recorder_subscripts.key_words`)
    """

    def __init__(
        self, attach: Callable[[], None], function: Function, table: RecordTable, run: Callable[..., Any],
        words_of: Callable[[Any, Any], bytes | None],
    ) -> None:  # fmt: skip
        super().__init__(attach, function, table, run)
        self.words_of = words_of
        if function is getitem:
            table.ask(self.kind)

    def slow(self, x: Any, key: Any, *value: Any) -> Any:
        """Run a call in Python, in a state in which machine code records nothing; refuse `del x[key]`."""
        if self.function is index_update and not value:
            raise AttributeError("__delitem__")  # as Python does for a class without that method
        return super().slow(x, key, *value)

    def kind(self, x: Out, key: Any) -> Kind | None:  # type: ignore[override]  # a key is no tensor
        """The kind of the one node of `x[key]` for a key of slices, as by `Learner.kind`."""
        if not self.function.is_served_by_body(x.cls, type(key)):
            return None
        made = kind_of_slice(x, key if type(key) is tuple else (key,), MODE.get().tracks)
        return None if self.table.learning.admits((x, made)) else made

    @border
    def unknown(self, x: Tensor, key: Any, *value: Any) -> Any:
        """Run a call in Python for whose key or operands the table has no program; learn one.

        The elements that a NumPy mask selects are read by index arrays, for which the table has programs.
        """
        if not value and type(key) is np.ndarray and key.dtype.kind == "b" and self.is_plain_mask(x, key):
            return behind_mask(x, key, 0)[np.nonzero(key)]
        age, old = self.table.age, handle(x.node) if value else x
        y = self.run(x, key, *value)
        mode = MODE.get()
        # Under no_grad the elements that an update keeps also keep their history: only Python records that.
        is_usual = not value or (not mode.careful and (mode.tracks or not old.requires_grad))
        if is_usual and not mode.watching and key_of(old) is not None:
            self.learn_pattern(age, (x if value else y).node.kind, old, key, *value)
        return y

    def is_plain_mask(self, x: Tensor, key: np.ndarray) -> bool:
        """True if a mask fits x, and no trace and no method of a user's sees that it is one."""
        if MODE.get().watching or not key.ndim or key.shape != x.shape[: key.ndim]:
            return False
        return self.function.served_by(self.adopted((x, key), {})[0])[0] is self.function.__wrapped__

    def learn_pattern(self, age: int, made: Kind, x: Tensor, key: Any, *more: Any) -> None:
        """Put the program for a key of this pattern and operands of these kinds into the table, unless a user's method
        serves them.

        made    the kind of the recorded result, by which different patterns differ
        """
        operands = [x, *more, *filter(_is_index, key if type(key) is tuple else (key,))]
        keys = [key_of(operand) for operand in operands]  # `key_of` also tells machine code the kinds of arrays
        if not self.table.learning.admits((*keys, made)):
            return
        outs = [_out_of(x, key) for key in keys]
        read = self.words_of(x, key) if None not in outs and not state.now.literal else None
        if read is None or len(keys) > MOST_OPERANDS:
            return
        n_starts, n_indices, *words = memoryview(read).cast("q")
        count, pairs = len(more), tuple(zip(words[n_indices::2], words[n_indices + 1 :: 2], strict=True))
        if len(keys) != 1 + count + n_indices:
            return
        body, given = self.function.__wrapped__, self.adopted((x, key, *more), {})[0]
        if self.function.served_by(given)[0] is not body:
            return

        def on_examples(x: Tensor, *given: Tensor) -> list[Any]:
            return [body(x, _with_tensors(key, given[count:]), *given[:count])]

        program, (_, template) = None, of_examples(on_examples, outs, n_starts)
        if template is not None and template.steps:
            number_kind = leaf_kind(outs[1]) if more and type(more[0]) in _PYTHON else None
            bounds = tuple(enumerate(words[:n_indices], 1 + count))
            program = template.program(len(keys) + n_starts, number_kind, bounds)
            template.choices.on_change(self.table.forget)
        self.table.learn(age, keys, MODE.get().tracks, program, pairs, are_words=True)


def _out_of(x: Tensor, key: Any) -> Any:
    """The Out of an operand beside x, by its key in a table; None for one that machine code does not take."""
    if type(key) is type:
        dtype = x.node.kind.out.aval.dtype
        return out_of(Aval((), dtype)) if key in _PYTHON and dtype.kind == "f" else None
    return key.out if type(key) is Kind else key


def _is_index(entry: Any) -> bool:
    """True if an entry of a key is an array of integers."""
    if isinstance(entry, Tensor):
        return entry.node.kind.out.aval.dtype.kind == "i"
    return type(entry) is np.ndarray and entry.dtype.kind == "i" and entry.dtype.itemsize >= 4


def _with_tensors(key: Any, tensors: Sequence[Tensor]) -> Any:
    """A key with these tensors in place of its index arrays."""
    if not tensors:
        return key
    left = iter(tensors)
    return tuple([next(left) if _is_index(e) else e for e in key]) if type(key) is tuple else next(left)
