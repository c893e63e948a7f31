"""The launcher's machine code, and the self-check that decides if this Python may use it.

The launcher reads fields of CPython and NumPy objects at fixed offsets.  The self-check compares the
values at these offsets in live objects with the same values as Python reports them.  If they differ,
or if AUTODIFF_LAUNCHER=0, there is no launcher and programs are called by ctypes (`PackedCall`).

A process has one module with launcher and pool, made when it is first needed and never unloaded.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import struct
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..forks import held_over_fork
from ..modes import FLUSHING, modes
from . import engine, memory, objects

if TYPE_CHECKING:
    from ..native import Translation


class OwnedAddress(bytes):
    """The `self` of a launcher: eight bytes with the address of the plan block; `owned` keeps its objects alive."""

    owned: tuple[Any, ...]


def new_block(cls: Any, fields: Sequence[str], tables: Mapping[str, Sequence[int]], *owned: Any, **words: int) -> Any:
    """An object with the address of a new struct of these fields.  Each of `tables` is allocated beside the struct."""
    kept = {name: (ctypes.c_int64 * len(table))(*table) for name, table in tables.items()}
    words |= {name: ctypes.addressof(table) for name, table in kept.items()}
    block = (ctypes.c_int64 * len(fields))()
    made = cls(struct.pack("P", ctypes.addressof(block)))
    block[:] = [id(made) if name == "own" else words[name] for name in fields]
    made.owned = (block, kept, owned)
    return made


#: The errors raised if there is no memory for LLVM, or for the machine code.
NO_ROOM = (MemoryError, OSError)


def is_native() -> bool:
    """True if calls go through the native launcher (see `doctor`); False also if there is no memory to make it."""
    try:
        return bool(native().launch)
    except NO_ROOM:
        return False


def trim_pool() -> None:
    """Return the free memory of the pool to the system."""
    if is_made() and is_native():
        native().call("pool_trim")


class Native:
    """The launcher's machine code and its entry points."""

    def __init__(self) -> None:
        is_usable = _is_usable()
        functions = {"new_array": NEW_FROM_DESCR, "new_copy": NEW_COPY}
        imports = {name: numpy_function(number) for name, number in functions.items()} if is_usable else {}
        imports[FLUSHING] = modes.flushing_at
        # The code stays loaded to the end of the process, because arrays call its `free`.
        self.code = objects.native_code("launch" if is_usable else "run_program", _text, imports=imports)
        self.facts = objects.facts("launch", _facts)
        self.launch = self.code.address("launch") if is_usable else 0
        self.allocator = self._allocator() if is_usable else None
        if is_usable:
            self.call("pool_set_limit", memory.POOL_BYTES)
            self.write_entering(dict(
                items_at=OFFSETS["ITEMS"], array_type=id(np.ndarray), float_type=id(float), int_type=id(int),
                bool_type=id(bool), complex_type=id(complex), allocator=id(self.allocator),
            ))  # fmt: skip
        signature = (ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
        # PYFUNCTYPE: an exception that a signal handler raised in a loop is raised by these calls.
        self.run_program = ctypes.PYFUNCTYPE(*signature)(self.code.address("run_program"))
        self.run_program_unlocked = ctypes.PYFUNCTYPE(*signature)(self.code.address("run_program_unlocked"))

    def _allocator(self) -> object:
        """The capsule with NumPy's handler, through which arrays return memory to the pool."""
        new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
            ("PyCapsule_New", ctypes.pythonapi)
        )
        handler = ctypes.PYFUNCTYPE(ctypes.c_void_p)(self.code.address("pool_handler"))()
        # At the end of the process arrays outlive modules, and a capsule does not own its name: the name is leaked.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_CAPSULE_NAME))
        return new_capsule(handler, _CAPSULE_NAME, None)

    def write_entering(self, words: Mapping[str, Any]) -> None:
        """Write fields of `plan_words.Entering`, by name."""
        address = self.call("entering_words")
        for name, word in words.items():
            ctypes.c_int64.from_address(address + 8 * self.facts["entering"].index(name)).value = word

    def call(self, name: str, *numbers: int) -> int:
        """Call a function of the module on integers; return its integer (an arbitrary one for `void`)."""
        return call_numbers(self.code, name, *numbers)


def call_numbers(code: engine.MachineCode, name: str, *numbers: int) -> int:
    """Call a function on integers under the interpreter's lock; return its integer (an arbitrary one for `void`)."""
    signature = (ctypes.c_int64,) * (len(numbers) + 1)
    return ctypes.PYFUNCTYPE(*signature)(code.address(name))(*numbers)


_lock = held_over_fork(threading.Lock())
_made: list[Native] = []  # at most one


def is_made() -> bool:
    """True if the launcher's code has been made in this process."""
    return bool(_made)


def native() -> Native:
    """The launcher's code of this process, made at the first call."""
    with _lock:
        if not _made:
            _made.append(Native())
        return _made[0]


def _text(module: Translation) -> str:
    """The text of the module; without a launcher, only the functions that run steps."""
    from .run_steps import run_program, run_program_unlocked  # not needed if the code is on disk

    if not _is_usable():
        return module.text([run_program, run_program_unlocked])
    from .entered_call import enter, entering_words
    from .launch import launch
    from .pool import POOL

    return module.text([run_program, run_program_unlocked, launch, enter, entering_words, *POOL])


def _facts() -> dict[str, Any]:
    """The names of struct words and of instructions, and the codes of number forms, which Python needs."""
    from . import call_objects, entered_call, plan_words

    return {
        "numbers": call_objects.NUMBER_KINDS, "put together": call_objects.PUT_TOGETHER,
        "take apart": entered_call.TAKE_APART, "plan": plan_words.PLAN, "entry": plan_words.ENTRY,
        "entering": plan_words.WORDS,
    }  # fmt: skip


#: NumPy's name for the capsules of its allocators.
_CAPSULE_NAME = b"mem_handler"

#: PyArray_CopyInto, PyArray_NewCopy and PyArray_NewFromDescr in NumPy's table.
COPY_INTO, NEW_COPY, NEW_FROM_DESCR = 50, 85, 94


def numpy_function(number: int) -> int:
    """The address at a place of NumPy's C-API table."""
    core = importlib.import_module("numpy._core._multiarray_umath")
    get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    return ctypes.cast(get_pointer(core._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))[number] or 0


_NDARRAY = 2
#: PyDataMem_SetHandler and PyDataMem_GetHandler.
SET_HANDLER, _GET_HANDLER = 304, 305


@contextmanager
def pooled() -> Iterator[None]:
    """A context in which NumPy allocates new arrays from the pool, if there is one."""
    allocator = native().allocator
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(numpy_function(SET_HANDLER))
    usual = None if allocator is None else set_handler(allocator)
    try:
        yield
    finally:
        if usual is not None:
            set_handler(usual)


#: The offsets in objects that the launcher's structs read: equal in every Python that `_is_supported_python` accepts.
_HEAD = object.__basicsize__
OFFSETS = dict(
    TYPE=_HEAD - 8, DATA=_HEAD, ND=_HEAD + 8, DIMS=_HEAD + 16, BASE=_HEAD + 32, DESCR=_HEAD + 40, FLAGS=_HEAD + 48,
    ALLOCATOR=_HEAD + 72, DTYPE=_HEAD, SCALAR=_HEAD, PAYLOAD=bytes.__basicsize__ - 1, ITEMS=tuple.__basicsize__,
    SIZE=_HEAD,
)  # fmt: skip


def _is_usable() -> bool:
    """True if the launcher is switched on and its structs describe the objects of this Python and NumPy."""
    return os.environ.get("AUTODIFF_LAUNCHER", "1") != "0" and _is_supported_python() and _matches_live_objects()


#: The warning of `_is_supported_python`, removed when it is given: once, even if a filter turns it into an error.
_unsaid = [
    "autodiff was not tried on this Python ({}): programs are called by ctypes and recorded in Python, with the same "
    "results, but slower; AUTODIFF_LAUNCHER=0 says that this is known"
]


def _is_supported_python() -> bool:
    """True if this Python's object layout is known.  Otherwise warn, once."""
    from .slots import is_known_python  # only needed at the second call of a program

    if is_known_python():
        return True
    if _unsaid:
        here = f"{sys.implementation.name} {sys.version.split()[0]}"
        warnings.warn(_unsaid.pop().format(here), RuntimeWarning, stacklevel=2)
    return False


def _is_copy(array: np.ndarray) -> bool:
    """True if NumPy's table has PyArray_NewCopy at the expected place."""
    new_copy = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_int)(numpy_function(NEW_COPY))
    made = new_copy(array, 0)
    return type(made) is np.ndarray and made.flags.c_contiguous and made.flags.owndata and bool((made == array).all())


def _matches_live_objects() -> bool:
    """True if the fields of live objects at `OFFSETS` are equal to the attributes that Python shows."""

    def word(thing: object, field: str) -> int:
        return ctypes.c_int64.from_address(id(thing) + OFFSETS[field]).value

    def half(thing: object, field: str) -> int:
        return ctypes.c_int32.from_address(id(thing) + OFFSETS[field]).value

    array = np.zeros((3, 5, 7), np.float32)[::2, 1:, ::3]
    packed = np.zeros((2, 3))
    token = OwnedAddress(b"12345678")
    pair = (array, packed)
    allocator = ctypes.PYFUNCTYPE(ctypes.py_object)(numpy_function(_GET_HANDLER))()
    scalars: tuple[np.generic, ...] = (np.float64(1.5), np.float32(-2.5), np.int64(-(2**40)), np.int32(77))
    scalars += (np.bool_(True), np.complex64(1 - 2j), np.complex128(3 + 4j))
    return (
        numpy_function(_NDARRAY) == id(np.ndarray)
        and word(array, "TYPE") == id(np.ndarray)
        and word(array, "DATA") == memory.address_of(array)
        and half(array, "ND") == array.ndim
        and word(array, "BASE") == id(array.base)
        and word(array, "DESCR") == id(array.dtype)
        and word(array.dtype, "DTYPE") == id(np.float32)
        and ctypes.string_at(id(array.dtype) + OFFSETS["DTYPE"] + 8, 3) == b"ff="
        and ctypes.c_int32.from_address(id(array.dtype) + OFFSETS["DTYPE"] + 12).value == array.dtype.num
        and half(array, "FLAGS") & 0x101 == 0x100
        and half(packed, "FLAGS") & 0x505 == 0x505
        and word(packed, "ALLOCATOR") == id(allocator)
        # Dereferenced only after the fields around it are confirmed: a wrong pointer would crash the process.
        and (ctypes.c_int64 * 3).from_address(word(array, "DIMS"))[:] == list(array.shape)
        and word(pair, "ITEMS") == id(array)
        and word(pair, "SIZE") == 2
        and word(token, "SIZE") == 8
        and ctypes.string_at(id(token) + OFFSETS["PAYLOAD"], 8) == token
        and all(ctypes.string_at(id(s) + OFFSETS["SCALAR"], s.nbytes) == s.tobytes() for s in scalars)
        and _is_copy(array)
    )
