"""A function of flat arguments, and the functions that derivatives and batches of it are, each compiled once.

    program.run(*leaves)            its results, natively
    program.pulled(wanted, outs)    the program of (*leaves, *cotangents) that gives gradients
    program.pushed(moved, outs)     the program of (*leaves, *tangents) that gives tangents
    program.mapped(axes)            the program of whole batches
    entry(f, *args)                 a whole program as a C function: `ad.interop.entry`

Each of them is a program again, so another library's transformations can be applied in any order and any number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from codegen.ir import Aval
from codegen.runtime.c_entries import CEntry
from codegen.runtime.launcher import raise_status

from .. import tree
from ..api import asarray
from ..entry import present, put_again
from ..errors import DispatchError, check_callable, located
from ..jit import jit
from ..ops import stop_gradient
from ..tape.node import Node
from ..tape.walk import needed, value_inputs
from ..tensor import Tensor, handle
from ..transforms import vjp, vmap
from .foreign import pulled, pushed, with_rows

T = TypeVar("T")

#: Entries of a table, such as the programs of one function by the structure of its arguments; further ones start anew.
ENTRIES = 256


class LeafProgram:
    """A function of leaves.

    f       f(*leaves) -> any nesting of arrays
    run     f, compiled
    linear  of a derivative: the program it is one of, the name of the one that is its transpose, for which leaves it
            is linear there, and for which results.  Of a batch of one: that one, and the axes
    outside, entries   what others keep with it
    """

    def __init__(self, f: Callable, linear: tuple = ()) -> None:
        self.f = f
        self.run = jit(f)
        self.linear = linear
        self.outside: Any = None
        self.entries: dict[Any, Any] = {}
        self._derived: dict[tuple, Any] = {}

    def avals(self, arguments: Sequence[Any]) -> list[tuple]:
        """The shape and dtype of each result, which are arrays, for arguments that have some."""
        return [*avals_of([n.kind.out.aval for n in self.entry(avals_of(arguments)).results])]

    def entry(self, arguments: Sequence[tuple]) -> Any:
        """The entry of f, compiled, for arguments of these shapes and dtypes."""
        zeros = tuple([np.broadcast_to(np.zeros((), dtype), shape) for shape, dtype in arguments])
        return self.run.traced.entry(zeros, {})[0]  # type: ignore[attr-defined]  # of Jitted, not of its protocol

    def transposed(self, wanted: Sequence[int], outs: Sequence[int]) -> tuple[LeafProgram, list[bool]]:
        """Of a program that is linear in its last leaves the program of (*other leaves, *cotangents of `outs`).

        It gives a cotangent for each of the leaves `wanted`, counted among the linear ones; where True stands for it,
        one for each example, which have to be added.
        """
        parent, kind, inputs, results = self.linear
        if kind == "mapped":
            inner, summed = parent.transposed(wanted, outs)
            first = len(inputs) - parent.count
            axes = (*inputs[:first], *[0] * len(outs))
            return inner.mapped(axes), [s or inputs[first + i] is None for s, i in zip(summed, wanted, strict=True)]
        inputs, results = tuple([inputs[i] for i in wanted]), tuple([results[o] for o in outs])
        if kind == "pulled":
            return parent.pulled(inputs, results), [False] * len(wanted)
        return parent.pushed(results, inputs), [False] * len(wanted)

    @property
    def count(self) -> int:
        """The number of leaves, the last ones, in which it is linear."""
        if not self.linear:
            return 0
        parent, kind, inputs, _ = self.linear
        return parent.count if kind == "mapped" else len(inputs)

    def _flat(self, leaves: Sequence[Any]) -> list[Any]:
        """The leaves of the result of f."""
        return tree.leaves(self.f(*leaves))

    def _vjp(self, leaves: Sequence[Any], wanted: Sequence[int]) -> tuple[Any, Callable]:
        """The result of f, and the pullback to the leaves `wanted`."""
        return vjp(lambda *moving: self.f(*tree.exchanged(leaves, wanted, moving)), *[leaves[i] for i in wanted])

    def with_gradients(self, needs: tuple[bool, ...]) -> Callable:
        """A compiled function that gives (result, gradients, kept).

        Gradients are those of a result that is one float, else None; then the reductions and products that the
        gradient reads are kept, for `pulled_with`.
        """
        wanted = tuple([i for i, needed in enumerate(needs) if needed])

        def both(*leaves: Any) -> Any:
            result, pullback = self._vjp(leaves, wanted)
            found = tree.leaves(result)
            is_one = len(found) == 1 and isinstance(found[0], Tensor) and found[0].aval.shape == ()
            if not is_one or found[0].dtype.kind != "f":
                return result, None, tuple([stop_gradient(handle(n)) for n in _read_again(found, pullback)])
            return result, pullback(tree.unflatten(tree.flatten(result)[1], [1.0])), ()

        return kept(self._derived, needs, lambda: jit(both))

    def pulled_with(self, needs: tuple[bool, ...], wanted: tuple[int, ...], outs: tuple[int, ...]) -> Callable:
        """The compiled function of (*leaves, *kept, *cotangents) that `pulled` is of (*leaves, *cotangents).

        kept   what `with_gradients(needs)` gave for these leaves
        """
        moving = [i for i, needed in enumerate(needs) if needed]

        def pulled(*given: Any) -> Any:
            leaves, known, bars = given[: len(needs)], given[len(needs) : -len(outs)], given[-len(outs) :]
            result, pullback = self._vjp(leaves, moving)
            found = tree.leaves(result)
            seeds = tree.exchanged(_zeros(found), outs, bars)
            gradients = dict(zip(moving, pullback(tuple(seeds)), strict=True))
            nodes = [asarray(gradients[i]).node for i in wanted]
            now = dict(zip(_read_again(found, pullback), [asarray(x).node for x in known], strict=True))
            put_again(nodes, now)
            return tuple([handle(now[n]) for n in nodes])

        return kept(self._derived, ("pulled with", needs, wanted, outs), lambda: jit(pulled))

    def with_rows(self, wanted: tuple[int, ...]) -> LeafProgram:
        """The one result, a float, and its gradients for the leaves `wanted`, as one list."""
        rows = with_rows(self._flat, wanted)
        return kept(self._derived, ("rows", wanted), lambda: LeafProgram(lambda *leaves: rows(leaves)))

    def pulled(self, wanted: tuple[int, ...], outs: tuple[int, ...]) -> LeafProgram:
        """Gradients for the leaves `wanted`, as a tuple, at cotangents of the results `outs`."""
        key = "pulled", wanted, outs
        return self._linear(key, pulled(self._flat, wanted, outs), (self, "pushed", outs, wanted))

    def pushed(self, moved: tuple[int, ...], outs: tuple[int, ...]) -> LeafProgram:
        """Tangents of the results `outs`, as a tuple, at tangents of the leaves `moved`."""
        key = "pushed", moved, outs
        return self._linear(key, pushed(self._flat, moved, outs), (self, "pulled", moved, outs))

    def _linear(self, key: Any, of: Callable[[Sequence[Any]], Any], linear: tuple) -> LeafProgram:
        return kept(self._derived, key, lambda: LeafProgram(lambda *given: of(given), linear))

    def mapped(self, axes: tuple[int | None, ...]) -> LeafProgram:
        """The results for a batch; an axis of a leaf is 0, or None where all examples share it."""
        mapped = (self, "mapped", axes, None)
        return kept(self._derived, ("mapped", axes), lambda: LeafProgram(vmap(self.f, in_axes=axes), mapped))


def _zeros(results: Sequence[Any]) -> list[Any]:
    return [np.zeros(x.shape, x.dtype) for x in results]


def _read_again(results: Sequence[Any], pullback: Callable) -> list[Node]:
    """The reductions and products of a function that its gradient reads: all else is cheap to compute again.

    results    leaves of its result;  pullback: that of `vjp`
    """
    nodes = [x.node for x in results if isinstance(x, Tensor)]
    order = needed(nodes)
    heavy = {n for n in order if n.value is None and n.kind.op.heavy and n.kind.out.requires_grad and not n.call}
    gradients = [asarray(g).node for g in tree.leaves(pullback(tuple(_zeros(results))))]
    read = set(gradients)
    for node in reversed(needed(gradients)):
        if node in read and node not in heavy:
            read.update(value_inputs(node))
    return [n for n in order if n in heavy and n in read]


def program_of(programs: dict[Any, LeafProgram], f: Callable, structure: tree.Structure) -> LeafProgram:
    """The program of f for arguments (args, kwargs) of this structure."""

    def made() -> LeafProgram:
        def flat(*leaves: Any) -> Any:
            args, kwargs = tree.unflatten(structure, list(leaves))
            return f(*args, **kwargs)

        flat.__name__ = flat.__qualname__ = getattr(f, "__name__", "f")
        return LeafProgram(flat)

    return kept(programs, structure, made)


def kept(table: dict[Any, T], key: Any, make: Callable[[], T]) -> T:
    """The table's entry for the key, made if there is none."""
    found = table.get(key)
    if found is None:
        if len(table) >= ENTRIES:
            table.clear()
        found = table.setdefault(key, make())
    return found


def avals_of(arguments: Sequence[Any]) -> tuple[tuple, ...]:
    """The shapes and dtypes of arrays."""
    return tuple([(x.shape, x.dtype) for x in arguments])


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
    there is no memory, 3 a signal's handler raised or NumPy refuses the numbers (the exception is dropped), 4 a matrix
    is singular or not positive definite, or a Fourier transform has nan or inf.

    Arrays that f reads from outside are copied now.  Raises DispatchError for a program with host functions.

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
    avals = avals_of([*map(asarray, leaves)])

    def flat(*leaves: Any) -> Any:
        return tuple([asarray(x) for x in tree.leaves(f(*tree.unflatten(structure, list(leaves))))])

    flat.__name__ = flat.__qualname__ = getattr(f, "__name__", "f")
    found = LeafProgram(flat).entry(avals)
    if not can_enter(found.executable):
        raise DispatchError(located(
            f"interop.entry: {flat.__name__} needs Python for {_in_python(found)}",
            "a C entry is of machine code only: compute that part outside, and pass it as an argument",
        ))
    given, made = found.graph.inputs[: len(avals)], found.graph.outputs
    return Entry(c_entry(found), [n.aval for n in given], [n.aval for n in made], found.outputs)


def can_enter(executable: Any) -> bool:
    """True if a program runs nothing of the user's in Python."""
    return executable is not None and executable.plan is not None and "host" not in executable.python_operations


def c_entry(found: Any) -> CEntry:
    """The C entry of what a call signature leads to."""
    return CEntry(found.executable, [np.asarray(present(h)) for h in found.hidden])


def _in_python(found: Any) -> str:
    """The part, in words, for which a program that cannot be entered needs Python."""
    if not found.graph.outputs:
        return "nothing: it returns no array"
    return "a host function" if "host" in found.executable.python_operations else "all of it"
