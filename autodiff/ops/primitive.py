"""Functions that declare an operation: its reference, shape rule, derivative and lowering, in one place.

    elementwise   inputs of one dtype, NumPy's broadcasting; the derivative is one factor per input
    linear        linear in some inputs; the derivative is given by the transpose
    primitive     every other operation; the rules are written out

Each function makes an `OwnPrimitive` and registers it by name for the compiler.  Derivative rules are written
in the library's operations, so the compiler fuses them and they can be differentiated again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from codegen.ir import DTYPES, OPS, Aval, define
from codegen.lowering import Call, Lowering, Map, Move

from ..errors import DTypeError, ShapeError, located
from ..tape import Primitive, constant, record
from ..tensor import Tensor
from .arrays import on_arrays, on_elements
from .batching import along, elements

BOOL, I32, I64, F32, F64, C64, C128 = DTYPES.values()
_CALLED = Call()
#: A tuple of axes, extents or steps.
Ints = tuple[int, ...]


class OwnPrimitive(Primitive):
    """A primitive of this library.  A call on tensors records a node, without conversion or dispatch."""

    __slots__ = ()

    def __call__(self, *tensors: Tensor, **params: Any) -> Tensor:
        """Record `self(*tensors)`; the parameters are given by name, hashable and canonical.

        An error of the shape rule passes through, and nothing is recorded.
        """
        return record(self, tensors, tuple([params[name] for name in self.params]))


def elementwise(
    name: str,
    reference: Callable[..., Any] | None = None,
    *,
    partials: Callable[..., tuple] | None = None,
    slope: Callable[..., Any] | None = None,
    program: Callable[..., Any] | None = None,
    lower: Lowering | Callable[..., Any] | str = "",
    accepts: str = "f",
    result: str | None = None,
    params: tuple[str, ...] = (),
    first: str | None = None,
    masks: bool = False,
    traits: Sequence[str] = (),
    cancels: Callable[..., tuple] | None = None,
) -> OwnPrimitive:
    """Declare an operation on the elements of inputs of one dtype, which broadcast as in NumPy.

    partials   partials(y, *xs, **params) -> one derivative per input.  Each is a tensor; or None (zero);
               or 1 or -1 (no product is recorded); or a bool tensor (the input gets the cotangent at True, exactly
               zero at False); or a tuple of factors whose product may overflow or underflow although the cotangent
               times each factor in turn does not; or a function of no arguments that returns one of these, called
               only if that input needs a gradient.  Without `partials` and `slope` the operation is a step
               function: all its derivatives are zero.
    slope      slope(y, x, **params) -> the derivative of an operation of one input, in place of `partials`
    program    the computation of one element, as `Map` takes it; gives both the reference and the lowering
    lower      the computation of one element for the lowering alone, or the name of a method of the scalar builder;
               by default the method with the operation's name
    accepts    the kinds of dtype that the operation takes: "f" (float), "i" (int), "b" (bool), "c" (complex)
    result     the short name of the result's dtype; None: the dtype of the inputs
    first      the kind of the first input if it differs from the rest ("b" for the condition of `where`)
    masks      True if a partial of zero gives zero even when the cotangent is nan or inf
    cancels    cancels(y_bar, y, xs, masked) -> (the cotangent of each input from the part of y_bar in which the
               partial cancels, the rest of y_bar, which is multiplied by the partials); None is zero.  See `cancelling`
    """

    rule = partials or slope

    def pull(y_bar: Tensor, y: Tensor, xs: tuple, values: tuple, masked: bool, looks: bool = True) -> tuple:
        if rule is None:
            return (None,) * len(xs)
        found: list[Tensor | None] = []
        factors_of = rule(y, *xs, **dict(zip(params, values, strict=True)))
        factors_of = factors_of if partials else (factors_of,)
        done, rest = cancels(y_bar, y, xs, masked) if cancels and looks else ([None] * len(xs), y_bar)
        for x, x_bar, partial in zip(xs, done, factors_of, strict=True):
            if not _needs_gradient(x):
                found.append(None)
                continue
            factors, after, shape = adjoint_of(_resolved(partial)), (), x.node.kind.out.shape
            if isinstance(factors, tuple) and shape != y.shape and x_bar is None:
                # A factor of the input's shape is common to all terms of the sum: multiply it after the sum.
                after = tuple([f for f in factors if f.shape == shape])
                factors = tuple([f for f in factors if f.shape != shape])
            term = None if rest is None else _scaled(rest, factors, masked, masks)
            x_bar = added(x_bar, term)
            found.append(None if x_bar is None else _scaled(sum_to(x_bar, shape), after, masked, masks))
        return tuple(found)

    def push(dxs: tuple, y: Tensor, xs: tuple, values: tuple) -> Tensor | None:
        if rule is None:
            return None
        dy, factors_of = None, rule(y, *xs, **dict(zip(params, values, strict=True)))
        for dx, partial in zip(dxs, factors_of if partials else (factors_of,), strict=True):
            dy = added(dy, None if dx is None else _scaled(dx, _resolved(partial), False, masks))
        return None if dy is None else spread_to(dy, y.shape)

    reference, lower = (on_arrays(program), program) if program else (reference, lower or name)
    assert reference is not None, name
    if isinstance(lower, str):
        method = lower
        lower = Map(lambda k, *xs: getattr(k, method)(*xs))
    elif not isinstance(lower, Lowering):
        lower = Map(on_elements(lower))
    return primitive(
        name,
        reference,
        infer=elementwise_aval(name, accepts, result, first),
        lower=lower,
        params=params,
        traits=(*traits, "elementwise", *(("cancels",) if cancels else ())),
        pull=pull,
        push=push,
        masks=masks,
        discrete=not set(accepts if result is None else DTYPES[result].kind).intersection("fc"),
    )


def linear(
    name: str,
    reference: Callable[..., Any],
    *,
    infer: Callable[..., Aval],
    transpose: Callable[..., tuple],
    lower: Lowering = _CALLED,
    in_args: Ints | None = (0,),
    jointly: bool = False,
    traits: Sequence[str] = (),
    **declared: Any,
) -> OwnPrimitive:
    """Declare an operation that is linear in its inputs `in_args`; further keywords are as for `primitive`.

    transpose  transpose(y_bar, y, *xs, **params) -> one cotangent per input (None: zero); an entry may
               be a function of no arguments, called only if that input needs a gradient
    in_args    positions of the inputs in which the operation is linear (None: all inputs); the other inputs, such
               as indices, have no derivative
    jointly    True if linear in all `in_args` together (concatenate), False if in each separately (matmul)
    """

    def jvp(dxs: tuple, y: Tensor, *xs: Tensor, **given: Any) -> Tensor | None:
        """The operation applied to all tangents (`jointly`), or the sum over inputs with one tangent each."""
        numbers, params = range(len(xs)) if in_args is None else in_args, tuple(given.values())
        moving = [i for i in numbers if dxs[i] is not None]
        if moving and jointly:
            arguments = list(xs)
            for i in numbers:
                arguments[i] = zeros_of(xs[i].aval) if dxs[i] is None else dxs[i]
            return record(operation, tuple(arguments), params)
        terms = [record(operation, (*xs[:i], dxs[i], *xs[i + 1 :]), params) for i in moving]
        return functools.reduce(added, terms, None)

    if isinstance(lower, Move) and (lower.free or lower.is_reshape):
        traits = (*traits, "move")
    operation = primitive(name, reference, infer=infer, vjp=transpose, jvp=jvp, lower=lower, traits=traits, **declared)
    return operation


def primitive(
    name: str,
    reference: Callable[..., Any],
    *,
    infer: Callable[..., Aval],
    vjp: Callable[..., tuple] | None = None,
    jvp: Callable[..., Tensor | None] | None = None,
    params: tuple[str, ...] | None = None,
    traits: Sequence[str] = (),
    batch: Callable[..., Any] | None = None,
    lower: Lowering = _CALLED,
    **declared: Any,
) -> OwnPrimitive:
    """Declare an operation with its rules written out; further keywords are as for `tape.node.Primitive`.

    vjp     vjp(y_bar, y, *xs, **params) -> one cotangent per input, as `transpose` of `linear`.  A rule with a
            keyword-only `masked` is passed True if y_bar is masked, and multiplies by `times(y_bar, p, masked)`
    jvp     jvp(dxs, y, *xs, **params) -> tangent of y; without it forward mode transposes `vjp` twice
    params  names of the parameters; None: the keyword-only parameters of the shape rule `infer`
    batch   the batching rule, if neither `elements` nor `along` of `batching` fits; operations with the trait "part"
            (one of several results) need none, since the walk of `vmap` handles them
    lower   the lowering; by default compiled code calls the reference.  By default an operation is `heavy` unless its
            lowering is a `Map`, a `Move` or such a call
    """

    takes_masked = vjp is not None and "masked" in _taken_by_name(vjp)
    declared.setdefault("heavy", not isinstance(lower, Map | Move) and type(lower) is not Call)
    traits = (*traits, "elementwise") if isinstance(lower, Map) else traits

    def pull(y_bar: Tensor, y: Tensor, xs: tuple, values: tuple, masked: bool) -> tuple:
        assert vjp is not None
        given = dict(zip(operation.params, values, strict=True))
        cotangents = vjp(y_bar, y, *xs, **given, masked=masked) if takes_masked else vjp(y_bar, y, *xs, **given)
        # A cotangent given as a function is called only if its input needs a gradient.
        return tuple([_resolved(c) if _needs_gradient(x) else None for c, x in zip(cotangents, xs, strict=True)])

    def push(dxs: tuple, y: Tensor, xs: tuple, values: tuple) -> Tensor | None:
        assert jvp is not None
        return jvp(dxs, y, *xs, **dict(zip(operation.params, values, strict=True)))

    operation = OwnPrimitive(
        name,
        infer=infer,
        reference=reference,
        params=_taken_by_name(infer) if params is None else params,
        traits=frozenset(traits),
        batch=batch or (elements if "elementwise" in traits else None if "part" in traits else along),
        lower=lower,
        **{"pull": vjp and pull, "push": jvp and push, **declared},
    )
    define(operation)
    return operation


def with_rule(name: str, vjp: Callable[..., tuple], **declared: Any) -> OwnPrimitive:
    """Declare an operation that returns its first input; `vjp` gives the derivative by the other inputs."""
    return primitive(
        name, lambda value, *_, **__: value, infer=lambda value, *_, **__: value, vjp=vjp,
        written=lambda operands, params, aval: operands[0], **declared,
    )  # fmt: skip


def _taken_by_name(infer: Any) -> tuple[str, ...]:
    """The names of a function's keyword-only parameters."""
    code = infer.__code__
    return code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]


def named(name: str) -> OwnPrimitive:
    """The operation of a name.  Rules in this file use operations of files that import this file."""
    return cast(OwnPrimitive, OPS[name])


def _needs_gradient(x: Tensor) -> bool:
    """True if a gradient can flow on through x.  The node is read, since a handle may hide its flag."""
    return x.node.kind.out.requires_grad


def _resolved(partial: Any) -> Any:
    """The partial or cotangent, called first if it was given as a function of no arguments."""
    return partial() if callable(partial) else partial


def _scaled(g: Tensor, partial: Any, masked: bool, masks: bool) -> Tensor | None:
    """g · partial in the cheapest form; None is zero.

    masks    a partial of zero gives zero, even if g is nan or inf
    masked   a g of zero gives zero, even if the partial is nan or inf
    """
    if partial is None:
        return None
    if isinstance(partial, tuple):
        for factor in partial:
            g = times(g, factor, masked)
        return g
    if isinstance(partial, int):
        return g if partial == 1 else named("neg")(g)
    if partial.node.kind.out.aval.dtype.kind == "b":
        return named("where")(partial, g, zero_of(g.aval.dtype))
    return named("mul0")(partial, g) if masks else times(g, partial, masked)


def adjoint_of(partial: Any) -> Any:
    """The factor of a cotangent: the conjugate of a complex partial, a real partial unchanged."""
    if isinstance(partial, tuple):
        return tuple([adjoint_of(factor) for factor in partial])
    is_complex = isinstance(partial, Tensor) and partial.node.kind.out.aval.dtype.kind == "c"
    return named("conj")(partial) if is_complex else partial


def added(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """a + b; None stands for zero."""
    return b if a is None else a if b is None else named("add")(a, b)


def times(g: Tensor, p: Tensor, masked: bool) -> Tensor:
    """g · p of a cotangent and a partial of one dtype; if g is masked, its zeros give zero even if p is nan or inf."""
    return record(named("mul0" if masked else "mul"), (g, p))


def zero_of(dtype: np.dtype) -> Tensor:
    """The 0-d zero of a dtype, as a constant of the graph."""
    return constant({"f": 0.0, "c": 0.0, "i": 0, "b": False}[dtype.kind], dtype)


def zeros_of(aval: Aval) -> Tensor:
    """Zeros of a shape and dtype, as part of the graph."""
    return spread_to(zero_of(aval.dtype), aval.shape)


def sum_to(x: Tensor, shape: Ints) -> Tensor:
    """x summed over the axes along which broadcasting `shape` to x's shape repeats elements.

    The transpose of `spread_to`; records no node if the shapes are equal.
    """
    have = x.node.kind.out.shape
    if have == shape:
        return x
    extra = len(have) - len(shape)
    axes = tuple([i for i, n in enumerate(have) if i < extra or shape[i - extra] != n])
    y = record(named("sum"), (x,), (axes,)) if axes else x
    return y if y.shape == shape else record(named("reshape"), (y,), (shape,))


def spread_to(x: Tensor, shape: Ints) -> Tensor:
    """Broadcast x to `shape`; no node is recorded if x has this shape."""
    return x if x.shape == shape else record(named("broadcast_to"), (x,), (shape,))


def elementwise_aval(
    name: str, accepts: str, result: str | None = None, first: str | None = None
) -> Callable[..., Aval]:
    """The shape rule of an elementwise operation; parameters as for `elementwise`."""
    dtype = None if result is None else DTYPES[result]

    def infer(*avals: Aval, **_params: Any) -> Aval:
        shape = broadcast_avals(name, avals)
        rest = avals
        if first is not None:
            expect(name, avals[:1], first)
            rest = avals[1:]
        expect(name, rest, accepts)
        aval = rest[0]
        return aval if dtype is None and aval.shape == shape else Aval(shape, dtype or aval.dtype)

    return infer


def broadcasts_to(shape: Ints, wanted: Ints) -> bool:
    """True if NumPy's rules broadcast `shape` to `wanted`."""
    pairs = zip(reversed(shape), reversed(wanted), strict=False)
    return len(shape) <= len(wanted) and all([n in (1, m) for n, m in pairs])


def reduced_shape(shape: Ints, axes: Ints) -> Ints:
    """A shape without some of its axes."""
    return tuple([n for i, n in enumerate(shape) if i not in axes])


def with_extent(shape: Ints, axis: int, n: int) -> Ints:
    """A shape with another extent along an axis."""
    return (*shape[:axis], n, *shape[axis + 1 :])


KIND_NAMES = {"f": "float", "i": "integer", "b": "bool", "c": "complex"}


def broadcast_avals(name: str, avals: Sequence[Aval]) -> Ints:
    """The shape to which NumPy broadcasts the avals.  Raises ShapeError, which names the operation and the sizes."""
    shape = avals[0].shape
    for aval in avals[1:]:
        if aval.shape != shape:
            break
    else:
        return shape
    rank = max(aval.ndim for aval in avals)
    extents = []
    for axis in range(-rank, 0):
        sizes = {aval.shape[axis] for aval in avals if -axis <= aval.ndim} - {1}
        if len(sizes) > 1:
            raise ShapeError(located(
                f"{name}: shapes do not broadcast: {', '.join(map(str, avals))}\n"
                f"  along axis {axis} the sizes are {' and '.join(map(str, sorted(sizes)))}",
                _broadcast_advice(avals),
            ))
        extents.append(sizes.pop() if sizes else 1)
    return tuple(extents)


def _broadcast_advice(avals: Sequence[Aval]) -> str:
    """The error's advice for the common case of a vector meant as a column; "" if the case is another."""
    a, b = (avals[0], avals[-1]) if avals[0].ndim >= avals[-1].ndim else (avals[-1], avals[0])
    if b.ndim == 1 and a.ndim == 2 and a.shape[0] == b.shape[0]:
        return f"if the {b} is meant as a column, write v[:, None]"
    return ""


def expect(name: str, avals: Sequence[Aval], kinds: str) -> None:
    """Raise DTypeError unless the avals have one dtype, of one of these kinds ("f", "i", "b", "c")."""
    dtype = avals[0].dtype
    if dtype.kind not in kinds:
        wanted = " or ".join(KIND_NAMES[kind] for kind in kinds)
        raise DTypeError(located(f"{name}: takes {wanted} arrays, got {', '.join(map(str, avals))}"))
    for aval in avals:
        if aval.dtype != dtype:
            raise DTypeError(located(f"{name}: dtypes differ: {', '.join(map(str, avals))}"))
