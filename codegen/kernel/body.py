"""The builder of functions: each scalar operation goes into the outermost loop body in which its operands are known.

A `FunctionBuilder` is a function being built: a stack of open blocks (the function, then each open loop).  An operation
is appended to the block of its deepest operand, before the loop that is open there, and so outside of loops on whose
counters it does not depend.  Equal operations on equal operands share one value as long as its block is open.

All memory is treated as packed and flat: memref<Nxf64>, one index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..records import record
from .index import Atom, Index, Quotient, constant_index
from .nest import I1, I8, I32, INDEX, Block, MemRef, Operation, ScalarType, Status, Type, Value


@record(eq=False, slots=True)
class OpenLoop:
    """An open loop: its block, its operands, its counter (`index`) and the values that it carries.
    about    a rough count of iterations, if the extent is known only at run time; else None
    independent_except_carried    iterations share only carried values, though each may use several places of one memory
    """

    block: Block
    operands: list[Value]
    index: Index
    carried: list[Value]
    parallel: bool
    about: int | None
    independent_except_carried: bool = False


class FunctionBuilder:
    """A function's operations under construction; `arguments` are the types of its memrefs."""

    def __init__(self, arguments: Sequence[Type] = ()) -> None:
        block = Block(arguments)
        self.block = block
        self._blocks = [block]
        self._depth: dict[Value, int] = dict.fromkeys(block.arguments, 0)
        self._known: dict[Any, Any] = {}
        self._keys: list[list[Any]] = [[]]
        self._constants: dict[Value, Any] = {}
        self._status: Value | None = None
        self._returned_status: Value | None = None
        self._scratch = 0
        self.node: Any = None  # the graph's node being computed, for debug info

    # ------------------------------------------------------------ operations

    def emit(self, name: str, operands: tuple[Value, ...], type: ScalarType, attributes: dict | None = None) -> Value:
        """The result of a pure operation: of an equal one emitted before, else of a new one as far out as possible."""
        key = (name, type, operands) if attributes is None else (name, type, operands, id(attributes))
        found = self._known.get(key)
        if found is not None:
            return found
        known = self._depth
        depth = 0
        for operand in operands:
            if known[operand] > depth:
                depth = known[operand]
        operation = Operation(name, operands, (type,), attributes)
        operation.node = self.node
        self._blocks[depth].operations.append(operation)
        result = operation.results[0]
        known[result] = depth
        self._known[key] = result
        self._keys[depth].append(key)
        return result

    def effect(self, operation: Operation) -> Operation:
        """Append an operation with an effect (a store, an allocation) to the innermost open block."""
        operation.node = self.node
        self._blocks[-1].operations.append(operation)
        for result in operation.results:
            self._depth[result] = len(self._blocks) - 1
        return operation

    def literal(self, value: Any, type: ScalarType, *, varies: bool = False) -> Value:
        """A constant of this type, made once, at the top of the function.

        `varies`: the number follows from an extent, so it becomes an argument, however small it is (see `arguments`).
        """
        # By text: -0.0 == 0.0 and 1 == True, but these are different constants.
        key = (repr(value), type, varies)
        found = self._known.get(key)
        if found is None:
            attributes = {"value": value, "varies": True} if varies else {"value": value}
            operation = Operation("arith.constant", (), (type,), attributes)
            self._blocks[0].operations.append(operation)
            found = self._known[key] = operation.results[0]
            self._depth[found] = 0
            self._constants[found] = value
        return found

    def known_value(self, x: Value) -> Any:
        """The number a constant holds, or None."""
        return self._constants.get(x)

    @property
    def depth(self) -> int:
        """The number of open loops."""
        return len(self._blocks) - 1

    def depth_of(self, value: Value) -> int:
        """The depth of the loop body that defines a value; 0 is the function's own block."""
        return self._depth[value]

    def argument(self, type: Type) -> Value:
        """Add an argument to the function."""
        value = Value(type, self.block)
        self.block.arguments.append(value)
        self._depth[value] = 0
        return value

    def recall(self, key: Any) -> Value | None:
        """The value that was remembered under this key, if its loop is still open."""
        return self._known.get(key)

    def remember(self, key: Any, value: Value) -> None:
        """Keep a value under a key for as long as its loop is open."""
        self._known[key] = value
        self._keys[self._depth[value]].append(key)

    # ------------------------------------------------------------ loops

    def open_loop(
        self,
        extent: int | Value,
        carried: Sequence[Value] = (),
        *,
        high: int | None = None,
        parallel: bool = False,
        varies: bool = False,
    ) -> OpenLoop:
        """Start a loop over range(extent) that carries values; `high` bounds an extent known only at run time.

        `varies`: the extent is not that of an axis but follows from one, such as a number of blocks
        """
        about = None
        if isinstance(extent, Value):
            assert high is not None
            upper = extent
            about = (high + 2) // 2
        else:
            upper = self.literal(extent, INDEX, varies=varies)
            high = extent - 1
        operands = [self.literal(0, INDEX), upper, self.literal(1, INDEX), *carried]
        block = Block((INDEX, *[c.type for c in carried]))
        self._blocks.append(block)
        self._keys.append([])
        depth = len(self._blocks) - 1
        for argument in block.arguments:
            self._depth[argument] = depth
        # A loop of one iteration is left for LLVM to fold; its counter is still a known zero here.
        counter = Index.of(Atom(0, max(high, 0), block.arguments[0]))
        return OpenLoop(block, operands, counter, block.arguments[1:], parallel, about)

    def close_loop(self, loop: OpenLoop, results: Sequence[Value] = ()) -> list[Value]:
        """End the innermost loop with the values that an iteration hands to the next; return the loop's results."""
        block = self._blocks.pop()
        assert block is loop.block, "loops are closed in the order they nest"
        for key in self._keys.pop():
            del self._known[key]
        attributes: dict[str, Any] = {} if loop.about is None else {"about": loop.about}
        # Iterations that may fail share only the status, so threads that have a status each may divide the loop.
        if loop.parallel and not self.can_fail:
            block.operations.append(Operation("scf.reduce"))
            operation = Operation("scf.parallel", loop.operands, (), attributes, [block])
        else:
            block.operations.append(Operation("scf.yield", results))
            if loop.parallel:
                attributes["independent"] = True
            if loop.independent_except_carried:
                attributes["independent_except_carried"] = True
            operation = Operation("scf.for", loop.operands, [r.type for r in results], attributes, [block])
        return self.effect(operation).results

    @contextmanager
    def loop(self, extent: int | Value, **options: Any) -> Iterator[OpenLoop]:
        """A loop that carries no values, around all that is built in the block; `options` as for `open_loop`."""
        loop = self.open_loop(extent, **options)
        yield loop
        self.close_loop(loop)

    # ------------------------------------------------------------ indices

    def value_of(self, index: Index) -> Value:
        """The SSA value of an index: outer terms first, so that their sum stays outside inner loops."""
        key = ("index", index)
        found = self._known.get(key)
        if found is None:
            found = self._materialise(index)
            depth = self._depth[found]
            self._known[key] = found
            self._keys[depth].append(key)
        return found

    def _materialise(self, index: Index) -> Value:
        if not index.terms:
            return self.literal(index.constant, INDEX)
        total: Value | None = None
        terms = [(self._atom(atom), coefficient) for atom, coefficient in index.terms]
        terms.sort(key=lambda term: self._depth[term[0]])
        constant = index.constant
        for value, coefficient in terms:
            if coefficient != 1:
                value = self.emit("arith.muli", (value, self.literal(coefficient, INDEX)), INDEX)
            if total is None:
                total = value
                if constant:
                    total = self.emit("arith.addi", (value, self.literal(constant, INDEX)), INDEX)
            else:
                total = self.emit("arith.addi", (total, value), INDEX)
        assert total is not None
        return total

    def _atom(self, atom: Atom) -> Value:
        """The SSA value of one atom."""
        if type(atom) is not Quotient:
            assert atom.value is not None
            return atom.value
        numerator = self.value_of(atom.numerator)
        # For a numerator that cannot be negative both divisions agree, and divsi becomes a shift or a multiplication.
        name = "arith.divsi" if atom.numerator.low >= 0 else "arith.floordivsi"
        return self.emit(name, (numerator, self.literal(atom.divisor, INDEX)), INDEX)

    # ------------------------------------------------------------ memory

    def load(self, memory: Value, at: Index, *, stable: bool = True) -> Value:
        """Load the element at a flat position; a bool is an i1 in arithmetic.

        `stable`: nothing in this function writes that memory, so the load may move out of loops.
        """
        assert isinstance(memory.type, MemRef)
        element = memory.type.element
        if stable:
            value = self.emit("memref.load", (memory, self.value_of(at)), element)
        else:
            value = self.effect(Operation("memref.load", (memory, self.value_of(at)), (element,))).result
        return self.emit("arith.trunci", (value,), I1) if element is I8 else value

    def store(self, value: Value, memory: Value, at: Index) -> None:
        """Write the element at a flat position; an i1 is stored as NumPy's byte."""
        if value.type is I1:
            value = self.emit("arith.extui", (value,), I8)
        self.effect(Operation("memref.store", (value, memory, self.value_of(at))))

    def scratch(self, size: int, element: ScalarType) -> Value:
        """Memory that the function allocates once, at its top, with undefined contents."""
        operation = Operation("memref.alloca", (), (MemRef(size, I8 if element is I1 else element),))
        self._blocks[0].operations.insert(self._scratch, operation)
        self._scratch += 1
        self._depth[operation.result] = 0
        return operation.result

    # ------------------------------------------------------------ failing

    def fail_unless(self, condition: Value, status: Status) -> None:
        """Make the function return `status` if the condition is ever false; the function still runs to its end."""
        if self._status is None:
            self._status = self.scratch(1, I32)
            # The status is set to 0 at the function's top, before any shared constant: it has two constants of its own.
            zero32 = Operation("arith.constant", (), (I32,), {"value": 0})
            zero = Operation("arith.constant", (), (INDEX,), {"value": 0})
            store = Operation("memref.store", (zero32.result, self._status, zero.result))
            self._blocks[0].operations[self._scratch : self._scratch] = [zero32, zero, store]
            self._depth[zero32.result] = self._depth[zero.result] = 0
        bad = self.emit("arith.select", (condition, self.literal(0, I32), self.literal(int(status), I32)), I32)
        if self.recall(("checked", bad)) is not None:
            return
        self.remember(("checked", bad), bad)
        # The check is in the outermost block that knows the condition, so that inner loops do not repeat it.
        block = self._blocks[self._depth[bad]]
        at = self.value_of(constant_index(0))
        so_far = Operation("memref.load", (self._status, at), (I32,))
        # Statuses are or-ed rather than tested: the loop then has no branch and can still be vectorised.
        worse = Operation("arith.ori", (so_far.result, bad), (I32,))
        block.operations += [so_far, worse, Operation("memref.store", (worse.result, self._status, at))]

    def return_status(self, status: Value) -> None:
        """Set the status that the function returns to a computed value, in place of `fail_unless`."""
        self._returned_status = status

    @property
    def can_fail(self) -> bool:
        """True if a check was made."""
        return self._status is not None

    def finish(self) -> Block:
        """End the function: it returns its status."""
        assert len(self._blocks) == 1, "a loop is still open"
        if self._returned_status is not None:
            status = self._returned_status
        elif self._status is None:
            status = self.literal(0, I32)
        else:
            status = self.load(self._status, constant_index(0), stable=False)
        self._blocks[0].operations.append(Operation("func.return", (status,)))
        return self.block
