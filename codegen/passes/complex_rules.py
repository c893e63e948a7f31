"""Rules of operations on complex numbers, in their real and imaginary parts.

A rule takes the node and a value per input (`Parts` of a complex one, a node of a real one), and gives the parts of
the result, or the result if it is real.  An imaginary part that is None is zero: of what was a real number.  A real
factor, and a real divisor, of a complex number has its zero part there as in NumPy, which shows where an operand is
infinite or nan; in products of matrices and in sums it is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..ir import Aval, Node, dtype_name
from ..ir.op import CONSTANT
from ..lowering import Contract, Move, Reduce, Scan, Scatter
from ..symbols import typical
from .complex_ops import FORMULAS, PART, RESHAPE, ROWS, SPREAD, ZEROS
from .pairs import PAIR, REALS

__all__ = ["Parts", "memory_of", "parts_of_constant", "rule_of"]

class Parts(NamedTuple):
    """The real and the imaginary part of a value."""

    re: Node
    im: Node | None


Value = Parts | Node
Rule = Callable[[Node, Sequence[Any]], Value]


def _zeros(aval: Aval) -> Node:
    """An array of zeros of a real dtype."""
    return Node(ZEROS, (), (aval.shape, dtype_name(aval.dtype)), aval)


def parts_of_constant(node: Node) -> Parts:
    """The parts of a complex constant: two constants."""
    value, real = complex(node.params[0]), REALS[node.aval.dtype]
    re, im = (Node(CONSTANT, (), (x, dtype_name(real)), Aval((), real)) for x in (value.real, value.imag))
    return Parts(re, None if value.imag == 0 else im)


def rule_of(node: Node) -> Rule | None:
    """The rule that computes a node by parts; None where only NumPy can."""
    found = _RULES.get(node.op.name)
    if found is not None:
        return found
    lower = node.op.lower
    if isinstance(lower, Contract):
        return _product
    is_sum = isinstance(lower, Reduce | Scan) and lower.monoid == "add"
    is_apart = is_sum or isinstance(lower, Move | Scatter)
    return _each_part if is_apart and node.aval.dtype in REALS else None


# ---------------------------------------------------------------- how rules are written


def _real(node: Node) -> Aval:
    """The aval of a part of a node."""
    return node.aval.with_dtype(REALS[node.aval.dtype]) if node.aval.dtype in REALS else node.aval


def _over(name: str, *inputs: Node) -> Node:
    """A formula over its inputs, as far as they broadcast."""
    formula = FORMULAS[name]
    return Node(formula, inputs, (), formula.infer(*[i.aval for i in inputs]))


def _apply(name: str, node: Node, *inputs: Node) -> Node:
    """A formula over the elements of a node."""
    return _spread(_over(name, *inputs), node)


def _spread(x: Node, node: Node) -> Node:
    """x in the shape of a node, which it broadcasts to."""
    if x.aval.shape == node.aval.shape:
        return x
    return Node(SPREAD, (x,), (node.aval.shape,), x.aval.with_shape(node.aval.shape))


def _im(x: Parts) -> Node:
    return _zeros(x.re.aval) if x.im is None else x.im


# ---------------------------------------------------------------- arithmetic


def _sum_of(node: Node, inputs: Sequence[Parts], name: str) -> Parts:
    x, y = inputs
    re = _apply(name, node, x.re, y.re)
    if y.im is None:
        return Parts(re, None if x.im is None else _spread(x.im, node))
    if x.im is None:
        return Parts(re, _spread(y.im, node) if name == "add" else _apply("neg", node, y.im))
    return Parts(re, _apply(name, node, x.im, y.im))


def _negative(node: Node, inputs: Sequence[Parts]) -> Parts:
    (x,) = inputs
    return Parts(_apply("neg", node, x.re), None if x.im is None else _apply("neg", node, x.im))


def _times(node: Node, x: Parts, y: Parts) -> Parts:
    if x.im is None and y.im is None:
        return Parts(_apply("mul", node, x.re, y.re), None)
    parts = (x.re, _im(x), y.re, _im(y))
    return Parts(_apply("mul_re", node, *parts), _apply("mul_im", node, *parts))


def _quotient(node: Node, x: Parts, y: Parts) -> Parts:
    if x.im is None and y.im is None:
        return Parts(_apply("div", node, x.re, y.re), None)
    ratio = _over("ratio", y.re, _im(y))
    by = (y.re, _im(y), ratio, _over("scale", y.re, _im(y), ratio))
    return Parts(_apply("div_re", node, x.re, _im(x), *by), _apply("div_im", node, x.re, _im(x), *by))


def _reciprocal(node: Node, inputs: Sequence[Parts]) -> Parts:
    return _quotient(node, _number(1.0, node), inputs[0])


def _number(value: float, like: Node) -> Parts:
    real = REALS[like.aval.dtype]
    return Parts(Node(CONSTANT, (), (value, dtype_name(real)), Aval((), real)), None)


def _strong_product(node: Node, inputs: Sequence[Parts]) -> Parts:
    """0 where the first factor is, whatever the other."""
    g, p = inputs
    is_zero = _over("is_zero", g.re, _im(g))
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
        return Parts(_spread(one.re, node), None)
    return product if exponent > 0 else _quotient(node, one, product)


def _power(node: Node, inputs: Sequence[Parts]) -> Parts:
    """e to the (p log x); 1 for p = 0; 0 for x = 0, if p has a positive real part."""
    x, p = inputs
    zero, one = _number(0.0, node), _number(1.0, node)
    found = _exp(node, [_times(node, p, _log(node, [x]))])
    at_zero, is_first = _over("is_zero", x.re, _im(x)), _over("is_zero", p.re, _im(p))
    falls = _over("is_positive", p.re)
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
        return _over(name, x.re, _im(x), y.re, _im(y))

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
    return _over("abs", x.re, _im(x))


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
            return _over("is_not_zero", x.re, _im(x))
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


#: Rows of the left factor from which on the right one is worth writing out twice.
_FEWEST_ROWS = 4


def _reshaped(x: Node, *shape: int) -> Node:
    return Node(RESHAPE, (x,), (shape,), x.aval.with_shape(shape))


def memory_of(x: Parts) -> Node:
    """The pairs of a value; the memory that its parts are read from, where they are."""
    re, im = x.re, _im(x)
    if re.op is PART and im.op is PART and re.inputs == im.inputs and re.params != im.params:
        return re.inputs[0]
    return Node(PAIR, (re, im), (), re.aval.with_shape((*re.aval.shape, 2)))


def _one_product(node: Node, x: Parts, y: Parts) -> Parts:
    """One product of real matrices.  In memory, rows of x are numbers and rows of the result too:

    a0 b0 a1 b1 ...  @  c  d        rows (c, d) and (-d, c) in turn
                       -d  c
    """
    k, n = y.re.aval.shape[-2:]
    c, d = y.re, _im(y)
    rows = y.re.aval.with_shape((*y.re.aval.shape[:-1], 2, n))
    re = Node(ROWS, (c, _over("neg", d)), (), rows)
    im = Node(ROWS, (d, c), (), rows)
    right = memory_of(Parts(re, im))
    a = _reshaped(memory_of(x), *x.re.aval.shape[:-1], 2 * k)
    b = _reshaped(right, *y.re.aval.shape[:-2], 2 * k, 2 * n)
    real = _real(node)
    found = Node(node.op, (a, b), node.params, real.with_shape((*real.shape[:-1], 2 * n)))
    memory = _reshaped(found, *real.shape, 2)
    return Parts(Node(PART, (memory,), (0,), real), Node(PART, (memory,), (1,), real))


def _product(node: Node, inputs: Sequence[Parts]) -> Parts:
    """One product of real matrices, or four, or two where a factor is real."""
    x, y = inputs
    if x.im is not None and y.im is not None and typical(x.re.aval.shape[-2]) >= _FEWEST_ROWS:
        return _one_product(node, x, y)

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
    **dict.fromkeys(("power", "lower_power"), _power),
    "where": lambda node, inputs: _chosen(node, *inputs),
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
