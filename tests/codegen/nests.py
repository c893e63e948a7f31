"""Loop nests by hand: the few words in which tests write kernels.

    n = Nest("add", x=memref(F64, 8), y=memref(F64, 8), writes=("y",))
    with n.parallel(8) as i:
        n.store(n.op("arith.addf", n.load(n.x, i), n.constant(1.0, F64)), n.y, i)
    run(n.end(), x=..., y=...)
"""

import ctypes
from contextlib import contextmanager

import numpy as np
from emitted import emit_module

from codegen.kernel.nest import F32, F64, I1, I8, I32, I64, INDEX, Block, MemRef, NestFunction, Operation
from codegen.runtime import engine

DTYPES = {F32: np.float32, F64: np.float64, I32: np.int32, I64: np.int64, I8: np.bool_}


def memref(element, size=None):
    return MemRef(size, element)


class Nest:
    """A function under construction; operations go to the innermost open block."""

    def __init__(self, name, *, writes, **arguments):
        self.body = Block(list(arguments.values()))
        self.blocks = [self.body]
        self.function = NestFunction(
            name, self.body, tuple(arguments), frozenset(list(arguments).index(w) for w in writes)
        )
        for argument, value in zip(arguments, self.body.arguments, strict=True):
            setattr(self, argument, value)

    def append(self, operation):
        self.blocks[-1].operations.append(operation)
        return operation

    def op(self, name, *operands, type=None, **attributes):
        return self.append(Operation(name, operands, [type or operands[0].type], attributes)).result

    def constant(self, value, type=INDEX):
        return self.op("arith.constant", type=type, value=value)

    def _index(self, i):
        return self.constant(i) if isinstance(i, int) else i

    def load(self, memory, index):
        value = self.op("memref.load", memory, self._index(index), type=memory.type.element)
        return self.op("arith.trunci", value, type=I1) if memory.type.element is I8 else value

    def store(self, value, memory, index):
        if memory.type.element is I8:
            value = self.op("arith.extui", value, type=I8)
        self.append(Operation("memref.store", [value, memory, self._index(index)]))

    def place(self, i, columns, j):
        """The place of row i, column j in memory of rows."""
        return self.op("arith.addi", self.op("arith.muli", i, self._index(columns)), j)

    def scratch(self, element, size):
        return self.op("memref.alloca", type=memref(element, size))

    def compare(self, predicate, a, b):
        return self.op("arith.cmpf" if a.type.is_float else "arith.cmpi", a, b, type=I1, predicate=predicate)

    @contextmanager
    def parallel(self, upper):
        block = Block([INDEX])
        operation = Operation("scf.parallel", [self.constant(0), self._index(upper), self.constant(1)], regions=[block])
        self.blocks.append(block)
        yield block.arguments[0]
        block.operations.append(Operation("scf.reduce"))
        self.blocks.pop()
        self.append(operation)

    def loop(self, upper, initial=(), body=None, lower=0):
        """scf.for; body(i, *carried) gives what is carried on.  Gives the results."""
        lower, upper, step = self._index(lower), self._index(upper), self.constant(1)
        block = Block([INDEX, *(v.type for v in initial)])
        self.blocks.append(block)
        block.operations.append(Operation("scf.yield", body(*block.arguments) or ()))
        self.blocks.pop()
        return self.append(
            Operation("scf.for", [lower, upper, step, *initial], [v.type for v in initial], regions=[block])
        ).results

    def end(self, status=None):
        """The finished function."""
        self.append(Operation("func.return", [status or self.constant(0, I32)]))
        return self.function


def call(code, function, arguments):
    """Run compiled `function` on arrays (in place) and extents; gives its status."""
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    extents = [a for a in arguments if not isinstance(a, np.ndarray)]
    pointers = (ctypes.c_void_p * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))
    sizes = (ctypes.c_int64 * max(1, len(extents)))(*extents)
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(code.address(function.name))
    return entry(ctypes.addressof(pointers), ctypes.addressof(sizes))


def run(function, *arguments):
    """Compile and run; gives the status."""
    code = engine.compile(emit_module([function], engine.target_features()))
    return call(code, function, arguments)


def elementwise(name, operation, types, result, **attributes):
    """y[i] = operation(x0[i], ...) for a run-time number of elements."""
    arguments = {f"x{j}": memref(t) for j, t in enumerate(types)}
    nest = Nest(name, writes=("y",), **arguments, y=memref(result), n=INDEX)
    with nest.parallel(nest.n) as i:
        loaded = [nest.load(getattr(nest, argument), i) for argument in arguments]
        nest.store(nest.op(operation, *loaded, type=I1 if result is I8 else result, **attributes), nest.y, i)
    return nest.end()
