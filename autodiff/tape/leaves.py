"""Leaves: nodes that hold given data, arrays and numbers.

A user's array is copied.  A number is a run-time argument of the graph, so its value is in no key; in the library's own
rules a number is a constant of the graph.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from codegen.ir import DTYPES, KNOWN_DTYPES, Aval, dtype_name
from codegen.runtime.record_table import MOST_EXTENTS
from codegen.symbols import Symbol, as_float

from ..errors import DTypeError, located
from ..stand_ins import PYTHON_NUMBERS
from ..tensor import Tensor, handle
from . import machine
from .leaks import LOST, warn_of_lost
from .node import CONSTANT, Kind, Leaf, Node, data_node, leaf_kind, one_kind, out_of, rich_node, store_bounded
from .record import ARGUMENT, force, result_handle, state
from .walk import needed
from .watched import KIND_OF, WATCHED, Watched, WatchedArray, plain

_new = object.__new__
_I32, _I64 = DTYPES["i32"], DTYPES["i64"]


def leaf(array: np.ndarray, requires_grad: bool = False) -> Tensor:
    """A handle on given data, to which nothing else may write.  The array must be C-contiguous."""
    return handle(leaf_node(array, requires_grad))


def copied_natively(array: np.ndarray) -> Tensor | None:
    """A constant with a copy of an array, if machine code has learnt the kind for such arrays (`learn`); else None."""
    found: Tensor | None = None if machine.asks is None else machine.asks.copy_leaf(array)
    return found


def learn(array: np.ndarray, kind: Kind) -> None:
    """Tell machine code the kind of constants with a copy of an array like this one, of one of the library's dtypes."""
    if machine.asks is not None:
        machine.asks.learn_leaf(array, kind)


def known_kind(array: np.ndarray) -> Kind | None:
    """The kind of constants with the values of an array, which machine code learns; None if it cannot learn it."""
    dtype = array.dtype
    # Machine code knows dtypes by address, and a copy of one of the library's dtypes may be freed.
    if array.ndim > MOST_EXTENTS or dtype not in KNOWN_DTYPES or dtype is not np.dtype(dtype.type):
        return None
    kind = _kind_of_data(array, False)
    learn(array, kind)
    return kind


def taken(array: Any, dtype: np.dtype) -> Tensor:
    """A constant tensor of a user's array, or of a NumPy scalar.

    The array is copied when it is recorded, so no later write to its memory changes the tensor.  In a trace it is a
    hidden input: each call uses its present contents.
    """
    if LOST:
        warn_of_lost(array)
    if type(array) is WatchedArray:
        return _leaf_of_array(array, dtype)
    t, captures = leaf(np.array(array, dtype, order="C", subok=False)), state.now.captures
    if captures is not None and type(array) is np.ndarray and array.dtype == dtype:
        captures[t.node] = array
    return t


def leaf_node(value: Any, requires_grad: bool = False, identity: Leaf | None = None) -> Node:
    """A node that holds `value`; with `requires_grad`, a leaf at which gradients accumulate."""
    kind = _kind_of_data(value, requires_grad)
    if requires_grad:
        return rich_node(kind, (), value, leaf=identity or Leaf())
    return data_node(kind, value)


def tracked_node(value: Any) -> Node:
    """A node that holds `value` and can be differentiated with respect to, but accumulates no gradient."""
    return rich_node(_kind_of_data(value, True), (), value)


def _kind_of_data(value: Any, requires_grad: bool) -> Kind:
    key = (value.shape, value.dtype, requires_grad)
    kind = _KINDS_OF_DATA.get(key)
    if kind is None:
        kind = store_bounded(_KINDS_OF_DATA, key, leaf_kind(out_of(Aval(value.shape, value.dtype), requires_grad)))
    return kind


#: Kinds of leaves by shape, dtype and requires_grad: a lookup by Aval would take a microsecond more, to make the Aval.
_KINDS_OF_DATA: dict[tuple, Kind] = {}


# ---------------------------------------------------------------- numbers

_CONSTANTS: dict[tuple[str, np.dtype], Kind] = {}


def constant(value: complex, dtype: np.dtype | str) -> Tensor:
    """A 0-d constant of the graph, for numbers that are written in rules: another value gives another graph.

    dtype may be a short name: `constant(0.5, "f64")`.
    """
    return handle(data_node(constant_kind(value, dtype), None))


def constant_kind(value: complex, dtype: np.dtype | str) -> Kind:
    """The kind of a constant."""
    if isinstance(dtype, str):
        dtype = DTYPES[dtype]
    key = (repr(value), dtype)  # text: -0.0 is not 0.0, and 1 is not True
    if type(value) in KIND_OF:
        key = (f"{value!r} = {complex(value)!r}", dtype)  # the text of a symbol leaves its example out
    kind = _CONSTANTS.get(key)
    if kind is None:
        params = value, dtype_name(dtype)
        kind = store_bounded(_CONSTANTS, key, one_kind((CONSTANT, *key), CONSTANT, params, out_of(Aval((), dtype))))
    return kind


_NUMBER_OUT: dict[np.dtype, tuple[Kind, type]] = {}
_INT_RANGE = {d: (np.iinfo(d).min, np.iinfo(d).max) for d in (_I32, _I64)}


def number_leaf(value: Any, dtype: np.dtype) -> Tensor:
    """A tensor of `dtype` for a Python number, which is a run-time argument, so that its value is in no key.

    In the library's own rules (`state.now.literal`) the number is a constant of the graph instead.
    Raises OverflowError for an int outside the dtype, DTypeError for a complex number where a real
    one is wanted.
    """
    entry = _NUMBER_OUT.get(dtype)
    if entry is None:
        kind = leaf_kind(out_of(Aval((), dtype)))
        entry = _NUMBER_OUT[dtype] = kind, PYTHON_NUMBERS[dtype.kind]
    kind, python = entry
    if type(value) is not python:
        if type(value) in WATCHED:
            return _leaf_of_number(value, dtype, python)
        if type(value) is complex:
            raise DTypeError(located(f"a complex number cannot take part as {dtype_name(dtype)}"))
        if type(value) not in KIND_OF:
            value = python(value)
        elif python is float and type(value) is Symbol:
            value = as_float(value)
    if type(value) is int:
        _fitting(dtype, value)
    now = state.now
    if now.literal and not (now.tracing and type(value) is Symbol):  # in a trace its value is known at each run
        return constant(value, dtype)
    t: Tensor = _new(kind.out.cls)
    t.node = data_node(kind, value)
    t.masked = False
    return t


def _fitting(dtype: np.dtype, value: Any) -> int:
    """A number as an int.  Raises OverflowError for a number that does not fit the dtype."""
    value = int(value)
    if not fits(value, dtype):
        raise OverflowError(located(f"the number {value} does not fit {dtype_name(dtype)}"))
    return value


def fits(value: int, dtype: np.dtype = _I32) -> bool:
    """True if an integer dtype has this number."""
    low, high = _INT_RANGE[dtype]
    return low <= value <= high


def check_narrow(node: Node, dtype: np.dtype = _I32) -> None:
    """Raise OverflowError for an int64 number that is used as int32, and does not fit; a trace notes that it has to."""
    if dtype is _I32 and node.kind.out.aval.dtype is _I64:
        if node.value is None and state.now.captures is not None:
            state.now.narrowed.add(node)
        elif all([n.kind.op is not ARGUMENT for n in needed([node])]):  # in a loop or an example no value is known
            if node.value is None:
                force(node)
            _fitting(dtype, node.value)


def as_number(t: Tensor) -> Tensor:
    """Make a result of Python's operators on number arguments of a traced function a weak number too.

    So `x * (n / 2)` has the dtype of x, as it has for a Python number n.
    """
    kind = t.node.kind
    out = out_of(kind.out.aval, kind.out.requires_grad, weak=True)
    t.node.kind = one_kind((kind, out), kind.op, kind.params, out)
    return result_handle(t.node, t.masked)


def number_like_traced(value: Any, dtype: np.dtype, weak: bool) -> Tensor:
    """A number with a value, which dispatches and promotes as a number argument of a traced function does."""
    kind = leaf_kind(out_of(Aval((), dtype), weak=weak, number=not weak))
    return handle(data_node(kind, np.asarray(value, dtype)))


def place_leaf(value: int) -> Tensor:
    """A position in an array, as a run-time argument; in a jit trace, whose position is fixed, as a constant.

    With a constant, kernels know where elements come from, and need no test for each element.
    """
    is_constant = state.now.outside and type(value) is not Symbol
    return constant(value, "i64") if is_constant else number_leaf(value, _I64)


def promoted(value: complex, dtype: np.dtype) -> np.dtype:
    """The dtype of `array + value` for a weak Python number (NEP 50)."""
    key = (type(value), dtype)
    found = _PROMOTED.get(key)
    if found is None:
        kind = KIND_OF.get(type(value), type(value))
        found = _PROMOTED[key] = np.result_type(dtype, kind(0))
    return found


_PROMOTED: dict[tuple[type, np.dtype], np.dtype] = {}


# ---------------------------------------------------------------- watched numbers and arrays (`watched`)


def _leaf_of_number(x: Watched, dtype: np.dtype, python: type) -> Tensor:
    """The leaf of a watched number, which the plan computes again at each run."""
    watch = x._watch
    if state.now.literal or not watch.is_open:
        return number_leaf(plain(x), dtype)
    try:
        t = number_leaf(x._value, dtype)
    except OverflowError:  # another number may fit
        watch.see(x._step)
        raise
    watch.leaves[t.node] = (x._step, partial(_fitting, dtype) if python is int else python)
    return t


def _leaf_of_array(x: WatchedArray, dtype: np.dtype) -> Tensor:
    """The leaf of a watched array; at each run the plan takes the array that the rule would read then."""
    watch = x._watch
    if not watch.is_open or x.dtype != dtype:
        return taken(x._seen(), dtype)
    t = taken(x._value, dtype)
    watch.leaves[t.node] = (x._step, _packed)
    return t


def _packed(array: np.ndarray) -> np.ndarray:
    """An array of these values that native code can read: C-contiguous and aligned."""
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else np.array(array, order="C")
