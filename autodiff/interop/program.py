"""A function of flat arguments, its derivatives, and its batches, each compiled once.

    program.run(*leaves)            the results, by machine code
    program.pulled(wanted, outs)    the program of (*leaves, *cotangents) that gives gradients
    program.pushed(moved, outs)     the program of (*leaves, *tangents) that gives tangents
    program.mapped(axes)            the program of whole batches
    entry(f, *args)                 a compiled program as a C function: `ad.interop.entry`

Derivatives and batches are programs again, so another library's transformations apply in any order and number.
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
from ..entry import present, replay_all
from ..errors import DispatchError, check_callable, located
from ..jit import jit
from ..ops import stop_gradient
from ..tape.node import Node
from ..tape.walk import needed, value_inputs
from ..tensor import Tensor, handle
from ..transforms import vjp, vmap
from .foreign import pulled, pushed, with_rows

T = TypeVar("T")

#: The most entries of a table, as of the programs of a function by structure of arguments; a full table is emptied.
ENTRIES = 256


class LeafProgram:
    """A function of leaves.

    f       f(*leaves) -> any nesting of arrays
    run     f, compiled
    linear  of a derivative: (the program it is derived from, the name of the method that makes its transpose, the
            places of its linear arguments, those of its results).  Of a batch: (program of an example, "mapped", axes)
    outside, entries   compiled forms that `jax_calls` stores here
    """

    def __init__(self, f: Callable, linear: tuple = ()) -> None:
        self.f = f
        self.run = jit(f)
        self.linear = linear
        self.outside: Any = None
        self.entries: dict[Any, Any] = {}
        self._derived: dict[tuple, Any] = {}

    def avals(self, arguments: Sequence[Any]) -> list[tuple]:
        """The shape and dtype of each result, for these arguments; all are arrays."""
        return [*avals_of([n.kind.out.aval for n in self.entry(avals_of(arguments)).results])]

    def entry(self, arguments: Sequence[tuple]) -> Any:
        """The compiled entry of f for arguments of these shapes and dtypes."""
        zeros = tuple([np.broadcast_to(np.zeros((), dtype), shape) for shape, dtype in arguments])
        return self.run.traced.entry(zeros, {})[0]  # type: ignore[attr-defined]  # of Jitted, not of its protocol

    def transposed(self, wanted: Sequence[int], outs: Sequence[int]) -> tuple[LeafProgram, list[bool]]:
        """The transpose of a program that is linear in its last leaves: a program of (*other leaves, *cotangents).

        The cotangents are those of the results `outs`.  It gives a cotangent for each of the leaves `wanted`, counted
        among the linear ones; those with True in the list have one cotangent for each example, which must be summed.
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
        """The number of last leaves in which the program is linear."""
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
        """A compiled function that returns (result, gradients, kept).

        For a result that is one float, `gradients` are its gradients.  For any other result they are None, and `kept`
        are the reductions and products that its gradient reads, for `pulled_with`.
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
        """The compiled function of (*leaves, *kept, *cotangents) with the results of `pulled`.

        kept   the values that `with_gradients(needs)` returned for these leaves, which are not computed again
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
            replay_all(nodes, now)
            return tuple([handle(now[n]) for n in nodes])

        return kept(self._derived, ("pulled with", needs, wanted, outs), lambda: jit(pulled))

    def with_rows(self, wanted: tuple[int, ...]) -> LeafProgram:
        """The program of the one result, a float, and its gradients for the leaves `wanted`, in one list."""
        rows = with_rows(self._flat, wanted)
        return kept(self._derived, ("rows", wanted), lambda: LeafProgram(lambda *leaves: rows(leaves)))

    def pulled(self, wanted: tuple[int, ...], outs: tuple[int, ...]) -> LeafProgram:
        """The program of the gradients for the leaves `wanted`, as a tuple, at cotangents of the results `outs`."""
        key = "pulled", wanted, outs
        return self._linear(key, pulled(self._flat, wanted, outs), (self, "pushed", outs, wanted))

    def pushed(self, moved: tuple[int, ...], outs: tuple[int, ...]) -> LeafProgram:
        """The program of the tangents of the results `outs`, as a tuple, at tangents of the leaves `moved`."""
        key = "pushed", moved, outs
        return self._linear(key, pushed(self._flat, moved, outs), (self, "pulled", moved, outs))

    def _linear(self, key: Any, of: Callable[[Sequence[Any]], Any], linear: tuple) -> LeafProgram:
        return kept(self._derived, key, lambda: LeafProgram(lambda *given: of(given), linear))

    def mapped(self, axes: tuple[int | None, ...]) -> LeafProgram:
        """The program of the results for a batch; the axis of a leaf is 0, or None if all examples share the leaf."""
        mapped = (self, "mapped", axes, None)
        return kept(self._derived, ("mapped", axes), lambda: LeafProgram(vmap(self.f, in_axes=axes), mapped))


def _zeros(results: Sequence[Any]) -> list[Any]:
    return [np.zeros(x.shape, x.dtype) for x in results]


def _read_again(results: Sequence[Any], pullback: Callable) -> list[Node]:
    """The reductions and products of a function that its gradient reads; all other nodes are cheap to compute again.

    results    the leaves of the function's result;  pullback: the one that `vjp` returned with them
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
    """The table's entry for the key, made by `make()` if there is none."""
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
    program           address of the program, the first argument of `function`; valid while this object exists
    arguments         shape and dtype of each argument
    results           shape and dtype of each result
    places            for each leaf of f's result its place among `results`: a value that f returns twice is one result
    workspace_bytes   bytes of memory that a call needs, at an address that is a multiple of 64
    """

    __slots__ = ("_entry", "arguments", "function", "places", "program", "results", "workspace_bytes")

    def __init__(
        self, found: CEntry, arguments: Sequence[Aval], results: Sequence[Aval], places: Sequence[int]
    ) -> None:
        self._entry, self.places = found, tuple(places)
        self.function, self.program, self.workspace_bytes = found.function, found.address, found.workspace_bytes
        self.arguments, self.results = tuple(arguments), tuple(results)

    def check(self, code: int) -> None:
        """Raise the error that a call's return code stands for; 0 stands for success."""
        if code:
            raise_status(code)

    def __repr__(self) -> str:
        given, made = (", ".join(map(str, avals)) for avals in (self.arguments, self.results))
        return f"<Entry ({given}) -> ({made}), {self.workspace_bytes} bytes of workspace>"


def entry(f: Callable, *args: Any) -> Entry:
    """The program of f as a C function, for arguments of these shapes and dtypes.

    f      a function of arrays, written with functions of `ad`; for a gradient pass `ad.grad(f)`
    args   example arguments, any nesting of arrays and numbers: only shapes and dtypes count

    C, ctypes, numba and Cython call it without Python:

        int64_t call(const void *program, void **arguments, void **results, void *workspace)

    `arguments` and `results` point to the memory of the leaves of arguments and results, in the order of `ad.tree`,
    packed in C's order.  Results must overlap no other memory.  The workspace has `workspace_bytes` and begins at a
    multiple of 64; each thread needs one.  A call returns 0, or step << 32 | status: 1 an index is out of range, 2
    there is no memory, 3 a signal handler raised or NumPy refuses the numbers (the exception is dropped), 4 a
    matrix is singular or not positive definite, or a Fourier transform has nan or inf.

    Arrays that f reads from outside are copied when the entry is made.  Raises DispatchError for a program with
    host functions.

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
    """True if a program is compiled, and runs no Python function of the user's."""
    return executable is not None and executable.plan is not None and "host" not in executable.python_operations


def c_entry(found: Any) -> CEntry:
    """The C entry of a compiled entry of `jit`."""
    return CEntry(found.executable, [np.asarray(present(h)) for h in found.hidden])


def _in_python(found: Any) -> str:
    """The name, for an error, of the part of a program that needs Python."""
    if not found.graph.outputs:
        return "nothing: it returns no array"
    return "a host function" if "host" in found.executable.python_operations else "all of it"
