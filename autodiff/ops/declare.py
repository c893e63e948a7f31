"""Public functions: checks and conversions of their arguments, and elementwise operations in one declaration each.

    exp = unary("exp", slope=lambda y, x: y, doc=..., example=">>> ad.exp(0.0)\\nf64[] 1.0")

By default NumPy's function of that name defines the value, and the scalar builder's method of that name makes the
compiled code.  `exp` is a `Function`: users add methods and rules to it.  `exp.primitive` is the operation that its
body records; the native recorder learns of it through `call_program`.

Arguments follow NumPy's conventions; the helpers here turn them into canonical tuples and tensors of one dtype.
Static parameters of operations are hashable and unique: an axis is a non-negative int, several axes
are a sorted tuple, a shape is a tuple of ints.  Operands of an elementwise operation get one dtype by NumPy's promotion
(NEP 50): Python numbers are weak, and take the dtype of the arrays beside them, as far as their kind allows (a float
beside an int64 array gives float64); NumPy scalars and arrays are strong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.runtime.record_table import MOST_KNOWN
from codegen.symbols import as_index

from ..custom.function import Function
from ..dispatch.declaration import brackets
from ..errors import ConcretizationError, DTypeError, ShapeError, in_short, located, with_article
from ..stand_ins import PYTHON_NUMBERS
from ..tape import number_leaf, promoted, record
from ..tape.watched import KIND_OF, WATCHED
from ..tensor import Tensor
from .conversion import DEFAULT_DTYPES, WEAK, as_strong, as_tensor, cast_beside, numbers_of
from .primitive import BOOL, F64, KIND_NAMES, Ints, OwnPrimitive, elementwise
from .template import ARGUMENT_CONVERTER, public

#: Advice in the error for a second argument that is no axis, by the name of the function.
_ADVICE = {
    **dict.fromkeys(("max", "amax"), "ad.maximum(a, b) compares elements of two arrays"),
    **dict.fromkeys(("min", "amin"), "ad.minimum(a, b) compares elements of two arrays"),
}
#: Advice in the error for a traced tensor where a number is needed.
_STATIC = "inside a traced function it has to be known: mark the argument static (static_argnums)"


def integer(value: Any, name: str, what: str) -> int:
    """An argument as an int.  Raises TypeError, naming the function and the value, for one that is no integer."""
    try:
        return as_index(value)
    except TypeError:
        advice = described = ""
        if isinstance(value, Tensor):
            described = str(value.aval) if value.node.value is not None else f"a traced {value.aval}"
            if value.node.value is None and value.dtype.kind == "i":
                advice = _STATIC
        if what == "an axis":
            advice = _ADVICE.get(name) or brackets() or advice
        described = described or f"{type(value).__name__} ({value!r})"
        raise TypeError(located(f"{name}: {what} is an integer, not {described}", advice)) from None


def as_count(value: Any, name: str, what: str, least: int = 0) -> int:
    """A count as an int, by `integer`; `what` names it: "the number of parts".  Raises ShapeError below `least`."""
    count = integer(value, name, what)
    if count < least:
        raise ShapeError(located(f"{name}: {count} {what.rpartition(' ')[2]}"))
    return count


def number(value: Any, name: str, what: str) -> float:
    """An argument as a float.  Raises TypeError, naming the function and the value, for one that is no number."""
    try:
        if not isinstance(value, str):
            return float(value)
    except ConcretizationError:
        raise
    except (TypeError, ValueError):
        pass
    raise TypeError(located(f"{name}: {what} is a number, not {in_short(value)}"))


def elements_of(values: Any, name: str, what: str) -> list[Any]:
    """The elements of a list, tuple or array.  Raises TypeError, naming the function, for any object without them."""
    try:
        return [*values]
    except TypeError:
        described = with_article(type(values).__name__)
        raise TypeError(located(f"{name}: takes {what} in a list or tuple, not {described}", brackets())) from None


def as_sequence(x: Any) -> Sequence[Any]:
    """A list or tuple as it is; any other value in a tuple."""
    return x if isinstance(x, (tuple, list)) else (x,)


def axis_of(function: str, axis: Any, aval: Aval, ndim: int | None = None) -> int:
    """One axis, counted from the front.  Raises ShapeError for a number that names no axis.

    `ndim`: the rank of the result, for functions whose result has new axes; None: the aval's rank.
    """
    rank = aval.ndim if ndim is None else ndim
    number = integer(axis, function, "an axis")
    if not -rank <= number < rank:
        place = str(aval) if ndim is None else f"the result for {aval}"
        having = f"axes 0 to {rank - 1}" if rank > 1 else "one axis" if rank else "no axes"
        raise ShapeError(located(f"{function}: no axis {number} in {place}", f"it has {having}"))
    return number % rank


def axes_of(function: str, axis: Any, aval: Aval, ndim: int | None = None) -> Ints:
    """The axes that an `axis` argument names, sorted; None names all of them.  Raises ShapeError for a repeated one."""
    if axis is None:
        return tuple(range(aval.ndim if ndim is None else ndim))
    axes = tuple(sorted([axis_of(function, a, aval, ndim) for a in as_sequence(axis)]))
    if len(set(axes)) < len(axes):
        raise ShapeError(located(f"{function}: an axis is named twice in {tuple(axis)} for {aval}"))
    return axes


def axes_in_order(function: str, axes: Any, aval: Aval) -> list[int]:
    """The axes that a number, list or tuple names, in the order given."""
    return [axis_of(function, axis, aval) for axis in as_sequence(axes)]


def allocated(function: str, count: int, make: Callable[[], np.ndarray]) -> np.ndarray:
    """The array of `count` numbers that `make()` returns.  Raises MemoryError, naming the bytes that do not fit."""
    try:
        Aval((count,), np.int64)  # raises first: NumPy's functions raise errors of many types for a count so large
        return make()
    except MemoryError:
        raise MemoryError(located(f"{function}: no memory for {8 * count} bytes of numbers")) from None


def check_parts(function: str, count: int) -> None:
    """Raise MemoryError if a list of `count` results does not fit into memory."""
    try:
        [None] * count
    except (MemoryError, OverflowError):
        raise MemoryError(located(f"{function}: no room for {count} results")) from None


def shape_of(function: str, shape: Any) -> Ints:
    """The shape given by an int, a sequence or an array.  -1 is kept: only `reshape` admits it.  Raises TypeError."""
    shape = numbers_of(shape)
    extents = as_sequence(shape)
    try:
        return tuple([as_index(n) for n in extents])
    except TypeError:
        advice = ""
        if any(isinstance(n, Tensor) and n.node.value is None and n.dtype.kind == "i" for n in extents):
            advice = _STATIC
        raise TypeError(located(f"{function}: a shape is made of integers, not {shape!r:.80}", advice)) from None


def check_known(index: Tensor, *, name: str, extent: int) -> None:
    """Raise IndexError for indices outside of an axis of this extent, if they are known and few."""
    known = index.node.value
    # Kernels check all indices that are not checked here.
    if known is None or not 0 < index.size <= MOST_KNOWN:
        return
    known = np.asarray(known)
    low, high = int(known.min()), int(known.max())
    if low < -extent or high >= extent:
        raise IndexError(located(
            f"{name}: index {low if low < -extent else high} is outside of an axis of extent {extent}"
        ))


def in_common_dtype(function: str, arguments: Sequence[tuple[str, Any]], accepts: str) -> list[Tensor]:
    """The arguments of `function`, given as (name, value), as tensors of one dtype.

    accepts   kinds of dtype that the function takes ("f", "i", "b", "c"); where it takes floats but no integers,
              integers and bool become float64

    Raises DTypeError for a dtype that the function does not take, OverflowError for a Python int that does not fit.
    """
    shared = _shared_dtype(arguments)
    if shared is not None and shared.kind in accepts:
        return [x if isinstance(x, Tensor) else number_leaf(x, shared) for _, x in arguments]
    values = [x if type(x) in WEAK or type(x) in WATCHED else as_tensor(x, function, name) for name, x in arguments]
    dtype = common_dtype(values)
    if dtype.kind not in accepts:
        dtype = _admitted(function, dtype, accepts)
    return [cast_beside(x, dtype) if isinstance(x, Tensor) else number_leaf(x, dtype) for x in values]


def _taken(function: str, arguments: Sequence[tuple[str, Any]], kinds: str) -> list[Tensor]:
    """Arguments as tensors, of one dtype unless `kinds` is "T"."""
    if kinds == "T":
        return [as_strong(as_tensor(x, function, name)) for name, x in arguments]
    return in_common_dtype(function, arguments, kinds)


ARGUMENT_CONVERTER.append(_taken)


def _shared_dtype(arguments: Sequence[tuple[str, Any]]) -> np.dtype | None:
    """The dtype that all tensors share, beside Python numbers only a float one; None for any other arguments."""
    found: np.dtype | None = None
    has_number = False
    for _, x in arguments:
        if isinstance(x, Tensor):
            out = x.node.kind.out
            dtype = out.aval.dtype
            if out.weak or (found is not None and dtype is not found):
                return None
            found = dtype
        elif type(x) is float or type(x) is int:
            has_number = True
        else:
            return None
    return None if found is None or (has_number and found.kind != "f") else found


def common_dtype(values: Sequence[Any]) -> np.dtype:
    """The dtype that NumPy promotes tensors and Python numbers to."""
    strong = [x.dtype for x in values if isinstance(x, Tensor) and not x.node.kind.out.weak]
    if strong and len(strong) == len(values) and all([d is strong[0] for d in strong]):
        return strong[0]
    weak = [PYTHON_NUMBERS[x.dtype.kind]() if isinstance(x, Tensor) else x
            for x in values if not isinstance(x, Tensor) or x.node.kind.out.weak]
    if not strong:
        return np.result_type(*[DEFAULT_DTYPES[KIND_OF.get(type(x), type(x))] for x in weak])
    dtype = strong[0] if len(strong) == 1 else np.result_type(*strong)
    for number in weak:
        dtype = promoted(number, dtype)
    return dtype


def _admitted(function: str, dtype: np.dtype, accepts: str) -> np.dtype:
    """float64 in place of integers and bool if floats, but no integers, are taken.  Raises DTypeError otherwise."""
    if dtype.kind in "ib" and "i" not in accepts and "f" in accepts:
        return F64
    mend = f"ad.astype(x, ad.{'float64' if 'f' in accepts else 'int64'}) converts one"
    if dtype.kind == "c":
        mend = "ad.real(x), ad.imag(x) and ad.abs(x) are real: take what is meant"
    raise DTypeError(located(
        f"{function}: takes {' or '.join(KIND_NAMES[k] for k in accepts)} arguments, got {dtype}", mend
    ))


def unary(
    name: str, reference: Callable[..., Any] | None = None, *, doc: str, called: str = "", accepts: str = "f",
    of_complex: Callable[[Tensor], Tensor] | None = None, example: str = "", **declared: Any,
) -> Function:
    """Declare a public function of one argument and its operation; other parameters as for `elementwise`.

    reference    the NumPy function that defines the value; None: NumPy's function of the same name
    doc          the function's documentation, without the example
    slope        slope(y, x) -> the derivative, as one of the `partials` of `elementwise`; None: a step function
    called       the function's name if it differs from the operation's
    of_complex   the result for a complex argument, if the operation itself takes none
    """
    called = called or name
    operation = elementwise(name, reference or getattr(np, called, None), accepts=accepts, **declared)

    def body(x):
        (t,) = in_common_dtype(called, (("x", x),), accepts + "c" if of_complex else accepts)
        return of_complex(t) if of_complex and t.dtype.kind == "c" else record(operation, (t,))

    body.__module__ = "autodiff"
    return _recording(operation, called, documented(example, doc))(body)


def binary(
    name: str, reference: Callable[..., Any] | None = None, *, doc: str, called: str = "", accepts: str = "f",
    on_bool: Callable[[Tensor, Tensor], Tensor] | None = None, example: str = "",
    **declared: Any,
) -> Function:
    """Declare a public function of two arguments and its operation; other parameters as for `unary`.

    on_bool   the result for two bool arguments, if the operation itself takes no bool
    """
    called = called or name
    operation = elementwise(name, reference or getattr(np, called, None), accepts=accepts, **declared)
    admitted = accepts + "b" if on_bool else accepts

    def body(x1, x2):
        tensors = in_common_dtype(called, (("x1", x1), ("x2", x2)), admitted)
        if on_bool and tensors[0].node.kind.out.aval.dtype == BOOL:
            return on_bool(*tensors)
        return record(operation, tuple(tensors))

    body.__module__ = "autodiff"
    return _recording(operation, called, documented(example, doc))(body)


def _recording(operation: OwnPrimitive, name: str, doc: str) -> Callable[[Any], Function]:
    """Declare a public elementwise function by a body that records one operation."""
    return public(records=operation, takes_numbers=True, result_aval=operation.infer, name=name, doc=doc)


def documented(example: str, *paragraphs: str) -> str:
    """The documentation of a function, with an example at the end, as Python's prompt shows it."""
    return "\n\n    ".join([*paragraphs, "\n    ".join([*example.splitlines(), ""])])


def composed(name: str, body: Any, summary: str, example: str, tensors: int = 1, takes: str = "") -> Any:
    """Declare a public function that is one expression; `tensors` and `takes` as for `public`."""
    return public(tensors, name=name, doc=documented(example, summary), takes=takes)(body)
