"""Tables of the steps by which a program is evaluated, in native Python: see `recording_interpret`.

    scheduled(equations, inputs, outputs)     the table of a program (`autodiff.tape.program`)

An equation is one step: a loop of NumPy's, or Python evaluates it.  One that is written in several ufuncs is a step for
each.  A value is an array of Python's where it is a result, an input, or has to do with an equation that Python
evaluates.  All others share one piece of memory: each gets its place here, one that nobody reads any more if there is
one.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, array, fn, i64, local, native, ptr, u64, void
from . import recording_objects as py
from .recording_structs import RawKind, tape

#: Operands of a loop at most; the sizes of values whose memory is used again; no place, and no step.
MOST, SIZES, NOWHERE = 3, 8, -1
#: Places in `Kind.runs`: dtype and shape of the result, loops, the number of elements, the bytes of one.
DTYPE, SHAPE, HAS_LOOPS, SIZE, BYTES = 0, 1, 2, 3, 4
#: The words of a loop: dtypes of operands and of the result, the bytes of a result, the function, its last argument.
LOOPS_WORDS = MOST + 4

Loop = fn[void, ptr[ptr], ptr[i64], ptr[i64], ptr]


class ArrayLoop(Struct):
    """A loop over arrays.

    loop     null where Python evaluates the equation;  data: its last argument;  count: of elements
    equation, operands    which one it belongs to, and how many it reads
    places, strides    of the operands and the result: which values they are, and the bytes from an element to the
             next: 0 where one element serves for all
    memory   where the result lies in the shared memory; NOWHERE: it is an array
    """

    loop: Loop
    data: ptr
    count: i64
    equation: i64
    operands: i64
    places: array[i64, 4]
    strides: array[i64, 4]
    memory: i64


class ArrayLoops(Struct):
    """The head of a table; its steps follow, and behind them numbers of constants and their addresses.

    steps, constants    how many there are
    equations, given    how many equations and inputs there are;  values: these, and what lies between steps
    memory   bytes of what is shared;  elements: of all arrays;  by_python: how many steps have no loop
    """

    steps: i64
    constants: i64
    equations: i64
    given: i64
    values: i64
    memory: i64
    elements: i64
    by_python: i64


class TableValue(Struct):
    """A value while the table is made.

    dtype, count, stride    of its elements
    last     the last step that reads it;  is_array: see the module
    next     in the list of values of its size of which nobody reads any more
    """

    dtype: ptr
    count: i64
    stride: i64
    last: i64
    memory: i64
    next: i64
    is_array: i64


class Unused(Struct):
    """Memory of values of one size that nobody reads any more."""

    size: i64
    first: i64


class TableDraft(Struct):
    """A table while it is made.   fixed: pairs of the number of a constant's value and its address"""

    table: ptr[ArrayLoops]
    steps: ptr[ArrayLoop]
    fixed: ptr[i64]
    seen: ptr[TableValue]
    equations: ptr


TABLE_BYTES, STEP_BYTES, SEEN_BYTES = [struct.size() for struct in (ArrayLoops, ArrayLoop, TableValue)]


@native(inline=True)
def runs_of(equations: ptr, i: i64) -> ptr:
    """The way a kind of an equation is computed (`Kind.runs`); null with an exception."""
    kind = ptr[RawKind](py.tuple_item(py.list_item(equations, i), 0))
    if kind.runs is tape.none:
        arguments = local(ptr, 1)
        arguments[0] = kind
        py.dec(py.call_method(tape.run_as_name, arguments, 1, None))
        if kind.runs is tape.none:
            return None
    return kind.runs


@native(inline=True)
def is_written(runs: ptr) -> bool:
    """True if an equation is written in several ufuncs: (steps, constants)."""
    return ptr[py.RawObject](py.tuple_item(runs, HAS_LOOPS)).type is tape.tuple_type


@native(inline=True)
def value_of(place: i64, t: ptr[ArrayLoops]) -> i64:
    """The number of a value that an equation reads: inputs stand behind all equations, the first one last."""
    return place if place >= 0 else place + t.equations + t.given


@native
def describe_value(v: ptr[TableValue], dtype: ptr, count: i64, stride: i64) -> void:
    """Note what a value is."""
    v.dtype = dtype
    v.count = count
    v.stride = stride
    v.last = NOWHERE
    v.memory = NOWHERE
    v.next = NOWHERE
    v.is_array = 0


@native
def find_loop(d: ptr[TableDraft], s: ptr[ArrayLoop], loops: ptr, count: i64) -> ptr[u64]:
    """Look for the loop that takes the operands as they are; its words, or null.

    There are as many elements of each as of the result, or one.
    """
    s.loop = None
    s.count = count
    if loops is tape.none or s.operands > MOST or count == 0:
        return None
    for k in range(s.operands):
        one = d.seen[s.places[k]]
        if one.count != count and one.count != 1:
            return None
        s.strides[k] = one.stride if one.count == count else i64(0)
    words = py.bytes_at(loops)
    n_loops = i64(words[0])
    words = words + 1
    for _ in range(n_loops):
        fits = s.operands == MOST or words[s.operands] == 0  # of so many operands
        for k in range(s.operands):
            fits = fits and ptr(words[k]) is d.seen[s.places[k]].dtype
        if fits:
            s.strides[s.operands] = i64(words[MOST + 1])
            s.loop = Loop(ptr(words[MOST + 2]))
            s.data = ptr(words[MOST + 3])
            return words
        words = words + LOOPS_WORDS
    return None


@native(inline=True)
def next_step(d: ptr[TableDraft], equation: i64, operands: i64, place: i64) -> ptr[ArrayLoop]:
    """Another step, which is the last one now."""
    s = d.steps[d.table.steps]
    d.table.steps += 1
    s.equation = equation
    s.operands = operands
    s.memory = NOWHERE
    if operands <= MOST:
        s.places[operands] = place
    return s


@native
def note_reads(d: ptr[TableDraft], s: ptr[ArrayLoop]) -> void:
    """Note which values a step reads."""
    for k in range(s.operands):
        d.seen[s.places[k]].last = d.table.steps - 1


@native
def write_out(d: ptr[TableDraft], equation: i64, places: ptr, written: ptr) -> bool:
    """The steps of an equation that is written in several ufuncs.  False where one has no loop: then there are none."""
    t = d.table
    before = t.steps
    values = t.values
    constants = py.tuple_item(written, 1)
    n_constants = py.tuple_size(constants)
    own = d.seen[equation]
    for k in range(n_constants):
        one = py.tuple_item(constants, k)  # address, dtype, bytes
        describe_value(d.seen[t.values], py.tuple_item(one, 1), 1, py.int_in(one, 2))
        d.fixed[2 * t.constants] = t.values
        d.fixed[2 * t.constants + 1] = py.int_in(one, 0)
        t.constants += 1
        t.values += 1
    lines = py.tuple_item(written, 0)
    n_given = py.tuple_size(places)
    for i in range(py.tuple_size(lines)):
        line = py.tuple_item(lines, i)  # loops, operands: constants below 0, what is given, earlier lines
        operands = py.tuple_item(line, 1)
        own_place = t.values
        s = next_step(d, equation, py.tuple_size(operands), own_place)
        for k in range(s.operands):
            place = py.int_in(operands, k)
            if place < 0:
                s.places[k] = values - 1 - place
            elif place < n_given:
                s.places[k] = value_of(py.int_in(places, place), t)
            else:
                s.places[k] = values + n_constants + place - n_given
        words = find_loop(d, s, py.tuple_item(line, 0), own.count)
        if words is None:
            t.steps = before
            t.values = values
            t.constants -= n_constants
            return False
        note_reads(d, s)
        describe_value(d.seen[own_place], ptr(words[MOST]), own.count, s.strides[s.operands])
        t.values += 1
    s = d.steps[t.steps - 1]
    if d.seen[t.values - 1].dtype is not own.dtype:
        t.steps = before
        t.values = values
        t.constants -= n_constants
        return False
    s.places[s.operands] = equation
    t.values -= 1
    return True


@native
def write_equation(d: ptr[TableDraft], i: i64, runs: ptr) -> void:
    """The steps of an equation."""
    t = d.table
    own = d.seen[i]
    describe_value(own, py.tuple_item(runs, DTYPE), py.int_in(runs, SIZE), py.int_in(runs, BYTES))
    places = py.tuple_item(py.list_item(d.equations, i), 1)
    if is_written(runs) and write_out(d, i, places, py.tuple_item(runs, HAS_LOOPS)):
        return
    s = next_step(d, i, py.tuple_size(places), i)
    for k in range(s.operands if s.operands <= MOST else i64(0)):
        s.places[k] = value_of(py.int_in(places, k), t)
    if not is_written(runs):
        words = find_loop(d, s, py.tuple_item(runs, HAS_LOOPS), own.count)
        if words is not None and ptr(words[MOST]) is own.dtype:
            note_reads(d, s)
            return
    s.loop = None
    t.by_python += 1
    own.is_array = 1
    for k in range(s.operands):
        one = d.seen[value_of(py.int_in(places, k), t)]
        one.is_array = 1
    s.operands = 0
    s.places[0] = i


@native(inline=True)
def unused_of(unused: ptr[Unused], v: ptr[TableValue]) -> ptr[Unused]:
    """The list of memory of the size of a value; null where there are too many sizes."""
    size = (v.count * v.stride + 63) // 64 * 64
    for k in range(SIZES):
        if unused[k].size == size or unused[k].size == 0:
            unused[k].size = size
            return unused[k]
    return None


@native
def share_memory(d: ptr[TableDraft]) -> void:
    """Give all values that are no arrays their places in the shared memory."""
    t = d.table
    unused = local(Unused, SIZES)
    for k in range(SIZES):
        unused[k].size = 0
        unused[k].first = NOWHERE
    for i in range(t.steps):
        s = d.steps[i]
        own = d.seen[s.places[s.operands]]
        if own.is_array != 0:
            t.elements += own.count
        else:
            among = unused_of(unused, own)
            if among is not None and among.first >= 0:
                own.memory = d.seen[among.first].memory
                among.first = d.seen[among.first].next
            else:
                own.memory = t.memory
                t.memory += (own.count * own.stride + 63) // 64 * 64
        s.memory = own.memory
        for k in range(s.operands):
            one = d.seen[s.places[k]]
            if one.last == i and one.memory >= 0:
                one.last = NOWHERE  # a step may read it twice
                among = unused_of(unused, one)
                if among is not None:
                    one.next = among.first
                    among.first = s.places[k]


@native
def fill_table(d: ptr[TableDraft], inputs: ptr, outputs: ptr) -> bool:
    """Fill the table of a program.  False with an exception."""
    t = d.table
    for k in range(t.given):
        given = py.list_item(inputs, k)  # dtype, elements, bytes of one
        v = d.seen[t.values - 1 - k]
        describe_value(v, py.tuple_item(given, 0), py.int_in(given, 1), py.int_in(given, 2))
        v.is_array = 1
    for i in range(t.equations):
        runs = runs_of(d.equations, i)
        if runs is None:
            return False
        write_equation(d, i, runs)
    for k in range(py.tuple_size(outputs)):
        d.seen[value_of(py.int_in(outputs, k), t)].is_array = 1
    share_memory(d)
    return True


@native
def scheduled(equations: ptr, inputs: ptr, outputs: ptr) -> ptr:
    """The table of a program, as bytes that begin with the words of `ArrayLoops`.

    inputs    of each its dtype, the number of elements, the bytes of one
    """
    count = py.list_size(equations)
    n_steps = i64(0)
    n_constants = i64(0)
    for i in range(count):
        runs = runs_of(equations, i)
        if runs is None:
            return None
        n_steps += 1
        if is_written(runs):
            n_steps += py.tuple_size(py.tuple_item(py.tuple_item(runs, HAS_LOOPS), 0))
            n_constants += py.tuple_size(py.tuple_item(py.tuple_item(runs, HAS_LOOPS), 1))
    values = count + py.list_size(inputs)
    made = py.new_bytes(None, TABLE_BYTES + STEP_BYTES * n_steps + 16 * n_constants)
    seen = py.allocated(u64(SEEN_BYTES * (values + n_steps + n_constants + 1)))
    if made is None or seen is None:
        py.no_memory()
        py.free(seen)
        py.dec(made)
        return None
    t = ptr[ArrayLoops](py.bytes_at(made))
    t.steps = 0
    t.constants = 0
    t.equations = count
    t.given = py.list_size(inputs)
    t.values = values
    t.memory = 0
    t.elements = 0
    t.by_python = 0
    d = local(TableDraft, 1)[0]
    d.table = t
    d.steps = ptr[ArrayLoop](t + 1)
    d.fixed = ptr[i64](d.steps + n_steps)
    d.seen = ptr[TableValue](seen)
    d.equations = equations
    is_right = fill_table(d, inputs, outputs)
    for k in range(2 * t.constants):  # behind the last step
        ptr[i64](d.steps + t.steps)[k] = d.fixed[k]
    py.free(seen)
    if not is_right:
        py.dec(made)
        return None
    return made
