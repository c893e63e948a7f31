"""Asks for the value of a handle, answered if the value is computed or the ask is known, in native Python.

    read_numpy, read_array    the value as a read-only array              METH_NOARGS; METH_FASTCALL | METH_KEYWORDS
    read_item, read_float     the number of a 0-d value                   METH_NOARGS; nb_float
    read_bool                 True for a value that is not zero           nb_bool

All other cases (a pending value without a known plan, an error, a trace) are left to the Python functions.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import extern, held, i32, i64, local, native, own, ptr, row, u64
from . import recording_objects as py
from .recorder_arrays import new_view, set_writeable
from .recorder_nodes import bad_argument, kind_of, node_of, recording_here, recording_now
from .recording_keys import ask
from .recording_run import count_up
from .recording_structs import ASKED, FLOAT_ASKS, VALUE, RawNode, RawRecording, int_or, tape

#: Stands for an array or a number that Python has to provide.
PYTHON = 1
#: The most arguments that `__array__` takes here.
MOST_ARGUMENTS = 7

is_true = extern("PyObject_IsTrue", i32, ptr)


@native(inline=True)
def is_python(found: ptr) -> bool:
    """True for PYTHON, and for null, which means an exception."""
    return u64(found) <= PYTHON


@native
def compute_if_known(n: ptr[RawNode]) -> i32:
    """Compute a pending value if a plan for it is known.  1: done, 0: Python has to, -1: an exception."""
    mode = local(ptr, 1)
    if tape.answers is not tape.true:
        return 0
    now = recording_now(mode)
    if now is None or now.tracing is not tape.zero:
        return 0
    recording: own[RawRecording] = held(now)
    results: own = py.tuple_of(row(held(n)), 1)
    if results is None:
        return -1
    empty = tape.empty
    found: own = ask(VALUE, recording, results, empty, empty, empty, mode[0] is tape.true, False, tape.none)
    if found is None:
        return -1
    return i32(found is tape.true)


@native
def may_be_lost(now: ptr[RawRecording], refuses_gradients: bool) -> bool:
    """True if Python has to handle an ask for a value that tracks gradients: it warns in a function that is being
    differentiated, and notes which values a custom forward looks at."""
    return refuses_gradients or int_or(now.transforming, 1) != 0 or int_or(now.forward_depth, 1) != 0


@native
def value_here(x: ptr, refuses_gradients: bool) -> ptr:
    """The array of a value, computed if necessary, borrowed; null with an exception, or PYTHON.  Counted as an ask."""
    now = recording_here()
    if now is None or now.unseen is not tape.zero:
        return ptr(PYTHON)
    was_asked = False
    while True:
        # A second round after the evaluation, which may run Python: the handle may have another node by then.
        n = node_of(x)
        if n is None or kind_of(n) is None:
            return ptr(PYTHON)
        out = n.kind.out
        if out.requires_grad is not tape.false and may_be_lost(now, refuses_gradients):
            return ptr(PYTHON)
        if py.class_of(n.value) is tape.array_type:
            break
        if n.value is not tape.none or was_asked:
            return ptr(PYTHON)
        status = compute_if_known(n)
        if status <= 0:
            return ptr(PYTHON) if status == 0 else None
        was_asked = True
    words = ptr[ptr](now)
    if not count_up(words + ASKED, 1) or (out.flows is tape.true and not count_up(words + FLOAT_ASKS, 1)):
        return None
    return n.value


@native
def view_here(x: ptr) -> own:
    """A read-only view of a value, a new reference; null with an exception, or PYTHON."""
    value = value_here(x, True)
    if is_python(value):
        return own(value)
    made: own = new_view(value, None, None)
    if made is not None:
        set_writeable(ptr[py.RawArray](made), False)
    return made


@native
def number_here(x: ptr) -> own:
    """The number of a 0-d value, a new reference; null with an exception, or PYTHON."""
    value = value_here(x, False)
    if is_python(value):
        return own(value)
    if ptr[py.RawArray](value).nd != 0:
        return ptr(PYTHON)
    return py.call_method(tape.item_name, row(value), 1, None)


@native
def read_numpy(x: ptr, unused: ptr) -> own:
    found: own = view_here(x)
    return py.call_one(tape.python_numpy, x) if found is ptr(PYTHON) else found


@native
def read_item(x: ptr, unused: ptr) -> own:
    found: own = number_here(x)
    return py.call_one(tape.python_item, x) if found is ptr(PYTHON) else found


@native
def read_float(x: ptr) -> own:
    found: own = number_here(x)
    if found is not None and found is not ptr(PYTHON) and py.class_of(found) is not tape.float_type:
        found = ptr(PYTHON)
    return py.call_one(tape.python_float, x) if found is ptr(PYTHON) else found


@native
def read_bool(x: ptr) -> i32:
    found: own = number_here(x)
    if found is ptr(PYTHON):
        found = py.call_one(tape.python_bool, x)
    return -1 if found is None else is_true(found)


@native
def read_array(x: ptr, arguments: ptr[ptr], count: i64, names: ptr) -> own:
    """`__array__`, NumPy's protocol, as a rule called without a dtype or `copy`: METH_FASTCALL | METH_KEYWORDS."""
    stack = local(ptr, MOST_ARGUMENTS + 1)
    if count == 0 and names is None:
        found: own = view_here(x)
        if found is not ptr(PYTHON):
            return found
    given = count if names is None else count + py.tuple_size(names)
    if given > MOST_ARGUMENTS:
        bad_argument()
        return None
    stack[0] = x
    for i in range(given):
        stack[i + 1] = arguments[i]
    return py.call(tape.python_array, stack, u64(count + 1), names)


READS = [read_numpy, read_array, read_item, read_float, read_bool]
