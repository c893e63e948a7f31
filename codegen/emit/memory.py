"""The memory of a body: addresses of elements, loads and stores of one, scratch.

    memref.load %a[%i, %j] : memref<?x8xf64>   ->   %t.1 = mul nuw nsw i64 %i, 8 ... load double, ptr %t.3, align 8
"""

from __future__ import annotations

from collections.abc import Sequence

from ..kernel.nest import Extent, MemRef, Operation, Value
from .operations import Writer
from .types import ALIGNMENT, LLVM_TYPES

__all__ = ["MemoryWriter"]

#: Scratch of a kernel starts on a cache line, so that vectors never straddle two.
_SCRATCH_ALIGNMENT_BYTES = 64


class MemoryWriter(Writer):
    """Writes what operations do to memory.

    names     of values;  extents: the names of those that are known when the function runs
    offsets   names of linear indices by extents and indices, where they dominate
    scratch   allocas: all in the entry block, so that a loop does not grow the stack
    """

    lines: list[str]
    scratch: list[str]
    names: dict[Value, str]
    extents: list[str]
    offsets: dict[tuple, str]
    count: int

    def load(self, operation: Operation) -> None:
        """A memref.load of one element."""
        self.load_from(operation, [self.names[v] for v in operation.operands])

    def store(self, operation: Operation) -> None:
        """A memref.store of one element."""
        self.store_to(operation, [self.names[v] for v in operation.operands])

    def load_from(self, operation: Operation, operands: list[str]) -> None:
        """Load one element, by the names of the operands."""
        memory = operation.operands[0].type
        assert isinstance(memory, MemRef)
        address = self.address(memory, operands[0], operands[1:])
        type, alignment = LLVM_TYPES[memory.element], ALIGNMENT[memory.element]
        self.names[operation.results[0]] = self.value(f"load {type}, ptr {address}, align {alignment}")

    def store_to(self, operation: Operation, operands: list[str]) -> None:
        """Store one element, by the names of the operands."""
        memory = operation.operands[1].type
        assert isinstance(memory, MemRef)
        address = self.address(memory, operands[1], operands[2:])
        type, alignment = LLVM_TYPES[memory.element], ALIGNMENT[memory.element]
        self.lines.append(f"  store {type} {operands[0]}, ptr {address}, align {alignment}")

    def address(self, memory: MemRef, pointer: str, indices: Sequence[str]) -> str:
        """The address of one element."""
        offset = self._offset(memory.shape, indices)
        if offset == "0":
            return pointer
        return self.value(f"getelementptr inbounds {LLVM_TYPES[memory.element]}, ptr {pointer}, i64 {offset}")

    def _offset(self, shape: tuple[int | Extent, ...], indices: Sequence[str]) -> str:
        """The row-major place of an element.

        Nothing wraps: an index outside of its memory is undefined already, and a place inside is
        less than the 2^63 bytes an object may have.
        """
        key = (shape[1:], tuple(indices))
        known = self.offsets.get(key)
        if known is not None:
            return known
        offset = "0"
        for extent, index in zip(shape, indices, strict=True):
            if offset != "0" and extent != 1:
                offset = self.value(f"mul nuw nsw i64 {offset}, {self.extent(extent)}")
            if offset == "0":
                offset = index
            elif index != "0":
                offset = self.value(f"add nuw nsw i64 {offset}, {index}")
        self.offsets[key] = offset
        return offset

    def extent(self, extent: int | Extent) -> str:
        """An extent as text: a number, or the name of what is known when the function runs."""
        return self.extents[extent.position] if isinstance(extent, Extent) else str(extent)

    def allocate(self, operation: Operation, operands: list[str]) -> None:
        """Write a memref.alloca into the entry block."""
        memory = operation.results[0].type
        assert isinstance(memory, MemRef)
        self.count += 1
        name = f"%scratch.{self.count}"
        self.names[operation.results[0]] = name
        static, dynamic = 1, "1"
        for extent in memory.shape:
            if isinstance(extent, int):
                static *= extent
            else:
                number = self.extent(extent)
                if dynamic != "1":
                    self.count += 1
                    self.scratch.append(f"  %size.{self.count} = mul nuw nsw i64 {dynamic}, {number}")
                    number = f"%size.{self.count}"
                dynamic = number
        self.scratch.append(
            f"  {name} = alloca [{static} x {LLVM_TYPES[memory.element]}], i64 {dynamic}, "
            f"align {_SCRATCH_ALIGNMENT_BYTES}"
        )
