"""Machine code for recordings, set up for the classes and objects of a recording package (`record`: `autodiff.tape`).

    has_known_layout(layout)   a self-check: False if objects do not lie in memory as machine code expects
    asks = Asks(layout, code, facts)
    asks.ask(...)              and all other builtins, each in its file (`recorder_code`)
    asks.answer(...)           make an answer: the object under a key that says how its plan is run
    asks.steps(...)            make a block of nodes to record again, for example the program of a rule
    asks.rules(...)            make the table of a kind's rules
    asks.code(...)             make code that runs on a piece of a recording; asks.piece(...) makes the piece
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
from .native import OFFSETS, SET_HANDLER, OwnedAddress, native, new_block, numpy_function
from .slots import life_of, offset_of
from .ufunc_loops import MOST, loops_of, use_loops

#: The index of PyArray_View in NumPy's table of C functions.
VIEW = 137


@record(frozen=True)
class RecordLayout:
    """The classes and objects of the package that records.

    classes    classes with slots, by name: see `recording_structs`; "plain" and "rich" are the two classes of nodes
    objects    the objects of `recording_structs.Tape` that do not belong to Python or NumPy, by name
    """

    classes: Mapping[str, type]
    objects: Mapping[str, Any]


#: Per leaf: its place, and the position of its gradient among the results, -1 for none.
Group = tuple[int, int]


class NativeAnswer(OwnedAddress):
    """An answer, the way a plan serves an ask: bytes with the address of a `recording_run.AnswerBlock`.

    plan     the plan that is run
    ranks    for gradients of tensors: the order in which the plan has them
    calls    the numbers of those custom calls of the ask that the plan's formulas read
    """

    plan: Any
    ranks: Sequence[int]
    calls: Sequence[int]


class NativeSteps(OwnedAddress):
    """Nodes to record again, for example the program of a rule: the address of a `recording_program.StepsBlock`.

    entry    the Python object that these nodes were made from
    """

    entry: Any


class NativeCode(OwnedAddress):
    """Code that is run on a piece of a recording: the address of a `recording_piece.CodeBlock`.

    runs       the object whose `executable` is called; None: nothing is called
    choices    of a pull: the methods that dispatch chose while its rules ran
    """

    runs: Any
    choices: Any


class NativeRules(OwnedAddress):
    """The rules of a kind that are programs: the address of a table of their number and their `StepsBlock` addresses.

    programs    all rules of the kind that were met
    """

    programs: Sequence[Any]


def _check_structs(layout: RecordLayout, facts: Mapping[str, Any]) -> None:
    """Raise TypeError unless slots lie where the structs of `recording_structs` have fields, and nodes and handles have
    no further slots."""
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
    """True if the first word behind the head of a counter (`itertools.count`) is the number that comes next."""
    word = (ctypes.c_int64 * 3).from_address(id(counter))
    first = next(counter)
    before = word[2]
    word[2] += 1
    return before == first + 1 and next(counter) == first + 2


def _is_view(address: int) -> bool:
    """True if the C function at an address makes views; another NumPy version could have another function there."""
    array = np.arange(6.0)[1:4]
    made = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p)(address)
    view = made(array, None, None)
    return type(view) is np.ndarray and view is not array and view.base is not None and view.data == array.data


def _is_handler(address: int) -> bool:
    """True if the C function at an address sets NumPy's memory handler, and returns the previous one."""
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(address)
    allocator = native().allocator
    usual = set_handler(allocator)
    return set_handler(usual) is allocator


#: The number of words that handles and nodes have behind the head of an object.
_WORDS = {"plain": 7, "rich": 15, "handle": 2}


def has_known_layout(layout: RecordLayout, facts: Mapping[str, Any]) -> bool:
    """True if objects of Python and NumPy lie in memory as machine code expects.  Raises TypeError if ours do not."""
    _check_structs(layout, facts)
    parts = slice(object(), object(), object())
    if (ctypes.c_int64 * 5).from_address(id(parts))[2:] != [id(parts.start), id(parts.stop), id(parts.step)]:
        return False
    if not (_is_view(numpy_function(VIEW)) and _is_handler(numpy_function(SET_HANDLER))):
        return False
    lives = [life_of(layout.classes[name]) for name in _WORDS]
    if None in lives or not _counts(layout.objects["counter"]):
        return False
    token = object()
    return ctypes.c_ssize_t.from_address(id(token)).value == 1  # the checks read reference counts there


def _count(cls: type) -> int:
    """The number of words that objects of a class have behind the head of an object; -1 for a class with a dict."""
    return -1 if cls.__dictoffset__ else (cls.__basicsize__ - object.__basicsize__) // ctypes.sizeof(ctypes.c_void_p)


def _objects(layout: RecordLayout) -> dict[str, Any]:
    """The objects of `recording_structs.Tape`, by name."""
    return {
        "none": None, "true": True, "false": False, "empty": (), "zero": 0, "ellipsis": Ellipsis,
        "not_implemented": NotImplemented, "int_type": int, "tuple_type": tuple, "bool_type": bool, "float_type": float,
        "str_type": str, "list_type": list, "slice_type": slice, "array_type": np.ndarray, "complex_type": complex,
        "float64_type": np.float64, "float32_type": np.float32, "int64_type": np.int64,
        "int64_descr": np.dtype(np.int64), "address_type": OwnedAddress, "answer_type": NativeAnswer,
        "rules_type": NativeRules, "run_errors": Exception, "call_name": "call",
        "acquire_name": "acquire", "release_name": "release", "run_as_name": "run_as", "item_name": "item",
        "allocator": native().allocator, "add_loops": loops_of(np.add) or bytes(8),
        "answers": os.environ.get("AUTODIFF_NATIVE_CHECKS") != "1",
        **{f"{name}_type": cls for name, cls in layout.classes.items()}, **layout.objects,
    }  # fmt: skip


def _argument_words(arguments: Sequence[tuple[int, Any]]) -> list[int]:
    """Two words per argument: (place, any), (-1, address of an object), or (-2, number of a given value)."""
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
        groups: Sequence[Group], releases: Sequence[int] | None, is_whole: bool,
    ) -> NativeAnswer:  # fmt: skip
        """Make the answer that serves an ask by this plan.

        arguments   per input of the plan: (place, None), (-1, object), or (-2, number of a computed input)
        stored      per stored node: place, position among the results, True if the node drops its inputs
        groups      the leaves whose gradients are added to `.grad`
        releases    places of the nodes whose history a backward releases; None: all of the history
        is_whole    True if all targets are reached
        """
        valid, executable = [id(plan) + offset for offset in self._plan]
        tables = {
            "argument_table": _argument_words(arguments),
            "stored_table": [int(word) for one in stored for word in one],
            "group_table": [word for group in groups for word in group],
            "release_table": releases or (),
        }
        made = new_block(
            NativeAnswer, self._words["AnswerBlock"], tables, tuple(arguments), valid=valid,
            executable=executable, arguments=len(arguments), stored=len(stored), groups=len(groups),
            releases=-1 if releases is None else len(releases), is_whole=int(is_whole),
        )  # fmt: skip
        made.plan = plan
        return made

    def steps(
        self, given: int, steps: Sequence[tuple[Any, Any, Sequence[int]]], results: Sequence[int | None],
        masks: bool = False, has_zeros: bool = False, word: int = 0, outs: Sequence[Any] = (), entry: Any = None,
    ) -> NativeSteps:  # fmt: skip
        """Make a block of nodes to record again behind `given` nodes: `recording_program`; for rules `recording_rules`.

        steps      kind, value and inputs of each node; inputs are numbers, in which the given nodes come first
        results    the numbers of the wanted nodes; for a rule one for each input, None for no cotangent
        """
        words = [w for kind, value, picks in steps for w in (id(kind), id(value), len(picks), *picks)]
        assert all(0 <= i < place for place, (_, _, picks) in enumerate(steps, given) for i in picks)
        places = [-1 if place is None else place for place in results]
        assert all(-1 <= i < given + len(steps) for i in places)
        read = {i for _, _, picks in steps for i in picks}.union(places)
        reads = [i for i in range(given) if i in read]
        tables = {"step_table": words, "result_table": places, "out_table": list(map(id, outs)), "read_table": reads}
        made = new_block(
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
        """Make the words of a kind of `given` inputs that NumPy's loops compute: see `ufunc_loops.Runs`."""
        latest = {place: number for number, (_, places) in enumerate(rows) for place in places if (place or 0) >= given}
        after = len(constants)
        words = []
        for number, (loops, places) in enumerate(rows):
            at = [-1 if p is None else given - 1 - p if p < 0 else p + (p >= given) * after for p in places]
            last_reads = [1 << k for k, p in enumerate(places) if latest.get(p) == number and places.index(p) == k]
            none = [0] * (MOST - len(at))
            words += [id(loops) + OFFSETS["PAYLOAD"], len(at), *at, *none, sum(last_reads)]
        values = [word for c in constants for word in (c.ctypes.data, id(dtype), 1, 0, 0)]
        return new_block(
            OwnedAddress, self._words["RunWords"], {"extents": shape, "row_table": words, "constant_table": values},
            rows, constants, dtype=id(dtype), rank=len(shape), count=math.prod(shape),
            rows=len(rows) if math.prod(shape) else 0, constants=len(constants),
        )  # fmt: skip

    def rules(self, programs: Sequence[Any], steps: Sequence[NativeSteps]) -> NativeRules:
        """Make the table of a kind's rules.  `steps` has those of the rules that are programs."""
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
        """Make code that is run on a piece of a recording.

        runs        the object whose `executable` is called; None: nothing is called
        arguments   (place, None), (-1, object), or (-2, number of a given cotangent)
        results, flags    the words of the tables of `recording_piece.CodeBlock`
        """
        executable = 0 if runs is None else id(runs) + offset_of(type(runs), "executable")
        tables = {
            "argument_table": _argument_words(arguments), "result_table": [word for one in results for word in one],
            "flag_table": flags,
        }
        made = new_block(
            NativeCode, self._words["CodeBlock"], tables, tuple(arguments), executable=executable,
            arguments=len(arguments), results=len(results), flags=len(flags),
        )  # fmt: skip
        made.runs = runs
        return made

    def piece(
        self, roots: Sequence[Any], bounds: Sequence[bool], reads: Sequence[int], tracked: Sequence[int],
        forward: NativeCode | None, pulls: list[NativeCode],
    ) -> OwnedAddress | None:  # fmt: skip
        """Make a piece of a recording, learnt from its roots; None if the recording has changed meanwhile.

        bounds    for each node, in the order of the walk: True if the node belongs to the piece
        reads, tracked, forward, pulls    see `recording_piece.PieceBlock`
        """
        words = (ctypes.c_uint32 * len(bounds))(*bounds)
        made = new_block(
            OwnedAddress, self._words["PieceBlock"], {"read_table": reads, "tracked_table": tracked}, words, forward,
            pulls, low=0, high=0, roots=len(roots), count=len(bounds), words=ctypes.addressof(words), reads=len(reads),
            tracked=len(tracked), forward=0 if forward is None else ctypes.addressof(forward.owned[0]), pulls=id(pulls),
        )  # fmt: skip
        return made if self.learn_piece(made, list(reversed(roots))) else None
