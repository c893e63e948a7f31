"""Machine code in the place of Python: what this machine can do, and calls that have no other way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from codegen.runtime import engine, launcher


def is_native() -> bool:
    """True where known calls go by machine code: nearly everywhere (`autodiff doctor` says it)."""
    return launcher.is_native()


def fuses_products() -> bool:
    """True where the processor rounds a product and the sum with it once, as one instruction."""
    return "+fma" in engine.target_features()


def refused(*_: object) -> None:
    """The stand-in for a way that must not be taken."""
    raise AssertionError("Python was asked")


def without_python(f: Any) -> None:
    """Take from f, a function under `jit`, all ways but machine code (where there is none it keeps them)."""
    if is_native():
        f.traced.call = refused


def without_general_way(f: Any) -> None:
    """Take from f, a function under `jit`, the way that serves any call; ways for known ones stay."""
    if is_native():
        f.traced.call = refused


def left_to(f: Any, other: Callable[[tuple, dict], Any]) -> None:
    """Have `other(args, kwargs)` answer the calls of f, a function under `jit`, that machine code leaves to Python."""
    f.traced.call = other


def is_entered(f: Any) -> bool:
    """True if machine code is asked first at each call of f, a function under `jit`."""
    return hasattr(f, "site")


def straight_ways(f: Any) -> int:
    """The number of signatures of f, a function under `jit`, that go straight from the arguments into machine code."""
    return len(f.traced.native_calls)
