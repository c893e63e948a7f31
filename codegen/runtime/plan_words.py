"""Programs and their calls in memory, as machine code reads them: structs whose fields `launcher` and `entered` write.

    PlanWords         a program: counts, sizes and the addresses of tables        `PLAN` names its words
    Spec              the type of an input or output
    KernelCallWords   one step: a call of a kernel
    EntryWords        one known call of a Python object
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, fn, i32, i64, ptr, static, u64

#: Returned in place of a result if the arguments are not as expected.
MISS = 1


class Spec(Struct):
    """The type of an input or an output.

    kind      of an input: the form in which a Python number is written for it (`call_objects.NUMBER_KINDS`);
              of an output: the address of the function that makes a NumPy scalar, 0 for an array
    scalar    the class of NumPy scalars of this dtype
    """

    descr: ptr
    rank: i64
    extents: ptr[i64]
    kind: u64
    scalar: ptr
    bytes: i64


class KernelCallWords(Struct):
    """A call of a kernel, `function(pointers, extents)`, which returns a status.

    places        the slots of its pointers
    share         the function that distributes the call over threads, `share(step, pointers)`; null: it is not shared
    total         the number of iterations, in `blocks` blocks of `chunk`
    """

    function: fn[i32, ptr, ptr]
    pointers: i64
    places: ptr[i64]
    extents: ptr
    share: fn[i32, ptr, ptr]
    extent_count: i64
    blocks: i64
    chunk: i64
    total: i64


class HostWords(Struct):
    """The extents of a step in Python: its function, NumPy's class of arrays, the specs of its pointers.

    inputs    the number of specs of arguments; the spec after them is that of the result
    """

    function: ptr
    array_type: ptr
    specs: ptr[Spec]
    inputs: i64


class PlanWords(Struct):
    """A program that can be run.

    frame_words       the words of a frame: slots, scratch, two words per input for numbers, output objects
    slow              the Python function that is called with arguments that do not fit
    fail              the Python function that raises the exception of a status
    """

    inputs: i64
    outputs: i64
    temporaries: i64
    steps: i64
    frame_words: i64
    frame_bytes: i64
    workspace_bytes: i64
    is_long: i64
    slots: i64
    input_specs: ptr[Spec]
    output_specs: ptr[Spec]
    offsets: ptr[i64]
    step_table: ptr[KernelCallWords]
    slow: ptr
    fail: ptr


class Check(Struct):
    """An instruction that checks the object in a register and stores its parts (`entered_call.TAKE_APART`).

    parts    the first register for the parts;   count: the number of parts
    """

    code: i64
    register: i64
    object: ptr
    parts: i64
    count: i64


class InstructionWords(Struct):
    """An instruction that puts a part of a result together (`call_objects.PUT_TOGETHER`)."""

    code: i64
    operand: i64


class EntryWords(Struct):
    """A known call: its arguments and its result.

    registers    the number of registers: arguments, then the dict of keywords, then parts of these and constants
    inputs       the registers of the plan's inputs
    plan         the plan to run; null if a Python function, `then`, gets the inputs, which returns None for a miss
    depth        the size of the stack that the instructions of the result need
    """

    given: i64
    has_keywords: i64
    registers: i64
    check_count: i64
    checks: ptr[Check]
    input_count: i64
    inputs: ptr[i64]
    plan: ptr[PlanWords]
    then: ptr
    depth: i64
    result: ptr[InstructionWords]


class Entering(Struct):
    """Constants that all plans and all calls of Python objects share.  Names with `_at` are offsets in objects.

    items_at      the items of a tuple
    allocator     the capsule through which arrays find the pool's `free`
    mode          the ContextVar of the mode;   careful_at: the flag of a mode, the object `false` unless it is careful
    site_at       the site of a called object;   site_type: the class of sites
    slow          the Python function slow(self, args, kwargs or None), called if no entry fits
    node_at       the node of a handle;   value_at, kind_at: the value and the kind of a node
    out_at        the result (`out`) of a kind
    error_type    the class Exception: such errors of a Python function are a miss, all others are raised at once
    """

    items_at: i64
    array_type: ptr
    float_type: ptr
    int_type: ptr
    bool_type: ptr
    complex_type: ptr
    allocator: ptr
    mode: ptr
    careful_at: i64
    false: ptr
    site_at: i64
    site_type: ptr
    slow: ptr
    none: ptr
    dict_type: ptr
    node_at: i64
    value_at: i64
    kind_at: i64
    out_at: i64
    str_type: ptr
    error_type: ptr


entering = static(Entering)


def _words(struct: type[Struct]) -> tuple[str, ...]:
    """The names of the words of a struct, in order."""
    return tuple(struct.fields())


PLAN, ENTRY, WORDS = _words(PlanWords), _words(EntryWords), _words(Entering)
STEP_WORDS = KernelCallWords.size() // 8
