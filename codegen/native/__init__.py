"""A compiler of typed Python: the runtime's machine code is written in Python, and also runs as plain Python.

    class Job(Struct):
        number: u64
        left: i64

    job = static(Job)                                   # memory that exists once

    @native
    def next_number(least: u64) -> u64:
        # The number, or the least one.
        number = atomic_add(job, "number", 1)
        if number < least:
            return least
        return number

    text = Translation().text([next_number])            # a module of LLVM's text, for `codegen.runtime.objects`

Types are Python classes (`numbers`, `structs`), so a native function also runs when it is called in Python, and tests
compare its machine code with that run.  The language:

- Integers of 8 to 128 bits, f32, f64, bool, vectors.  A literal takes the type of the other operand; `x = 0` is
  refused: write `u64(0)`.  Conversions that keep every value are implicit (u8 to i32), all others are written: `u8(x)`.
  `//` and `%` round as in Python.  Precedence is Python's: `flags & ROOT != 0` is right here, and wrong in C.
- The first value of a local sets its type.  `if`, `while`, `for i in range`, `break`, `continue`, early `return`,
  `a if c else b`, `and`, `or`, `not`, `assert`.  Of an `if` on constants only the branch taken is compiled.  A loop
  `for a, b in PAIRS` over a constant is unrolled.  A generic function is a Python function from types to a native one.
- `None` is the null pointer.  `p.field`, `p[i]`, `p + n`; a field or element that is a struct or array is a pointer.
- Python objects are pointers.  An `own` place holds a reference: a local `x: own = f()`, a parameter, a field, an
  element of `local(own, n)` or of a row of new objects.  The reference is released when the place gets another value;
  locals, parameters and places on the stack release theirs on every way out of the function.  `return x`, passing x to
  an `own` parameter, and `moved(x)` take the reference away, after which x has no value.  A result `own` is a new
  reference, which must go to an `own` place; so must `held(y)`, a new reference to an object that another place owns.
  Numbers below 256 stand for no object.
- The result of a call must be used; `_ = f()` discards it.
- Words of `routines`: static, constants, local, row, moved, held, select, shuffle, the atomic operations, fence.

Read in this order: `routines` and `structs` (the language), `exports` (the output), `statements`, `expressions`,
`calls` (one method for each kind of syntax node), `writer` (blocks, checks).

To debug: run the function as plain Python with the same arguments; build with checks (AUTODIFF_NATIVE_CHECKS=1 for the
runtime's code), which end the process with the file, line and expression of a fault; or read the text, where each
instruction has its line (`!dbg`).  The object file (`engine.object_of`) keeps the lines: in gdb, `disassemble /s f` of
an object shows source and instructions; `add-symbol-file OBJECT START` names both in the traces of a process, where
START is a function's address in the process minus its address in the object.
"""

from .exports import Translation
from .numbers import f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, u128, vector
from .routines import (
    FAILS,
    NO_MEMORY,
    atomic_add,
    atomic_load,
    atomic_max,
    atomic_store,
    bit_cast,
    compare_exchange,
    constants,
    extern,
    external,
    fence,
    held,
    local,
    moved,
    native,
    row,
    select,
    shuffle,
    static,
    void,
)  # fmt: skip
from .structs import Struct, array, fn, own, ptr
from .translation import NotNative

__all__ = [
    "FAILS", "NO_MEMORY", "NotNative", "Struct", "Translation", "array", "atomic_add", "atomic_load", "atomic_max",
    "atomic_store", "bit_cast", "compare_exchange", "constants", "extern", "external", "f32", "f64", "fence", "fn",
    "held", "i8", "i16", "i32", "i64", "local", "moved", "native", "own", "ptr", "row", "select", "shuffle", "static",
    "u8", "u16", "u32", "u64", "u128", "vector", "void",
]  # fmt: skip
