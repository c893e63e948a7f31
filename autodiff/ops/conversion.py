"""Conversion of arguments into tensors, and between dtypes.

    as_tensor   arrays, numbers, lists and structured values -> Tensor
    dense       a structured value written out as a Tensor (a generic function: types add methods)
    astype      the same values in another dtype
    project     a gradient in the structure of its value, for rules of custom functions; unbroadcast, stop_gradient
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.ir import DTYPES, KNOWN_DTYPES, dtype_name
from codegen.lowering import Map
from codegen.symbols import Symbol, SymbolicFloat

from .. import tree
from ..containers import registration
from ..custom.function import CONVERSIONS, Function, told_dense
from ..dispatch.declaration import brackets, called, is_below, public_name
from ..dispatch.method import types_of_call
from ..errors import DispatchError, DTypeError, ShapeError, check_not_masked, located, with_article
from ..tape import DETACH, as_new_result, number_leaf, record, state
from ..tape.ask import value_of
from ..tape.leaves import as_number, check_narrow, taken
from ..tape.record import SAME
from ..tensor import AbstractTensor, Tensor
from .primitive import BOOL, C128, F64, I64, OwnPrimitive, broadcasts_to, primitive, sum_to
from .template import public

#: The function that joins nested lists of tensors.  `joining`, which imports this file, puts it here (`nested`).
NESTED_JOINER: list[Callable[[list | tuple, str], Tensor]] = []

#: The dtype of a Python number without tensors beside it.
DEFAULT_DTYPES = {
    bool: BOOL,
    int: I64,
    float: F64,
    complex: C128,
    Symbol: I64,
    SymbolicFloat: F64,
}
#: Types of numbers that take the dtype of the tensors beside them (NEP 50); other subclasses, as np.float64, do not.
WEAK = frozenset(DEFAULT_DTYPES)
#: Python's number types in the printed types of a call.  Advice to add a method names `ad.Number` in their place.
_NUMBER = re.compile(r"\b(?<!\.)(bool|int|float|complex)\b")
#: A tensor type of one dtype in the printed types of a call.  The advice names the type of any dtype in its place.
_OF_RANK = re.compile(r"ad\.Tensor\[ad\.\w+, (\d+)\]")
_RANKS = {"0": "ad.Scalar", "1": "ad.Vector", "2": "ad.Matrix"}


def no_array(what: str, error: Exception) -> DispatchError:
    """The error for data that NumPy cannot convert to an array."""
    reason = "its lists differ in length or depth" if "inhomogeneous" in str(error) else error
    return DispatchError(located(f"{what} is no array: {reason}"))


def as_tensor(x: Any, function: str = "", argument: str = "") -> Tensor:
    """An argument of an operation as a tensor.

    A tensor is returned as it is; a structured value is converted by `dense`; an array, also one of another library,
    becomes a constant, copied unless it is read-only; a number gets its default dtype (float: float64, int: int64);
    nested lists that hold tensors of one shape are joined into one tensor.

    `function` and `argument` are named in errors; without a function, `argument` is a phrase such as "a result".
    Raises DTypeError for arrays of a dtype that this library does not have, DispatchError for anything else,
    OverflowError for an int beyond 64 bits.
    """
    if isinstance(x, Tensor):
        return x
    if isinstance(x, AbstractTensor):
        if function:
            told_dense(function, x)
        given, x = x, dense(x)  # perhaps an array, from a method of a type that holds arrays
        if x is None:
            raise DispatchError(located(
                f"dense: its method for {type(given).__name__} returned nothing",
                "return the tensor that the value stands for",
            ))
        return x if isinstance(x, Tensor) else as_tensor(x, function, argument)
    if type(x) in WEAK:
        return number_leaf(x, DEFAULT_DTYPES[type(x)])
    given, where = x, f"{function}: " if function else ""
    what = f"argument {argument!r}" if function and argument else argument or "an argument"
    if isinstance(x, (list, tuple)):
        if holds_tensors(x):
            return NESTED_JOINER[0](x, f"{where}{what}")
        try:
            x = np.asarray(x)
        except ValueError as error:
            raise no_array(f"{where}{what}", error) from None
    elif isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic):
        x = np.asarray(x)
    check_not_masked(x)
    if not isinstance(x, (np.ndarray, np.generic)):
        x = foreign_array(x, where, what)
    if x is None:
        raise DispatchError(located(
            f"{where}{what} is {with_article(type(given).__name__)}, not a tensor",
            "tensors, numbers, and arrays are taken: NumPy's, and objects with __array__ or __dlpack__",
            _method_for(type(given)),
        ))
    dtype = x.dtype.newbyteorder("=")
    if dtype not in KNOWN_DTYPES:
        raise DTypeError(located(
            f"{where}{what} has dtype {x.dtype}, which this library does not have",
            f"dtypes are {', '.join(map(str, DTYPES.values()))}: x.astype(np.float64), for example",
        ))
    return taken(x, dtype)


def holds_tensors(x: list | tuple) -> bool:
    """True if nested lists hold a tensor or structured value."""
    classes = set(map(type, x))
    if any([issubclass(c, (list, tuple)) for c in classes]):
        return any([isinstance(e, AbstractTensor) or (isinstance(e, (list, tuple)) and holds_tensors(e)) for e in x])
    return any([issubclass(c, AbstractTensor) for c in classes])


def foreign_array(x: Any, where: str = "", what: str = "an argument") -> np.ndarray | None:
    """The array in an object of another library, read by `__array__` or DLPack; None for any other object.

    Raises DispatchError if that library refuses: for an array in a GPU's memory, or one with a history for gradients.
    """
    has_array = hasattr(type(x), "__array__")
    if isinstance(x, type) or not (has_array or hasattr(type(x), "__dlpack__")):
        return None
    try:
        found = np.asarray(x) if has_array else np.from_dlpack(x)
    except Exception as error:
        kind = f"{type(x).__module__.partition('.')[0]}.{type(x).__qualname__}"
        raise DispatchError(located(
            f"{where}{what} is a {kind}, which gives no array: {error}",
            "pass its values as a NumPy array, in the memory of the CPU and without a history of its own;\n"
            "  a function f of yours takes it, with gradients, as ad.interop.torch.wrap(f) or ad.interop.jax.wrap(f)",
        )) from error
    return found


def as_numpy(x: Any) -> Any:
    """An array of another library as a NumPy array; any other value as it is."""
    if type(x) in WEAK or isinstance(x, (AbstractTensor, np.ndarray, np.generic)):
        return x
    array = foreign_array(x)
    return x if array is None else array


def known_value(t: Tensor, given: Any = None) -> np.ndarray | None:
    """The value of a tensor; None if the tensor depends on the arguments of a trace, so that it has no value yet.

    A `jit` trace that reads the value is valid for this value only, so the recording notes the value (`fixed`).

    given   the object that the tensor was made of; a list is noted in place of the tensor
    """
    now = state.now
    if now.captures is not None:
        now.note_hidden_input(t)
        if t.node not in now.captures:
            return None
        now.fixed[t.node] = given if type(given) is list else now.captures[t.node]
    elif now.tracing and t.node.value is None:
        return None
    return value_of(t.node)


def numbers_of(value: Any) -> Any:
    """The numbers in an array, or in a tensor that has a value, as a list; any other argument as it is."""
    if isinstance(value, (np.ndarray, Tensor)) and value.ndim:
        known = known_value(as_tensor(value))
        return value if known is None else known.tolist()
    return value


@public()
def dense(x):
    """A structured value written out as a tensor, for operations without a method for its type.

    A type that derives from `ad.AbstractTensor` adds a method; it is differentiated like any program:

    >>> class Repeated(ad.AbstractTensor[..., 1]):  # n equal elements
    ...     def __init__(self, element, n):
    ...         self.element, self.n = element, n
    >>> @ad.dense.method(Repeated)
    ... def _(x):
    ...     return ad.broadcast_to(x.element, (x.n,))
    >>> ad.exp(Repeated(ad.tensor(0.0), 3))
    f64[3] [1. 1. 1.]

    A tensor is returned as it is, as by `ad.asarray`: an in-place update of the result updates the argument.  Arrays
    and numbers become constants.
    Raises DispatchError for a type without a method.
    """
    if isinstance(x, AbstractTensor) and not isinstance(x, Tensor):
        raise DispatchError(_no_tensor(x))
    return as_strong(as_tensor(x, "dense", "x"))


def _no_tensor(x: AbstractTensor) -> str:
    """The message for a value of a user's type that an operation, or a transformation, needs as a tensor."""
    name, operation, types = type(x).__name__, *_operation_called()
    method = _method_for(type(x))
    if not method:
        is_argument = is_below("autodiff.transforms.arguments", "autodiff.argument_leaves")
        return located(
            f"dense: no method for {name}, so it cannot be used where a tensor is needed",
            f"add one:  @ad.dense.method({name})",
            f"or let transformations see its parts:  {registration(x)}" if is_argument else "",
        )
    return located(
        f"{operation.__name__}: no method for {types}, and ad.dense has none to make a tensor of {name}", method,
        "or let all operations take it as a plain tensor, without what else it means, such as a unit:"
        f"  @ad.dense.method({name})",
    )


def _method_for(cls: type) -> str:
    """Advice to add a method, for a value of class `cls`, to the operation that was called; "" if none is known."""
    operation, types = _operation_called()
    if cls.__module__ == "builtins" or operation in (None, dense) or cls.__name__ not in types:
        return ""
    return f"add one for this operation:  @{public_name(operation)}.method{types}"


def _operation_called() -> tuple[Any, str]:
    """The outermost running function of this library, and the types that a method for this call is registered with."""
    function, given, _ = called() or (None, (), {})
    if not isinstance(function, Function) or len(given) > len(function.declaration.fixed):
        return None, ""  # `ad.tensor` is no operation
    classes = [Tensor[x.dtype, x.ndim] if type(x) is np.ndarray and x.dtype in KNOWN_DTYPES else type(x) for x in given]
    types = _NUMBER.sub("ad.Number", types_of_call(function, classes))
    return function, _OF_RANK.sub(lambda found: _RANKS.get(found[1], f"ad.Tensor[..., {found[1]}]"), types)


CONVERSIONS.append(as_tensor)


def dtype_of(dtype: Any, function: str = "dtype", otherwise: np.dtype | None = None) -> np.dtype:
    """The NumPy dtype for a user's np.float32, "f32" or float; for None `otherwise`.  Raises DTypeError."""
    if dtype is None and otherwise is not None:
        return otherwise
    found = DTYPES.get(dtype) if isinstance(dtype, str) else None
    if found is None:
        try:
            found = np.dtype(dtype)
        except TypeError:
            found = None
    if dtype is None or found not in KNOWN_DTYPES:
        known = ", ".join(map(str, DTYPES.values()))
        raise DTypeError(located(
            f"{function}: {dtype!r} is not a dtype of this library", f"dtypes are {known}", brackets()
        ))
    return found


def _cast_reference(x: np.ndarray, *, dtype: str) -> np.ndarray:
    """NumPy's astype for all values: complex to real takes the real part, floats that do not fit give the least int."""
    target = DTYPES[dtype]
    if x.dtype.kind == "c" and target.kind in "fi":
        x = x.real
    if target.kind != "i" or x.dtype.kind != "f":
        return x.astype(target)
    limit = 2.0 ** (8 * target.itemsize - 1)
    whole = np.trunc(x)
    fits = (whole >= -limit) & (whole < limit)
    return np.where(fits, np.where(fits, whole, 0).astype(target), np.iinfo(target).min).astype(target)


#: cast(x, dtype): the same values in another dtype, which is given by its short name.
cast: OwnPrimitive = primitive(
    "cast",
    _cast_reference,
    infer=lambda x, *, dtype: x.with_dtype(DTYPES[dtype]),
    lower=Map(lambda k, x, *, dtype: k.cast(x, dtype)),
    vjp=lambda y_bar, y, x, *, dtype: (cast_to(y_bar, x.dtype) if y.dtype.kind in "fc" else None,),
)


def cast_to(x: Tensor, dtype: np.dtype) -> Tensor:
    """x in another dtype; x itself, without a new node, if it has that dtype."""
    return x if x.dtype == dtype else record(cast, (x,), (dtype_name(dtype),))


def as_strong(x: Tensor) -> Tensor:
    """x with a fixed dtype: a tensor that stands for a Python number in a trace is weak no longer."""
    return record(SAME, (x,)) if x.node.kind.out.weak else x


def cast_beside(x: Tensor, dtype: np.dtype) -> Tensor:
    """x in the dtype of its fellow operands.  Raises OverflowError if x stands for a Python int that does not fit."""
    if x.node.kind.out.weak:
        check_narrow(x.node, dtype)
        x = as_strong(x)
    return cast_to(x, dtype)


@public(1, takes="T")
def astype(x, dtype):
    """x in another dtype.

    x: T[...]  →  dtype[...]

    Gradients flow between float and complex dtypes.  Conversion to float takes the real part of a complex number;
    conversion to an integer cuts fractions off, and gives the least integer for a value that does not fit (also nan);
    conversion to bool gives True for every value but zero.
    Raises DTypeError for a dtype that this library does not have.

    casting   the NumPy rule by which conversions are refused; order, subok, copy, device make no difference to a value

    >>> ad.astype([1.9, -1.9, ad.nan], ad.int32)
    i32[3] [          1          -1 -2147483648]
    """
    return cast_to(x, dtype_of(dtype, "astype"))


@public(takes="T", operands=2)
def unbroadcast(g, like):
    """The gradient of a value that was broadcast: g summed over the axes that broadcasting repeated.

    g: T[...]  like: U[k...]  →  T[k...]

    Raises ShapeError when the shape of `like` does not broadcast to that of g.

    >>> ad.unbroadcast(ad.ones((2, 3)), ad.zeros(3))
    f64[3] [2. 2. 2.]
    """
    if not broadcasts_to(like.shape, g.shape):
        raise ShapeError(located(f"unbroadcast: a {like.aval} is not broadcast to {g.aval}"))
    return sum_to(g, like.shape)


@public()
def project(g, like) -> Any:
    """A gradient in the structure of the value that it belongs to.

    For a tensor: a tensor of its shape (g is summed over broadcast axes) and its float dtype.  For a structured
    value: a value of its type, the cotangent of `dense(like)` pulled back to the parts of `like`.  A `Diagonal`
    keeps the diagonal, a `Symmetric` the symmetric part; a number that stands in several places, as in
    `Fill`, gets the sum over these places.  Types add methods `project.method(object, MyType)`; for a type
    without one the gradient is found by differentiating `dense`.
    Raises ShapeError for a gradient that does not fit.

    >>> ad.project(ad.ones((2, 2)), ad.Diagonal([3.0, 4.0])).diagonal
    f64[2] [1. 1.]
    """


@project.method(object, Tensor)
def _(g, like):
    found = unbroadcast(g, like)
    return cast_to(found, like.dtype) if like.dtype.kind in "fc" else found


@public(1)
def stop_gradient(t):
    """Values that no gradient flows through; for containers and structured values, all tensors in them.

    t: T[...]  →  T[...]

    >>> ad.grad(lambda x: x * ad.stop_gradient(x))(ad.tensor(3.0))
    f64[] 3.0
    """

    def stopped(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        made = record(DETACH, (x,)) if x.node.kind.out.requires_grad else as_new_result(x)
        return as_number(made) if x.node.kind.out.weak else made

    return tree.map(stopped, t)
