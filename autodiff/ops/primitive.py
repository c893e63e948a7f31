"""Declarations of operations: once each, with reference, shape rule, derivative and lowering.

    elementwise   one dtype, NumPy's broadcasting; the derivative is a factor per input
    linear        linear in some inputs: its transpose is its derivative
    primitive     the rest: rules written out

Each makes an `OwnPrimitive` and registers it by name for the compiler.  Derivative rules are written
in operations, so what they record is fused, and differentiated again, like anything else.
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
#: Axes, extents, steps.
Ints = tuple[int, ...]


class OwnPrimitive(Primitive):
    """A primitive of this library.  Calling it on tensors records it: no conversion, no dispatch."""

    __slots__ = ()

    def __call__(self, *tensors: Tensor, **params: Any) -> Tensor:
        """Record `self(*tensors)`; parameters by name, hashable and canonical.

        Raises what the shape rule raises; then nothing is recorded.
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
    """An operation on the elements of inputs of one dtype, which broadcast as in NumPy.

    partials   partials(y, *xs, **params) -> one derivative per input.  Each is a tensor; or None (zero);
               or 1 or -1 (nothing to multiply); or a bool tensor (the cotangent where it is True, exactly
               zero elsewhere); or a tuple of factors whose product may leave the range where the cotangent
               times each in turn does not; or a function of no arguments giving one of these, called only
               when that input wants a gradient.  None instead of a function: the operation is a step function,
               all of whose derivatives are zero.
    slope      slope(y, x, **params) -> the derivative, of an operation of one input, in place of `partials`
    program    for an element, as a `Map` takes it: from it reference and lowering follow
    lower      a program for an element too, or the name of a method of the scalar builder; by default that of the
               operation
    accepts    kinds of dtype it takes, of "f" (float), "i" (int), "b" (bool), "c" (complex)
    result     the short name of the result's dtype; None: that of the inputs
    first      kind of the first input when it differs from the rest ("b" for the condition of `where`)
    masks      its zero partials are strong: they stop nan and inf
    cancels    cancels(y_bar, y, xs, masked) -> what each input gets without its partial (None: nothing), and the rest
               of y_bar (None: nothing), for which partials are used: see `cancelling`
    """

    rule = partials or slope

    def pull(y_bar: Tensor, y: Tensor, xs: tuple, values: tuple, masked: bool) -> tuple:
        if rule is None:
            return (None,) * len(xs)
        found: list[Tensor | None] = []
        factors_of = rule(y, *xs, **dict(zip(params, values, strict=True)))
        factors_of = factors_of if partials else (factors_of,)
        done, rest = cancels(y_bar, y, xs, masked) if cancels else ([None] * len(xs), y_bar)
        for x, x_bar, partial in zip(xs, done, factors_of, strict=True):
            if not _wants(x):
                found.append(None)
                continue
            factors, after, shape = adjoint_of(_forced(partial)), (), x.node.kind.out.shape
            if isinstance(factors, tuple) and shape != y.shape and x_bar is None:
                # A factor that is the same for all terms is multiplied with their sum.
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
            dy = added(dy, None if dx is None else _scaled(dx, _forced(partial), False, masks))
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
    """An operation that is linear in its inputs `in_args`; what else is declared is as for `primitive`.

    transpose  transpose(y_bar, y, *xs, **params) -> one cotangent per input (None: zero); an entry may
               be a function of no arguments, called only when that input wants a gradient
    in_args    numbers of the inputs it is linear in (None: all of them); the others, such as indices, have
               no derivative
    jointly    linear in all of `in_args` together (concatenate), not in each for itself (matmul)
    """

    def jvp(dxs: tuple, y: Tensor, *xs: Tensor, **given: Any) -> Tensor | None:
        """The operation of the tangents, or a sum of it with one tangent each."""
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
    """An operation whose rules are written out; what else is declared is as for `tape.node.Primitive`.

    vjp     vjp(y_bar, y, *xs, **params) -> one cotangent per input, as `transpose` of `linear`.  One that takes
            `masked` by name is told if y_bar is: `times(y_bar, p, masked)` is the product to use then
    jvp     jvp(dxs, y, *xs, **params) -> tangent of y; without it forward mode transposes `vjp` twice
    params  names of its parameters; None: those that the shape rule `infer` takes by name
    batch   what it does to many examples at once, where that is neither `elements` nor `along` of `batching` (of a
            part of several results the walk knows it)
    lower   how it is compiled; by default the reference is called.  One that is neither of elements nor such a call is
            `heavy`
    """

    care = vjp is not None and "masked" in _taken_by_name(vjp)
    declared.setdefault("heavy", not isinstance(lower, Map | Move) and type(lower) is not Call)
    traits = (*traits, "elementwise") if isinstance(lower, Map) else traits

    def pull(y_bar: Tensor, y: Tensor, xs: tuple, values: tuple, masked: bool) -> tuple:
        assert vjp is not None
        given = dict(zip(operation.params, values, strict=True))
        cotangents = vjp(y_bar, y, *xs, **given, masked=masked) if care else vjp(y_bar, y, *xs, **given)
        # Results that nobody wants are never computed.
        return tuple([_forced(c) if _wants(x) else None for c, x in zip(cotangents, xs, strict=True)])

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
    """An operation whose value is its first input; the rules say how it follows from the others."""
    return primitive(
        name, lambda value, *_, **__: value, infer=lambda value, *_, **__: value, vjp=vjp,
        written=lambda operands, params, aval: operands[0], **declared,
    )  # fmt: skip


def _taken_by_name(infer: Any) -> tuple[str, ...]:
    """The parameters that a function takes by name alone."""
    code = infer.__code__
    return code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]


def named(name: str) -> OwnPrimitive:
    """An operation by its name: rules here use some that are declared above this file."""
    return cast(OwnPrimitive, OPS[name])


def _wants(x: Tensor) -> bool:
    """True if a gradient can flow on through x: asked of the node, since a handle may be masked."""
    return x.node.kind.out.requires_grad


def _forced(partial: Any) -> Any:
    """A partial or cotangent that was written as a function of no arguments, computed."""
    return partial() if callable(partial) else partial


def _scaled(g: Tensor, partial: Any, masked: bool, strong: bool) -> Tensor | None:
    """g · partial in the cheapest form, or None for zero.

    `strong`: where the partial is zero so is the result, whatever g is.  `masked`: where g is zero
    so is the result, whatever the partial is.
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
    return named("mul0")(partial, g) if strong else times(g, partial, masked)


def adjoint_of(partial: Any) -> Any:
    """The factor of a cotangent: the conjugate of a complex partial, any other as it is."""
    if isinstance(partial, tuple):
        return tuple([adjoint_of(factor) for factor in partial])
    is_complex = isinstance(partial, Tensor) and partial.node.kind.out.aval.dtype.kind == "c"
    return named("conj")(partial) if is_complex else partial


def added(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """a + b, where None is zero."""
    return b if a is None else a if b is None else named("add")(a, b)


def times(g: Tensor, p: Tensor, masked: bool) -> Tensor:
    """The product of a cotangent and a partial derivative of the same dtype; a zero in a masked g is strong."""
    return record(named("mul0" if masked else "mul"), (g, p))


def zero_of(dtype: np.dtype) -> Tensor:
    """The 0-d zero of a dtype, as a constant of the graph."""
    return constant({"f": 0.0, "c": 0.0, "i": 0, "b": False}[dtype.kind], dtype)


def zeros_of(aval: Aval) -> Tensor:
    """Zeros of an aval, as part of the graph."""
    return spread_to(zero_of(aval.dtype), aval.shape)


def sum_to(x: Tensor, shape: Ints) -> Tensor:
    """Undo broadcasting: x summed over what broadcasting `shape` to x's shape repeated.

    The inverse direction of `spread_to`; no node when the shapes are equal.
    """
    have = x.node.kind.out.shape
    if have == shape:
        return x
    extra = len(have) - len(shape)
    axes = tuple([i for i, n in enumerate(have) if i < extra or shape[i - extra] != n])
    y = record(named("sum"), (x,), (axes,)) if axes else x
    return y if y.shape == shape else record(named("reshape"), (y,), (shape,))


def spread_to(x: Tensor, shape: Ints) -> Tensor:
    """Broadcast x to `shape`; no node when it has it already."""
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
    """True if NumPy's rules broadcast a shape to another."""
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
    """The shape NumPy broadcasts these to.  Raises ShapeError naming the operation and the sizes that differ."""
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
    """A mend for the common case of a vector meant as a column."""
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
