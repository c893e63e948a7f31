"""The IR of loop nests: a few of MLIR's dialects as small classes.

    module   = function*
    function = func.func @name(argument*) -> i32 { block }
    block    = argument* operation*                            the last one is a terminator
    value    = result of an operation or argument of a block; single assignment
    type     = index | i1 | i8 | i32 | i64 | f32 | f64 | MemRef(size, element)

The dialects used, all of them MLIR's own:

    func     func return
    scf      for (iter_args) parallel yield reduce
    memref   load store alloca
    arith, math     the scalar instructions listed in `instructions`

Rules that builder, printer and emitter share:

  * A kernel's arguments are memrefs (packed, row-major, with one flat index) and then indices (run-time extents).
    No two memref arguments are the same memory.
  * bool is `i8` in memory (NumPy's byte) and `i1` in arithmetic: a load of bool is followed by
    `arith.trunci`, a store preceded by `arith.extui`.  `Scalar.load/store` do this.
  * A kernel returns an i32 `Status`: 0, or the status of a failed `k.check`.
  * `attributes["fastmath"]` on arith float operations: a set of MLIR flags; builders use `contract`, but
    not in `exact` nodes, and `reassoc` only to add up sums or for `modes.fast_math`.  Never nnan, never fast.
  * `scf.for` and `scf.parallel` step by one, from zero unless their operands say otherwise.
    The iterations of `scf.parallel` are promised to be independent.  So are those of an `scf.for` with
    `attributes["independent"]`, except that they share the status in memory, and those of an `scf.for`
    with `attributes["independent_except_carried"]`, except for the values that the loop carries.
  * Native signature: i32 name(ptr pointers, ptr extents), with `pointers[j]` the data of memref
    argument j and `extents[j]` (i64) the j-th index argument.

The form of a function identifies it without the names of the function and of its values:

    form_of(k3_exp_sum_1) == form_of(k7_exp_sum_1)      equal forms, equal text: the text is emitted once

A form is a nested tuple in which values are numbered in the order of their definitions.  Computing a form takes a
tenth of the time of emitting the text.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any, Generic, TypeVar

from ..records import record


class ScalarType:
    """A scalar type, one object per type: compare with `is`."""

    __slots__ = ("bits", "is_float", "name")

    def __init__(self, name: str, bits: int, is_float: bool) -> None:
        self.name, self.bits, self.is_float = name, bits, is_float

    def __repr__(self) -> str:
        return self.name


INDEX = ScalarType("index", 64, False)
I1 = ScalarType("i1", 1, False)
I8 = ScalarType("i8", 8, False)
I32 = ScalarType("i32", 32, False)
I64 = ScalarType("i64", 64, False)
F32 = ScalarType("f32", 32, True)
F64 = ScalarType("f64", 64, True)


@record(frozen=True)
class MemRef:
    """Flat memory of `size` elements, memref<256xf64>; the size None is known only at run time, memref<?xf64>."""

    size: int | None
    element: ScalarType

    def __str__(self) -> str:
        return f"memref<{'?' if self.size is None else self.size}x{self.element}>"


Type = ScalarType | MemRef
TypeOf = TypeVar("TypeOf", bound=Type)


class Value(Generic[TypeOf]):
    """An SSA value.  `owner` is the operation whose result it is, or the block whose argument it is."""

    __slots__ = ("owner", "type")

    type: TypeOf

    def __init__(self, type: TypeOf, owner: Operation | Block | None = None) -> None:
        self.type = type
        self.owner = owner


class Operation:
    """name, operands, results, attributes, regions (one block each).

    Attributes by operation:
        arith.constant  value: int | float | bool       arith.cmpf/cmpi  predicate: "olt", "slt", ...
        scf.for, scf.parallel     about: int, a rough count of iterations where the extent is known only at run time
        any arith float           fastmath: frozenset[str]
        memref.store    nontemporal: true if the stored data should bypass the caches
    Operands of scf.for: lower, upper, step, then the initial iter_args; its block's arguments:
    the induction variable, then the iter_args.  scf.parallel: lower, upper, step; its block has
    the induction variable, and ends in scf.reduce.
    memref.load: memref, index.  memref.store: value, memref, index.
    `node` is the graph's node that the operation computes a part of; debug info names it, `form_of` ignores it.
    """

    __slots__ = ("attributes", "name", "node", "operands", "regions", "results")

    def __init__(
        self,
        name: str,
        operands: Iterable[Value] = (),
        result_types: Iterable[Type] = (),
        attributes: dict[str, Any] | None = None,
        regions: Iterable[Block] = (),
    ) -> None:
        self.name = name
        self.operands = list(operands)
        self.results = [Value(t, self) for t in result_types]
        self.attributes = attributes or {}
        self.regions = list(regions)
        self.node: Any = None

    @property
    def result(self) -> Value:
        """The result of an operation that has exactly one."""
        (only,) = self.results
        return only


def is_parallel(loop: Operation) -> bool:
    """True if a loop's iterations are independent, except for a status that they may share."""
    return loop.name == "scf.parallel" or "independent" in loop.attributes


def known_integer(value: Value) -> int | None:
    """The number that an integer constant holds; None for any other value."""
    owner = value.owner
    if isinstance(owner, Operation) and owner.name == "arith.constant":
        return int(owner.attributes["value"])
    return None


class Block:
    """Arguments, then operations in order, the last one a terminator."""

    __slots__ = ("arguments", "operations")

    def __init__(self, argument_types: Iterable[Type] = ()) -> None:
        self.arguments = [Value(t, self) for t in argument_types]
        self.operations: list[Operation] = []


def every(operations: Iterable[Operation]) -> Iterator[Operation]:
    """Yield these operations and those in their regions, each operation before its regions."""
    for operation in operations:
        yield operation
        for region in operation.regions:
            yield from every(region.operations)


def computing(values: set[Value], operations: Sequence[Operation]) -> list[Operation]:
    """The operations that compute these values, directly or not, in order; their operands join the set of values."""
    found = []
    for operation in reversed(operations):
        if not values.isdisjoint(operation.results):
            found.append(operation)
            values.update(operation.operands)
    return found[::-1]


@record()
class NestFunction:
    """func.func @name(memrefs..., indices...) -> i32.

    `names` are for printing, one per argument.  `writes` are the numbers of the memref arguments
    that the kernel writes.  `refuses`: the kernel may return REFUSED.
    `is_fixed`: extents stay constants of the kernel (see `arguments`), except those marked as varying.
    """

    name: str
    body: Block
    names: tuple[str, ...]
    writes: frozenset[int]
    refuses: bool = False
    is_fixed: bool = False

    @property
    def arguments(self) -> list[Value]:
        """Memrefs, then indices."""
        return self.body.arguments


class Status(IntEnum):
    """The status that a kernel returns; NO_MEMORY and INTERRUPTED come from a loop or branch that runs kernels.

    INTERRUPTED: a Python exception is set.  REFUSED: the kernel has no result for these inputs; the references decide.
    """

    OK = 0
    INDEX_OUT_OF_RANGE = 1
    NO_MEMORY = 2
    INTERRUPTED = 3
    REFUSED = 4


# ---------------------------------------------------------------- the form of functions


def form_of(function: NestFunction) -> Hashable:
    """The form of a function: equal for two functions whose texts differ only in names."""
    body = _form_of_block(function.body, {})
    return body, function.writes, function.refuses, function.is_fixed


def _form_of_block(block: Block, numbers: dict[Value, int]) -> Hashable:
    """The form of a block: the types of its arguments, then its operations."""
    for argument in block.arguments:
        numbers[argument] = len(numbers)
    found: list[Any] = [a.type for a in block.arguments]
    for o in block.operations:
        found.append(o.name)
        found += [numbers[v] for v in o.operands]
        if o.attributes:
            # As text: -0.0 is equal to 0.0, and True to 1.
            found += [(name, repr(value)) for name, value in o.attributes.items()]
        if o.regions:
            found += [_form_of_block(region, numbers) for region in o.regions]
        for result in o.results:
            numbers[result] = len(numbers)
            found.append(result.type)
    return tuple(found)
