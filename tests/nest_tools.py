"""Functions of the loop level made by hand, a line an operation, for tests.

    k = Nest("rows", x=MemRef(3, F64), y=MemRef(3, F64))
    with k.loop(k.index(3)) as i:
        k.store(k.op("math.exp", k.load(k.x, i)), k.y, i)
    function = k.function(writes="y")
"""

from contextlib import contextmanager

from codegen.kernel.nest import I1, I32, INDEX, Block, MemRef, NestFunction, Operation, Value

#: Casts give their type as `to`; comparisons i1; all others the type of their last operand.
COMPARISONS = ("arith.cmpf", "arith.cmpi")


class Nest:
    """One function in the making; `self.block` is where the next operation goes."""

    def __init__(self, name: str, **arguments):
        self.name, self.names = name, tuple(arguments)
        self.top = self.block = Block(arguments.values())

    def __getattr__(self, name: str) -> Value:
        return self.top.arguments[self.names.index(name)]

    def emit(self, name, operands=(), types=(), attributes=None, regions=()) -> Operation:
        operation = Operation(name, operands, types, attributes, regions)
        self.block.operations.append(operation)
        return operation

    def op(self, name, *operands, to=None, **attributes) -> Value:
        type = to or (I1 if name in COMPARISONS else operands[-1].type)
        return self.emit(name, operands, [type], attributes).result

    def constant(self, value, type) -> Value:
        return self.op("arith.constant", to=type, value=value)

    def index(self, value: int) -> Value:
        return self.constant(value, INDEX)

    def load(self, memory: Value, index: Value) -> Value:
        return self.op("memref.load", memory, index, to=memory.type.element)

    def store(self, value: Value, memory: Value, index: Value) -> None:
        self.emit("memref.store", [value, memory, index])

    def place(self, i: Value, columns: int | Value, j: Value) -> Value:
        """The place of row i, column j in memory of rows."""
        columns = self.index(columns) if isinstance(columns, int) else columns
        return self.op("arith.addi", self.op("arith.muli", i, columns), j)

    def alloca(self, size, element) -> Value:
        return self.op("memref.alloca", to=MemRef(size, element))

    @contextmanager
    def inside(self, block: Block):
        """Operations go into `block` meanwhile."""
        outer, self.block = self.block, block
        yield block
        self.block = outer

    @contextmanager
    def loop(self, upper: Value, *initial: Value):
        """scf.for from 0; yields its index, or (index, carried..., results) with initial values.

        The carried values of the next turn are set by `self.carry(...)` as the last thing inside.
        """
        bounds = [self.index(0), upper, self.index(1)]
        body = Block([INDEX, *[v.type for v in initial]])
        operation = self.emit("scf.for", [*bounds, *initial], [v.type for v in initial], None, [body])
        with self.inside(body):
            yield (*body.arguments, operation.results) if initial else body.arguments[0]
            if not initial:
                self.carry()

    def carry(self, *values: Value) -> None:
        self.emit("scf.yield", values)

    @contextmanager
    def parallel(self, upper: Value):
        """scf.parallel from 0 by 1; yields its index."""
        body = Block([INDEX])
        self.emit("scf.parallel", [self.index(0), upper, self.index(1)], (), None, [body])
        with self.inside(body):
            yield body.arguments[0]
            self.emit("scf.reduce")

    def function(self, writes: str = "", status: Value | None = None) -> NestFunction:
        """The function, ended by its status (0 unless given); `writes` names its results."""
        with self.inside(self.top):
            self.emit("func.return", [status or self.constant(0, I32)])
        numbers = frozenset(self.names.index(name) for name in writes.split())
        return NestFunction(self.name, self.top, self.names, numbers)
