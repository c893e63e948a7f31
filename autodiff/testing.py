"""`ad.check_gradients`: a check of the derivatives of a function, for users and for the command line.

    first order     <y_bar, jvp(dx)> = <vjp(y_bar), dx> for random y_bar and dx, and both = a difference quotient
    second order    the same laws for x -> vjp(x)(y_bar), and so on; for x -> jvp(x)(dx) too if a rule is a jvp

Arguments are taken apart by `ad.tree`, so a structured argument moves within its type.  The wrong entry is found by
halving dx, the wrong rule by checking every custom call of the recording by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from . import tree
from .containers import unregistered
from .custom.boundary import HistorylessError
from .errors import DTypeError, GradientError, check_callable, located
from .ops import as_tensor
from .tangents import array_of, tangents
from .tape.ask import evaluate
from .tape.leaves import leaf
from .tape.node import Node
from .tape.plan import data
from .tape.walk import history
from .tensor import AbstractTensor, Tensor
from .tracebacks import border
from .transforms import jvp, vjp
from .transforms.arguments import applied, argument_names, checked_numbers

__all__ = ["CheckFailed", "check_gradients"]

#: Bytes of the narrowest dtype -> relative tolerances of the adjoint law and of a difference, and the steps to try.
#: The error of a five-point difference is of order h^4 and eps/h; the middle step balances the two, the others are
#: for functions that vary on another scale.  A wrong derivative agrees with no step.
_LIMITS = {
    8: (1e-9, 1e-6, (1e-3, 1e-4, 1e-5)),
    4: (1e-3, 3e-4, (1e-1, 3e-2, 1e-2, 3e-3)),
}

#: The rules of this package (of loops) are not suspected: their results depend on which gradients are asked for.
_LIBRARY = __name__.partition(".")[0]


class CheckFailed(GradientError, AssertionError):
    """A derivative that disagrees with difference quotients, or with the derivative in the other mode.

    mode   "forward" or "reverse", if one of the two is known to be wrong
    """

    def __init__(self, message: str, mode: str = "") -> None:
        super().__init__(message)
        self.mode = mode


class Case(NamedTuple):
    """A function of arrays, the arrays, their names, the order to check, and the projection of directions."""

    name: str
    function: Callable[..., list]
    point: list[np.ndarray]
    inputs: list[str]
    order: int
    tangent: Callable[[Sequence[np.ndarray]], list[np.ndarray]]


@border
def check_gradients(
    f: Callable[..., Any], *args: Any, order: int = 2, argnums: int | Sequence[int] | None = None
) -> None:
    """Check the derivatives of f at `args`, up to `order`, in forward and reverse mode.

    args      any nesting of arrays, tensors, structured values; leaves that are not float stay constant
    argnums   the arguments to differentiate; by default all that hold float arrays, or, if none does, float numbers

    Raises GradientError (also an AssertionError) that names the input, the first bad entry, both numbers, and the
    rule's file and line; DTypeError when there is nothing to differentiate; and any error of f and its rules.
    f must be smooth near the point: at a kink a difference is no derivative.  Through a host backward without a
    jvp there is no forward mode: only reverse mode is checked, with order=1.

    >>> import autodiff as ad, numpy as np
    >>> ad.check_gradients(lambda x, a: (ad.sin(x) * a).sum(), np.array([1.0, 2.0]), 3.0)
    """
    case = _case(f, args, argnums, order)
    try:
        _check(case, np.random.default_rng(0), 1)
    except CheckFailed as error:
        raise CheckFailed(located(f"{error}\n  {_suspect(case)}")) from None


# ---------------------------------------------------------------- a function of arrays


def _case(f: Callable, args: Sequence[Any], argnums: int | Sequence[int] | None, order: int) -> Case:
    check_callable(f, "check_gradients")
    name = getattr(f, "__name__", type(f).__name__)
    leaves, structure = tree.flatten(tuple(args))
    labels = argument_names(f, tree.flatten((tuple(args), {}))[1])
    moved = _moved(leaves, args, None if argnums is None else checked_numbers(argnums, len(args), name))
    if not moved:
        raise DTypeError(located(
            f"check_gradients of {name}: no argument is a float array",
            f"pass float arrays or tensors, or name a number by argnums{unregistered(leaves)}",
        ))

    def function(*arrays: Any) -> list:
        given = tree.unflatten(structure, tree.exchanged(leaves, moved, arrays))
        return _float_leaves(applied(f, given, {}), name)

    projected = tangents(args)
    point = [array_of(leaves[i]) for i in moved]
    return Case(
        name, function, point, [labels[i] for i in moved], order,
        lambda dxs: list(projected(dict(zip(moved, dxs, strict=True))).values()),
    )  # fmt: skip


def _moved(leaves: Sequence[Any], args: Sequence[Any], argnums: Sequence[int] | None) -> list[int]:
    """The numbers of the leaves to differentiate."""
    owners = [k for k, arg in enumerate(args) for _ in tree.leaves(arg)]
    if argnums is not None:
        return [i for i, x in enumerate(leaves) if owners[i] in argnums and (_is_float_array(x) or _is_float(x))]
    arrays = [i for i, x in enumerate(leaves) if _is_float_array(x)]
    return arrays or [i for i, x in enumerate(leaves) if _is_float(x)]


def _is_float_array(x: Any) -> bool:
    return isinstance(x, (Tensor, np.ndarray)) and x.dtype.kind in "fc"


def _is_float(x: Any) -> bool:
    return isinstance(x, (float, complex, np.inexact))


def _float_leaves(result: Any, name: str) -> list:
    found = []
    for x in tree.leaves(result):
        if isinstance(x, (AbstractTensor, np.ndarray, np.generic)):
            t = as_tensor(x)
            if t.dtype.kind in "fc":
                found.append(t)
    if not found:
        raise GradientError(located(f"check_gradients: {name} returned no float array"))
    return found


# ---------------------------------------------------------------- the laws


class _Laws:
    """The derivatives of one case at its point, with one random y_bar."""

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.case = case
        ys, self.pullback = vjp(case.function, *case.point)
        self.ys = [np.asarray(y) for y in ys]
        self.y_bars = [_random(y, rng) for y in self.ys]
        self.x_bars = [np.asarray(g) for g in self.pullback(self.y_bars)]
        width = min(np.finfo(a.dtype).dtype.itemsize for a in (*case.point, *self.ys))
        self.adjoint_rtol, self.rtol, self.steps = _LIMITS[4 if width < 8 else 8]
        self.eps = float(np.finfo(np.float32 if width < 8 else np.float64).eps)

    def forward(self, dxs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The tangents of the results."""
        return [np.asarray(d) for d in jvp(self.case.function, self.case.point, list(dxs))[1]]

    def along(self, dxs: Sequence[np.ndarray], t: float) -> float:
        """<y_bar, f(x + t dx)>."""
        moved = [(x + t * dx).astype(x.dtype) for x, dx in zip(self.case.point, dxs, strict=True)]
        ys = self.case.function(*[leaf(m) for m in moved])
        evaluate([y.node for y in ys])
        return _inner(self.y_bars, [data(y.node) for y in ys])

    def differences(self, dxs: Sequence[np.ndarray]) -> Iterator[tuple[float, float]]:
        """(difference quotient, its rounding noise) for each step."""
        size = sum([float(np.abs(b * y).sum()) for b, y in zip(self.y_bars, self.ys, strict=True)])
        for h in self.steps:
            near = self.along(dxs, h) - self.along(dxs, -h)
            far = self.along(dxs, 2 * h) - self.along(dxs, -2 * h)
            yield (8 * near - far) / (12 * h), 8 * self.eps * size / h

    def floor(self, dxs: Sequence[np.ndarray]) -> float:
        """The rounding error of a derivative along dx, also of a small one, in which terms of size one may cancel."""
        y_bar = sum([float(np.abs(b).sum()) for b in self.y_bars])
        return 100 * self.eps * y_bar * max([float(np.abs(d).max(initial=0.0)) for d in dxs], default=0.0)

    def disagreement(self, derivative: float, dxs: Sequence[np.ndarray], scale: float) -> float | None:
        """The nearest difference quotient if `derivative` agrees with none; None if it agrees with one."""
        best = None
        scale = self.rtol * scale + self.floor(dxs)
        for quotient, noise in self.differences(dxs):
            if abs(quotient - derivative) <= scale + noise:
                return None
            if best is None or abs(quotient - derivative) < abs(best - derivative):
                best = quotient
        return best


def _check(case: Case, rng: np.random.Generator, level: int) -> None:
    """Check the laws of this order, then those of the next order."""
    try:
        laws = _Laws(case, rng)
    except HistorylessError as error:
        if level == 1:
            raise
        raise GradientError(f"{error}\n  check_gradients(..., order={level - 1}) leaves that derivative out") from None
    for dxs in map(case.tangent, _directions(case.point, rng)):
        by_reverse, scale = _inner(laws.x_bars, dxs), _size(laws.x_bars, dxs)
        dys: list[np.ndarray] = []
        with suppress(HistorylessError):  # forward mode transposes the rule: a host rule has no known derivative
            dys = laws.forward(dxs)
            scale += _size(laws.y_bars, dys)
        _compare(laws, "reverse", lambda d: _inner(laws.x_bars, d), by_reverse, dxs, scale, level)
        if not dys:
            continue
        by_forward = _inner(laws.y_bars, dys)
        _compare(laws, "forward", lambda d: _inner(laws.y_bars, laws.forward(d)), by_forward, dxs, scale, level)
        if not abs(by_forward - by_reverse) <= laws.adjoint_rtol * scale + laws.floor(dxs):
            raise CheckFailed(
                f"check_gradients of {case.name}: forward and reverse mode disagree at {_ordinal(level)} order\n"
                f"  <y_bar, jvp(dx)> is {by_forward:.10g}, <vjp(y_bar), dx> is {by_reverse:.10g}"
            )
    if case.order > level:
        y_bars = laws.y_bars
        gradient = case._replace(function=lambda *xs: list(vjp(case.function, *xs)[1](y_bars)))
        _check(gradient, rng, level + 1)
        if any(n.call.function.rule_for("jvp", n.call.method, n.call.types) for n in _custom_calls(case)):
            dxs = case.tangent([_random(x, rng) for x in case.point])
            try:
                _check(case._replace(function=lambda *xs: list(jvp(case.function, xs, dxs)[1])), rng, level + 1)
            except CheckFailed as error:
                raise CheckFailed(f"{error}\n  of the tangent that the jvp gives", "forward") from None


def _directions(point: Sequence[np.ndarray], rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
    """Random directions: one that moves all inputs, and one for each input alone, so that no error is hidden."""
    yield [_random(x, rng) for x in point]
    for j in range(len(point)):
        yield [_random(x, rng) if k == j else np.zeros_like(x) for k, x in enumerate(point)]


def _ordinal(level: int) -> str:
    return ("first", "second", "third")[level - 1] if level <= 3 else f"{level}th"


def _compare(
    laws: _Laws,
    mode: str,
    derivative: Callable[[Sequence[np.ndarray]], float],
    value: float,
    dxs: Sequence[np.ndarray],
    scale: float,
    level: int,
) -> None:
    """Raise CheckFailed, with the first bad entry, if a mode's derivative along dx is no difference quotient."""
    quotient = laws.disagreement(value, dxs, scale)
    if quotient is None:
        return
    case = laws.case
    found = _first_bad(laws, derivative, dxs)
    head = f"check_gradients of {case.name}: the derivative is wrong at {_ordinal(level)} order, in {mode} mode"
    if found is None:
        raise CheckFailed(f"{head}\n  along a direction it is {value:.10g}, a difference gives {quotient:.10g}", mode)
    j, entry, got, expected = found
    x = case.point[j]
    place = f", entry [{', '.join(map(str, entry))}]" if entry else ""
    where = f"input {case.inputs[j]}: {as_tensor(x).aval}{place}"
    raise CheckFailed(f"{head}\n  {where}: it is {got:.10g}, a difference gives {expected:.10g}", mode)


def _first_bad(
    laws: _Laws, derivative: Callable[[Sequence[np.ndarray]], float], dxs: Sequence[np.ndarray]
) -> tuple[int, tuple[int, ...], float, float] | None:
    """(input, entry, derivative, difference) of the first entry that is wrong, by halving the direction."""

    def wrong(j: int, part: np.ndarray) -> tuple[float, float] | None:
        only = laws.case.tangent([part if k == j else np.zeros_like(d) for k, d in enumerate(dxs)])
        got = derivative(only)
        expected = laws.disagreement(got, only, abs(got))
        return None if expected is None else (got, expected)

    for j, dx in enumerate(dxs):
        if wrong(j, dx) is None:
            continue
        places = np.arange(dx.size).reshape(dx.shape)
        low, high = 0, dx.size
        while high - low > 1:
            middle = (low + high) // 2
            first = np.where((places >= low) & (places < middle), dx, 0).astype(dx.dtype)
            low, high = (low, middle) if wrong(j, first) else (middle, high)
        numbers = wrong(j, (places == low).astype(dx.dtype))
        if numbers is not None:
            return j, tuple(int(i) for i in np.unravel_index(low, dx.shape)), *numbers
    return None


def _random(like: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    value = rng.normal(size=like.shape)
    if like.dtype.kind == "c":
        value = value + 1j * rng.normal(size=like.shape)
    return np.asarray(value, like.dtype)


def _inner(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> float:
    """The real inner product of two lists of arrays, in double precision."""
    wide = np.complex128
    return float(sum([np.vdot(x.astype(wide), y.astype(wide)).real for x, y in zip(a, b, strict=True)]))


def _size(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> float:
    return float(sum([np.abs(x * y).sum() for x, y in zip(a, b, strict=True)]))


# ---------------------------------------------------------------- which rule


def _suspect(case: Case) -> str:
    """The user's rule of the first custom call in the recording that fails by itself."""
    calls = [n for n in _custom_calls(case) if n.call.function.__module__.partition(".")[0] != _LIBRARY]
    for node in calls:
        call = node.call
        try:
            _check(_call_case(node, case.order), np.random.default_rng(0), 1)
        except CheckFailed as error:
            kinds = ("jvp", "backward") if error.mode == "forward" else ("backward",)
            kind, rule = next((k, r) for k in kinds if (r := call.function.rule_for(k, call.method, call.types)))
            where = f", called at {call.line}" if call.line else ""
            return f"the rule: the {kind} of {call.function.__name__} at {rule.place}{where}"
    told = "every custom rule in it is right by itself" if calls else "there is no custom rule in it"
    return f"{told}: look for a kink near the point"


def _custom_calls(case: Case) -> list[Node]:
    """The custom calls of one recording, in order."""
    found: list[Node] = []

    def recorded(*xs: Any) -> list:
        ys = case.function(*xs)
        found.extend([n for n in history([y.node for y in ys]) if n.call is not None])
        return ys

    vjp(recorded, *case.point)
    return found


def _call_case(node: Node, order: int) -> Case:
    """One custom call, as a case of its own, at the values that it was called with."""
    call = node.call

    def value(place: int) -> Tensor:
        evaluate([node.inputs[place]])
        return leaf(np.array(data(node.inputs[place])))

    declaration = call.function.declaration
    named = {name: packed.unpack(value) for name, packed in call.arguments.items()}
    positional = [named.pop(n) for n in declaration.fixed]
    if declaration.variadic is not None:
        positional += named.pop(declaration.variadic)
    moved = [i for i, x in enumerate(positional) if any(_is_float_array(v) for v in tree.leaves(x))]
    return _case(lambda *xs: call.function(*xs, **named), positional, moved, order)
