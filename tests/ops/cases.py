"""The cases of the sweep: for each operation, calls with the domains of their inputs.

A case is a function of tensors, the same function of NumPy arrays, and the avals of its inputs.  Case
lists stand in `cases_*.py`, one per room; `all_cases` gathers them.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autodiff as ad
from codegen.ir import Aval, parse_aval

__all__ = ["Case", "all_cases", "case", "cases", "eager", "law", "rng_of", "taking_turns"]

#: Shapes that an elementwise operation of one or two inputs is tried on.
ONE = ("[]", "[0]", "[5]", "[3,4]")
TWO = (("[]", "[]"), ("[5]", "[5]"), ("[3,4]", "[4]"), ("[3,1]", "[1,4]"), ("[0,3]", "[1,3]"), ("[2,3]", "[]"))


@dataclass(frozen=True)
class Case:
    """One call.

    name       of the test: unique
    f          f(*tensors) -> tensor
    expected   expected(*arrays) -> array: the same by NumPy; None: only the operation's reference defines it
    avals      of the inputs
    draws      draw(rng, shape) -> floats, one per float input: where the function is smooth
    wrt        numbers of the inputs it is differentiated by; () for a step function
    ulps       how far native code may be from the reference
    order      how often it may be differentiated: 2, or 1 where the second derivative is not a function
    traced     whether `jit` can trace it: not where a mask decides how many elements there are
    pointwise  whether native code for its shape has nothing to do with that for its dtype: see `taking_turns`
    """

    name: str
    f: Callable[..., Any]
    expected: Callable[..., Any] | None
    avals: tuple[Aval, ...]
    draws: tuple[Callable[..., np.ndarray], ...]
    wrt: tuple[int, ...] = ()
    ulps: float = 4
    order: int = 2
    traced: bool = True
    pointwise: bool = False

    @property
    def call(self) -> str:
        """The name without the avals: cases of one call differ in shapes and dtypes."""
        return self.name.partition("(")[0]

    @property
    def dtypes(self) -> tuple[np.dtype, ...]:
        """Of the inputs."""
        return tuple(a.dtype for a in self.avals)

    @property
    def size(self) -> int:
        """The number of elements of the inputs."""
        return sum(a.size for a in self.avals)

    def point(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Inputs in the domain."""
        return [np.asarray(draw(rng, a.shape)).astype(a.dtype) for draw, a in zip(self.draws, self.avals, strict=True)]

    def direction(self, rng: np.random.Generator) -> list[np.ndarray]:
        """A tangent for each input of `wrt`."""
        return [rng.uniform(-1, 1, self.avals[i].shape).astype(self.avals[i].dtype) for i in self.wrt]

    def __repr__(self) -> str:
        return self.name


# ---------------------------------------------------------------- where inputs are drawn from


def between(low: float, high: float) -> Callable[..., np.ndarray]:
    """Numbers in an interval."""
    return lambda rng, shape: rng.uniform(low, high, shape)


def away(low: float, high: float) -> Callable[..., np.ndarray]:
    """Numbers of both signs whose size is in an interval: away from a kink at 0."""
    return lambda rng, shape: rng.uniform(low, high, shape) * rng.choice([-1.0, 1.0], shape)


def integers(low: int, high: int) -> Callable[..., np.ndarray]:
    """Whole numbers from low to high - 1."""
    return lambda rng, shape: rng.integers(low, high, shape)


def distinct(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of which no two are close: for what compares them."""
    size = int(np.prod(shape))
    return (rng.permutation(size).reshape(shape) - size / 2) * 0.25 + rng.uniform(-0.05, 0.05, shape)


#: What is drawn when a case says nothing, by kind of dtype.
DEFAULT = {"f": away(0.3, 2.0), "i": integers(-5, 6), "b": integers(0, 2)}


# ---------------------------------------------------------------- making cases


def case(
    name: str,
    f: Callable[..., Any],
    expected: Callable[..., Any] | None,
    avals: Sequence[str],
    draws: Sequence[Callable[..., np.ndarray] | None] | Callable[..., np.ndarray] | None = None,
    *,
    smooth: bool = True,
    **options: Any,
) -> Case:
    """One case: `case("sum-axis", lambda x: ad.sum(x, axis=0), lambda x: x.sum(0), ["f64[3,4]"])`.

    draws    one for all inputs, or one each (None: by the input's dtype)
    smooth   False for a step function: nothing is differentiated
    """
    parsed = tuple(map(parse_aval, avals))
    given = draws if isinstance(draws, (list, tuple)) else [draws] * len(parsed)
    drawn = tuple(d or DEFAULT[a.dtype.kind] for d, a in zip(given, parsed, strict=True))
    wrt = tuple(i for i, a in enumerate(parsed) if a.dtype.kind == "f") if smooth else ()
    options.setdefault("wrt", wrt)
    text = ",".join(map(str, parsed))
    return Case(f"{name}({text})", f, expected, parsed, drawn, **options)


def cases(
    name: str,
    f: Callable[..., Any],
    expected: Callable[..., Any] | None,
    draws: Any = None,
    *,
    dtypes: Sequence[str] = ("f64", "f32"),
    shapes: Sequence[Any] = ONE,
    **options: Any,
) -> list[Case]:
    """A case for each dtype and each shape, or tuple of shapes."""
    return [
        case(name, f, expected, [dtype + s for s in ((shape,) if isinstance(shape, str) else shape)], draws, **options)
        for dtype in dtypes
        for shape in shapes
    ]


def all_cases() -> list[Case]:
    """Every case of every `cases_*.py`.  Raises AssertionError when two have one name."""
    found: list[Case] = []
    for file in sorted(Path(__file__).parent.glob("cases_*.py")):
        found += importlib.import_module(f"{__package__}.{file.stem}").CASES
    names = [c.name for c in found]
    assert len(set(names)) == len(names), sorted({n for n in names if names.count(n) > 1})
    return found


def taking_turns(cases: Sequence[Case]) -> list[Case]:
    """Pointwise calls in every shape with one dtype, and in every dtype with the largest shape; all of the others.

    For what compiles, 10 ms a case.  A loop nest is made for the shape, and what is in it for the dtype.
    """
    largest: dict[tuple[Any, ...], Case] = {}
    first: dict[str, tuple[np.dtype, ...]] = {}
    for c in cases:
        first.setdefault(c.call, c.dtypes)
        if (c.call, c.dtypes) not in largest or c.size > largest[c.call, c.dtypes].size:
            largest[c.call, c.dtypes] = c
    return [c for c in cases if not c.pointwise or c.dtypes == first[c.call] or largest[c.call, c.dtypes] is c]


# ---------------------------------------------------------------- running them


def law(cases: Sequence[Case]) -> Callable[[Callable[[Case], None]], Callable[[str], None]]:
    """`@law(CASES)` makes `def test_...(case)` a test for each call, which tries all cases of the call.

    A test for each case would cost more in pytest (1.4 ms) than most laws do in the library (0.3 ms).
    """
    groups: dict[str, list[Case]] = {}
    for c in cases:
        groups.setdefault(c.call, []).append(c)

    def test_of(check: Callable[[Case], None]) -> Callable[[str], None]:
        def test(call: str) -> None:
            failures = [error for c in groups[call] if (error := _failure(check, c)) is not None]
            if len(failures) > 1:
                raise ExceptionGroup(f"{len(failures)} of {len(groups[call])} cases fail", failures)
            if failures:
                raise failures[0]

        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        return pytest.mark.parametrize("call", groups)(test)

    return test_of


def _failure(check: Callable[[Case], None], c: Case) -> Exception | None:
    """The fault of a case, if it has one."""
    try:
        check(c)
    except Exception as error:
        error.add_note(f"case: {c}")
        return error
    return None


def rng_of(c: Case) -> np.random.Generator:
    """The same numbers for a case in every run, other ones for each case."""
    return np.random.default_rng(zlib.crc32(c.name.encode()))


class eager:
    """`with eager():` every operation is evaluated by its reference; no compiler takes part."""

    def __enter__(self) -> None:
        self.before = ad.config.eager
        ad.config.eager = True

    def __exit__(self, *_: Any) -> None:
        ad.config.eager = self.before
