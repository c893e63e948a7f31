"""Derivatives where kinks cancel: kinks of sizes (|x|, hypot, norms), and of maximum and minimum.

A size y = |x| has the derivative x / y, with a kink at 0; y² is smooth there.  By the chain rule the gradient of y² is
y_bar = 2 y times x / y.  At 0, where the quotient counts as 0, this value is right, but its own derivative is not: y
cancels, and the factor 2 that remains is lost.  So the rules of `abs`, `hypot` and of roots of sums of squares look
at how their cotangent was recorded: if it is c y, the cotangent of x is c x.

    divided(2 * y * w + v, y)     2 * w, v

In a second derivative the first one is a factor: y_bar = c sign(x).  Then the cotangent of x is c, since the square of
sign(x) is 1 on both sides of 0.  This is right for all even functions of |x|, such as cos(|x|).  The derivatives of
`maximum` and `minimum` are shares p and 1 - p; for the same reason p² counts as p, and p (1 - p) as 0.  The result at
a kink is the mean of both sides.  In forward mode the product of a tangent and c is examined: see `transforms.forward`.

The search follows products, quotients, sums, `where`, some moves of elements, and odd functions: sin(y), the cotangent
of -cos(y), is sin(y) / y times y.  A size that was broadcast is a common factor of the terms that are summed along the
new axes.  If the search finds no multiple, the second derivative at the kink is that of the quotient, 0.  It finds none
in a product of matrices (in forward mode it does in one of vectors), nor if |x[0]| is computed twice: the two sizes are
different nodes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from codegen.ir import OPS
from codegen.records import NamedTuple

from ..tape import Node, Primitive, constant, record
from ..tape.node import CONSTANT, RichNode
from ..tape.record import IDENTITY, SAME
from ..tensor import Tensor, handle
from .primitive import I64, Ints, added, named, spread_to, times, zeros_of
from .shaping import keepdims_shape

#: The most operations between a cotangent and a size that the search follows.
DEPTH = 12
#: The most nodes of a cotangent's history that a key lists.
_MOST_SEEN = 128

_SHAPED = _CAST, _RESHAPE, _TRANSPOSE = named("cast"), named("reshape"), named("transpose")

#: A test of a node.  Its result is a bool tensor if the answer is known only when the program runs.
_Is = Callable[[Node], Tensor | bool]


class _Size(NamedTuple):
    """The size that is looked for: a test of nodes before any cast or reshape, its `_core` shape, its lowest number."""

    test: _Is
    shape: Ints
    first: float


#: The multiple and the rest of a tensor; None: zero.
_Split = tuple[Tensor | None, Tensor | None]
#: The cotangents that the inputs get from multiples, and the rest of the result's cotangent.
_Taken = tuple[list[Tensor | None], Tensor | None]


def divided(g: Tensor, y: Tensor) -> _Split:
    """c and v with g = c * y + v (None: zero), by the operations that made g.   T[...], T[...]  →  T[...], T[...]"""
    return split(g, y.node, _is_same(y.node))


def split(t: Tensor, node: Node, test: _Is | None = None) -> _Split:
    """c and v with t = c * node + v, found as by `divided`.   test: of nodes that count as this one"""
    root = _unshaped(node)
    size = _Size(test or (lambda n: n is root), _core(node.kind.out.shape), -math.inf if test else root.number)
    return _split(t.node, size, DEPTH)


def cancelling(c: Tensor, path: Sequence[Node]) -> tuple[list[tuple[Tensor | None, Tensor]], Tensor | None]:
    """The parts of a factor c in which the kink of a size's derivative cancels; the rest of c (None: zero).

    path   the node of the size, then the moves of its elements up to the place of c

    A part is two factors: a multiple (None: zero), and the size and its sign, or the partials of maximum or minimum.
    """
    size, place, parts = path[0], handle(path[-1]), []
    name, xs = size.kind.op.name, list(map(handle, size.inputs))
    rest: Tensor | None = c
    if name in ("maximum", "minimum"):
        pairs = (xs, xs[::-1]) if name == "maximum" else (xs[::-1], xs)
        tests = [(_is_share(*[x.node for x in pair]), named("share")(*pair)) for pair in pairs]
    else:
        side = [(_is_side(size), named("sign")(*xs))] if name == "abs" else []
        tests = [*side, (_is_same(path[-1]), place)]
    for test, factor in tests:
        multiple = None
        if rest is not None and factor.size == place.size:
            multiple, rest = split(rest, path[-1], test)
        parts.append((multiple, factor))
    return parts, rest


def history_key(bar: Node, y: Node) -> tuple[list, list[Node]] | None:
    """A key of all that the rule of y reads of a cotangent's history, and the nodes there.

    None for more nodes than a key lists, or if a test depends on indices that are known only when the program runs.
    """
    tests = [_is_same(y), *([_is_side(y)] if y.kind.op.name == "abs" else [])]
    if y.kind.op.name in ("maximum", "minimum"):
        tests = [_is_share(*pair) for pair in (y.inputs, y.inputs[::-1])]
    place: dict[Node, int] = {bar: 0}
    key: list[Any] = []
    level = [bar]
    for depth in range(DEPTH + 1):
        below: list[Node] = []
        while level:
            node = level.pop()
            root = _unshaped(node)
            met = [test(root) for test in tests]
            if len(place) > _MOST_SEEN or any([isinstance(one, Tensor) for one in met]):
                return None
            op, passes = node.kind.op, node.kind.op in (SAME, IDENTITY)
            inputs = node.inputs if passes or (depth < DEPTH and OPS.get(op.name) is op and op.name in _SEEN) else ()
            for i in inputs:
                if i not in place:
                    place[i] = len(place)
                    (level if passes else below).append(i)
            key.append((place[node], node.kind, *met, *[place[i] for i in inputs]))
        level = below
    return key, list(place)


def is_move(op: Primitive) -> bool:
    """True for a move of elements that the search for a multiple follows."""
    return op.name in (*_MOVES.values(), "reshape") and OPS[op.name] is op


def _is_same(y: Node) -> _Is:
    """The test for y, or another node of the same kind and inputs."""
    y = _unshaped(y)
    first = 1 if y.kind.op.name == "norm" else 0  # the first input of a norm is made from the second
    return lambda n: n is y or (n.kind is y.kind and n.inputs[first:] == y.inputs[first:])


def cancels_size(numerators: Callable[..., tuple]) -> Callable[..., _Taken]:
    """Make the rule for multiples of y, the result of an elementwise operation with the partials numerators / y.

    numerators   numerators(*xs) -> tensors

    The rule returns the cotangents of the inputs, and the rest of y's cotangent: see `cancels` of `elementwise`.
    """

    def cancels(y_bar: Tensor, y: Tensor, xs: tuple, masked: bool) -> _Taken:
        c, rest = divided(y_bar, y)
        return [None if c is None else times(c, top, masked) for top in numerators(*xs)], rest

    return cancels


def cancels_sign(y_bar: Tensor, y: Tensor, xs: tuple, masked: bool) -> _Taken:
    """The rule of |x| for multiples of sign(x), whose square is 1 on both sides of 0, and then for multiples of |x|."""
    ((side, _), (c, _)), rest = cancelling(y_bar, (y.node,))
    return [added(side, None if c is None else times(c, xs[0], masked))], rest


def cancels_share(y_bar: Tensor, y: Tensor, xs: tuple, masked: bool) -> _Taken:
    """The rule of maximum and minimum for multiples of their partials: shares 1 and 0, or one half each in a tie.

    Away from a tie a share is its own square, and the product of both shares is 0.  The rule uses this in a tie too.
    """
    parts, rest = cancelling(y_bar, (y.node,))
    return [None if c is None else named("mul0")(share, c) for c, share in parts], rest


def _is_side(y: Node) -> _Is:
    """The test for sign(x), the derivative of y = |x|."""
    return lambda n: n.kind.op.name == "sign" and _agree([(n.inputs[0], y.inputs[0])])


def _is_share(a: Node, b: Node) -> _Is:
    """The test for share(a, b), the derivative of the larger of a and b by a."""

    def test(n: Node) -> Tensor | bool:
        if n.kind.op.name != "share" or n.inputs == (b, a):
            return False
        return _agree(list(zip(n.inputs, (a, b), strict=True)))

    return test


def _agree(pairs: list[tuple[Node, Node]]) -> Tensor | bool:
    """True if the nodes of each pair are one, or made alike; a bool tensor if that depends on indices, as of x[i]."""
    found: Tensor | bool = True
    for _ in range(DEPTH):
        if not pairs:
            return found
        a, b = pairs.pop()
        if a is b:
            continue
        if a.kind.op is CONSTANT or b.kind.op is CONSTANT:
            if a.kind is not b.kind:
                return False
        elif {(n.kind.out.aval.dtype, n.kind.out.shape) for n in (a, b)} == {(I64, ())}:
            same = named("equal")(handle(a), handle(b))
            found = named("bitwise_and")(found, same) if isinstance(found, Tensor) else same
        elif a.kind is b.kind and a.kind.out.requires_grad and a.inputs and not isinstance(a, RichNode):
            pairs.extend(zip(a.inputs, b.inputs, strict=True))  # compared within the history: rules know no other nodes
        else:
            return False
    return False


def _core(shape: Ints) -> Ints:
    """A shape without the extents of 1 with which it begins."""
    return shape if shape[:1] != (1,) else _core(shape[1:])


def _unshaped(node: Node) -> Node:
    """The node whose elements this one has in another shape, or dtype for real or complex numbers."""
    while node.inputs and (node.kind.op in (SAME, IDENTITY) or _is_reshape(node) or _is_cast(node)):
        node = node.inputs[0]
    return node


def _is_cast(node: Node) -> bool:
    """True for a cast that changes no real number."""
    return node.kind.op is _CAST and all([n.kind.out.aval.dtype.kind in "fc" for n in (node, node.inputs[0])])


def _is_reshape(node: Node) -> bool:
    """True for a move that leaves the elements in their order."""
    if node.kind.op is not _TRANSPOSE or not node.inputs:
        return node.kind.op is _RESHAPE
    shape = node.inputs[0].kind.out.shape
    moved = [a for a in node.kind.params[0] if shape[a] != 1]
    return moved == sorted(moved)


def _split(node: Node, size: _Size, depth: int) -> _Split:
    t = handle(node)  # of an argument that is differentiated, not of what the caller gave: gradients flow to it
    while node.kind.op in (SAME, IDENTITY) and node.inputs:
        node = node.inputs[0]
    op, shape = node.kind.op, node.kind.out.shape
    is_met = _core(shape) == size.shape and size.test(_unshaped(node) if op in _SHAPED else node)
    if is_met is not False:
        one = spread_to(constant(1.0, t.dtype), t.shape)
        if is_met is True:
            return one, None
        zero = zeros_of(t.aval)
        return named("where")(is_met, one, zero), named("where")(is_met, zero, t)
    can_lead = depth and node.number > size.first and len(shape) >= len(size.shape) and node.inputs
    if can_lead and op.name in _RULES and OPS.get(op.name) is op:
        return _RULES[op.name](t, node, lambda n, what=size: _split(n, what, depth - 1), size)
    return None, t


def _each(t: Tensor, f: Callable[[Tensor], Tensor], split: _Split) -> _Split:
    """The split of t = f(x) for a linear f, from that of x."""
    c, rest = split
    return (None, t) if c is None else (f(c), None if rest is None else f(rest))


def _sum(t: Tensor, node: Node, split: Callable[..., _Split], size: _Size) -> _Split:
    parts = [split(i) for i in node.inputs]
    if all([c is None for c, _ in parts]):
        return None, t
    if node.kind.op.name != "add":
        c, rest = [None if part is None else named("neg")(part) for part in parts[-1]]
        parts[-1] = c, rest
    c, rest = [functools.reduce(added, terms) for terms in zip(*parts, strict=True)]
    return c, rest


def _product(t: Tensor, node: Node, split: Callable[..., _Split], size: _Size) -> _Split:
    op, (a, b) = node.kind.op, node.inputs
    left = split(a)
    right = (None, None) if op.name == "div" or _is_multiple(left) else split(b)
    if left[0] is not None and not _is_multiple(right):
        return _each(t, lambda p: record(op, (p, handle(b))), left)
    return _each(t, lambda p: record(op, (handle(a), p)), right)


def _is_multiple(split: _Split) -> bool:
    return split[0] is not None and split[1] is None


def _choice(t: Tensor, node: Node, split: Callable[..., _Split], size: _Size) -> _Split:
    condition, a, b = node.inputs
    (c, v), (d, w) = split(a), split(b)
    if c is None and d is None:
        return None, t
    zero = zeros_of(t.aval)
    found = [
        None if p is q is None else [zero if side is None else side for side in (p, q)] for p, q in ((c, d), (v, w))
    ]
    c, rest = [None if sides is None else record(node.kind.op, (handle(condition), *sides)) for sides in found]
    return c, rest


def _power(t: Tensor, node: Node, split: Callable[..., _Split], size: _Size) -> _Split:
    (x,), (n,) = node.inputs, node.kind.params
    c, rest = split(x) if isinstance(n, int) and n > 1 else (None, None)
    if c is None or rest is not None:
        return None, t
    lower = handle(x) if n == 2 else record(node.kind.op, (handle(x),), (n - 1,))
    return named("mul")(c, lower), None


def _odd(t: Tensor, node: Node, split: Callable[..., _Split], size: _Size) -> _Split:
    """f(z) = f(z) / z * z for an odd f, where z is a multiple of the size.  At 0 the quotient is the slope of f."""
    z, op = handle(node.inputs[0]), node.kind.op
    c, rest = split(z.node)
    if c is None or rest is not None:
        return None, t
    assert op.push is not None
    one = spread_to(constant(1.0, z.dtype), z.shape)
    is_zero = named("equal")(z, zeros_of(z.aval))
    quotient = named("div")(t, named("where")(is_zero, one, z))
    return named("mul")(c, named("where")(is_zero, op.push((one,), t, (z,), node.kind.params), quotient)), None


#: The move of which an operation on cotangents is the transpose, by the name of that operation.
_MOVES = {"transpose": "transpose", "flip": "flip", "embed": "slice"}


def _move(t: Tensor, node: Node, split: Callable[..., _Split], size: _Size) -> _Split:
    """The split of elements that were moved, multiplied and moved back: the multiple is moved back like them."""
    if _is_reshape(node):
        return _repeated(t, node, split, size)
    op, params, (inner, *starts) = node.kind.op, node.kind.params, node.inputs
    forward, shape = OPS[_MOVES[op.name]], inner.kind.out.shape

    def is_moved(n: Node) -> bool:
        if n.kind.op is not forward or [i.kind.out.shape for i in n.inputs[:1]] != [t.shape]:
            return False
        if list(n.inputs[1:]) != starts or size.test(_unshaped(n.inputs[0])) is not True:
            return False
        if op.name == "transpose":
            return tuple([n.kind.params[0][a] for a in params[0]]) == tuple(range(t.ndim))
        return n.kind.params[:2] == params[:2]

    found = split(inner, _Size(is_moved, _core(shape), size.first)) if size.shape == _core(t.shape) else (None, None)
    return _each(t, lambda p: record(op, (spread_to(p, shape), *map(handle, starts)), params), found)


def _repeated(t: Tensor, node: Node, split: Callable[..., _Split], size: _Size) -> _Split:
    """The split of a tensor that was broadcast, reshaped, or summed along axes along which the size is repeated."""
    op, (inner,), params = node.kind.op, node.inputs, node.kind.params
    whole, have, shape = inner.kind.out.shape, t.shape, size.shape
    if op.name != "broadcast_to":
        kept = keepdims_shape(whole, params[0]) if op.name == "sum" else whole
        given = zip((1,) * (len(have) - len(shape)) + shape, have, strict=True)
        repeats = [(m, n) for m, n in given if n != 1]
        is_fitting = all([m in (1, n) for m, n in repeats]) and [n for _, n in repeats] == [n for n in kept if n != 1]
        if shape != _core(have) and not is_fitting:
            return None, t
        extents = iter(repeats)
        shape = kept if shape == _core(have) else tuple([n if n == 1 else next(extents)[0] for n in kept])
    found = split(inner, _Size(size.test, _core(shape), size.first))
    return _each(t, lambda p: record(op, (spread_to(p, whole),), params), found)


def _part(t: Tensor, node: Node, split: Callable[..., _Split], size: _Size) -> _Split:
    """The split of a tensor that was cast, of its conjugate, or of its real or imaginary part: sizes are real."""
    found = split(node.inputs[0]) if t.dtype.kind in "fc" else (None, None)
    return _each(t, lambda p: record(node.kind.op, (p,), node.kind.params), found)


_RULES: dict[str, Callable[..., _Split]] = {
    **dict.fromkeys(("add", "sub", "neg"), _sum),
    **dict.fromkeys(("mul", "mul0", "div"), _product),
    **dict.fromkeys(("sin", "tan", "sinh", "tanh", "arcsin", "arctan", "arcsinh", "arctanh", "erf", "i1"), _odd),
    "power_static": _power,
    "where": _choice,
    **dict.fromkeys(("cast", "conj", "real", "imag"), _part),
    **dict.fromkeys(("broadcast_to", "reshape", "sum"), _repeated),
    **dict.fromkeys(_MOVES, _move),
}
#: The operations whose inputs the search looks at.
_SEEN = frozenset((*_RULES, *_MOVES.values()))
