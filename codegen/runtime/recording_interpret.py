"""Programs evaluated by NumPy's own inner loops, in native Python: see `autodiff.tape.program`.

    interpreted(kinds, wires, inputs, python)    the outputs of a program

A ufunc is a table of loops by dtype, and each loop a C function: loop(addresses, &count, strides, data).  It is called
as NumPy calls it, for whole arrays: the values are NumPy's, to the bit, without its search for the loop, its objects
and its looks at layouts, which cost more than a hundred elements do.

A kind is computed in one ufunc or in several, or by Python.  A value lies in memory of the pool, which goes back after
its last reader; it becomes an array where Python reads it, or if it is a result.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, array, fn, held, i32, i64, local, native, own, ptr, row, u8, u32, u64, void
from . import recording_objects as py
from .recorder_arrays import size_of
from .recording_structs import RawKind, nothing, tape
from .ufunc_loops import MOST

#: The words of a loop: the dtypes of operands and result, then the bytes of an element of each, both with zeros for
#: those that are not there; the function, and its last argument.
BYTES, FUNCTION, DATA, LOOP_WORDS = 4, 8, 9, 10

Loop = fn[void, ptr[ptr], ptr[i64], ptr[i64], ptr]


class Evaluated(Struct):
    """A value while a program is evaluated.

    data, dtype, count    where its elements are, of which dtype they are, and how many
    array      the array that they belong to; null: the memory is one of the pool's
    readers    how often it will be read
    """

    data: ptr
    dtype: ptr
    count: i64
    array: own
    readers: i64


class RowWords(Struct):
    """One of the ufuncs that an equation is computed in.

    loops     a table of loops: their number, then the words of each
    places    of its operands: what is given, then constants, then earlier rows; -1: the result so far, of a sum
    dying     a bit for each of these that no later row reads
    """

    loops: ptr[u64]
    operands: i64
    places: array[i64, MOST]
    dying: u64


class RunWords(Struct):
    """The way a kind is computed (`recording_asks.Asks.runs`).

    dtype, rank, extents, count    of the result
    rows, constants    how many there are; without rows Python computes it
    """

    dtype: ptr
    rank: i64
    extents: ptr[i64]
    count: i64
    rows: i64
    row_table: ptr[RowWords]
    constants: i64
    constant_table: ptr[Evaluated]


VALUE_WORDS = Evaluated.size() // 8


@native
def loop_of(loops: ptr[u64], dtypes: ptr[ptr], count: i64) -> ptr[u64]:
    """The words of the loop that takes operands of these dtypes, in a table of loops; null for none."""
    for i in range(loops[0]):
        at = loops + (1 + LOOP_WORDS * i)
        fits = count == MOST or at[count + 1] == 0  # of so many operands
        for k in range(count):
            fits = fits and ptr(at[k]) is dtypes[k]
        if fits:
            return at
    return None


@native
def by_loop(step: ptr[RowWords], values: ptr[ptr[Evaluated]], count: i64, made: ptr[Evaluated]) -> i64:
    """Compute a row: 1;  0 where no loop takes its operands, -1 with an exception.

    There are as many elements of each as of the result, or one; of a sum the result is one number, which begins at 0.
    """
    n = step.operands
    is_sum = step.places[0] < 0
    dtypes = local(ptr, MOST)
    at = local(ptr, MOST + 1)
    strides = local(i64, MOST + 1)
    for k in range(n):
        one = values[step.places[n - 1 if is_sum else k]]
        if one.count != count and one.count != 1 and not is_sum:
            return 0
        dtypes[k] = one.dtype
        at[k] = one.data
    words = loop_of(step.loops, dtypes, n)
    if words is None:
        return 0
    made.data = py.from_pool(u64(count) * words[BYTES + n])
    if made.data is None:
        py.no_memory()
        return -1
    made.dtype = ptr(words[n])
    made.count = count
    at[n] = made.data
    number = local(i64, 1)
    number[0] = values[step.places[1]].count if is_sum else count
    for k in range(n + 1):
        is_whole = k == 1 if is_sum else k == n or values[step.places[k]].count == count
        strides[k] = i64(words[BYTES + k]) if is_whole else i64(0)
    if is_sum:
        at[0] = made.data
        py.set_bytes(made.data, 0, words[BYTES])
    Loop(ptr(words[FUNCTION]))(at, number, strides, ptr(words[DATA]))
    return 1


@native(inline=True)
def drop(value: ptr[Evaluated]) -> void:
    """Let go of a value, if it is there."""
    if value.array is None and value.data is not None:
        py.to_pool(value.data)
    value.array = None
    value.data = None


@native
def in_rows(runs: ptr[RunWords], operands: ptr[ptr[Evaluated]], n: i64, made: ptr[Evaluated]) -> i64:
    """Compute an equation in ufuncs; as `by_loop`."""
    first = n + runs.constants
    last = runs.rows - 1
    values = local(ptr[Evaluated], first + runs.rows)
    earlier = local(Evaluated, runs.rows)
    if last > 0:
        py.set_bytes(earlier, 0, u64(8 * VALUE_WORDS * last))
    for k in range(first):
        values[k] = operands[k] if k < n else runs.constant_table[k - n]
    found = i64(runs.rows > 0)
    for i in range(runs.rows):
        step = runs.row_table[i]
        values[first + i] = made if i == last else earlier[i]
        found = by_loop(step, values, runs.count, values[first + i])
        if found != 1:
            break
        for k in range(step.operands):
            if step.dying >> u64(k) & 1 != 0:
                drop(values[step.places[k]])
    for i in range(last):
        drop(earlier[i])
    if found == 1 and made.dtype is not runs.dtype:
        drop(made)
        found = 0
    return found


# ------------------------------------------------------------------ programs


@native
def runs_of(kinds: ptr, i: i64) -> ptr[RunWords]:
    """The way the kind of an equation is computed; null with an exception."""
    kind = ptr[RawKind](py.list_item(kinds, i))
    if kind.runs is tape.none:
        _said: own = py.call_method(tape.run_as_name, row(kind), 1, None)
        if kind.runs is tape.none:
            return None
    return ptr[RunWords](ptr[py.RawAddress](kind.runs).payload)


@native
def note_array(value: ptr[Evaluated], a: own[py.RawArray]) -> void:
    """Note that a value is an array."""
    value.data = a.data
    value.dtype = a.descr
    value.count = size_of(a)
    value.array = a


@native
def array_of(values: ptr[Evaluated], kinds: ptr, i: i64) -> ptr:
    """The array of a value, borrowed; null with an exception."""
    value = values[i]
    if value.array is None:
        r = runs_of(kinds, i)
        value.array = py.owning_array(tape.array_type, tape.allocator, r.dtype, r.rank, r.extents, value.data)
    return value.array


@native
def by_python(python: ptr, kinds: ptr, i: i64, places: ptr[i32], values: ptr[Evaluated]) -> i64:
    """Have Python compute an equation; as `by_loop`."""
    n = i64(places[0])
    given = local(ptr, n + 1)
    for k in range(n):
        given[k + 1] = array_of(values, kinds, i64(places[k + 1]))
        if given[k + 1] is None:
            return -1
    number: own = py.int_of(i)
    if number is None:
        return -1
    given[0] = number
    made: own = py.call(python, given, u64(n + 1), None)
    if made is None:
        return -1
    note_array(values[i], made)
    return 1


@native
def evaluated(kinds: ptr, i: i64, places: ptr[i32], values: ptr[Evaluated], python: ptr) -> i64:
    """Compute the value of an equation, and let go of those that are read no more; as `by_loop`."""
    runs = runs_of(kinds, i)
    if runs is None:
        return -1
    n = i64(places[0])
    operands = local(ptr[Evaluated], n)
    for k in range(n):
        operands[k] = values[places[k + 1]]
    found = in_rows(runs, operands, n, values[i])
    if found == 0 and python is not tape.none:
        found = by_python(python, kinds, i, places, values)
    for k in range(n):
        one = operands[k]
        one.readers -= 1
        if one.readers == 0:
            drop(one)
    return found


@native
def interpreted(kinds: ptr, wires: ptr, inputs: ptr, python: ptr) -> own:
    """The outputs of a program, as a tuple; None where an equation has no loop and `python` is None.

    The wires say what each equation reads, and which values the outputs are: see `autodiff.tape.program`.

    Loops of plain numbers raise nothing.  The interpreter's lock is held, and an interrupt waits: no longer than the
    price of compiling, since what takes longer is compiled.

    inputs    a list of arrays, packed;   python    python(equation, *operands) -> its value, packed
    """
    n = py.list_size(kinds)
    for i in range(n if python is tape.none else 0):
        runs = runs_of(kinds, i)
        if runs is None:
            return None
        if runs.rows == 0:
            return nothing()
    total = n + py.list_size(inputs)
    nearby = local(ptr, 8 * py.FEW)
    memory = py.room(nearby, 8 * py.FEW, VALUE_WORDS * total)
    if memory is None:
        return None
    py.set_bytes(memory, 0, u64(8 * VALUE_WORDS * total))
    values = ptr[Evaluated](memory)
    for k in range(n, total):
        note_array(values[k], held(py.list_item(inputs, k - n)))
    places = ptr[i32](py.bytes_at(wires))
    for _ in range(n + 1):
        for k in range(places[0]):
            value = values[places[k + 1]]
            value.readers += 1
        places = places + (places[0] + 1)
    places = ptr[i32](py.bytes_at(wires))
    found = i64(1)
    for i in range(n):
        found = evaluated(kinds, i, places, values, python)
        if found != 1:
            break
        places = places + (places[0] + 1)
    made: own = nothing() if found == 0 else None
    if found == 1:
        made = py.new_tuple(i64(places[0]))
        for k in range(i64(places[0]) if made is not None else i64(0)):
            result = array_of(values, kinds, i64(places[k + 1]))
            if result is None:
                made = None
                break
            py.set_tuple(made, k, held(result))
    for k in range(total):
        drop(values[k])
    py.leave(memory, 0, nearby)
    return made


# ------------------------------------------------------------------ loops that NumPy has no ufunc for


def _choice(word):
    """The loop of `numpy.where` for elements of so many bytes."""

    @native
    def choose(operands: ptr[ptr], count: ptr[i64], strides: ptr[i64], data: ptr) -> void:
        condition = operands[0]
        first = operands[1]
        second = operands[2]
        target = operands[3]
        for _ in range(count[0]):
            chosen = first if ptr[u8](condition)[0] != 0 else second
            ptr[word](target)[0] = ptr[word](chosen)[0]
            condition = condition + strides[0]
            first = first + strides[1]
            second = second + strides[2]
            target = target + strides[3]

    choose.name = f"choose_{word.__name__}"
    return choose


def _copy(word):
    """The loop of a copy of elements of so many bytes."""

    @native
    def copy(operands: ptr[ptr], count: ptr[i64], strides: ptr[i64], data: ptr) -> void:
        given = operands[0]
        target = operands[1]
        for _ in range(count[0]):
            ptr[word](target)[0] = ptr[word](given)[0]
            given = given + strides[0]
            target = target + strides[1]

    copy.name = f"copy_{word.__name__}"
    return copy


#: By name and the bytes of an element.
LOOPS_OF_OURS = {
    (name, size): made(word)
    for name, made in (("choice", _choice), ("copy", _copy))
    for size, word in ((1, u8), (4, u32), (8, u64))
}
