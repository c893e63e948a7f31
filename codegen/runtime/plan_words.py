"""Programs and their calls in memory, as machine code reads them: structs whose fields `launcher` and `entered` write.

    Plan     counts, sizes and the addresses of tables        `PLAN` names its words
    Spec     of each input and output
    Step     one call of a kernel
    Entry    one known call of a Python object
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, fn, i32, i64, ptr, static, u64

#: In place of a result: arguments are not as expected.
MISS = 1


class Spec(Struct):
    """An input or an output.

    kind      of an input: how a Python number is written for it (`call_objects.NUMBER_KINDS`);  of an output: the
              address of the function that makes a NumPy scalar, 0 for an array
    scalar    the class of NumPy's scalars
    """

    descr: ptr
    rank: i64
    extents: ptr[i64]
    kind: u64
    scalar: ptr
    bytes: i64


class KernelCallWords(Struct):
    """A call of a kernel, `function(pointers, extents)`, which gives a status.

    places        slots of its pointers
    share         the function that shares it out among threads, `share(step, pointers)`; null: nobody does
    total         iterations in all, in `blocks` of `chunk`
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

    inputs    how many of them the function is given; the last one is of its result
    """

    function: ptr
    array_type: ptr
    specs: ptr[Spec]
    inputs: i64


class PlanWords(Struct):
    """A program that may be run.

    frame_words       slots, scratch, numbers of two words per input, output objects
    slow              the function of Python's that takes what does not fit
    fail              the function of Python's that raises what a status says
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
    """An instruction that looks at a register and takes it apart (`entered_call.TAKE_APART`).

    parts    the first register for its parts;   count: how many there are
    """

    code: i64
    register: i64
    object: ptr
    parts: i64
    count: i64


class InstructionWords(Struct):
    """A part of a result (`call_objects.PUT_TOGETHER`)."""

    code: i64
    operand: i64


class EntryWords(Struct):
    """A known call: its arguments and its result.

    registers    how many there are: arguments, then the dict of keywords, then parts of these and constants
    inputs       their registers
    plan         null where a function of Python's, `then`, gets the inputs; it gives None for a miss
    depth        of the stack that the instructions of the result need
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
    """Whatever is the same for all plans, and for all calls of Python objects.

    items_at      where tuples have their items
    allocator     by which arrays find the pool's `free`
    mode          the ContextVar of the mode;   careful_at: where that has the flag of care, which is not `false` then
    site_at       where objects have their site;   site_type: the class of sites
    slow          slow(self, args, kwargs or None) is called otherwise
    node_at       where handles have a node;   value_at, kind_at: where nodes have a value and a kind
    out_at        where kinds have what results
    error_type    the class of errors: of what a function of Python's raises, all others are raised at once
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
