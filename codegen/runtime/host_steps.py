"""Steps in Python: the references of operations that machine code does not do, the user's functions among them.

    step = host_step(node, slots)         a native step as any other, which calls Python (`run_steps.call_host`)
    Decided(graph)                        what may refuse numbers: then its graph is evaluated by the references

References raise what says which matrix is singular, and where; or they give the value, where they round otherwise.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from ..blas import one_thread
from ..ir import Aval, Graph, Node, evaluate, evaluate_node
from ..ir.evaluate import failing
from . import loops
from .launcher import NativeStep, Refused, checked_arguments


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


def host_step(node: Node, slots: tuple[int, ...]) -> tuple[NativeStep, Callable[[int], None]]:
    """The step that calls a node's reference, and the function that it calls, which has to live as long."""
    avals = [n.aval for n in (*node.inputs, node)]
    table = ctypes.c_void_p * len(avals)
    # A function of the user's may keep what it is given, and the memory is used again.
    keeps = "host" in node.op.traits

    def run(pointers: int) -> None:
        addresses = table.from_address(pointers)
        *inputs, output = [_array_at(address or 0, aval) for address, aval in zip(addresses, avals, strict=True)]
        inputs = [array.copy() if keeps else array for array in inputs]
        for array in inputs:
            array.flags.writeable = False
        try:
            with one_thread():
                output[...] = evaluate_node(node, inputs)
        except Exception as error:  # as above
            for tell in failing:
                tell(error)
            raise

    return NativeStep(loops.addresses()["call_host"], slots, (id(run),)), run


def _array_at(address: int, aval: Aval) -> np.ndarray:
    """Memory as an array; complex numbers are pairs there."""
    if not aval.size:
        return np.empty(aval.shape, aval.dtype)
    memory: Any = (ctypes.c_char * aval.nbytes).from_address(address)
    return np.ndarray(aval.shape, aval.dtype, memory)
