"""A cotangent divided by the size that it is a multiple of, before anything is computed.

The derivative of a size y = |x| is x / y, with a kink at 0; that of y² is smooth there.  The chain rule makes the one
of the other: y_bar = 2 y, times x / y.  Its value is right at 0, where the quotient is taken for 0; its own derivative
is not: the 2 that is left when y cancels is lost.  So the rules of `abs`, `hypot` and of roots of sums of squares look
at how their cotangent was recorded, and where it is a multiple of y they take the multiple times x.

    divided(2 * y * w + v, y)     2 * w, v

Products, quotients, sums and choices are gone through, and some moves.  A multiple that stands further away is none:
then the second derivative at the kink is that of the quotient, 0.
"""

from __future__ import annotations

from collections.abc import Callable

from codegen.ir import OPS

from ..tape import Node, constant, record
from ..tape.record import IDENTITY, SAME
from ..tensor import Tensor, handle
from .primitive import dtype_name_of, named, spread_to, times, zeros_of

__all__ = ["by_size", "divided"]

#: Operations between a cotangent and the size, at most.
DEPTH = 12

_Is = Callable[[Node], bool]
#: A multiple and a rest; None: zero.
_Split = tuple[Tensor | None, Tensor | None]


def divided(g: Tensor, y: Tensor) -> _Split:
    """c and v with g = c * y + v (None: zero), by the operations that g was recorded by.   T[...], T[...]  →  T[...]"""
    kind, inputs = y.node.kind, y.node.inputs
    return _split(g.node, lambda n: n is y.node or (n.kind is kind and n.inputs == inputs), DEPTH)


def by_size(numerators: Callable[..., tuple]) -> Callable[..., tuple[list[Tensor | None], Tensor | None]]:
    """How an elementwise operation y, each of whose derivatives is a numerator over y, takes a multiple of y.

    numerators   numerators(*xs) -> tensors

    Gives what inputs get of the multiple, and the rest of the cotangent: see `cancels` of `elementwise`.
    """

    def cancels(y_bar: Tensor, y: Tensor, xs: tuple, masked: bool) -> tuple[list[Tensor | None], Tensor | None]:
        c, rest = divided(y_bar, y)
        return [None if c is None else times(c, top, masked) for top in numerators(*xs)], rest

    return cancels


def _split(node: Node, is_size: _Is, depth: int) -> _Split:
    while node.kind.op in (SAME, IDENTITY) and node.inputs:
        node = node.inputs[0]
    t, op = handle(node), node.kind.op
    if is_size(node):
        return spread_to(constant(1.0, dtype_name_of(t)), t.shape), None
    if depth and node.inputs and OPS.get(op.name) is op and op.name in _RULES:
        return _RULES[op.name](t, node, lambda n, what=is_size: _split(n, what, depth - 1), is_size)
    return None, t


def _each(f: Callable[[Tensor], Tensor], split: _Split) -> _Split:
    c, rest = split
    return None if c is None else f(c), None if rest is None else f(rest)


def _added(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else named("add")(a, b)


def _sum(t: Tensor, node: Node, split: Callable[..., _Split], is_size: _Is) -> _Split:
    left, right = (split(i) for i in node.inputs)
    if node.kind.op.name == "sub":
        right = _each(named("neg"), right)
    c = _added(left[0], right[0])
    return (None, t) if c is None else (c, _added(left[1], right[1]))


def _product(t: Tensor, node: Node, split: Callable[..., _Split], is_size: _Is) -> _Split:
    op, (a, b) = node.kind.op, node.inputs
    left = split(a)
    if left[0] is not None:
        return _each(lambda p: record(op, (p, handle(b))), left)
    right = (None, None) if op.name == "div" else split(b)
    return (None, t) if right[0] is None else _each(lambda p: record(op, (handle(a), p)), right)


def _choice(t: Tensor, node: Node, split: Callable[..., _Split], is_size: _Is) -> _Split:
    condition, a, b = node.inputs
    (c, v), (d, w) = split(a), split(b)
    if c is None and d is None:
        return None, t
    zero = zeros_of(t.aval)

    def chosen(p: Tensor | None, q: Tensor | None) -> Tensor | None:
        if p is None and q is None:
            return None
        sides = [zero if side is None else side for side in (p, q)]
        return record(node.kind.op, (handle(condition), *sides))

    return chosen(c, d), chosen(v, w)


def _power(t: Tensor, node: Node, split: Callable[..., _Split], is_size: _Is) -> _Split:
    (x,), (n,) = node.inputs, node.kind.params
    c, rest = split(x) if isinstance(n, int) and n > 1 else (None, None)
    if c is None or rest is not None:
        return None, t
    lower = handle(x) if n == 2 else record(node.kind.op, (handle(x),), (n - 1,))
    return named("mul")(c, lower), None


def _negative(t: Tensor, node: Node, split: Callable[..., _Split], is_size: _Is) -> _Split:
    found = split(node.inputs[0])
    return (None, t) if found[0] is None else _each(named("neg"), found)


#: By an operation on cotangents, the move whose transpose it is.
_MOVES = {"cast": "cast", "reshape": "reshape", "transpose": "transpose", "flip": "flip", "embed": "slice"}


def _move(t: Tensor, node: Node, split: Callable[..., _Split], is_size: _Is) -> _Split:
    """Elements that were moved, times a multiple, and moved back: the multiple is moved back."""
    op, params, (inner, *starts) = node.kind.op, node.kind.params, node.inputs
    forward = OPS[_MOVES[op.name]]

    def is_moved(n: Node) -> bool:
        if n.kind.op is not forward or not n.inputs or not is_size(n.inputs[0]) or list(n.inputs[1:]) != starts:
            return False
        if op.name == "transpose":
            return tuple([n.kind.params[0][a] for a in params[0]]) == tuple(range(t.ndim))
        return op.name in ("cast", "reshape") or n.kind.params[:2] == params[:2]

    found = split(inner, is_moved)
    if found[0] is None:
        return None, t
    shape = inner.kind.out.shape
    return _each(lambda p: record(op, (spread_to(p, shape), *[handle(s) for s in starts]), params), found)


_RULES: dict[str, Callable[..., _Split]] = {
    **dict.fromkeys(("add", "sub"), _sum),
    **dict.fromkeys(("mul", "mul0", "div"), _product),
    "neg": _negative,
    "power_static": _power,
    "where": _choice,
    **dict.fromkeys(_MOVES, _move),
}
