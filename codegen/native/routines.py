"""Functions of native Python, and the functions that have a meaning of their own to the compiler.

    @native                     a function that is compiled from its source; a call in Python runs it as plain Python
    @native(inline=True)        a function that is inlined into every caller; inline=False: into none
    @native(contract=True)      a function whose products and sums of floats may be fused, with one rounding
    extern("Py_IncRef", ...)    a function of another library, by name
    static(Pool)                memory that exists once for each module of machine code, zero at the start
    external("_Py_NoneStruct")  an object of another library, by name
    local(T, n)                 n values on the stack
    row(x, y)                   these pointers, side by side on the stack
    moved(x)                    the object of an `own` local or place, with its reference; x has none afterwards
    held(x)                     the object x, which may be null, with one more reference
    own(x)                      the object x with a reference that is counted already: of a pointer that C code wrote
    constants(T, [1, 2])        constant numbers in memory

`bit_cast(u64, x)` gives the bits of a number.  `select(mask, a, b)` chooses lanes from two vectors, and
`shuffle(a, b, (0, 5))` takes lanes of both by numbers that are known while compiling.

The atomic operations name a place by two arguments: a struct and the name of a field, or an array and an index.

    atomic_load(job, "next")    read, write and change a number that several threads use; the last argument may be the
                                ordering as LLVM names it, and is "seq_cst" otherwise
"""

from __future__ import annotations

import ast
import linecache
import struct
import sys
import threading
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..records import record
from .numbers import Float, Vector, vector
from .structs import Pointer, Reference, Struct, array, evaluated, own, ptr, zero

#: The ways in which a function of another library reports failure.
FAILS, NO_MEMORY = "an exception", "null"


class void:
    """The result type of a function that returns nothing."""


class Routine:
    """A function of native Python, or one of another library."""

    result: Any
    params: list[tuple[str, Any]]
    scope: Mapping[str, Any]
    tree: ast.FunctionDef
    annotations: Mapping[str, str]
    is_native = contract = False
    fails = ""
    inline: bool | None = None
    file = ""

    def __init__(self, name: str, plain: Callable[..., Any] | None = None) -> None:
        self.name, self.plain = name, plain

    def __getattr__(self, name: str) -> Any:
        """The source (`tree`) and the types of the annotations (`result`, `params`), evaluated at their first use."""
        if not self.is_native or self.plain is None:
            raise AttributeError(name)
        if name == "tree":
            self.tree = _definition(self.file, self.plain.__code__.co_firstlineno)
        elif name in ("result", "params"):
            kinds = {name: evaluated(a, self.scope) for name, a in self.annotations.items()}
            self.result = kinds.pop("return", void) or void
            self.params = list(kinds.items())
        return object.__getattribute__(self, name)

    def __call__(self, *arguments: Any) -> Any:
        """Run the function as plain Python."""
        if self.plain is None:
            raise TypeError(f"{self.name} has no stand-in in plain Python")
        given = [_converted(kind, a) for a, (_, kind) in zip(arguments, self.params, strict=True)]
        return _converted(self.result, self.plain(*given))


def _converted(kind: Any, value: Any) -> Any:
    is_converted = isinstance(kind, Reference) or (isinstance(kind, type) and kind is not void)
    return kind(value) if value is not None and is_converted else value


def extern(name: str, result: Any, *params: Any, plain: Callable[..., Any] | None = None, fails: str = "") -> Routine:
    """A function of another library.

    plain    the function that replaces it in plain Python
    fails    FAILS: it may fail, and returns null or -1 with an exception;  NO_MEMORY: it returns null without one
    """
    found = Routine(name, plain)
    found.fails = fails
    found.result, found.params = result, [(f"a{i}", kind) for i, kind in enumerate(params)]
    return found


def native(function: Any = None, *, inline: bool | None = None, contract: bool = False, fails: str = "") -> Any:
    """A function that is compiled from its source.   fails: as in `extern`; only if no function that it calls has it"""
    around = sys._getframe(1)

    def of(f: Any) -> Routine:
        found = Routine(f.__name__, f)
        found.scope = ChainMap(_Closure(f), dict(around.f_locals), f.__globals__)  # type: ignore[arg-type]  # read only
        found.annotations = f.__annotations__
        found.inline, found.contract, found.is_native, found.file = inline, contract, True, f.__code__.co_filename
        found.fails = fails
        return found

    return of if function is None else of(function)


_definitions: dict[str, dict[int, ast.FunctionDef]] = {}


def _definition(file: str, line: int) -> ast.FunctionDef:
    """The syntax tree of the function whose first decorator is at a line of a file; each file is parsed once."""
    if line not in _definitions.get(file, ()):
        nodes = ast.walk(ast.parse("".join(linecache.getlines(file))))
        functions = [n for n in nodes if isinstance(n, ast.FunctionDef) and n.decorator_list]
        _definitions[file] = {n.decorator_list[0].lineno: n for n in functions}
    if line not in _definitions[file]:
        raise RuntimeError(f"{file}:{line}: no function begins here: the source is gone or has changed since")
    return _definitions[file][line]


def from_source(source: str, scope: Mapping[str, Any], like: Routine) -> Routine:
    """A function of generated source, with the file and line of the function `like` in debug info and messages."""
    tree = ast.parse(source).body[0]
    assert isinstance(tree, ast.FunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, (ast.stmt, ast.expr)):
            node.lineno = node.end_lineno = like.tree.lineno
    found = Routine(tree.name)
    found.params = [(a.arg, evaluated(ast.unparse(a.annotation), scope)) for a in tree.args.args if a.annotation]
    found.result, found.is_native = own, True
    found.scope, found.file, found.tree = scope, like.file, tree
    return found


class _Closure(Mapping[str, Any]):
    """The variables of enclosing functions that a function uses, with their present values."""

    def __init__(self, function: Any) -> None:
        self._cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))

    def __getitem__(self, name: str) -> Any:
        try:
            return self._cells[name].cell_contents
        except ValueError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)


@record(frozen=True)
class External:
    """An object of another library, which exists as long as the process."""

    name: str


external = External


def static(kind: Any) -> Any:
    """Memory that exists once for each module; plain Python gets a stand-in."""
    return zero(kind)


def constants(kind: Any, values: Sequence[Any]) -> Any:
    """Constant numbers in memory; plain Python gets a stand-in."""
    return Constants([kind(value) for value in values], 0, kind)


class Constants(Pointer):
    """The stand-in for constant numbers, in plain Python."""


def of_static(stand_in: Any) -> Any:
    """The type of the static memory that a stand-in represents; None for any other value."""
    if isinstance(stand_in, Pointer):
        return array[stand_in.item, len(stand_in.items)]
    return type(stand_in) if isinstance(stand_in, Struct) else None


def local(kind: Any, count: int) -> Pointer:
    return Pointer([None] * (int(count) * getattr(kind, "lanes", 1)), 0, kind)


def row(*pointers: Any) -> Pointer:
    return Pointer(list(pointers), 0, ptr)


def moved(value: Any) -> Any:
    return value


def held(value: Any) -> Any:
    return value


def select(choice: Any, yes: Any, no: Any) -> Any:
    """Choose lanes from two vectors by a vector of bool, or one of two values by a bool, without a branch."""
    if isinstance(choice, bool):
        return yes if choice else no
    return type(yes)([y if c else n for c, y, n in zip(choice.values, yes.values, no.values, strict=True)])


def shuffle(a: Any, b: Any, places: Sequence[int]) -> Any:
    """The lanes with these numbers; the lanes of `b` are numbered after those of `a`."""
    both = [*a.values, *b.values]
    return vector[a.item, len(places)]([both[place] for place in places])


def bit_cast(kind: Any, value: Any) -> Any:
    """The bits of a number or vector as a value of another type of the same size."""
    if isinstance(value, Vector):
        data = b"".join([_bytes_of(lane) for lane in value.values])
        size = kind.item.bits // 8
        return kind([_number_of(kind.item, data[i : i + size]) for i in range(0, len(data), size)])
    return _number_of(kind, _bytes_of(value))


def _bytes_of(value: Any) -> bytes:
    given = struct.pack("f" if value.bits == 32 else "d", value) if isinstance(value, Float) else None
    return given or (int(value) & (1 << value.bits) - 1).to_bytes(value.bits // 8, "little")


def _number_of(kind: Any, data: bytes) -> Any:
    if issubclass(kind, Float):
        return kind(struct.unpack("f" if kind.bits == 32 else "d", data)[0])
    return kind(int.from_bytes(data, "little"))


def _read(place: Any, key: Any) -> Any:
    return getattr(place, key) if isinstance(key, str) else place[key]


def _write(place: Any, key: Any, value: Any) -> None:
    if isinstance(key, str):
        setattr(place, key, value)
    else:
        place[key] = value


_atomic = threading.Lock()


def _changed(place: Any, key: Any, change: Callable[[Any], Any]) -> Any:
    with _atomic:
        old = _read(place, key)
        _write(place, key, change(old))
    return old


def atomic_load(place: Any, key: Any, ordering: str = "seq_cst") -> Any:
    return _read(place, key)


def atomic_store(place: Any, key: Any, value: Any, ordering: str = "seq_cst") -> None:
    _changed(place, key, lambda old: value)


def atomic_add(place: Any, key: Any, value: Any, ordering: str = "seq_cst") -> Any:
    """Add to a number, and return its previous value."""
    return _changed(place, key, lambda old: type(old).wrapped(int(old) + int(value)))


def atomic_max(place: Any, key: Any, value: Any, ordering: str = "seq_cst") -> Any:
    """Replace a number by the maximum of it and `value`, and return its previous value."""
    return _changed(place, key, lambda old: max(old, value))


def compare_exchange(place: Any, key: Any, expected: Any, value: Any, ordering: str = "seq_cst") -> bool:
    """Write a number if the present one is `expected`.  Return True if it was."""
    return bool(_changed(place, key, lambda old: value if old == expected else old) == expected)


def fence(ordering: str = "seq_cst") -> None:
    """Order the reads and writes of this thread before the fence and those after it."""


INTRINSICS: dict[Any, str] = {
    f: f.__name__
    for f in (
        local, row, moved, held, select, shuffle, bit_cast, fence,
        atomic_load, atomic_store, atomic_add, atomic_max, compare_exchange,
    )
}  # fmt: skip
