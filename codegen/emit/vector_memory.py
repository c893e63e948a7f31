"""Loads and stores of a loop whose iterations run side by side.

    adjacent elements           one load, reversed if the loop goes backwards
    every second element        two loads and a shuffle, where masks are cheap
    one place for all lanes     one scalar load
    a known distance apart      one by one
    anything else               a gather or scatter

Every second element, as of complex numbers, is loaded by two vectors (not with AVX2: one by one takes .86 of that).

    a[2i + 1]        two vectors from 2i + 1 on, of the second only the elements that must exist

Elements three or four apart are loaded one by one: to load three vectors and put them together takes 1.4 to 1.7 times
as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..kernel.nest import I1, MemRef, Operation, ScalarType, Value
from .operations import Writer
from .phases import EXPENSIVE
from .strides import VARYING, RunStride, Stride
from .types import ALIGNMENT, LLVM_TYPES, first_lanes
from .vector_values import VectorValues

#: The distance in bytes of a prefetch from its masked load, where masks are expensive: the processor does not predict
#: such loads, and Black-Scholes of 1e6 takes 1.2 to 1.5 times as long without (Zen 3); 64 to 2,048 are as good.
_AHEAD = 256


class VectorMemory(VectorValues):
    """Loads and stores of a planned loop.

    mask      the mask of the lanes in use, "" if all are
    whole     a bit: all lanes are in use; "" where a branch costs more than the mask
    active    the number of lanes in use, which are the first ones; 0 if it is known only at run time
    updated   memory that the loop both reads and writes
    given     vectors of loads that were made ahead of the iteration
    late      stores that are deferred to the end of an iteration, where they share the branch by `whole`
    """

    counter: Value
    mask: str
    whole: str
    active: int
    updated: set[Value]
    given: dict[Value, str]
    late: set[Operation]
    stores: dict[Operation, tuple[str, str]]

    def load(self, operation: Operation) -> None:
        memory, index = operation.operands
        if operation.result in self.given:
            self.vectors[operation.result] = self.given[operation.result]
            return
        if operation in self.plan.in_memory:
            if operation.result in self.plan.reloaded:
                self.vectors[operation.result] = self.vectors[self.plan.reloaded[operation.result]]
            return
        assert isinstance(memory.type, MemRef)
        element = memory.type.element
        stride = self.plan.places[operation]
        if stride == 0:
            self.body.load(operation)
        elif stride in (1, -1):
            self.vectors[operation.result] = self._load_row(memory, element, index, stride)
        elif stride == 2 and not self.mask and self.body.target.has_scale and self.lanes > 1:
            address = self._row_address(memory, element, index, 1)
            self.vectors[operation.result] = load_every_second(self, element, address)
        elif stride is not VARYING and self.active:
            self.vectors[operation.result] = self._one_by_one(memory, element, index, stride)
        else:
            self.vectors[operation.result] = self._gather(memory, element, index, stride)

    def _one_by_one(self, memory: Value, element: ScalarType, index: Value, stride: int | RunStride) -> str:
        """Load elements at equal distances one by one.

        A gather is microcode of the processor, which waits for elements that are not in the nearest cache: to
        transpose 10 x 100 doubles 1,000 times takes 3.9 ms by gathers, .26 one by one.
        """
        type, vector = LLVM_TYPES[element], self.spelled(element)
        found = f"{vector} zeroinitializer" if self.mask else f"{vector} poison"
        for lane, address in enumerate(self._lane_address(memory, element, index, stride)):
            one = self.value(f"load {type}, ptr {address}, align {ALIGNMENT[element]}")
            found = f"{vector} {self.value(f'insertelement {found}, {type} {one}, i64 {lane}')}"
        return found.removeprefix(f"{vector} ")

    def _store_one_by_one(
        self, name: str, memory: Value, element: ScalarType, index: Value, stride: int | RunStride
    ) -> None:
        """Store the lanes in use, one by one."""
        type, vector = LLVM_TYPES[element], self.spelled(element)
        for lane, address in enumerate(self._lane_address(memory, element, index, stride)):
            one = self.value(f"extractelement {vector} {name}, i64 {lane}")
            self.line(f"store {type} {one}, ptr {address}, align {ALIGNMENT[element]}")

    def _lane_address(self, memory: Value, element: ScalarType, index: Value, stride: int | RunStride) -> Iterator[str]:
        """The address of each lane in use, computed from the address before it."""
        body = self.body
        address = body.address(memory.type, body.names[memory], body.names[index])
        distance = str(stride)
        if isinstance(stride, RunStride):
            distance = body.value(f"mul i64 {body.names[stride.step]}, {stride.factor}")
        for lane in range(self.active):
            if lane:
                address = self.value(f"getelementptr {LLVM_TYPES[element]}, ptr {address}, i64 {distance}")
            yield address

    def _load_row(self, memory: Value, element: ScalarType, index: Value, stride: int) -> str:
        """Load adjacent elements."""
        type, alignment = self.spelled(element), ALIGNMENT[element]
        address = self._row_address(memory, element, index, stride)
        if not self.mask:
            return self._reversed(self.value(f"load {type}, ptr {address}, align {alignment}"), type, stride)
        if self.whole and self.plan.cost >= EXPENSIVE:
            place = self.value(f"getelementptr i8, ptr {address}, i64 {stride * _AHEAD}")
            self.line(self.call("llvm.prefetch.p0", "void", ("ptr", place), ("i32", 0), ("i32", 3), ("i32", 1)))
        mask = self._reversed(self.mask, self.spelled(I1), stride)
        return self._reversed(masked_load(self, element, address, mask), type, stride)

    def either_way(
        self, name: str, test: str, then: Callable[[], Any], otherwise: Callable[[], Any],
        types: Sequence[str] = (), other: str = "else",
    ) -> list[str]:  # fmt: skip
        """Write both sides of a branch by a test; return the results of the side that runs, which have these types."""
        body, ends = self.body, []
        number = body.next_number()
        self.line(f"br i1 {test}, label %{name}.{number}, label %{other}.{number}")
        for label, write in ((name, then), (other, otherwise)):
            body.start(f"{label}.{number}")
            ends.append((write() or (), body.label))
            self.line(f"br label %on.{number}")
        body.start(f"on.{number}")
        (ones, one_end), (others, other_end) = ends
        return [
            body.value(f"phi {type} [ {a}, %{one_end} ], [ {b}, %{other_end} ]")
            for type, a, b in zip(types, ones, others, strict=True)
        ]

    def _row_address(self, memory: Value, element: ScalarType, index: Value, stride: int) -> str:
        """The address of the lowest of the adjacent elements."""
        body = self.body
        address = body.address(memory.type, body.names[memory], body.names[index])
        if stride == 1:
            return address
        return body.value(f"getelementptr {LLVM_TYPES[element]}, ptr {address}, i64 {1 - self.lanes}")

    def _reversed(self, vector: str, type: str, stride: int) -> str:
        if stride == 1:
            return vector
        order = ", ".join(f"i32 {j}" for j in reversed(range(self.lanes)))
        return self.value(f"shufflevector {type} {vector}, {type} poison, <{self.lanes} x i32> <{order}>")

    def _gather(self, memory: Value, element: ScalarType, index: Value, stride: Stride) -> str:
        addresses = self._addresses(memory, element, index, stride)
        return masked_load(self, element, addresses, self.mask or self.literal(True, I1), is_gather=True)

    def _addresses(self, memory: Value, element: ScalarType, index: Value, stride: Stride) -> str:
        """The addresses of all lanes, as a vector."""
        body, pointer = self.body, self.body.names[memory]
        if stride is VARYING:
            places = self.vector(index)
        else:
            pointer = body.address(memory.type, pointer, body.names[index])
            places = self.offsets(stride)
        return self.value(f"getelementptr {LLVM_TYPES[element]}, ptr {pointer}, <{self.lanes} x i64> {places}")

    def store(self, operation: Operation) -> None:
        value, memory, index = operation.operands
        assert isinstance(memory.type, MemRef)
        if operation in self.plan.in_memory:
            return
        element = memory.type.element
        type, alignment, bits = self.spelled(element), ALIGNMENT[element], self.spelled(I1)
        name, stride = self.vector(value), self.plan.places[operation]
        if stride not in (1, -1) and stride is not VARYING and self.active:
            self._store_one_by_one(name, memory, element, index, stride)
            return
        if stride not in (1, -1):
            addresses, mask = self._addresses(memory, element, index, stride), self.mask or self.literal(True, I1)
            self.line(self.call(
                f"llvm.masked.scatter.{self.suffix(element)}.v{self.lanes}p0", "void",
                (type, name), (f"<{self.lanes} x ptr>", addresses), ("i32", alignment), (bits, mask),
            ))  # fmt: skip
            return
        address = self._row_address(memory, element, index, stride)
        name = self._reversed(name, type, stride)
        if not self.mask:
            self._store_all(operation, element, name, address)
            return
        if stride == 1 and self._is_in_pieces(memory, element):
            self._store_first(name, element, address)
            return
        mask = self._reversed(self.mask, bits, stride)
        under = self.call(
            f"llvm.masked.store.{self.suffix(element)}.p0", "void",
            (type, name), ("ptr", address), ("i32", alignment), (bits, mask),
        )  # fmt: skip
        without = f"store {type} {name}, ptr {address}, align {alignment}"
        if operation in self.late:
            self.stores[operation] = without, under
        else:
            self.line(under)

    def store_deferred(self) -> None:
        """Write the stores that were deferred to the end of the iteration, on the sides of one branch."""
        if self.stores:
            without, under = zip(*self.stores.values(), strict=True)
            self.either_way("whole", self.whole, lambda: self._store_each(without), lambda: self._store_each(under))
            self.stores = {}

    def _store_each(self, instructions: Iterable[str]) -> None:
        for operation, instruction in zip(self.stores, instructions, strict=True):
            self.body.attribute_to(operation)
            self.line(instruction)

    def _store_all(self, operation: Operation, element: ScalarType, name: str, address: str) -> None:
        """Store all lanes; bypass the caches if the operation asks for it and the address is aligned to a register."""
        type, register = self.spelled(element), self.body.target.vector_bytes
        store = f"store {type} {name}, ptr {address}, align"
        if not self.goes_past_caches(operation) or self.lanes * element.bits < 8 * register:
            self.line(f"{store} {ALIGNMENT[element]}")
            return
        place = self.value(f"ptrtoint ptr {address} to i64")
        beyond = self.value(f"and i64 {place}, {register - 1}")
        past = f"{store} {register}, {self.body.past_caches()}"
        self.either_way(
            "past", self.value(f"icmp eq i64 {beyond}, 0"),
            lambda: self.line(past), lambda: self.line(f"{store} {ALIGNMENT[element]}"),
        )  # fmt: skip

    def goes_past_caches(self, operation: Operation) -> bool:
        """True if a store asks to bypass the caches, and its loop is cheap enough to wait for memory."""
        return "nontemporal" in operation.attributes and self.plan.cost < EXPENSIVE and not self.mask

    def _is_in_pieces(self, memory: Value, element: ScalarType) -> bool:
        """True if the rest of a register is stored as one vector or two rather than under a mask.

        A masked store is slow if memory is not in a near cache (a bias added to rows of 10 floats: 2.1 times).  Two
        vectors pay in a loop that picks elements.  Not for memory that is loaded again: that would wait for both.
        """
        if not self.active or memory in self.updated or isinstance(memory.owner, Operation):
            return False
        register = self.body.target.vector_bytes * 8 // element.bits
        return (self.active % register).bit_count() <= 1 + self.plan.has_strided_access

    def _store_first(self, name: str, element: ScalarType, address: str) -> None:
        """Store the lanes in use, in pieces of a power of two."""
        type, vector = LLVM_TYPES[element], self.spelled(element)
        done = 0
        while done < self.active:
            piece = 1 << (self.active - done).bit_length() - 1
            order = ", ".join(f"i32 {done + j}" for j in range(piece))
            value = self.value(f"shufflevector {vector} {name}, {vector} poison, <{piece} x i32> <{order}>")
            at = self.value(f"getelementptr {type}, ptr {address}, i64 {done}") if done else address
            self.line(f"store <{piece} x {type}> {value}, ptr {at}, align {ALIGNMENT[element]}")
            done += piece


def masked_load(w: Writer, element: ScalarType, address: str, mask: str, *, is_gather: bool = False) -> str:
    """Load adjacent elements, or those at a vector of addresses, in the lanes of a mask; the other lanes are zero."""
    type, pointers = w.spelled(element), f"<{w.lanes} x ptr>" if is_gather else "ptr"
    return w.value(w.call(
        f"llvm.masked.{'gather' if is_gather else 'load'}.{w.suffix(element)}.{f'v{w.lanes}' * is_gather}p0", type,
        (pointers, address), ("i32", ALIGNMENT[element]), (w.spelled(I1), mask), (type, "zeroinitializer"),
    ))  # fmt: skip


# ---------------------------------------------------------------- every second element


def load_every_second(w: Writer, element: ScalarType, address: str) -> str:
    """Load every second element from an address on."""
    type, lanes, alignment = w.spelled(element), w.lanes, ALIGNMENT[element]
    low = w.value(f"load {type}, ptr {address}, align {alignment}")
    # The second load ends with the last element: there may be no memory behind it.
    behind = w.value(f"getelementptr {LLVM_TYPES[element]}, ptr {address}, i64 {lanes}")
    high = masked_load(w, element, behind, first_lanes(lanes - 1, lanes))
    listed = ", ".join(f"i32 {place}" for place in range(0, 2 * lanes, 2))
    return w.value(f"shufflevector {type} {low}, {type} {high}, <{lanes} x i32> <{listed}>")
