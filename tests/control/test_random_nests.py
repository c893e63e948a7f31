"""Random programs of loops and branches in each other, against the same with Python's own: values, and derivatives
to second order in both modes; their text reads back."""

import random

import numpy as np
import pytest

import autodiff as ad
from codegen import compiler
from codegen.ir import parse, print_graph, verify

OPERATIONS = (
    lambda a, b: a + b,
    lambda a, b: a * 0.5 - b,
    lambda a, b: ad.tanh(a) * b,
    lambda a, b: ad.where(a > 0, a, b * 0.3),
    lambda a, b: a + 0.1 * b.sum(),
    lambda a, b: ad.sin(a * b),
    lambda a, b: ad.exp(-(a * a)) + b,
    lambda a, b: ad.cumsum(a) * 0.2 + b[::-1],
)
STATES, SIZE = 2, 3


class Block:
    """Statements on `STATES` vectors: operations, and control flow with blocks inside."""

    def __init__(self, choose, depth):
        self.statements = [self._statement(choose, depth) for _ in range(choose.randrange(1, 4))]
        if depth and all(s[0] == "operation" for s in self.statements):
            self.statements.append(self._nest(choose, depth))
        self.outside = choose.random() < 0.5  # whether it reads what it is not given

    def _statement(self, choose, depth):
        if depth and choose.random() < 0.3:
            return self._nest(choose, depth)
        places = [choose.randrange(STATES) for _ in range(3)]
        return ("operation", choose.choice(OPERATIONS), *places)

    @staticmethod
    def _nest(choose, depth):
        kind = choose.choice(["cond", "while", "scan", "fori", "checkpoint"])
        blocks = [Block(choose, depth - 1) for _ in range(2 if kind == "cond" else 1)]
        return kind, blocks, choose.randrange(STATES), choose.uniform(-0.5, 0.5), choose.randrange(0, 4)


class Program:
    """A random program, as it stands (`native`) or with Python's own control flow."""

    def __init__(self, seed, depth):
        choose, rng = random.Random(seed), np.random.default_rng(seed)
        self.block = Block(choose, depth)
        self.x, self.outer = rng.normal(size=(STATES, SIZE)), rng.normal(size=SIZE)
        self.direction = rng.normal(size=self.x.shape)

    def loss(self, x, outer, *, native):
        values = self.run(self.block, [x[k] for k in range(STATES)], outer, native)
        return sum([ad.sin(v).sum() for v in values])

    def native(self, x, outer):
        return self.loss(x, outer, native=True)

    def by_python(self, x, outer):
        return self.loss(x, outer, native=False)

    def run(self, block, values, outer, native):
        values = list(values)
        if block.outside:
            values[0] = values[0] + 0.1 * outer
        for kind, *rest in block.statements:
            if kind == "operation":
                operation, first, second, into = rest
                values[into] = ad.tanh(operation(values[first], values[second])) * 1.5
            else:
                values = list(self.nested(kind, *rest, values, outer, native))
        return values

    def nested(self, kind, blocks, place, level, count, values, outer, native):
        def inside(v, k=0):
            return tuple(self.run(blocks[k], v, outer, native))

        def holds(v, n):
            return v[place].sum() + 0.3 * n < level + count

        def turned(i, v):
            return inside(tuple(t * (1.0 + 0.1 * i) for t in v))

        def gone_through(v, x):
            return inside((v[0] + x, *v[1:])), v[place] * x

        xs = [values[place], *[outer] * count]
        run = self.natively if native else self.with_python
        return run(kind, inside, holds, turned, gone_through, tuple(values), xs, place, level, count)

    @staticmethod
    def natively(kind, inside, holds, turned, gone_through, values, xs, place, level, count):
        match kind:
            case "cond":
                return ad.cond(values[place].sum() > level, inside, lambda v: inside(v, 1), values)
            case "while":
                start = values, 0
                return ad.while_loop(
                    lambda v: holds(*v) & (v[1] < count + 1), lambda v: (inside(v[0]), v[1] + 1), start)[0]
            case "fori":
                return ad.fori_loop(0, count, turned, values)
            case "scan":
                last, ys = ad.scan(gone_through, values, ad.stack(xs), reverse=bool(count % 2))
                return last[0] + ys.sum(axis=0), *last[1:]
        return ad.checkpoint(inside)(values)

    @staticmethod
    def with_python(kind, inside, holds, turned, gone_through, values, xs, place, level, count):
        match kind:
            case "cond":
                return inside(values) if values[place].sum() > level else inside(values, 1)
            case "while":
                n = 0
                while holds(values, n) and n < count + 1:
                    values, n = inside(values), n + 1
                return values
            case "fori":
                for i in range(count):
                    values = turned(i, values)
                return values
            case "scan":
                total = 0.0
                for x in reversed(xs) if count % 2 else xs:
                    values, y = gone_through(values, x)
                    total = total + y
                return values[0] + total, *values[1:]
        return inside(values)


def derivatives(f, program):
    """Value, gradients, a directional derivative and the gradients of it, of f(x, outer)."""
    x, outer, v = program.x, program.outer, program.direction

    def along(x, outer):
        return (ad.grad(f)(x, outer) * v).sum()

    value, gradients = ad.value_and_grad(f, (0, 1))(x, outer)
    slope = ad.jvp(lambda x: f(x, outer), (x,), (v,))[1]
    return [value, *gradients, slope, *ad.grad(along, (0, 1))(x, outer)]


def close(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("seed", [*range(10), 127, 145])
def test_a_random_program_and_its_derivatives_are_those_of_python(seed, monkeypatch):
    program = Program(seed, depth=1 + seed % 2)
    with compiler.recorded() as graphs:
        found = derivatives(program.native, program)
        compiled = ad.jit(ad.value_and_grad(program.native, (0, 1)))(program.x, program.outer)
    monkeypatch.setattr(ad.config, "eager", True)
    expected = derivatives(program.by_python, program)
    close(found, expected)
    close(ad.tree.leaves(compiled), expected[:3])
    for graph in graphs:
        text = print_graph(graph)
        again = parse(text)
        verify(again)
        assert again.key == graph.key and print_graph(again) == text
