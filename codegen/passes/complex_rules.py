"""What each operation on complex numbers is, in their real and imaginary parts.

A rule takes the node and a value per input (`Parts` of a complex one, a node of a real one), and gives the parts of
the result, or the result if it is real.  An imaginary part that is None is zero: of what was a real number.  So a
real factor multiplies both parts, and does nothing else; NumPy multiplies by its zero too, which differs where an
operand is infinite or nan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..ir import Aval, Node, dtype_name
from ..ir.op import CONSTANT
from ..lowering import Contract, Move, Reduce, Scan, Scatter
from .complex_ops import FORMULAS, ZEROS

__all__ = ["REALS", "Parts", "parts_of_constant", "rule_of", "zeros"]

#: What the parts of a complex dtype are.
REALS: dict[Any, np.dtype] = {
    np.dtype(np.complex64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.float64),
}  # fmt: skip


class Parts(NamedTuple):
    """The real and the imaginary part of a value."""

    re: Node
    im: Node | None


Value = Parts | Node
Rule = Callable[[Node, Sequence[Any]], Value]


def zeros(aval: Aval) -> Node:
    """An array of zeros of a real dtype."""
    return Node(ZEROS, (), (aval.shape, dtype_name(aval.dtype)), aval)


def parts_of_constant(node: Node) -> Parts:
    """The parts of a complex constant: two constants."""
    value, real = complex(node.params[0]), REALS[node.aval.dtype]
    re, im = (Node(CONSTANT, (), (x, dtype_name(real)), Aval((), real)) for x in (value.real, value.imag))
    return Parts(re, None if value.imag == 0 else im)


def rule_of(node: Node) -> Rule | None:
    """How a node is computed by parts; None where only NumPy can."""
    found = _RULES.get(node.op.name)
    if found is not None:
        return found
    lower = node.op.lower
    if isinstance(lower, Contract):
        return _product
    is_apart = isinstance(lower, Move | Scan | Scatter) or (isinstance(lower, Reduce) and lower.monoid == "add")
    return _each_part if is_apart and node.aval.dtype in REALS else None


# ---------------------------------------------------------------- how rules are written


def _real(node: Node) -> Aval:
    """The aval of a part of a node."""
    return node.aval.with_dtype(REALS[node.aval.dtype]) if node.aval.dtype in REALS else node.aval


def _apply(name: str, node: Node, *inputs: Node) -> Node:
    """A formula over the elements of a node."""
    return Node(FORMULAS[name], inputs, (), _real(node))


def _over(name: str, *inputs: Node) -> Node:
    """A formula over its own inputs, as far as they broadcast."""
    shape = np.broadcast_shapes(*[i.aval.shape for i in inputs])
    return Node(FORMULAS[name], inputs, (), Aval(shape, inputs[0].aval.dtype))


def _im(x: Parts) -> Node:
    return zeros(x.re.aval) if x.im is None else x.im


# ---------------------------------------------------------------- arithmetic


def _sum_of(node: Node, inputs: Sequence[Parts], name: str) -> Parts:
    x, y = inputs
    re = _apply(name, node, x.re, y.re)
    if y.im is None:
        return Parts(re, None if x.im is None else _apply("copy", node, x.im))
    if x.im is None:
        return Parts(re, _apply("copy" if name == "add" else "neg", node, y.im))
    return Parts(re, _apply(name, node, x.im, y.im))


def _negative(node: Node, inputs: Sequence[Parts]) -> Parts:
    (x,) = inputs
    return Parts(_apply("neg", node, x.re), None if x.im is None else _apply("neg", node, x.im))


def _times(node: Node, x: Parts, y: Parts) -> Parts:
    if x.im is None:
        x, y = y, x
    if y.im is None:
        return Parts(_apply("mul", node, x.re, y.re), None if x.im is None else _apply("mul", node, x.im, y.re))
    parts = (x.re, _im(x), y.re, y.im)
    return Parts(_apply("mul_re", node, *parts), _apply("mul_im", node, *parts))


def _quotient(node: Node, x: Parts, y: Parts) -> Parts:
    if y.im is None:
        return Parts(_apply("div", node, x.re, y.re), None if x.im is None else _apply("div", node, x.im, y.re))
    ratio = _over("ratio", y.re, y.im)
    by = (y.re, y.im, ratio, _over("scale", y.re, y.im, ratio))
    if x.im is None:
        return Parts(_apply("real_div_re", node, x.re, *by), _apply("real_div_im", node, x.re, *by))
    return Parts(_apply("div_re", node, x.re, x.im, *by), _apply("div_im", node, x.re, x.im, *by))


def _reciprocal(node: Node, inputs: Sequence[Parts]) -> Parts:
    return _quotient(node, _number(1.0, node), inputs[0])


def _number(value: float, like: Node) -> Parts:
    real = REALS[like.aval.dtype]
    return Parts(Node(CONSTANT, (), (value, dtype_name(real)), Aval((), real)), None)


def _strong_product(node: Node, inputs: Sequence[Parts]) -> Parts:
    """0 where the first factor is, whatever the other."""
    g, p = inputs
    is_zero = Node(FORMULAS["is_zero"], (g.re, _im(g)), (), g.re.aval.with_dtype(np.bool_))
    return _chosen(node, is_zero, _number(0.0, node), _times(node, g, p))


def _power_static(node: Node, inputs: Sequence[Parts]) -> Parts:
    (x,) = inputs
    (exponent,) = node.params
    one = _number(1.0, node)
    if abs(exponent) == 0.5:
        root = _sqrt(node, inputs)
        return root if exponent > 0 else _quotient(node, one, root)
    product, factor, n = None, x, abs(int(exponent))
    while n:
        if n & 1:
            product = factor if product is None else _times(node, product, factor)
        n >>= 1
        if n:
            factor = _times(node, factor, factor)
    if product is None:
        return Parts(_apply("copy", node, one.re), None)
    return product if exponent > 0 else _quotient(node, one, product)


def _power(node: Node, inputs: Sequence[Parts]) -> Parts:
    """e to the (p log x); 1 for p = 0; 0 for x = 0, if p has a positive real part."""
    x, p = inputs
    zero, one = _number(0.0, node), _number(1.0, node)
    found = _exp(node, [_times(node, p, _log(node, [x]))])
    at_zero = Node(FORMULAS["is_zero"], (x.re, _im(x)), (), x.re.aval.with_dtype(np.bool_))
    is_first = Node(FORMULAS["is_zero"], (p.re, _im(p)), (), p.re.aval.with_dtype(np.bool_))
    falls = Node(FORMULAS["is_positive"], (p.re,), (), p.re.aval.with_dtype(np.bool_))
    nan = Parts(_number(float("nan"), node).re, _number(float("nan"), node).re)
    found = _chosen(node, at_zero, _chosen(node, falls, zero, nan), found)
    return _chosen(node, is_first, one, found)


def _chosen(node: Node, chosen: Node, x: Parts, y: Parts) -> Parts:
    re = _apply("choose", node, chosen, x.re, y.re)
    if x.im is None and y.im is None:
        return Parts(re, None)
    zero = _number(0.0, node).re
    return Parts(re, _apply("choose", node, chosen, x.im or zero, y.im or zero))


def _equal(name: str) -> Rule:
    def rule(node: Node, inputs: Sequence[Parts]) -> Value:
        x, y = inputs
        return Node(FORMULAS[name], (x.re, _im(x), y.re, _im(y)), (), node.aval)

    return rule


# ---------------------------------------------------------------- functions


def _exp(node: Node, inputs: Sequence[Parts]) -> Parts:
    (x,) = inputs
    parts = (x.re, _im(x), _over("growth", x.re))
    return Parts(_apply("exp_re", node, *parts), _apply("exp_im", node, *parts))


def _log(node: Node, inputs: Sequence[Parts]) -> Parts:
    (x,) = inputs
    return Parts(_over("log_re", x.re, _im(x)), _over("angle", x.re, _im(x)))


def _sqrt(node: Node, inputs: Sequence[Parts]) -> Parts:
    (x,) = inputs
    root = _over("root", x.re, _im(x))
    return Parts(_over("sqrt_re", x.re, _im(x), root), _over("sqrt_im", x.re, _im(x), root))


def _by(re: str, im: str, *, turned: bool = False) -> Rule:
    """Two formulas of both parts; `turned` takes the imaginary part first."""

    def rule(node: Node, inputs: Sequence[Parts]) -> Parts:
        (x,) = inputs
        parts = (_im(x), x.re) if turned else (x.re, _im(x))
        return Parts(_apply(re, node, *parts), _apply(im, node, *parts))

    return rule


def _tan(node: Node, inputs: Sequence[Parts]) -> Parts:
    """tan z = -i tanh iz, and iz = -b + ia."""
    (x,) = inputs
    turned = (_over("neg", _im(x)), x.re)
    return Parts(_apply("tanh_im", node, *turned), _over("neg", _apply("tanh_re", node, *turned)))


def _size(node: Node, inputs: Sequence[Parts]) -> Node:
    (x,) = inputs
    return Node(FORMULAS["abs"], (x.re, _im(x)), (), node.aval)


def _conjugate(node: Node, inputs: Sequence[Parts]) -> Parts:
    (x,) = inputs
    return Parts(x.re, None if x.im is None else _apply("neg", node, x.im))


def _cast(node: Node, inputs: Sequence[Any]) -> Value:
    """To complex: each part; from complex the real part, and to bool whether either is not zero."""
    (x,) = inputs
    real = _real(node)

    def cast(part: Node) -> Node:
        if part.aval.dtype == real.dtype:
            return part
        return Node(node.op, (part,), (dtype_name(real.dtype),), real)

    if node.aval.dtype not in REALS:
        if node.aval.dtype.kind == "b":
            return Node(FORMULAS["is_not_zero"], (x.re, _im(x)), (), node.aval)
        return cast(x.re)
    if isinstance(x, Node):
        return Parts(cast(x), None)
    return Parts(cast(x.re), None if x.im is None else cast(x.im))


# ---------------------------------------------------------------- what does the same to both parts


def _each_part(node: Node, inputs: Sequence[Any]) -> Parts:
    def of(which: int) -> Node:
        operands = [(_im(x) if which else x.re) if isinstance(x, Parts) else x for x in inputs]
        return Node(node.op, operands, node.params, _real(node))

    is_real = all(x.im is None for x in inputs if isinstance(x, Parts))
    return Parts(of(0), None if is_real else of(1))


def _product(node: Node, inputs: Sequence[Parts]) -> Parts:
    """Four products of real matrices, or two."""
    x, y = inputs

    def product(a: Node, b: Node) -> Node:
        return Node(node.op, (a, b), node.params, _real(node))

    re = product(x.re, y.re)
    if x.im is None or y.im is None:
        if x.im is None and y.im is None:
            return Parts(re, None)
        return Parts(re, product(x.re, y.im) if y.im is not None else product(_im(x), y.re))
    return Parts(
        _apply("sub", node, re, product(x.im, y.im)),
        _apply("add", node, product(x.re, y.im), product(x.im, y.re)),
    )


_RULES: dict[str, Rule] = {
    "add": lambda node, inputs: _sum_of(node, inputs, "add"),
    "sub": lambda node, inputs: _sum_of(node, inputs, "sub"),
    "neg": _negative,
    "mul": lambda node, inputs: _times(node, *inputs),
    "mul0": _strong_product,
    "div": lambda node, inputs: _quotient(node, *inputs),
    "reciprocal": _reciprocal,
    "power_static": _power_static,
    "power": _power,
    "where": lambda node, inputs: _chosen(node, *inputs),
    "either": lambda node, inputs: _chosen(node, *inputs),
    "equal": _equal("is_equal"),
    "not_equal": _equal("differs"),
    "real": lambda node, inputs: inputs[0].re,
    "imag": lambda node, inputs: _im(inputs[0]),
    "conj": _conjugate,
    "abs_complex": _size,
    "cast": _cast,
    "exp": _exp,
    "log": _log,
    "sqrt": _sqrt,
    "sin": _by("sin_cosh", "cos_sinh"),
    "cos": _by("cos_cosh", "minus_sin_sinh"),
    "sinh": _by("cos_sinh", "sin_cosh", turned=True),
    "cosh": _by("cos_cosh", "sin_sinh", turned=True),
    "tan": _tan,
    "tanh": _by("tanh_re", "tanh_im"),
}
