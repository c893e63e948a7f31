"""A whole program as a C function: `ad.interop.entry`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codegen.ir import Aval, Graph
from codegen.lowering import Call, Dense, Nest, Order
from codegen.runtime.c_entries import CEntry
from codegen.runtime.launcher import raise_status

from .. import tree
from ..api import asarray
from ..entry import present
from ..errors import DispatchError, check_callable, located
from .program import LeafProgram

__all__ = ["Entry", "c_entry", "can_enter", "entry"]


class Entry:
    """A program with a C entry, for fixed shapes and dtypes.

    function          address of `int64_t call(const void *program, void **arguments, void **results, void *workspace)`
    program           what it gets first, good as long as this object is there
    arguments         shape and dtype of each argument
    results           of each result
    places            for each leaf of f's result its place among these: a number that is returned twice is one result
    workspace_bytes   bytes of memory that a call needs, at a multiple of 64
    """

    __slots__ = ("_entry", "arguments", "function", "places", "program", "results", "workspace_bytes")

    def __init__(
        self, found: CEntry, arguments: Sequence[Aval], results: Sequence[Aval], places: Sequence[int]
    ) -> None:
        self._entry, self.places = found, tuple(places)
        self.function, self.program, self.workspace_bytes = found.function, found.address, found.workspace_bytes
        self.arguments, self.results = tuple(arguments), tuple(results)

    def check(self, code: int) -> None:
        """Raise what a call's return code says; 0 says that all is well."""
        if code:
            raise_status(code)

    def __repr__(self) -> str:
        given, made = (", ".join(map(str, avals)) for avals in (self.arguments, self.results))
        return f"<Entry ({given}) -> ({made}), {self.workspace_bytes} bytes of workspace>"


def entry(f: Callable, *args: Any) -> Entry:
    """The program of f as a C function, for arguments of these shapes and dtypes.

    f      a function of arrays, written with functions of `ad`; its gradient by `ad.grad(f)`, say
    args   any nesting of arrays and numbers, of which only shapes and dtypes count

    C, ctypes, numba and Cython call it without Python:

        int64_t call(const void *program, void **arguments, void **results, void *workspace)

    `arguments` and `results` point to the memory of the leaves of arguments and results, in the order of `ad.tree`,
    packed in C's order.  Results overlap nothing else.  The workspace has the size that the entry says and begins at a
    multiple of 64; a thread needs its own.  A call returns 0, or step << 32 | status: 1 an index is out of range, 2
    there is no memory, 3 interrupted (the exception is set), 4 a matrix is singular or not positive definite.

    Arrays that f reads from outside are copied now.  Raises DispatchError, with their names, for a program that needs
    Python: one with host functions, or with operations that NumPy does.

    >>> import autodiff as ad, ctypes, numpy as np
    >>> x, y = np.array([3.0, 4.0]), np.empty(())
    >>> e = ad.interop.entry(lambda x: ad.sum(x * x), x)
    >>> e
    <Entry (f64[2]) -> (f64[]), 0 bytes of workspace>
    >>> call = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 4)(e.function)
    >>> call(e.program, (ctypes.c_void_p * 1)(x.ctypes.data), (ctypes.c_void_p * 1)(y.ctypes.data), None)
    0
    >>> y
    array(25.)
    """
    check_callable(f, "interop.entry")
    leaves, structure = tree.flatten(args)
    avals = [(t.shape, t.dtype) for t in map(asarray, leaves)]

    def flat(*leaves: Any) -> Any:
        return tuple([asarray(x) for x in tree.leaves(f(*tree.unflatten(structure, list(leaves))))])

    flat.__name__ = flat.__qualname__ = getattr(f, "__name__", "f")
    found = LeafProgram(flat).entry(avals)
    if not can_enter(found.executable):
        raise DispatchError(located(
            f"interop.entry: {flat.__name__} needs Python for {_in_python(found.graph)}",
            "a C entry is of machine code only: compute that part outside, and pass it as an argument",
        ))
    given, made = found.graph.inputs[: len(avals)], found.graph.outputs
    return Entry(c_entry(found), [n.aval for n in given], [n.aval for n in made], found.outputs)


def can_enter(executable: Any) -> bool:
    """True if a program is one of native steps only."""
    return executable is not None and executable.plan is not None


def c_entry(found: Any) -> CEntry:
    """The C entry of what a call signature leads to."""
    return CEntry(found.executable, [np.asarray(present(h)) for h in found.hidden])


def _in_python(graph: Graph) -> str:
    """The operations for which a program needs Python."""
    if not graph.outputs:
        return "nothing: it returns no array"
    names = [n.op.name for n in graph.nodes if isinstance(n.op.lower, Call) and not isinstance(n.op.lower, _NATIVE)]
    names = ["a host function" if name == "host" else name for name in names if name != "host_part"]
    return ", ".join(dict.fromkeys(names)) or "what a loop or branch of it does"


_NATIVE = (Dense, Order, Nest)
