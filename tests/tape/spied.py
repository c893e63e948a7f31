"""Things that tests of the tape watch: rules that count their calls, and what was compiled and run."""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pytest
from exact_keys import IS_COMPARED
from work_done import work

import autodiff as ad
from autodiff.mode import MODE
from autodiff.tape import ask, parts, tier
from autodiff.tape.walk import needed

#: For what holds only where exact keys are not made: with checks each hash is compared with one, amid threads too.
uncompared = pytest.mark.skipif(
    IS_COMPARED, reason="exact keys are made here, to be compared"
)

RNG = np.random.default_rng(0)
W0 = RNG.normal(size=(8, 200))
X0 = RNG.normal(size=(100, 8))
GRADIENT = X0.T @ np.cos(X0 @ W0)


def step(w, x):
    return ad.sin(x @ w).sum()


class Spy:
    """Counts how often each operation of a graph was run, and what was compiled."""

    def __init__(self, compile_graph):
        self.ran = Counter()
        self.compiled = []
        self._compile = compile_graph
        self._seen = set()

    def __call__(self, graph):
        executable = self._compile(graph)
        if graph.key not in self._seen:
            self._seen.add(graph.key)
            self.compiled.append(graph)
        ran, names = self.ran, Counter(n.op.name for n in graph.nodes)

        class Counting:
            def call(self, *values):
                ran.update(names)
                return executable.call(*values)

        return Counting()


def counts(spy):
    """(rules run, graphs compiled): what a known loop must not change."""
    return work().rules, len(spy.compiled)


def operations(*results):
    """The names of the operations that results are computed by."""
    leaves = [t for r in results for t in ad.tree.leaves(r) if isinstance(t, ad.Tensor)]
    return [n.kind.op.name for n in needed([t.node for t in leaves])]


def is_unwatched():
    """True where nobody looks at what is recorded."""
    return not MODE.get().careful and not MODE.get().watching


def parameter(value=W0):
    return ad.tensor(value, requires_grad=True)


def calls_of_python(run):
    """The Python functions that run() calls, and what it gives."""
    called = []
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        y = run()
    finally:
        sys.setprofile(None)
    return called[1:], y  # the first is `run`


def compile_any_size(monkeypatch, why="now"):
    """Programs of any size are compiled at once; for no reason: never."""
    monkeypatch.setattr(tier.SizedTier, "reason_to_compile", lambda *_: why)


def try_at_the_first_time(monkeypatch):
    """Every ending counts as one that was met before, of recordings of other lengths."""
    met_again = parts.ending_of
    monkeypatch.setattr(parts, "ending_of", lambda *given: met_again(*given) or met_again(*given))
    monkeypatch.setattr(parts.Ending, "is_to_be_tried", lambda *_: True)


def tell_of_exact_keys(monkeypatch, tell):
    """Call `tell()` for each exact key that is made of a recording, by machine code or in Python."""
    describe = ask.Question.describe
    monkeypatch.setattr(ask.Question, "describe", lambda *given: (tell(), describe(*given))[1])
