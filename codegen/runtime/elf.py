"""A loader of object files that needs no LLVM: ELF for x86-64, as LLVM writes it for the library's modules.

    loaded = linked(data, imports, exports)      loaded.addresses["f"]; None if this loader cannot link the object

LLVM's own linker does the same for any system and processor, but loading the LLVM library takes 8 ms, which a process
whose code is all on disk saves.

One mapping holds the whole object: first code, constants and jumps to imported functions, which become executable and
read-only; then variables.  Tables for unwinding the stack are left out: no C++ exception passes through this code.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ..ending import has_ended
from ..records import NamedTuple


def is_here() -> bool:
    """True if this loader supports the system and processor."""
    return sys.platform == "linux" and ctypes.sizeof(ctypes.c_void_p) == 8 and os.uname().machine == "x86_64"


class MappedCode:
    """Code in memory, unmapped by the finaliser, but not at the end of the process, when it may still be called."""

    __slots__ = ("__weakref__", "_address", "_size", "_unmap", "addresses")

    def __init__(self, address: int, size: int, addresses: Mapping[str, int]) -> None:
        self._address, self._size = address, size
        self._unmap = _SYSTEM.munmap
        self.addresses = addresses

    def __del__(self, has_ended: list[bool] = has_ended) -> None:
        if not has_ended[0]:
            self._unmap(self._address, self._size)


class _Unknown(Exception):
    """An object file with a feature that this loader does not support."""


class _Section(NamedTuple):
    """A section header, in the order of the file's fields."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


class _ElfSymbol(NamedTuple):
    name: int
    info: int
    other: int
    section: int
    value: int
    size: int


_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")
_WORD, _NEAR = struct.Struct("<Q"), struct.Struct("<i")

#: The first bytes of a 64-bit little-endian object; its type and machine.
_IDENTITY, _RELOCATABLE, _X86_64 = b"\x7fELF\x02\x01\x01", 1, 62
_SYMBOLS, _ADDENDS, _EMPTY, _UNWIND = 2, 4, 8, 0x70000001
_WRITABLE, _LOADED, _THREADS_OWN = 1, 2, 0x400
_UNDEFINED, _RESERVED = 0, 0xFF00
#: Kinds of relocations: an address; a distance; that to a function, perhaps imported; that to a word with the address.
_ADDRESS, _DISTANCE, _CALL, _THROUGH = 1, 2, 4, (9, 41, 42)

_PAGE = 4096

#: jmp [rip + 2]: a jump to the address in the aligned word after it.
_JUMP = b"\xff\x25\x02\0\0\0\x90\x90"
_STUB = len(_JUMP) + 8


def linked(data: bytes, imports: Mapping[str, int], exports: Sequence[str]) -> MappedCode | None:
    """Load an object file.  Return None if LLVM must link it, which then also reports errors.

    imports     addresses of declared functions, by name; all others are looked up in the process
    """
    if not is_here():
        return None
    try:
        return _Object(data, imports).loaded(exports)
    except (_Unknown, OSError, struct.error, IndexError, ValueError, KeyError):
        return None


class _Object:
    """An object file while it is linked."""

    def __init__(self, data: bytes, imports: Mapping[str, int]) -> None:
        identity, kind, machine, *_, sections_at, _, _, _, _, size, count, _ = _HEADER.unpack_from(data)
        if (identity[: len(_IDENTITY)], kind, machine, size) != (_IDENTITY, _RELOCATABLE, _X86_64, _SECTION.size):
            raise _Unknown
        self.data, self.imports = data, imports
        self.sections = [_Section(*_SECTION.unpack_from(data, sections_at + i * size)) for i in range(count)]
        (table,) = [section for section in self.sections if section.type == _SYMBOLS]
        self.names = self.sections[table.link].offset
        self.symbols = [
            _ElfSymbol(*_SYMBOL.unpack_from(data, table.offset + i)) for i in range(0, table.size, _SYMBOL.size)
        ]
        #: The offset in the image of each loaded section, and of the jump to each imported symbol, by number.
        self.places: dict[int, int] = {}
        self.jumps: dict[int, int] = {}

    def loaded(self, exports: Sequence[str]) -> MappedCode:
        """The whole object, mapped, linked and protected."""
        relocations = self._relocations()
        size, fixed = self._laid_out(relocations)
        image = bytearray(size)
        for number, place in self.places.items():
            section = self.sections[number]
            if section.type != _EMPTY:
                content = self.data[section.offset : section.offset + section.size]
                image[place : place + len(content)] = content
        base = _mapped(size)
        try:
            for number, place in self.jumps.items():
                image[place : place + _STUB] = _JUMP + _WORD.pack(self._address(self.symbols[number], base))
            for target, found in relocations:
                self._relocate(image, base, self.places[target], found)
            found_at = {
                self._name(s): base + self._place(s) for s in self.symbols if s.info >> 4 and s.section != _UNDEFINED
            }
            addresses = {name: found_at[name] for name in exports}
            ctypes.memmove(base, bytes(image), size)
            _protect(base, fixed)
        except BaseException:
            _SYSTEM.munmap(base, size)
            raise
        return MappedCode(base, size, addresses)

    def _relocations(self) -> list[tuple[int, list[tuple[int, int, int, int]]]]:
        """The relocations of each loaded section: (offset, kind, symbol, addend)."""
        found = []
        for section in self.sections:
            if section.type == _ADDENDS and self._is_loaded(self.sections[section.info]):
                stop = section.offset + section.size
                found.append((section.info, [*_RELOCATION.iter_unpack(self.data[section.offset : stop])]))
        return found

    @staticmethod
    def _is_loaded(section: _Section) -> bool:
        if section.flags & _THREADS_OWN:
            raise _Unknown
        return bool(section.flags & _LOADED) and section.type != _UNWIND and section.size > 0

    def _laid_out(self, relocations: list[tuple[int, list[tuple[int, int, int, int]]]]) -> tuple[int, int]:
        """Choose the place of each section and jump; return the size of the image, and of its read-only part."""
        end = 0
        for writable in (0, _WRITABLE):
            for number, section in enumerate(self.sections):
                if self._is_loaded(section) and section.flags & _WRITABLE == writable:
                    if section.align > _PAGE:
                        raise _Unknown
                    end = self.places[number] = _up(end, section.align)
                    end += section.size
            if not writable:
                end = _up(end, 16)
                for _, inside in relocations:
                    for _, kind, symbol, _ in inside:
                        is_elsewhere = self.symbols[symbol].section == _UNDEFINED
                        if symbol not in self.jumps and (kind in _THROUGH or (kind == _CALL and is_elsewhere)):
                            self.jumps[symbol] = end
                            end += _STUB
                fixed = end = _up(end, _PAGE)
        return _up(end, _PAGE), fixed

    def _relocate(self, image: bytearray, base: int, start: int, found: list[tuple[int, int, int, int]]) -> None:
        """Apply relocations to a section that begins at `start`: write the addresses and distances."""
        for offset, kind, number, added in found:
            symbol, at = self.symbols[number], start + offset
            if kind == _ADDRESS:
                _WORD.pack_into(image, at, self._address(symbol, base) + added)
                continue
            if kind in _THROUGH:
                place = self.jumps[number] + len(_JUMP)
            elif kind == _CALL and symbol.section == _UNDEFINED:
                place = self.jumps[number]
            elif kind in (_DISTANCE, _CALL):
                place = self._place(symbol)
            else:
                raise _Unknown
            _NEAR.pack_into(image, at, place + added - at)

    def _place(self, symbol: _ElfSymbol) -> int:
        """The offset in the image of a symbol that the object defines."""
        if symbol.section == _UNDEFINED or symbol.section >= _RESERVED:
            raise _Unknown
        return self.places[symbol.section] + symbol.value

    def _address(self, symbol: _ElfSymbol, base: int) -> int:
        """The address of a symbol, defined in the object or imported."""
        if symbol.section != _UNDEFINED:
            return base + self._place(symbol)
        name = self._name(symbol)
        address = self.imports.get(name) or _SYSTEM.dlsym(None, name.encode())
        if not address:
            raise _Unknown
        return int(address)

    def _name(self, symbol: _ElfSymbol) -> str:
        start = self.names + symbol.name
        return self.data[start : self.data.index(b"\0", start)].decode()


def _up(number: int, unit: int) -> int:
    return -(-number // max(unit, 1)) * max(unit, 1)


# ------------------------------------------------------------ memory

#: Linux's flags; importing `mmap` for them takes longer than linking.
_READ, _WRITE, _RUN, _PRIVATE, _ANONYMOUS = 1, 2, 4, 2, 32


def _system() -> Any:
    """The C library, with the signatures of the functions that are used."""
    found = ctypes.CDLL(None, use_errno=True)
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    found.mmap.argtypes, found.mmap.restype = (pointer, size, number, number, number, ctypes.c_long), pointer
    found.mprotect.argtypes = (pointer, size, number)
    found.munmap.argtypes = (pointer, size)
    found.dlsym.argtypes, found.dlsym.restype = (pointer, ctypes.c_char_p), pointer
    return found


_SYSTEM: Any = _system() if is_here() else None


def _mapped(size: int) -> int:
    """Map new memory, writable.  Raises OSError."""
    address = _SYSTEM.mmap(None, size, _READ | _WRITE, _PRIVATE | _ANONYMOUS, -1, 0)
    if address is None or address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "no memory")
    return int(address)


def _protect(address: int, size: int) -> None:
    """Make memory executable and read-only.  Raises OSError if the system forbids it."""
    if size and _SYSTEM.mprotect(address, size, _READ | _RUN):
        raise OSError(ctypes.get_errno(), "memory cannot be made executable")


def executable_memory(code: bytes) -> MappedCode:
    """Map code that needs no linking, at `addresses["code"]`.  Raises OSError."""
    size = _up(len(code), _PAGE)
    address = _mapped(size)
    loaded = MappedCode(address, size, {"code": address})
    ctypes.memmove(address, code, len(code))
    _protect(address, size)
    return loaded
