"""A pass that splits complex numbers: it replaces each complex value of a graph by its real and its imaginary part.

    part    the real or the imaginary part of stored complex numbers         f64[n,2]  ->  f64[n]
    pair    two arrays interleaved, as complex numbers are stored            f64[n], f64[n]  ->  f64[n,2]
    hosted  an operation that NumPy computes on complex arrays               pairs -> pairs

An imaginary part of None means zero, as for a value that was real.  Elementwise formulas multiply and divide by such a
zero as NumPy does, since the result differs if an operand is infinite or nan; products of matrices and sums leave it
out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir import OPS, Aval, Graph, Node, apply, dtype_name, inherit
from ..ir.op import CONSTANT, INPUT, Op
from ..kernel.complex_formulas import FORMULAS, part_of
from ..lowering import Call, Contract, Dense, Fourier, Move, Reduce, Scan, Scatter
from ..nested import Nested, graphs
from ..records import NamedTuple
from .recur import RESULT
from .stored_parts import PAIR, REALS, has_complex, is_complex


class ComplexParts(NamedTuple):
    """The real and the imaginary part of a value; `im` is None for zero."""

    re: Node
    im: Node | None


#: The translation of a node: the parts of a complex node, or the new node of a real one.
Value = ComplexParts | Node

#: The operation that takes one part of stored pairs; `which` is 0 for the real part, 1 for the imaginary part.
_PART = Op(
    "part",
    infer=lambda x, *, which: x.with_shape(x.shape[:-1]),
    reference=None,
    lower=Move(lambda k, index, x, *, which: x(*index, k.index(which))),
    params=("which",),
    traits=frozenset(("move",)),
)


def _memory_aval(aval: Aval) -> Aval:
    """The aval of an array in memory, where complex numbers are pairs: c128[n] becomes f64[n,2]."""
    return Aval((*aval.shape, 2), REALS[aval.dtype]) if aval.dtype in REALS else aval


def _hosted(name: str, lower: Call) -> Op:
    """An operation on stored pairs, by NumPy or by a `Dense` program; its parameter is the original complex node."""
    return Op(
        name, infer=lambda *_, computed: _memory_aval(computed.aval), reference=None, lower=lower, params=("computed",)
    )


def split(graph: Graph) -> Graph:
    """The graph with every complex number split into its parts; see the head of the file."""
    return _Splitter({}, {}).graph(graph)


class _Splitter:
    """The translation of one graph.  All graphs share `nests` (translated loops) and `made` (operations on parts)."""

    def __init__(self, nests: dict[int, tuple[Nested, Nested]], made: PartOps) -> None:
        self.nests = nests
        self.made = made
        self.values: dict[Node, Any] = {}
        self.stored: dict[Node, Node] = {}

    def graph(self, graph: Graph) -> Graph:
        """The translated graph, whose complex inputs and outputs are arrays of pairs."""
        inputs = [self._input(node) for node in graph.inputs]
        for node in graph.nodes:
            self.values[node] = self._value(node)
        made = Graph.of(inputs, [self.memory(o) for o in graph.outputs], graph.name)
        found = self.values.items()
        first = {n: v if isinstance(v, Node) else v.re for n, v in found}
        second = {n: v.im for n, v in found if not isinstance(v, Node) and v.im is not None}
        for new in (first, second, self.stored):
            inherit(graph, made, new)
        return made

    def memory(self, node: Node) -> Node:
        """The translation of a node as it is stored: an array of pairs if the node is complex."""
        value = self.values[node]
        if not is_complex(node):
            return value
        found = self.stored.get(node)
        if found is None:
            found = self.stored[node] = _memory_of(value)
        return found

    def _input(self, node: Node) -> Node:
        if not is_complex(node):
            self.values[node] = node
            return node
        memory = Node(INPUT, (), (), _memory_aval(node.aval))
        self.values[node] = self._parts(node, memory)
        return memory

    def _parts(self, node: Node, memory: Node) -> ComplexParts:
        """The parts of a complex node that is stored as `memory`, an array of pairs."""
        self.stored[node] = memory
        return ComplexParts(*[apply(_PART, memory, which=which) for which in (0, 1)])

    def _value(self, node: Node) -> Any:
        if node.op is CONSTANT:
            return _constant(complex(node.params[0]), node) if is_complex(node) else node
        if node.op is RESULT:
            return self._result(node)
        values = [self.values[i] for i in node.inputs]
        if not is_complex(node) and not any(map(is_complex, node.inputs)):
            return _again(node, values, node.params)
        rule = _rule_of(node)
        if rule is not None:
            return rule(node, values, self.made)
        lower = node.op.lower if isinstance(node.op.lower, Dense | Fourier) else Call()
        inputs = [self.memory(i) for i in node.inputs]
        memory = Node(_hosted(node.op.name, lower), inputs, (node,), _memory_aval(node.aval))
        return self._parts(node, memory) if is_complex(node) else memory

    def _result(self, node: Node) -> Any:
        """The translation of a result of a loop or branch."""
        nested, starts, numbers = params = node.params
        if has_complex(nested):
            starts = tuple([s * (1 + is_complex(i)) for s, i in zip(starts, node.inputs, strict=True)])
            params = (self._nested(nested), starts, numbers)
        inputs = [self.memory(i) for i in node.inputs]
        if not is_complex(node):
            return _again(node, inputs, params)
        return self._parts(node, Node(RESULT, inputs, params, _memory_aval(node.aval)))

    def _nested(self, nested: Nested) -> Nested:
        """The loop or branch with its graphs translated; one object for all results of an operation."""
        known = self.nests.get(id(nested))
        if known is None:
            found: dict[str, Any] = {}
            for name, graph in graphs(nested).items():
                found[name] = _Splitter(self.nests, self.made).graph(graph)
            known = self.nests[id(nested)] = nested, nested._replace(**found)
        return known[1]


def _again(node: Node, inputs: Sequence[Node], params: tuple) -> Node:
    """The node on translated inputs; the same object if neither inputs nor parameters differ."""
    if params is node.params and all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
        return node
    return Node(node.op, inputs, params, node.aval)


# ---------------------------------------------------------------- parts


def _real(node: Node) -> Aval:
    """The aval of one part of a complex node, or of a real node itself."""
    return node.aval.with_dtype(REALS[node.aval.dtype]) if is_complex(node) else node.aval


def _number(value: float, dtype: np.dtype) -> Node:
    return Node(CONSTANT, (), (value, dtype_name(dtype)), Aval((), dtype))


def _constant(value: complex, node: Node) -> ComplexParts:
    dtype = REALS[node.aval.dtype]
    return ComplexParts(_number(value.real, dtype), None if value.imag == 0 else _number(value.imag, dtype))


def _im(x: ComplexParts) -> Node:
    """The imaginary part, an array of zeros if it is None."""
    if x.im is not None:
        return x.im
    zero = _number(0.0, x.re.aval.dtype)
    return apply(OPS["broadcast_to"], zero, shape=x.re.aval.shape) if x.re.aval.shape else zero


def _memory_of(x: ComplexParts) -> Node:
    """The pairs of a value.  If its parts were taken from an array of pairs, the result is that array."""
    re, im = x.re, _im(x)
    if re.op is _PART and im.op is _PART and re.inputs == im.inputs and re.params != im.params:
        return re.inputs[0]
    return apply(PAIR, re, im)


# ---------------------------------------------------------------- rules

#: The operations that compute parts, by the arguments of `part_of`, so that equal ones are one object.
PartOps = dict[tuple, Op]

#: A rule takes a node, the translations of its inputs, and the part operations made so far.
Rule = Callable[[Node, Sequence[Any], PartOps], Value]

#: Operations whose result is real if all operands are real.
_OF_REALS = frozenset(("add", "sub", "neg", "mul", "mul0", "div", "reciprocal", "where"))


def _rule_of(node: Node) -> Rule | None:
    """The rule that computes a node by parts; None if NumPy has to compute it."""
    found = _RULES.get(node.op.name)
    if found is not None:
        return found
    if node.op.name in FORMULAS:
        return _by_formula
    lower = node.op.lower
    if isinstance(lower, Contract):
        return _product
    is_sum = isinstance(lower, Reduce | Scan) and lower.monoid == "add"
    return _each_part if is_complex(node) and (is_sum or isinstance(lower, Move | Scatter)) else None


def _by_formula(node: Node, inputs: Sequence[Any], made: PartOps) -> Value:
    """The rule of elementwise operations in the table of `kernel.complex_formulas`."""
    real, are_complex = _real(node), tuple([isinstance(x, ComplexParts) for x in inputs])
    is_real = not any([isinstance(x, ComplexParts) and x.im for x in inputs])
    if is_real and is_complex(node) and node.op.name in _OF_REALS:
        operands = [x.re if isinstance(x, ComplexParts) else x for x in inputs]
        return ComplexParts(Node(node.op, operands, node.params, real), None)
    operands = []
    for x in inputs:
        operands += [x.re, x.im or _number(0.0, x.re.aval.dtype)] if isinstance(x, ComplexParts) else [x]

    def part(which: str) -> Node:
        given = node.op, which, are_complex, node.params, real.dtype
        if given not in made:
            made[given] = part_of(*given)
        return Node(made[given], operands, (), real)

    return ComplexParts(part("re"), part("im")) if is_complex(node) else part("")


def _conjugate(node: Node, inputs: Sequence[ComplexParts], made: PartOps) -> ComplexParts:
    (x,) = inputs
    return ComplexParts(x.re, None if x.im is None else apply(OPS["neg"], x.im))


def _cast(node: Node, inputs: Sequence[Any], made: PartOps) -> Value:
    """The rule of casts: to complex by parts, to a real dtype of the real part, to bool True if a part is not zero."""
    (x,) = inputs
    real = _real(node)

    def cast(part: Node) -> Node:
        same = part.aval.dtype == real.dtype
        return part if same else Node(node.op, (part,), (dtype_name(real.dtype),), real)

    if not is_complex(node):
        return _by_formula(node, inputs, made) if node.aval.dtype.kind == "b" else cast(x.re)
    if isinstance(x, Node):
        return ComplexParts(cast(x), None)
    return ComplexParts(cast(x.re), None if x.im is None else cast(x.im))


def _each_part(node: Node, inputs: Sequence[Any], made: PartOps) -> ComplexParts:
    """The rule of an operation that acts on each part separately, such as a sum or a transpose."""

    def of(which: int) -> Node:
        operands = [(_im(x) if which else x.re) if isinstance(x, ComplexParts) else x for x in inputs]
        return Node(node.op, operands, node.params, _real(node))

    is_real = all(x.im is None for x in inputs if isinstance(x, ComplexParts))
    return ComplexParts(of(0), None if is_real else of(1))


def _product(node: Node, inputs: Sequence[ComplexParts], made: PartOps) -> ComplexParts:
    """A product of matrices: four products of real parts, or two if one factor is real, or one if both are."""
    x, y = inputs

    def product(a: Node, b: Node) -> Node:
        return Node(node.op, (a, b), node.params, _real(node))

    re = product(x.re, y.re)
    im = [product(a, b) for a, b in ((x.re, y.im), (x.im, y.re)) if a and b]
    if not (x.im and y.im):
        return ComplexParts(re, im[0] if im else None)
    return ComplexParts(apply(OPS["sub"], re, product(x.im, y.im)), apply(OPS["add"], *im))


_RULES: dict[str, Rule] = {
    "real": lambda node, inputs, made: inputs[0].re,
    "imag": lambda node, inputs, made: _im(inputs[0]),
    "imaginary": lambda node, inputs, made: ComplexParts(_im(ComplexParts(inputs[0], None)), inputs[0]),
    "conj": _conjugate,
    "cast": _cast,
}
