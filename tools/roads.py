"""Measures of one call: the number of its call paths, the depth of its call stack, the functions and files it enters.

    python tools/roads.py        print each measure as JSON (tools/scoreboard.py shows it beside the committed one)

A call path (a "road" in the labels) is the set of the library's Python functions that a call enters.  A repeated call
should soon enter the same functions each time, so few call paths are good.  These measures do not see native code.

The first calls are measured where nothing is on disk.  The call paths are counted in a process of their own, where the
machine code that all programs share is on disk, as it is after `autodiff doctor`; the programs are compiled anew there,
too.  The one process that makes the shared code has one path more.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
#: The argument with which this file counts call paths: see `paths_elsewhere`.
PATHS = "paths"
if PATHS not in sys.argv:
    os.environ["AUTODIFF_CACHE"] = "0"  # no code comes from disk

import numpy as np  # noqa: E402  the settings above come first

import autodiff as ad  # noqa: E402  the settings above come first

OURS = (f"{ROOT}/autodiff/", f"{ROOT}/codegen/", "<string>")
TIMES = 40
#: The calls after which the measurement pauses, so that code compiled in the background becomes ready.
RESTS, REST_S = (8, 16, 24), 0.6


class Entered:
    """The library's functions that a call enters, up to the first one of the name `until`."""

    def __init__(self, call: Callable[[], object], until: str = "") -> None:
        self.functions: set[tuple[str, str]] = set()
        self.deepest = self.changes = self._depth = 0
        self._last, self._until, self._is_over = "", until, False
        sys.setprofile(self._profile)
        try:
            call()
        finally:
            sys.setprofile(None)

    @property
    def files(self) -> set[str]:
        return {file for file, _ in self.functions}

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        if self._is_over or not file.startswith(OURS):
            return
        if event == "call":
            self._is_over = name == self._until
            self.functions.add((file, frame.f_code.co_qualname))
            self._depth += 1
            self.deepest = max(self.deepest, self._depth)
            self.changes += file != self._last
            self._last = file
        elif event == "return" and self._depth:
            self._depth -= 1


def roads(call: Callable[[], object]) -> int:
    """The number of different call paths of a call that is repeated `TIMES` times."""
    seen = set()
    for i in range(TIMES):
        seen.add(frozenset(Entered(call).functions))
        if i in RESTS:
            time.sleep(REST_S)
    return len(seen)


# ---------------------------------------------------------------- the calls

V = np.arange(6.0)


def of_tensor(loss: Callable) -> Callable[[], None]:
    """A call that runs backward of `loss` at a tensor, then drops the gradient."""
    x = ad.tensor(np.arange(5.0), requires_grad=True)

    def call() -> None:
        loss(x).backward()
        x.grad = None

    return call


def hooked(x):
    y = ad.sin(x) * 1.5
    y.register_hook(lambda g: g * 0.5)
    return (y * y).sum()


def in_place(x):
    y = ad.cos(x) * 1.5
    y[1:] = y[:-1] * 2.0
    y *= x
    return y.sum()


def second_order(x):
    (g,) = ad.grad((ad.tanh(x) ** 2).sum(), [x], create_graph=True)
    return (g * g).sum()


def lengths() -> Callable[[], None]:
    """A call that makes recordings of five different lengths in turn."""
    count = iter(range(10**9))

    def loss(x):
        for _ in range(4 + next(count) % 5):
            x = ad.sin(x) * 1.01
        return x.sum()

    return of_tensor(loss)


def sizes() -> Callable[[], None]:
    """A call with data of seven different sizes in turn."""
    count, data, w = iter(range(10**9)), np.arange(100.0), ad.tensor(1.5, requires_grad=True)

    def call() -> None:
        ad.log1p(data[: 21 + next(count) % 7] * w).sum().backward()
        w.grad = None

    return call


def custom() -> Callable[[], None]:
    """A call with a chain of two calls of a user's function that has a custom rule."""

    @ad.function
    def square(y): ...

    @square.forward(ad.Tensor)
    def _(ctx, y):
        ctx.save_for_backward(y=y)
        return y * y

    @square.backward(ad.Tensor)
    def _(ctx, grad_output):
        return grad_output * 2.0 * ctx.saved_variables.y

    return of_tensor(lambda x: square(square(x) * 0.5).sum())


def applied(f: Callable, *args: object) -> Callable[[], object]:
    """The call f(*args)."""
    return lambda: f(*args)


def first_calls() -> dict[str, int]:
    """The measures of first calls by name; smaller is better for each."""
    before = Entered(of_tensor(lambda x: (ad.exp(x) * x).sum()), until="compile_graph")
    whole = Entered(of_tensor(lambda x: (ad.sinh(x) * x).sum()))
    return {
        "functions of a first backward": len(whole.functions),
        "files of a first backward": len(whole.files),
        "deepest chain before the compiler": before.deepest,
        "changes of file before the compiler": before.changes,
    }


def paths() -> dict[str, int]:
    """The numbers of call paths by name.  The calls use different operations, so that each call's program is new."""
    tensor = ad.tensor(V, requires_grad=True)
    return {
        "roads of 40 calls: backward": roads(of_tensor(lambda x: (ad.cosh(x) * x).sum())),
        "roads: value_and_grad": roads(applied(ad.value_and_grad(lambda x: (ad.sin(x) * x).sum()), V)),
        "roads: jit": roads(applied(ad.jit(lambda x: (ad.exp(x) * x).sum()), V)),
        "roads: item": roads(lambda: (ad.tanh(tensor) * 2.0).sum().item()),
        "roads: with a hook": roads(of_tensor(hooked)),
        "roads: in place": roads(of_tensor(in_place)),
        "roads: second order": roads(of_tensor(second_order)),
        "roads: lengths": roads(lengths()),
        "roads: sizes": roads(sizes()),
        "roads: custom function": roads(custom()),
        "roads: vmap of grad": roads(applied(ad.vmap(ad.grad(lambda x: (ad.sin(x) ** 2).sum())), np.ones((3, 4)))),
    }


def paths_elsewhere() -> dict[str, int]:
    """The numbers of call paths, counted in another process, where only the shared machine code is on disk."""
    with tempfile.TemporaryDirectory() as folder:
        around = os.environ | {"PYTHONPATH": str(ROOT), "AUTODIFF_CACHE": "1", "AUTODIFF_CACHE_DIR": folder}
        subprocess.run([sys.executable, "-m", "autodiff", "doctor"], env=around, stdout=subprocess.DEVNULL, check=True)
        told = subprocess.run([sys.executable, __file__, PATHS], env=around, stdout=subprocess.PIPE, check=True).stdout
    return json.loads(told)


if __name__ == "__main__":
    print(json.dumps(paths() if PATHS in sys.argv else first_calls() | paths_elsewhere()))
