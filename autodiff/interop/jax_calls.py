"""Calls of this library in JAX, and of JAX in this library, with their derivatives.

A wrapped function is a JAX primitive whose parameter is a `LeafProgram`, with the rules that JAX needs:

    jvp         the primitive over the program's tangent, which is linear in its last arguments; for a result that is
                one float, the product of the tangents with the gradient, which one program computes with the value
    transpose   for a program linear in its last arguments: the primitive over its transpose, which is linear like it
    batching    the primitive over the program of batches
    lowering    a call of the program's machine code by XLA's foreign function interface, else a callback into Python
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import numpy as np

from codegen.ir import DTYPES
from codegen.runtime.host_steps import WithFallback

from .. import tree
from ..api import asarray
from ..errors import DispatchError, DTypeError, check_callable, located
from ..ops import astype
from .foreign import Chain, Layout, chained, wrapped
from .program import LeafProgram, avals_of, c_entry, can_enter, kept

try:
    import jax
    from jax.extend.core import Primitive
    from jax.interpreters import ad as forward_and_transpose
    from jax.interpreters import batching, mlir
except ImportError as error:
    raise ImportError("ad.interop.jax needs JAX: pip install 'autodiff-native[jax]'") from error

Zero, is_undefined = forward_and_transpose.Zero, forward_and_transpose.is_undefined_primal


def _of_structure(f: Callable, structure: Any) -> Callable[[Sequence[Any]], Any]:
    """A wrapped function for arguments of one structure, as a function of a list of their leaves."""
    structures: dict[tuple, Any] = {}  # the structure of the results, by shapes and dtypes of the arguments

    def flat(*leaves: Any) -> Any:
        args, kwargs = jax.tree.unflatten(structure, leaves)
        found, structures[avals_of(leaves)] = jax.tree.flatten(f(*args, **kwargs))
        return tuple([_canonical(x) for x in found])

    flat.__name__ = flat.__qualname__ = getattr(f, "__name__", "f")
    program = LeafProgram(flat)

    def call(leaves: Sequence[Any]) -> Any:
        leaves = [_leaf(x) for x in leaves]
        avals = avals_of(leaves)
        if avals not in structures:
            program.avals(leaves)
        return jax.tree.unflatten(structures[avals], call_p.bind(*leaves, program=program))

    return call


def wrap(f: Callable) -> Callable:
    """See `autodiff.interop.jax`."""
    check_callable(f, "interop.jax.wrap")
    functions: dict[Any, Callable] = {}

    @wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = jax.tree.flatten((args, kwargs))
        key = structure, jax.dtypes.canonicalize_dtype(np.float64)
        return kept(functions, key, lambda: _of_structure(f, structure))(leaves)

    return call


def _leaf(x: Any) -> Any:
    """An argument as a JAX array.  Raises DispatchError and DTypeError."""
    try:
        if not isinstance(x, jax.Array):
            x = jax.numpy.asarray(x)
    except (TypeError, ValueError) as error:
        raise DispatchError(located(
            f"a wrapped function got {x!r:.40} ({type(x).__name__})",
            "its arguments are arrays and numbers; anything else may be read from outside, as by functools.partial",
        )) from error
    if x.dtype not in DTYPES.values():
        raise DTypeError(located(
            f"a wrapped function got an array of {x.dtype}, which ad does not have",
            "pass x.astype(int), or x.astype(float), through which gradients flow",
        ))
    return x


def _canonical(x: Any) -> Any:
    """A result in a dtype that JAX has at the moment: without its x64 mode it has none of 64 bits."""
    x = asarray(x)
    dtype = jax.dtypes.canonicalize_dtype(x.dtype)
    return x if dtype == x.dtype else astype(x, dtype)


# ---------------------------------------------------------------- the primitive


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, program: LeafProgram) -> Any:
    moved = tuple([i for i, t in enumerate(tangents) if type(t) is not Zero and t.dtype != jax.dtypes.float0])
    if moved and not program.count and _is_one_float(program.avals(primals), [primals[i].dtype for i in moved]):
        value, *rows = call_p.bind(*primals, program=program.with_rows(moved))
        parts = [jax.numpy.sum(g * tangents[i]) for i, g in zip(moved, rows, strict=True)]
        return [value], [sum([part.astype(value.dtype) for part in parts])]
    results = call_p.bind(*primals, program=program)
    outs = tuple([o for o, x in enumerate(results) if x.dtype.kind in "fc"])
    found = [Zero(jax.typeof(x).to_tangent_aval()) for x in results]
    if moved and outs:
        pushed = program.pushed(moved, outs)
        directions = [tangents[i] for i in moved]
        for o, t in zip(outs, call_p.bind(*primals, *directions, program=pushed), strict=True):
            found[o] = t
    return results, found


def _is_one_float(results: Sequence[tuple], dtypes: Sequence[np.dtype]) -> bool:
    """True if the only result is a real number and the moving arguments are real: a gradient gives the tangent then."""
    return len(results) == 1 and results[0][0] == () and {x.kind for x in (results[0][1], *dtypes)} == {"f"}


def _transpose(bars: Sequence[Any], *args: Any, program: LeafProgram) -> list[Any]:
    first = len(args) - program.count
    wanted = tuple([i for i, x in enumerate(args[first:]) if is_undefined(x)])
    assert not any([is_undefined(x) for x in args[:first]]), "JAX transposes what is not linear"
    outs = tuple([o for o, bar in enumerate(bars) if type(bar) is not Zero])
    found: list[Any] = [None] * len(args)
    if not outs:
        return found
    transposed, summed = program.transposed(wanted, outs)
    given = [*args[:first], *[_conjugate(bars[o]) for o in outs]]
    for i, is_summed, x in zip(wanted, summed, call_p.bind(*given, program=transposed), strict=True):
        found[first + i] = _conjugate(x.sum(axis=0) if is_summed else x)
    return found


def _conjugate(x: Any) -> Any:
    """Convert a gradient between this library's convention and JAX's, which is the conjugate for complex numbers."""
    return jax.numpy.conj(x) if x.dtype.kind == "c" else x


def _batched(args: Sequence[Any], dims: Sequence[Any], *, program: LeafProgram) -> Any:
    axes = tuple([None if d is None else 0 for d in dims])
    moved = [x if a is None else jax.numpy.moveaxis(x, d, 0) for x, d, a in zip(args, dims, axes, strict=True)]
    results = call_p.bind(*moved, program=program.mapped(axes))
    return results, [0] * len(results)


def _by_itself(*args: Any, program: LeafProgram) -> Any:
    """The results of a call outside of `jax.jit`."""
    program.outside = program.outside or jax.jit(partial(call_p.bind, program=program))
    return program.outside(*args)


def _lowered(*args: Any, program: LeafProgram) -> Any:
    avals = avals_of(args)
    found = kept(program.entries, avals, lambda: _entered(program.entry(avals)))
    if not found:
        return _called_back(*args, program=program)
    address, shapes, places = found
    computed = jax.ffi.ffi_call(TARGET, shapes)(*args, program=np.int64(address))
    return [computed[place] for place in places]


def _entered(entry: Any) -> tuple:
    """(address of a program, shapes of its outputs, the place of each result among these).

    Empty if the program needs Python, or may refuse numbers: then Python runs it and raises the error.
    """
    if not can_enter(code := entry.executable) or code.python_operations or isinstance(code.call, WithFallback):
        return ()
    found = c_entry(entry)
    if not _entries:  # all entries have the same handler
        _register(found.handler)
    _entries.append(found)
    shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in entry.executable.outputs]
    return found.address, shapes, entry.outputs


#: The name of the one function that JAX calls.
TARGET = "autodiff_program"
#: All entries, kept for good: JAX does not tell when it drops a program.
_entries: list[Any] = []


def _register(handler: int) -> None:
    """Register the function at this address with JAX."""
    function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(handler)
    jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(function), platform="cpu")


def _called_back(*args: Any, program: LeafProgram) -> Any:
    """The results of a call that JAX makes by a callback into Python."""
    results = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in program.avals(args)]
    return jax.pure_callback(partial(_by_callback, program), results, *args)


def _by_callback(program: LeafProgram, *args: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in program.run(*[np.asarray(x) for x in args])]


call_p = Primitive("autodiff_call")
call_p.multiple_results = True
call_p.def_impl(_by_itself)
call_p.def_abstract_eval(
    lambda *args, program: [jax.core.ShapedArray(shape, dtype) for shape, dtype in program.avals(args)]
)
forward_and_transpose.primitive_jvps[call_p] = _jvp
forward_and_transpose.primitive_transposes[call_p] = _transpose
batching.primitive_batchers[call_p] = _batched
mlir.register_lowering(call_p, mlir.lower_fun(_called_back, multiple_results=True))
mlir.register_lowering(call_p, mlir.lower_fun(_lowered, multiple_results=True), platform="cpu")


# ---------------------------------------------------------------- JAX functions in this library


def from_jax(f: Callable) -> Callable:
    """See `autodiff.interop.jax`."""
    check_callable(f, "interop.jax.from_jax")
    compiled: dict[Any, tuple[Callable, list[Any]]] = {}

    def run(chain: Chain, structure: tree.Structure, leaves: Sequence[Any]) -> tuple[Layout, list[np.ndarray]]:
        moving = tuple([i for i, x in enumerate(leaves) if isinstance(x, (np.ndarray, np.generic, float, complex))])
        still = tuple([None if i in moving else x for i, x in enumerate(leaves)])
        key = chain, structure, tree.exactly(still)
        function, nesting = kept(compiled, key, lambda: _compiled(f, chain, structure, still, moving))
        with jax.enable_x64(True):
            found = function(*[np.asarray(leaves[i]) for i in moving])
            return Layout(nesting[0], len(found)), [np.asarray(x) for x in found]

    return wrapped(getattr(f, "__name__", type(f).__name__), run)


def _compiled(
    f: Callable, chain: Chain, structure: tree.Structure, still: Sequence[Any], moving: Sequence[int]
) -> tuple[Callable, list[tree.Structure]]:
    """A compiled function of the arrays among the leaves, and the list where it puts the structure of its results."""
    function, nesting = chained(f, chain, structure, pull=_pulled)
    return jax.jit(lambda *arrays: function(tree.exchanged(still, moving, arrays))), nesting


def _pulled(function: Callable, wanted: Sequence[int], outs: Sequence[int]) -> Callable:
    """The gradient of a function of a list of arrays, as a function of a list, which JAX can differentiate again."""

    def pulled(given: Sequence[Any]) -> Sequence[Any]:
        leaves, bars = list(given[: -len(outs)]), given[-len(outs) :]

        def restricted(*moving: Any) -> Any:
            found = function(tree.exchanged(leaves, wanted, moving))
            return [found[o] for o in outs]

        _, pullback = jax.vjp(restricted, *[leaves[i] for i in wanted])
        return [_conjugate(g) for g in pullback([_conjugate(jax.numpy.asarray(bar)) for bar in bars])]

    return pulled
