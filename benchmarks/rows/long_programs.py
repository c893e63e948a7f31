"""The time to plan a long program, per operation: passes, fusion, storage and the text of kernels, without LLVM.

The programs are gradients of unrolled Python loops.  The last figure is the time per operation of the longest program
divided by that of the shortest: 1 if planning takes linear time."""

import time

import numpy as np
from targets import at_most

TITLE = "planning, an operation"
CASES = ["numbers", "vectors in few kernels", "a kernel for each step", "products"]
SIZES = (500, 2_000, 8_000, 32_000)
FIGURES = {**{f"{n:,} operations": "µs" for n in SIZES}, "growth": ""}
TARGETS = {"growth": [at_most(2)]}


def _numbers(ad, n, x):
    q, p = x[0], x[1]
    for _ in range(n):
        p = p - 0.01 * ad.sin(q)
        q = q + 0.01 * p
    return q * p


def _vectors(ad, n, x):
    for _ in range(n):
        x = x - 0.01 * ad.sin(x)
    return ad.sum(x * x)


def _kernels(ad, n, x):
    for _ in range(n):
        x = x + 0.1 * ad.roll(ad.tanh(x), 1)
    return ad.sum(x * x)


def _products(ad, n, x):
    w = np.eye(len(x)) * 0.9
    for _ in range(n):
        x = ad.tanh(w @ x)
    return ad.sum(x * x)


STEPS = dict(zip(CASES, (_numbers, _vectors, _kernels, _products), strict=True))


def inputs(case):
    return STEPS[case], np.linspace(0.1, 0.9, 16)


def ours(steps, x):
    def program():
        each = {n: min([_seconds_an_operation(steps, n, x) for _ in range(3)]) for n in SIZES}
        found = {f"{n:,} operations": 1e6 * s for n, s in each.items()}
        return {**found, "growth": each[SIZES[-1]] / each[SIZES[0]]}

    return program


def _graph(steps, n, x):
    """The graph of the gradient of n steps."""
    import autodiff as ad
    from codegen.ir import parse

    return parse(ad.inspect(ad.grad(lambda x: steps(ad, n, x)), x).graph)


def _seconds_an_operation(steps, operations, x):
    from codegen.compiler import make_program
    from codegen.emit.llvm import emit_function
    from codegen.garbage import Paused
    from codegen.program import Kernel

    few = len(_graph(steps, 10, x).nodes)
    graph = _graph(steps, max(1, round(operations / few * 10)), x)
    with Paused():
        start = time.process_time()
        program = make_program(graph)
        for step in program.steps:
            if isinstance(step.work, Kernel):
                emit_function(step.work.function)
        return (time.process_time() - start) / len(graph.nodes)
