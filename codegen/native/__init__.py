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

Types are Python classes (`numbers`, `structs`), so a native function that is called in Python runs: its machine code is
tested against itself.  The language:

- Integers of 8 to 128 bits, f32, f64, bool, vectors.  Literals take the type of the other side; `x = 0` is refused: say
  `u64(0)`.  What keeps a value is done unasked (u8 to i32), all else is a conversion: `u8(x)`.  `//` and `%` round as
  Python's.  Mind Python's precedence: `flags & ROOT != 0` is right here, and wrong in C.
- A local gets its type from its first value.  `if`, `while`, `for i in range`, `break`, `continue`, early `return`,
  `a if c else b`, `and`, `or`, `not`, `assert`.  An `if` on constants of the module compiles only the part that is
  taken.  `for a, b in PAIRS`, a name that is known while compiling, is written once for each turn.  Generic functions
  are closures: a function of types that returns a native one.
- `None` is the null pointer.  `p.field`, `p[i]`, `p + n`; a field or element that is a struct or array is a pointer.
- Objects of Python's are pointers.  `own` has a reference: a local `x: own = f()`, a parameter, a field, an element of
  `local(own, n)` or of a row of new objects.  It gives that back where it gets another value; locals, parameters and
  what is on the stack do on every way out.  `return x`, an `own` parameter that x is given to, and `moved(x)` take the
  reference along: x has no value then.  A result `own` is a new reference, which must go to such a place; so must
  `held(y)`, one more reference of an object that is somebody else's.  Numbers below 256 stand for no object.
- The result of a call is looked at: `_ = f()` says that it is not needed.
- Words of `routines`: static, constants, local, row, moved, held, select, shuffle, the atomic operations, fence.

Read in this order: `routines` and `structs` (what a program says), `exports` (what comes out), `statements`,
`expressions`, `calls` (one method for each kind of syntax node), `writer` (blocks, checks).

To debug: run the function as plain Python with the same arguments; build with checks (AUTODIFF_NATIVE_CHECKS=1 for the
runtime's), which ends the process at the file, line and expression that is wrong; or look at the text, where each
instruction has its line (`!dbg`).  The object file (`engine.object_of`) keeps the lines: in gdb, `disassemble /s f` of
an object shows source and instructions, and `add-symbol-file OBJECT START` names both in the traces of a process, where
START is the address of a function in the process less that in the object.
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
