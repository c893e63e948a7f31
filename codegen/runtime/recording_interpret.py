"""Programs evaluated by NumPy's own inner loops, in native Python: see `autodiff.tape.program`.

    interpreted(table, equations, values, memory, python)     the steps of a table (`recording_steps`)

A ufunc is a table of loops by dtype, and each loop a C function: loop(addresses, &count, strides, data).  It is called
as NumPy calls it, for whole arrays: the values are NumPy's, to the bit, without its search for the loop, its objects
and its looks at layouts, which cost more than a hundred elements do.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import i64, local, native, ptr, u8, u32, u64, void
from . import recording_objects as py
from .recording_steps import DTYPE, MOST, SHAPE, ArrayLoop, ArrayLoops
from .recording_structs import RawKind, nothing, tape


@native(inline=True)
def data_of(values: ptr) -> ptr:
    """The first element of an array."""
    return ptr[py.RawArray](values).data


@native
def interpreted(
    table: ptr, equations: ptr, values: ptr, memory: ptr, python: ptr
) -> ptr:
    """Evaluate a program.  Gives None.

    Loops of plain numbers raise nothing.  The interpreter's lock is held, and an interrupt waits: no longer than the
    price of compiling, since what takes longer is compiled.

    values    a list of what is an array, by equation, and the inputs behind, the last first, packed: it is filled
    memory    an array of as many bytes as the table says, and of a word for each value behind them
    python    python(equation) -> its value, packed
    """
    t = ptr[ArrayLoops](py.bytes_at(table))
    steps = ptr[ArrayLoop](t + 1)
    shared = data_of(memory)
    at = ptr[ptr](shared + t.memory)
    for k in range(t.given):
        at[t.equations + k] = data_of(py.list_item(values, t.equations + k))
    fixed = ptr[i64](steps + t.steps)
    for k in range(t.constants):
        at[fixed[2 * k]] = ptr(fixed[2 * k + 1])
    operands = local(ptr, MOST + 1)
    count = local(i64, 1)
    for i in range(t.steps):
        s = steps[i]
        made_at = s.places[s.operands]
        if s.memory >= 0:
            at[made_at] = shared + s.memory
        else:
            made = ptr(None)
            if s.loop is not None:
                runs = ptr[RawKind](py.tuple_item(py.list_item(equations, s.equation), 0)).runs
                made = py.call_two(tape.new_array, py.tuple_item(runs, SHAPE), py.tuple_item(runs, DTYPE))
            else:
                number = py.int_of(s.equation)
                if number is not None:
                    made = py.call_one(python, number)
                    py.dec(number)
            if made is None:
                return None
            at[made_at] = data_of(made)
            py.set_list(values, s.equation, made)
        if s.loop is not None:
            for k in range(s.operands + 1):
                operands[k] = at[s.places[k]]
            count[0] = s.count
            s.loop(operands, count, ptr[i64](s.strides), s.data)
    return nothing()


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
LOOPS = {
    (name, size): made(word)
    for name, made in (("choice", _choice), ("copy", _copy))
    for size, word in ((1, u8), (4, u32), (8, u64))
}
