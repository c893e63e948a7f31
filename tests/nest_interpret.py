"""The loop level run in plain Python: what a kernel means, without an emitter or LLVM.

    status = interpret(function, [x, y])       arrays for the memrefs, numbers for the index arguments

Scalars are NumPy scalars of the operation's type, so integers wrap and floats round as they do
natively; vector math and the order of a `reassoc` sum may differ in the last places.  For tests and
for looking at small cases: a scalar operation costs microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codegen.garbage import ignoring
from codegen.kernel.instructions import INSTRUCTIONS
from codegen.kernel.nest import Block, MemRef, NestFunction, Operation, ScalarType, Value

__all__ = ["interpret"]

_DTYPES = {
    "index": np.int64, "i1": np.bool_, "i8": np.uint8, "i32": np.int32, "i64": np.int64,
    "f32": np.float32, "f64": np.float64,
}


_RELATIONS: dict[str, Callable] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}


def interpret(function: NestFunction, arguments: Sequence[Any]) -> int:
    """Run a kernel on packed arrays, which it writes to; gives its status."""
    values: dict[Value, Any] = {}
    for formal, actual in zip(function.arguments, arguments, strict=True):
        if isinstance(formal.type, MemRef):
            assert actual.flags.c_contiguous, "memory is packed"
            actual = actual.view(np.uint8) if actual.dtype == np.bool_ else actual
            actual = actual.reshape(-1)
            assert formal.type.size in (None, actual.size)
        values[formal] = actual
    with ignoring(all="ignore"):
        return int(_run(function.body, values)[0])


def _run(block: Block, values: dict[Value, Any]) -> list[Any]:
    """The operations of a block; gives the operands of its terminator."""
    for operation in block.operations:
        operands = [values[o] for o in operation.operands]
        name = operation.name
        if name in ("scf.yield", "scf.reduce", "func.return"):
            return operands
        if name == "scf.for":
            results = _loop(operation, operands, values)
        elif name == "scf.parallel":
            _parallel(operation, operands, values)
            results = []
        elif name == "memref.store":
            value, memory, *index = operands
            memory[tuple(_inside(index, memory))] = value
            results = []
        else:
            results = [_scalar(operation, operands)]
        values.update(zip(operation.results, results, strict=True))
    return []


def _loop(operation: Operation, operands: list[Any], values: dict[Value, Any]) -> list[Any]:
    lower, upper, step, *carried = operands
    (body,) = operation.regions
    for i in range(int(lower), int(upper), int(step)):
        values.update(zip(body.arguments, [np.int64(i), *carried], strict=True))
        carried = _run(body, values)
    return carried


def _parallel(operation: Operation, operands: list[Any], values: dict[Value, Any]) -> None:
    """Iterations backwards: they must not depend on their order."""
    (body,) = operation.regions
    (counter,) = body.arguments
    for i in reversed(range(*map(int, operands))):
        values[counter] = np.int64(i)
        _run(body, values)


def _inside(index: list[Any], memory: np.ndarray) -> list[int]:
    assert all(0 <= i < n for i, n in zip(index, memory.shape, strict=True)), (
        f"index {[int(i) for i in index]} is outside of memory of shape {memory.shape}"
    )
    return [int(i) for i in index]


def _scalar(operation: Operation, operands: list[Any]) -> Any:
    name = operation.name
    type = operation.result.type
    if name == "memref.alloca":
        assert isinstance(type, MemRef)
        assert type.size is not None, "memory of a kernel's own is of a known size"
        # Its first contents are undefined: something that shows.
        return np.full(type.size, 85, _DTYPES[type.element.name])
    assert isinstance(type, ScalarType)
    as_type = _DTYPES[type.name]
    if name == "memref.load":
        memory, *index = operands
        return memory[tuple(_inside(index, memory))]
    if name == "arith.constant":
        return as_type(operation.attributes["value"])
    if name in ("arith.cmpf", "arith.cmpi"):
        predicate = operation.attributes["predicate"]
        holds = np.bool_(_RELATIONS[predicate[-2:]](*operands))
        # Of floats "ugt" is also true where there is a nan; of integers it is about those without a sign.
        return holds | np.isnan(operands).any() if name == "arith.cmpf" and predicate[0] == "u" else holds
    if name == "arith.select":
        return operands[1] if operands[0] else operands[2]
    if name == "arith.bitcast":
        return np.asarray(operands[0]).view(as_type)[()]
    numpy = INSTRUCTIONS[name].numpy
    if numpy is None:  # a cast
        if name == "arith.trunci" and type.name == "i1":
            return np.bool_(int(operands[0]) & 1)
        return np.asarray(operands[0]).astype(as_type)[()]
    result = numpy(*operands)
    if isinstance(result, int):
        bits = type.bits
        result = (result + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
    return as_type(result)
