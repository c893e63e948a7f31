"""The recorder: machine code that records operations on handles whose classes and kinds have occurred before.

    recorder = set_up(RecordLayout(...))      None if the self-check does not confirm the layout of objects
    address = recorder.site("binary", table, slow, unknown)     a C function that records from a table (`record_table`)
    wrapper(cls, example, "__mul__", address)           a descriptor that puts the function into a slot of a class

The machine code is native Python, whose files `recorder_code` lists.  It leaves all other cases to Python: `slow` is
called if machine code may not record now (a trace, another thread), `unknown` for operands without an entry; both get
the operands.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..lazily import later
from . import engine, objects
from .launcher import builtin
from .native import NEW_COPY, NEW_FROM_DESCR, SET_HANDLER, OwnedAddress, call_numbers, native, numpy_function
from .record_table import COUNTS, FIRST, RECORDER, SITE_WORDS, RecordedProgram, RecordTable
from .recording_asks import VIEW, Asks, RecordLayout, has_known_layout
from .slots import attribute, life_of, method, wrapper

if TYPE_CHECKING:
    from . import recorder_code
else:  # imported only if the code is not on disk
    recorder_code = later("codegen.runtime.recorder_code")


class Recorder(Asks):
    """The recorder's machine code, set up for one layout.  `set_up` makes the one instance."""

    def __init__(self, layout: RecordLayout, code: engine.MachineCode, facts: Mapping[str, Any]) -> None:
        super().__init__(layout, code, facts)
        # Classes hold addresses of the code, and the code those of the tables, to the end of the process.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        self._held: list[Any] = []
        self._recording: Any = None
        self._attached = (ctypes.c_int64 * 2).from_address(call_numbers(code, RECORDER))
        words = SITE_WORDS * sum(COUNTS.values())
        self._sites = (ctypes.c_int64 * words).from_address(call_numbers(code, "recorder_sites"))
        self.begin_sites()
        self._take_over(layout)

    def _take_over(self, layout: RecordLayout) -> None:
        """Let machine code free, traverse and clear nodes and handles: Python cannot read what it stores in nodes."""
        node, rich, handle = [layout.classes[name] for name in ("plain", "rich", "handle")]
        lives = [life_of(cls) for cls in (node, rich, handle)]
        assert None not in lives  # checked by `has_known_layout`
        (free, traverse, clear), (free_rich, *_), (usual, *_) = [life for life in lives if life]
        self.set_life(usual.value or 0, handle.__weakrefoffset__, rich.__weakrefoffset__)
        at = self._code.address
        traverse.value, clear.value = at("node_traverse"), at("node_clear")
        free.value, free_rich.value = at("node_dealloc"), at("rich_dealloc")
        for name in ("inputs", "number"):
            setattr(node, name, attribute(node, name, at(f"get_{name}"), at(f"set_{name}")))
        delattr(node, "mark")  # machine code stores a number there, not an object

    # ------------------------------------------------------------ where it records

    def attach(self, recording: Any) -> None:
        """Record the operations of this thread in `recording` from now on."""
        self._attached[0] = -1
        self._attached[1] = id(recording)
        self._recording = recording
        self._attached[0] = _thread_id(_thread_state())

    def detach(self) -> None:
        """Stop recording for the attached thread."""
        self._attached[0] = -1

    # ------------------------------------------------------------ sites

    def begin_sites(self) -> None:
        """Make all sites available again; none of them may be in use."""
        self._free = {sort: iter(range(first, first + COUNTS[sort])) for sort, first in FIRST.items()}

    def site(self, sort: str, table: RecordTable | None, slow: Callable, unknown: Callable, operands: int = 0) -> int:
        """The address of a C function that records from a table; 0 if all sites of its sort are taken.

        sort    a key of `record_table.COUNTS`.  Comparisons share a function; their sites are requested in the order
                <, <=, ==, !=, >, >=.  The site of an in-place operator is requested after that of its binary operator;
                its slow(handle, operand) updates the handle, unknown(handle, result) gives it the operator's result
        """
        number = next(self._free[sort], None)
        if number is None:
            return 0
        self._held.append((table, slow, unknown))
        for i, word in enumerate((0 if table is None else table.address, id(slow), id(unknown), operands)):
            self._sites[number * SITE_WORDS + i] = word
        is_one = sort == "compare" or COUNTS[sort] == 1
        return self._code.address(sort if is_one else f"{sort}_{number - FIRST[sort]}")

    def reads(self, cls: type) -> dict[str, Any]:
        """The attributes of a handle class that read values in machine code (`recorder_reads`), by name."""
        at = self._code.address
        doc = {name: vars(cls)[name].__doc__ for name in ("numpy", "__array__", "item")}
        made = {name: method(cls, name, at(f"read_{name}"), doc=doc[name]) for name in ("numpy", "item")}
        made["__array__"] = method(cls, "__array__", at("read_array"), takes_arguments=True, doc=doc["__array__"])
        made["__float__"] = wrapper(cls, vars(float)["__float__"], "__float__", at("read_float"))
        made["__bool__"] = wrapper(cls, vars(float)["__bool__"], "__bool__", at("read_bool"))
        return made

    def method(self, table: RecordTable, slow: Callable, unknown: Callable, operands: int, cls: type, name: str) -> Any:
        """A method with a site that replaces a method of a class; 0 if all sites are taken."""
        address = self.site("method", table, slow, unknown, operands)
        return address and method(cls, name, address, takes_arguments=True, doc=vars(cls)[name].__doc__)

    def function_site(self, table: RecordTable, slow: Callable, unknown: Callable, operands: int) -> OwnedAddress:
        """The object that a function stores in its slot so that its calls record from a table.

        operands   the arguments that are operands, as bits (see `recorder_sites`); all others are static
        """
        words = (ctypes.c_int64 * SITE_WORDS)(table.address, id(slow), id(unknown), operands)
        made = OwnedAddress(struct.pack("P", ctypes.addressof(words)))
        made.owned = (words, table, slow, unknown)
        return made

    def putter(self, program: RecordedProgram) -> Callable[..., Any]:
        """put(recording, *operands): records a program's nodes for these operands, and returns the result's handle."""
        return builtin("put_program", self._code.address("put_program"), program.address, program)


#: Made once, because ctypes makes a class for each prototype, which takes 15 us.
_thread_state = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThreadState_Get", ctypes.pythonapi))
_thread_id = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(("PyThreadState_GetID", ctypes.pythonapi))


def _made() -> engine.MachineCode | None:
    launcher = native()
    if not launcher.launch:
        return None
    functions = {"new_view": VIEW, "new_copy": NEW_COPY, "new_array": NEW_FROM_DESCR, "set_handler": SET_HANDLER}
    imports = {name: numpy_function(number) for name, number in functions.items()}
    imports |= {name: launcher.code.address(name) for name in ("from_pool", "to_pool")}
    return objects.native_code(RECORDER, lambda module: recorder_code.text(module), imports)


def set_up(layout: RecordLayout) -> Recorder | None:
    """The recorder for these classes; None if there is no launcher, or the layout of objects is not as expected.

    The machine code is the same for all layouts.  Compiling it takes a second, loading it from disk 3 ms.
    """
    code = _made()
    if code is None:
        return None
    facts = objects.facts(RECORDER, lambda: recorder_code.facts())
    return Recorder(layout, code, facts) if has_known_layout(layout, facts) else None
