"""Random programs: a Hypothesis strategy, and the program as a Python function with its text.

    def f(x0, x1, k):
        v0 = ad.sin(x0)
        v1 = v0 @ x1
        return ad.sum(v1 * ladder(3,))

Each line is tried by the references as soon as it is drawn: one whose values are not finite, too large, or
too near to a kink is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import contextmanager

import numpy as np
from hypothesis import strategies as st

import autodiff as ad

from .catalogue import FAMILIES
from .helpers import NAMES

__all__ = ["Program", "eager", "programs"]

SHAPES = ((), (1,), (3,), (4,), (2, 3), (3, 3), (3, 1), (1, 4), (4, 3), (2, 3, 4), (2, 1, 3), (2, 2, 2), (0, 3))
#: Values stay below, so that rounding does; sizes too, so that an example is quick.
LARGEST, MOST = 30.0, 60
#: How near to a kink a value may come.
MARGIN = 1e-3


@contextmanager
def eager():
    """Every operation is evaluated at once by its reference."""
    before, ad.config.eager = ad.config.eager, True
    try:
        yield
    finally:
        ad.config.eager = before


class Program:
    """A function of arrays as text, and arguments for it.  Its result weighs every value that no line reads.

    inputs       arrays by name: floats to differentiate by, then an index array
    lines        statements, each of which sets the name that it begins with
    shapes       of all values, by name
    """

    def __init__(self, inputs: dict[str, np.ndarray], lines: list[str], shapes: dict[str, tuple[int, ...]]) -> None:
        self.inputs, self.lines, self.shapes = inputs, lines, shapes
        self.names, self.arguments = list(inputs), list(inputs.values())
        self.count = sum(a.dtype.kind == "f" for a in self.arguments)
        read = {name for text in lines for name in set(re.findall(r"\w+", text)) - {_target(text)}}
        last = [v for v in (*self.names[: self.count], *map(_target, lines)) if v not in read]
        self.result = " + ".join(f"ad.sum({v} * ladder{shapes[v] or '(1)'})" for v in last)
        self.text = self._text(lines)

    def _text(self, lines: list[str]) -> str:
        body = "\n".join(f"    {part}" for line in [*lines, f"return {self.result}"] for part in line.splitlines())
        return f"def f({', '.join(self.names)}):\n{body}\n"

    def interrupted(self, statement: str) -> Callable:
        """The program with this statement after each line, its value as `{v}`."""
        lines = [part for line in self.lines for part in (line, statement.format(v=_target(line)))]
        space = {"ad": ad, "np": np, **NAMES}
        exec(self._text(lines), space)
        return space["f"]

    def spoken(self, names: dict, values: dict) -> Program:
        """The part of it that is left where `ad` is something else: the lines that run with these names and values."""
        space, lines = {"np": np, **names, **values}, []
        for line in self.lines:
            try:
                exec(line, space)
                is_same = tuple(space[_target(line)].shape) == self.shapes[_target(line)]
            except Exception:
                is_same = False
            if is_same:
                lines.append(line)
            else:
                space.pop(_target(line), None)
        return Program(self.inputs, lines, self.shapes)

    def function(self, names: dict | None = None) -> Callable:
        """The program with these names (by default those of this library)."""
        space = {"ad": ad, "np": np, **NAMES} if names is None else dict(names)
        exec(self.text, space)
        return space["f"]

    @property
    def digits(self) -> int:
        """The number of decimal digits that the ways to run it have in common."""
        return 9 if self.arguments[0].dtype == np.float64 else 3

    @property
    def floats(self) -> list[np.ndarray]:
        return self.arguments[: self.count]

    def __repr__(self) -> str:
        shown = "".join(f"{n} = {_shown(a)}\n" for n, a in zip(self.names, self.arguments, strict=True))
        return f"\n{self.text}{shown}"


def _target(line: str) -> str:
    return line.split(" ", 1)[0]


def _shown(a: np.ndarray) -> str:
    return f"np.array({np.round(a, 8).tolist()}, np.{a.dtype.name}).reshape({a.shape})"


class Programmer:
    """The things that templates ask: the values so far, and choices."""

    def __init__(self, draw, dtype, inputs: dict[str, np.ndarray]) -> None:
        self._draw = draw
        self.dtype = dtype
        self.space = {"ad": ad, "np": np, **NAMES, **{n: ad.tensor(a) for n, a in inputs.items()}}
        self.values = [n for n, a in inputs.items() if a.dtype.kind == "f"]

    def pick(self, things):
        return self._draw(st.sampled_from(list(things)))

    def number(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def permutation(self, n: int) -> list[int]:
        return self._draw(st.permutations(range(n)))

    def shape(self, name: str) -> tuple[int, ...]:
        return self.space[name].shape

    def size(self, name: str) -> int:
        return self.space[name].size

    def like(self, x: str) -> str:
        """A value of this one's shape and dtype."""
        aval = self.space[x].aval
        return self.pick([v for v in self.values if self.space[v].aval == aval])

    def of_rank(self, rank: int) -> str | None:
        found = [v for v in self.values if len(self.shape(v)) == rank]
        return self.pick(found) if found else None

    def broadcastable(self, x: str) -> str:
        """A value whose shape fits this one's."""
        return self.pick([v for v in self.values if _fits(self.shape(v), self.shape(x))])

    def add(self, name: str, line) -> str | None:
        """The line as statements that set `name`, if it may stand."""
        text = line.text.replace("{out}", name) if "{out}" in line.text else f"{name} = {line.text}"
        with np.errstate(all="ignore"):
            if line.kink and not self._is_away(line.kink):
                return None
            exec(text, self.space)
            y = self.space[name]
            value = y.detach().numpy()
        if y.ndim > 3 or y.size > MOST or not (np.abs(value) < LARGEST).all():
            del self.space[name]
            return None
        self.values.append(name)
        return text

    def _is_away(self, kink: str) -> bool:
        value = eval(kink, self.space)
        value = value.detach().numpy() if isinstance(value, ad.Tensor) else np.asarray(value)
        return bool((np.abs(value) > MARGIN).all())


def _fits(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return True


@st.composite
def programs(draw, dtypes=(np.float64,), size=9):
    """A program of at most `size` lines whose result is a scalar."""
    dtype = draw(st.sampled_from(dtypes))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3))
    inputs = {f"x{i}": rng.uniform(-2, 2, s).astype(dtype) for i, s in enumerate(shapes)}
    inputs["k"] = rng.integers(0, 2, 3)
    with eager():
        p = Programmer(draw, dtype, inputs)
        lines: list[str] = []
        for number in range(draw(st.integers(3, size))):
            x = p.pick(p.values[-5:])
            line = draw(st.sampled_from(FAMILIES))(p, x)
            text = line and p.add(f"v{number}", line)
            if text:
                lines.append(text)
    return Program(inputs, lines, {v: p.shape(v) for v in p.values})
