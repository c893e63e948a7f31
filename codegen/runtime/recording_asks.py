"""Recordings in machine code, set up for the classes and objects of the one who records (`record`).

    is_as_known(layout)        False where a self-check does not confirm how these look
    asks = Asks(layout, code, facts)
    asks.ask(...)              and all other builtins, each in its file (`recorder_code`)
    asks.answer(...)           an answer: what is looked up, and says how a plan is run
    asks.steps(...)            nodes to put down, the program of a rule say
    asks.rules(...)            the rules of a kind
    asks.code(...)             code that is run on a piece of a recording, and asks.piece(...) such a piece
"""

from __future__ import annotations

import ctypes
import math
import os
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ending import write_files_at_the_end
from ..records import record
from . import engine
from .launcher import builtin
from .native import OFFSETS, SET_HANDLER, OwnedAddress, native, numpy_function
from .slots import life_of, offset_of
from .ufunc_loops import MOST, loops_of, use_loops

#: PyArray_View in NumPy's table.
VIEW = 137


@record(frozen=True)
class RecordLayout:
    """The classes and objects of the one who records.

    classes    with slots, by name: see `recording_structs`; "plain" and "rich" are those of nodes
    objects    those of `recording_structs.Tape` that are not Python's or NumPy's own, by name
    """

    classes: Mapping[str, type]
    objects: Mapping[str, Any]


#: Per group: place of its leaf, position of its gradient or -1.
Group = tuple[int, int]


class NativeAnswer(OwnedAddress):
    """The way a known ask is answered: the address of a `recording_run.AnswerBlock`.

    plan     what is run
    ranks    of gradients of tensors: in which order the plan has them
    calls    of those that it is asked with the ones that the plan's formulas read
    """

    plan: Any
    ranks: Sequence[int]
    calls: Sequence[int]


class NativeSteps(OwnedAddress):
    """Nodes to put down, the program of a rule say: the address of a `recording_program.StepsBlock`.

    entry    what it is made from
    """

    entry: Any


class NativeCode(OwnedAddress):
    """Code that is run on a piece of a recording: the address of a `recording_piece.CodeBlock`.

    runs       the object whose `executable` is called; None: nothing is
    choices    of a pull: the methods that its rules chose
    """

    runs: Any
    choices: Any


class NativeRules(OwnedAddress):
    """The rules of a kind that are programs: the address of their number, and behind it of each `StepsBlock`.

    programs    all rules of the kind that were met
    """

    programs: Sequence[Any]


def _check_structs(layout: RecordLayout, facts: Mapping[str, Any]) -> None:
    """Raise TypeError unless objects have their slots where the structs of `recording_structs` have fields, and nodes
    and handles no others."""
    classes = {**{name: type(thing) for name, thing in layout.objects.items()}, **layout.classes}
    for cls, slots in [(classes[name], slots) for name, slots in facts["slots"].items()]:
        for slot, offset in slots.items():
            found = offset_of(cls, f"_{slot}" if hasattr(cls, f"_{slot}") else slot)
            if found != offset:
                new = [name for name in vars(cls)["__slots__"] if name.removeprefix("_") not in slots]
                raise TypeError(f"{cls.__name__} has {slot} at {found}, its struct, which lacks {new}, at {offset}")
    for name, number in _WORDS.items():
        cls = layout.classes[name]
        # Since Python 3.12 weak references stand before the object.
        count, weak = number + (cls.__weakrefoffset__ > 0), name != "plain"
        if _count(cls) != count or bool(cls.__weakrefoffset__) != weak:
            raise TypeError(f"a {cls.__name__} has {_count(cls)} words, its struct {count}, or other weak references")


def _counts(counter: Any) -> bool:
    """True if a counter's first word is the number that comes next."""
    word = (ctypes.c_int64 * 3).from_address(id(counter))
    first = next(counter)
    before = word[2]
    word[2] += 1
    return before == first + 1 and next(counter) == first + 2


def _is_view(address: int) -> bool:
    """True if a function of NumPy's makes views: a table of another version would have another one there."""
    array = np.arange(6.0)[1:4]
    made = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p)(address)
    view = made(array, None, None)
    return type(view) is np.ndarray and view is not array and view.base is not None and view.data == array.data


def _is_handler(address: int) -> bool:
    """True if a function of NumPy's says by whom memory is had from now on, and gives who it was."""
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(address)
    allocator = native().allocator
    usual = set_handler(allocator)
    return set_handler(usual) is allocator


#: The numbers of words that handles and nodes have of their own.
_WORDS = {"plain": 7, "rich": 15, "handle": 2}


def is_as_known(layout: RecordLayout, facts: Mapping[str, Any]) -> bool:
    """True if objects of Python's and NumPy's are as machine code knows them.  Raises TypeError for ours that are not.
    """
    _check_structs(layout, facts)
    parts = slice(object(), object(), object())
    if _words_of(parts, 5)[2:] != [id(parts.start), id(parts.stop), id(parts.step)]:
        return False
    if not (_is_view(numpy_function(VIEW)) and _is_handler(numpy_function(SET_HANDLER))):
        return False
    lives = [life_of(layout.classes[name]) for name in _WORDS]
    if None in lives or not _counts(layout.objects["counter"]):
        return False
    token = object()
    return ctypes.c_ssize_t.from_address(id(token)).value == 1  # where checks read how many references there are


def _words_of(thing: Any, count: int) -> list[int]:
    return (ctypes.c_int64 * count).from_address(id(thing))[:]


def _count(cls: type) -> int:
    """The number of words that the objects of a class have, beside those of all."""
    return -1 if cls.__dictoffset__ else (cls.__basicsize__ - object.__basicsize__) // ctypes.sizeof(ctypes.c_void_p)


def _objects(layout: RecordLayout) -> dict[str, Any]:
    """The objects of `recording_structs.Tape`, by name."""
    return {
        "none": None, "true": True, "false": False, "empty": (), "zero": 0, "ellipsis": Ellipsis,
        "not_implemented": NotImplemented, "int_type": int, "tuple_type": tuple, "bool_type": bool, "float_type": float,
        "str_type": str, "list_type": list, "slice_type": slice, "array_type": np.ndarray, "float64_type": np.float64,
        "float32_type": np.float32, "int64_type": np.int64, "int64_descr": np.dtype(np.int64),
        "address_type": OwnedAddress, "answer_type": NativeAnswer, "rules_type": NativeRules, "run_errors": Exception,
        "call_name": "call", "acquire_name": "acquire", "release_name": "release", "run_as_name": "run_as",
        "item_name": "item", "allocator": native().allocator, "add_loops": loops_of(np.add) or bytes(8),
        "answers": os.environ.get("AUTODIFF_NATIVE_CHECKS") != "1",
        **{f"{name}_type": cls for name, cls in layout.classes.items()}, **layout.objects,
    }  # fmt: skip


def _made(cls: Any, fields: Sequence[str], tables: Mapping[str, Sequence[int]], *owned: Any, **words: int) -> Any:
    """An object with the address of a struct of such fields, given by their names: `tables` are words elsewhere."""
    kept = {name: (ctypes.c_int64 * len(table))(*table) for name, table in tables.items()}
    words |= {name: ctypes.addressof(table) for name, table in kept.items()}
    block = (ctypes.c_int64 * len(fields))()
    made = cls(struct.pack("P", ctypes.addressof(block)))
    block[:] = [id(made) if name == "own" else words[name] for name in fields]
    made.owned = (block, kept, owned)
    return made


def _argument_words(arguments: Sequence[tuple[int, Any]]) -> list[int]:
    """Two words for each argument: a place, or -1 and the address of an object, or -2 and which of what is given."""
    return [word for place, what in arguments for word in (place, what if place == -2 else id(what))]


class Asks:
    """The machine code, set up for one layout: each of its builtins is a method."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, layout: RecordLayout, code: engine.MachineCode, facts: Mapping[str, Any]) -> None:
        self._code = code
        write_files_at_the_end()
        for name in [name.removesuffix(".builtin") for name in code.names if name.endswith(".builtin")]:
            setattr(self, name, builtin(name, code.address(f"{name}.builtin"), 0, code))
        self._words = facts["words"]
        use_loops({key: code.address(loop) for key, loop in facts["loops"].items()})
        self._plan = [offset_of(layout.classes["plan"], name) for name in ("valid", "executable")]
        self._objects = _objects(layout)
        self.remember(tuple([self._objects[name] for name in self._words["Tape"]]))

    def answer(
        self, plan: Any, arguments: Sequence[tuple[int, Any]], stored: Sequence[tuple[int, int, bool]],
        groups: Sequence[Group], past: Sequence[int] | None, is_whole: bool,
    ) -> NativeAnswer:  # fmt: skip
        """Make the answer of an ask by this plan.

        arguments   (place, None), (-1, object), or (-2, which of the inputs that are computed)
        stored      place, position among the results, whether inputs are dropped
        groups      of gradients that are added to `.grad`
        past        places of what is given up; None: all of the history
        is_whole    all targets are reached
        """
        valid, executable = [id(plan) + offset for offset in self._plan]
        tables = {
            "argument_table": _argument_words(arguments),
            "stored_table": [int(word) for one in stored for word in one],
            "group_table": [word for group in groups for word in group],
            "past_table": past or (),
        }
        made = _made(
            NativeAnswer, self._words["AnswerBlock"], tables, tuple(arguments), valid=valid,
            executable=executable, arguments=len(arguments), stored=len(stored), groups=len(groups),
            past=-1 if past is None else len(past), is_whole=int(is_whole),
        )  # fmt: skip
        made.plan = plan
        return made

    def steps(
        self, given: int, steps: Sequence[tuple[Any, Any, Sequence[int]]], results: Sequence[int | None],
        masks: bool = False, has_zeros: bool = False, word: int = 0, outs: Sequence[Any] = (), entry: Any = None,
    ) -> NativeSteps:  # fmt: skip
        """Nodes to put down behind so many that are given: see `recording_program`, of rules `recording_rules`.

        steps      kind, value and inputs of each node: the given nodes come first in the numbering
        results    which of them all are wanted; of a rule, for each input, None for none
        """
        words = [w for kind, value, picks in steps for w in (id(kind), id(value), len(picks), *picks)]
        assert all(0 <= i < place for place, (_, _, picks) in enumerate(steps, given) for i in picks)
        places = [-1 if place is None else place for place in results]
        assert all(-1 <= i < given + len(steps) for i in places)
        read = {i for _, _, picks in steps for i in picks}.union(places)
        reads = [i for i in range(given) if i in read]
        tables = {"step_table": words, "result_table": places, "out_table": list(map(id, outs)), "read_table": reads}
        made = _made(
            NativeSteps, self._words["StepsBlock"], tables, tuple(steps), tuple(outs), given=given,
            steps=len(steps), results=len(places), masks=int(masks), has_zeros=int(has_zeros), word=word,
            outs=len(outs), reads=len(reads), stamp=0,
        )  # fmt: skip
        made.entry = entry
        return made

    def runs(
        self, dtype: np.dtype, shape: Sequence[int], given: int, rows: Sequence[tuple[bytes, Sequence[int | None]]],
        constants: Sequence[np.ndarray],
    ) -> OwnedAddress:  # fmt: skip
        """The way NumPy computes a kind of so many inputs: see `ufunc_loops.Runs`."""
        latest = {place: number for number, (_, places) in enumerate(rows) for place in places if (place or 0) >= given}
        after = len(constants)
        words = []
        for number, (loops, places) in enumerate(rows):
            at = [-1 if p is None else given - 1 - p if p < 0 else p + (p >= given) * after for p in places]
            dying = [1 << k for k, p in enumerate(places) if latest.get(p) == number and places.index(p) == k]
            none = [0] * (MOST - len(at))
            words += [id(loops) + OFFSETS["PAYLOAD"], len(at), *at, *none, sum(dying)]
        values = [word for c in constants for word in (c.ctypes.data, id(dtype), 1, 0, 0)]
        return _made(
            OwnedAddress, self._words["RunWords"], {"extents": shape, "row_table": words, "constant_table": values},
            rows, constants, dtype=id(dtype), rank=len(shape), count=math.prod(shape),
            rows=len(rows) if math.prod(shape) else 0, constants=len(constants),
        )  # fmt: skip

    def rules(self, programs: Sequence[Any], steps: Sequence[NativeSteps]) -> NativeRules:
        """The rules of a kind, of which those that are programs are given as steps, too."""
        blocks = [ctypes.addressof(one.owned[0]) for one in steps]
        table = (ctypes.c_int64 * (1 + len(blocks)))(len(blocks), *blocks)
        made = NativeRules(struct.pack("P", ctypes.addressof(table)))
        made.owned = (table, tuple(steps))
        made.programs = programs
        return made

    def code(
        self, runs: Any, arguments: Sequence[tuple[int, Any]], results: Sequence[Sequence[int]],
        flags: Sequence[int] = (),
    ) -> NativeCode:  # fmt: skip
        """Code that is run on a piece of a recording.

        runs        the object whose `executable` is called; None: nothing is
        arguments   (place, None), (-1, object), or (-2, which of the cotangents that are given)
        results, flags    as words of `recording_piece.CodeBlock`
        """
        executable = 0 if runs is None else id(runs) + offset_of(type(runs), "executable")
        tables = {
            "argument_table": _argument_words(arguments), "result_table": [word for one in results for word in one],
            "flag_table": flags,
        }
        made = _made(
            NativeCode, self._words["CodeBlock"], tables, tuple(arguments), executable=executable,
            arguments=len(arguments), results=len(results), flags=len(flags),
        )  # fmt: skip
        made.runs = runs
        return made

    def piece(
        self, roots: Sequence[Any], bounds: Sequence[bool], reads: Sequence[int], tracked: Sequence[int],
        forward: NativeCode | None, pulls: list[NativeCode],
    ) -> OwnedAddress | None:  # fmt: skip
        """A piece of a recording, which is learnt from its roots; None where it is another one meanwhile.

        bounds    of each node, in the order in which they are met: True for one of its own
        reads, tracked, forward, pulls    see `recording_piece.PieceBlock`
        """
        words = (ctypes.c_uint32 * len(bounds))(*bounds)
        made = _made(
            OwnedAddress, self._words["PieceBlock"], {"read_table": reads, "tracked_table": tracked}, words, forward,
            pulls, low=0, high=0, roots=len(roots), count=len(bounds), words=ctypes.addressof(words), reads=len(reads),
            tracked=len(tracked), forward=0 if forward is None else ctypes.addressof(forward.owned[0]), pulls=id(pulls),
        )  # fmt: skip
        return made if self.learn_piece(made, list(reversed(roots))) else None
