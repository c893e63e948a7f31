"""Turn large extents into arguments of a kernel, so that kernels which differ only in extents share their code.

    memref<6400xf64>    scf.parallel i = 0 to 6400: ...     for a batch of 100
    memref<?xf64>       scf.parallel i = 0 to n0: ...       for any batch; here it is called with n0 = 6400

`build` knows every extent and folds all that follows from it; the extents that are left in a finished function are
constants: bounds, strides, offsets.  Each use of a large constant is replaced by an index argument of its own,
because two numbers that are equal here may differ in another kernel of the same form.

Constants that remain, because a loop is faster with them:

    small extents           short loops are straight code (`SMALL`)
    bounds of inner loops   they start often: a few vectors without a test for more (`SMALL_INSIDE`)
    divisors                a division by a known number is a multiplication
    in the innermost loop   strides and places: the elements that the lanes of a vector touch are then known

Numbers that only look like extents become arguments too, which costs nothing; so do floats that may come from an
extent, such as the count of a mean.  Counts that follow from extents (the blocks of a long sum) are marked as
varying where they are made, and become arguments however small they are.
"""

from __future__ import annotations

from collections.abc import Container

from ..program import Kernel
from ..records import replace
from ..symbols import Symbol, SymbolicFloat, as_int
from .nest import F32, F64, I64, INDEX, Block, MemRef, NestFunction, Operation, Value

#: Extents up to this one stay constants: about as many iterations as vectors do without a loop.
SMALL = 32

#: Bounds of inner loops up to this one stay constants.
SMALL_INSIDE = 128

#: No extent is this large: a larger number is the end of a range of integers.
MOST = 1 << 31

_LOOPS = ("scf.for", "scf.parallel")
_PLACES = ("arith.muli", "memref.load", "memref.store")
_DIVISIONS = ("arith.divsi", "arith.remsi", "arith.floordivsi")


def with_arguments(kernel: Kernel, varying: Container[int] = ()) -> Kernel:
    """The kernel with its large extents as arguments; the kernel itself if it has none.

    varying     the numbers of memory arguments whose sizes follow from other extents: unknown, however small they are

    The new kernel takes over the operations of the old one, which must not be used afterwards.
    """
    if kernel.function.is_fixed and not any(map(_varies, kernel.function.body.operations)):
        return kernel
    lifted = _Lifted(kernel, varying)
    function = lifted.function()
    if function is kernel.function:
        return kernel
    return replace(kernel, function=function, extents=tuple(lifted.extents))


class _Lifted:
    def __init__(self, kernel: Kernel, varying: Container[int]) -> None:
        self.kernel = kernel
        self.varying = varying
        self.extents = list(kernel.extents)
        self.block = kernel.function.body
        self.added: list[Value] = []
        self.used: set[Value] = set()
        self.scratches: list[Value] = []

    def function(self) -> NestFunction:
        """The function with an argument for each large constant."""
        old, block = self.kernel.function, self.block
        memory = [a for a in old.arguments if isinstance(a.type, MemRef)]
        indices = old.arguments[len(memory) :]
        for j, argument in enumerate(memory):
            argument.type = _without_large_size(argument.type, 0 if j in self.varying else SMALL)
        self._visit(block, 0)
        if not self.extents and all([a.type.size is not None for a in memory]):
            return old
        for scratch in self.scratches:
            scratch.type = MemRef(_scratch_size(scratch.type.size), scratch.type.element)
        used = self.used
        block.operations = [o for o in block.operations if o.name != "arith.constant" or o.results[0] in used]
        block.arguments = [*memory, *indices, *self.added]
        names = (*old.names, *[f"n{j}" for j in range(len(self.added))])
        return replace(old, body=block, names=names)

    def _argument(self, number: int) -> Value:
        """Add an index argument, for which this kernel passes `number`."""
        value = Value(INDEX, self.block)
        self.added.append(value)
        self.extents.append(number)
        return value

    # ------------------------------------------------------------ operations

    def _visit(self, block: Block, depth: int) -> None:
        """Let the operations of a block inside `depth` loops read arguments instead of large numbers."""
        is_innermost = depth > 0 and not any([o.regions for o in block.operations])
        counts: dict[Operation, list[Operation]] = {}
        used = self.used
        for operation in block.operations:
            name = operation.name
            if name == "memref.alloca":
                self.scratches.append(operation.results[0])
                continue
            if name == "arith.constant":
                if _is_count(operation) and not self.kernel.function.is_fixed:
                    counts[operation] = self._counted(operation)
                continue
            operands = operation.operands
            for j, value in enumerate(operands):
                if value.type is INDEX and type(owner := value.owner) is Operation and owner.name == "arith.constant":
                    operands[j] = self._operand(operation, j, value, owner, depth, is_innermost)
            used.update(operands)
            if operation.regions:
                inside = depth + (name in _LOOPS and not _runs_once(operation))
                for region in operation.regions:
                    self._visit(region, inside)
        if counts:
            block.operations = [made for o in block.operations for made in counts.get(o, (o,))]

    def _counted(self, old: Operation) -> list[Operation]:
        """Operations that compute a float constant, which may be an extent, from an argument; its readers stay."""
        count = self._argument(as_int(old.attributes["value"]))
        made = [Operation("arith.index_cast", (count,), (I64,))]
        if old.result.type is not I64:
            made.append(Operation("arith.sitofp", (made[0].result,), (old.result.type,)))
        made[-1].results = [old.result]
        old.result.owner = made[-1]
        return made

    def _operand(
        self, operation: Operation, place: int, value: Value, owner: Operation, depth: int, is_innermost: bool
    ) -> Value:
        """The operand that replaces a constant: an argument for a large number, else the constant itself."""
        number: int = owner.attributes["value"]
        if type(number) is Symbol:
            is_large = True
        elif self.kernel.function.is_fixed:
            is_large = False
        elif operation.name in _LOOPS:
            is_large = abs(number) > (SMALL_INSIDE if depth else SMALL)
        elif operation.name in _DIVISIONS:
            is_large = place == 0 and abs(number) >= SMALL
        else:
            # The last place of an axis is one less than its extent.
            is_large = abs(number) >= SMALL and not (is_innermost and operation.name in _PLACES)
        if not is_large and not owner.attributes.get("varies"):
            return value
        return self._argument(number)


def _without_large_size(memory: MemRef, small: int) -> MemRef:
    """The type of a memory argument, without its size unless that is small."""
    is_known = memory.size is None or (type(memory.size) is not Symbol and memory.size <= small)
    return memory if is_known else MemRef(None, memory.element)


def _varies(operation: Operation) -> bool:
    """True if the operation is a constant that follows from an extent of any size."""
    attributes = operation.attributes
    return operation.name == "arith.constant" and ("varies" in attributes or type(attributes["value"]) is Symbol)


def _runs_once(loop: Operation) -> bool:
    """True if the loop has one iteration, and so is a loop in name only."""
    upper = loop.operands[1].owner
    return isinstance(upper, Operation) and upper.name == "arith.constant" and upper.attributes["value"] == 1


def _is_count(constant: Operation) -> bool:
    """True if a constant may come from an extent, as the count of a mean does.

    Only floats: large integers may be bit masks and multipliers, small ones bit positions.
    """
    value = constant.attributes["value"]
    if type(value) is SymbolicFloat:
        return True
    return constant.result.type in (F32, F64) and SMALL < abs(value) < MOST and value == int(value)


def _scratch_size(extent: int) -> int:
    """The size of scratch memory: a power of two if it is large, so that most extents share it."""
    return extent if extent <= SMALL else 1 << (extent - 1).bit_length()
