"""A program that may refuse numbers: then its graph is evaluated by the references, which decide.

    call(*arrays)   natively;  where a kernel refuses:  evaluate(graph, *arrays)

They raise what says which matrix is singular, and where; or they give the value, where they round otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir import Graph, evaluate
from ..ir.evaluate import failing
from .launcher import Refused, checked_arguments

__all__ = ["Decided", "or_slow"]


def or_slow(launch: Callable[..., Any], slow: Callable[..., Any]) -> Callable[..., Any]:
    """A launcher that gives `slow(*arguments)` for refused ones too."""

    def launch_or_slow(*arguments: Any) -> Any:
        try:
            return launch(*arguments)
        except Refused:
            pass
        return slow(*arguments)

    return launch_or_slow


class Decided:
    """`f(*arguments)`; `call` is what is called first."""

    __slots__ = ("__weakref__", "_graph", "call")

    call: Any

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __call__(self, *arguments: Any) -> tuple[np.ndarray, ...]:
        try:
            return self.call(*arguments)
        except Refused:
            pass  # what is raised now has nothing to do with it
        graph = self._graph
        try:
            return evaluate(graph, *checked_arguments(arguments, [i.aval for i in graph.inputs], graph.name))
        except Exception as error:  # machine code may have called, around which there is no other place for it
            for tell in failing:
                tell(error)
            raise
