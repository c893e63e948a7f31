"""NumPy's protocols: `np.exp(t)`, `ndarray + t`, `np.sum(t)` record an operation like `ad.exp(t)`.

No gradient is lost silently: a NumPy function that has no counterpart in this library raises if the tensor
requires grad or is being traced; otherwise NumPy computes with the tensor's array.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from codegen.lazily import imported

from .. import tree
from ..custom.function import Function
from ..elsewhere import OF_FUNCTIONS
from ..errors import ConcretizationError, DispatchError, Error, GradientError, located
from ..frames import is_shown
from ..tape import is_tracking
from ..tensor import AbstractTensor, Tensor
from ..tracebacks import shorten
from .conversion import as_tensor
from .forms import Refusal, takes_as
from .operators import PREFIX

#: This library's function for each universal function of NumPy, found by name: see `counterparts`.
UFUNCS: dict[np.ufunc, Callable] = {}

#: This library's function for other functions of NumPy, and for (universal function, "reduce").  If it returns
#: NotImplemented, NumPy computes the call.
FUNCTIONS: dict[Any, Callable] = {
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
    np.result_type: lambda *xs: np.result_type(*[x.dtype if isinstance(x, Tensor) else x for x in xs]),
    np.iscomplexobj: lambda x: x.dtype.kind == "c",
    np.isrealobj: lambda x: x.dtype.kind != "c",
    np.copy: lambda a, order="K", subok=False: PREFIX["pos"](a),
}

#: Names of this library's functions for methods of NumPy's universal functions.
_METHODS = {
    np.add: {"reduce": "sum", "accumulate": "cumsum"},
    np.multiply: {"reduce": "prod", "accumulate": "cumprod"},
    np.maximum: {"reduce": "max", "accumulate": "cummax"},
    np.minimum: {"reduce": "min", "accumulate": "cummin"},
    np.logical_or: {"reduce": "any"},
    np.logical_and: {"reduce": "all"},
}

#: Functions that take NumPy's parameter names but do not replace NumPy's function when it is called with tensors,
#: since NumPy's takes no array or reads values.
_NAMES_ALONE = frozenset((
    "allclose", "arange", "bincount", "empty", "eye", "fftfreq", "identity", "indices", "ones", "rfftfreq", "tri",
    "zeros",
))

#: Functions of NumPy that compare, show or write values: they may read any tensor, since no gradient is lost.
READERS = frozenset((
    np.allclose, np.array2string, np.array_equiv, np.array_repr, np.array_str, np.save, np.savetxt, np.savez,
    np.savez_compressed, np.may_share_memory, np.shares_memory,
))  # fmt: skip


def counterparts(names: Iterable[str], ours: Mapping[str, Any], theirs: Any = np) -> None:
    """Register this library's functions for NumPy's functions of the same names; they take NumPy's parameter names."""
    for name in names:
        function, one = ours[name], getattr(theirs, name, None)
        if isinstance(function, Function) and callable(one):
            takes_as(function, one)
            if name not in _NAMES_ALONE:
                (UFUNCS if isinstance(one, np.ufunc) else FUNCTIONS)[one] = function


def reductions(functions: Mapping[str, Any]) -> None:
    """Register functions for the methods of universal functions: `np.add.reduce(t)` is a sum."""
    for ufunc, methods in _METHODS.items():
        FUNCTIONS.update({(ufunc, method): _reducing(functions[name]) for method, name in methods.items()})


def _reducing(function: Callable) -> Callable:
    """The `reduce` of a universal function, which reduces the first axis by default."""

    def reduce(array, axis=0, dtype=None, out=None, keepdims=False, **keywords):
        told = {"dtype": dtype} if dtype is not None else {}
        return function(array, axis, **told, **({"keepdims": True} if keepdims else {}), **keywords)

    return reduce


def _array_ufunc(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
    """`__array_ufunc__`: NumPy calls this for a universal function with a tensor among its arguments."""
    try:
        ours = (UFUNCS.get(ufunc) or _later(ufunc)) if method == "__call__" else FUNCTIONS.get((ufunc, method))
        if ours is not None and not keywords and method == "__call__":
            found = ours(*inputs)
            if found is not NotImplemented:
                return found
        end = "" if method == "__call__" else f".{method}"
        if keywords and _is_scipys(ufunc):
            end, ours = f"{end} with {'= and '.join(keywords)}=", None
        return _called(lambda: _name(ufunc) + end, getattr(ufunc, method), ours, inputs, keywords)
    except Exception as error:
        shorten(error)
        raise


def _array_function(self, function: Callable, types: Any, args: tuple, keywords: dict) -> Any:
    """`__array_function__`: NumPy calls this for its other functions with a tensor among their arguments."""
    try:
        ours = FUNCTIONS.get(function)
        if ours is None and function in READERS:
            return _read_by_numpy(_name(function), function, args, keywords)
        return _called(lambda: _name(function), function, ours or _later(function), args, keywords, reads=True)
    except Exception as error:
        shorten(error)
        raise


def _called(
    name: Callable[[], str], function: Callable, ours: Callable | None, args: tuple, keywords: dict, reads: bool = False
) -> Any:
    """Call `ours` in place of NumPy's `function`; call NumPy's if `ours` is None or refuses a parameter.

    name    returns the name of NumPy's function; called for messages only
    reads   if `ours` raises in a module that shows or compares values, let NumPy's function read the values
    """
    if ours is None or keywords.get("out") is not None:
        return _by_numpy(name(), function, args, keywords, ours)
    form = getattr(ours, "form", None) if keywords or len(args) > 1 else None
    told = (args, keywords) if form is None else form.read(args, keywords)
    if isinstance(told, Refusal):
        return _by_numpy(f"{name()} with {told.name}=", function, args, keywords, None)
    try:
        found = ours(*told[0], **told[1])
    except Error:
        if reads and is_shown():
            return _read_by_numpy(name(), function, args, keywords)
        raise
    return _by_numpy(name(), function, args, keywords, None) if found is NotImplemented else found


#: Modules of NumPy whose functions have their counterparts in a module of this package, by name.
_HOMES = {"numpy.fft": "fft", "numpy.linalg": "linalg"}


def _later(function: Any) -> Callable | None:
    """This library's function for one of NumPy's or SciPy's, once its module is imported and has registered it."""
    name = function.__name__
    if _is_scipys(function):
        ours = _like_scipys(_RENAMED.get(name, name))
        if ours is not None:
            UFUNCS[function] = ours
        return ours
    home = _HOMES.get(getattr(function, "__module__", ""), "special" if name == "i0" else "")
    getattr(imported(f"{__package__}.{home}" if home else __package__), name, None)
    return UFUNCS.get(function) if isinstance(function, np.ufunc) else FUNCTIONS.get(function)


#: Universal functions of scipy.special that have another name here.
_RENAMED = {"log_expit": "log_sigmoid", "psi": "digamma"}


def _is_scipys(function: Any) -> bool:
    """True for a universal function of scipy.special.  This does not import SciPy: the caller has imported it."""
    scipy = sys.modules.get("scipy.special")
    return isinstance(function, np.ufunc) and getattr(scipy, function.__name__, None) is function


def _like_scipys(name: str) -> Callable | None:
    """The function of `ad.special`, or of `ad` itself, that has this name."""
    special, ops = imported(f"{__package__}.special"), imported(__package__)
    home = special if name in special.__all__ else ops if name in {*ops.__all__, *ops.LATER} else None
    return None if home is None else getattr(home, name)


def _name(function: Any) -> str:
    """A function's name as users write it: np.linalg.svd, scipy.special.expit."""
    if isinstance(function, np.ufunc):
        return f"{'scipy.special' if _is_scipys(function) else 'np'}.{function.__name__}"
    return f"{function.__module__}.{function.__name__}".replace("numpy", "np", 1)


def _there_are(name: str) -> str:
    """The advice in a message: SciPy's functions that have a counterpart, or the way to replace one of NumPy's."""
    if not name.startswith("scipy.special"):
        return OF_FUNCTIONS.get(name.rpartition(".")[2], "")
    if "=" in name:
        return "or leave the keyword out: the function alone is recorded"
    there = ", ".join(imported(f"{__package__}.special").__all__)
    return f"ad.special has {there};\n  a function of your own whose forward has host=True can call SciPy's"


def _by_numpy(name: str, function: Callable, args: tuple, keywords: dict, ours: Callable | None) -> Any:
    """Let NumPy compute with the arrays of tensors.  Raises GradientError if a gradient would be lost."""
    outputs = keywords.get("out") or ()
    if any(isinstance(x, AbstractTensor) for x in (outputs if isinstance(outputs, tuple) else (outputs,))):
        raise DispatchError(located(f"{name}: a tensor is a value and cannot be written to (out=)"))
    tensors, structure = tree.flatten(_written_out((args, keywords)))
    what = "with out= writes an array" if ours is not None else "has no counterpart here"
    mend = f"ad.{ours.__name__}(...) without out= (a = a + t for a += t), or " if ours is not None else ""
    if is_tracking(*[x for x in tensors if isinstance(x, Tensor)]):
        raise GradientError(located(
            f"{name} {what}, so the gradient of a tensor that requires grad would be lost",
            f"use {mend}t.detach().numpy() for the value alone", _there_are(name),
        ))
    return _of_values(
        function, tensors, structure, f"{name} {what}, and what is traced has no value yet",
        f"use {mend}ad.* functions, or a function whose rules are declared with host=True: it may call NumPy",
        _there_are(name),
    )  # fmt: skip


def _read_by_numpy(name: str, function: Callable, args: tuple, keywords: dict) -> Any:
    """Let NumPy compare, show or write the values of tensors."""
    return _of_values(
        function, *tree.flatten(_written_out((args, keywords))),
        f"{name} reads values, and what is traced has no value yet",
        "call it outside of the traced function; ad.allclose and ad.equal compare what is traced",
    )  # fmt: skip


def _of_values(function: Callable, given: list, structure: tree.Structure, *refusal: str) -> Any:
    """NumPy's function of the tensors' values.  Raises ConcretizationError(refusal) if a tensor has no value."""
    try:
        arrays = [x.detach().numpy() if isinstance(x, Tensor) else x for x in given]
    except ConcretizationError:
        raise ConcretizationError(located(*refusal)) from None
    args, keywords = tree.unflatten(structure, arrays)
    return function(*args, **keywords)


def _written_out(x: Any) -> Any:
    """Arguments with structured values converted to tensors, since `tree.flatten` would take them apart."""
    if isinstance(x, AbstractTensor):
        return as_tensor(x)
    if type(x) in (tuple, list):
        return type(x)(map(_written_out, x))
    return {k: _written_out(v) for k, v in x.items()} if type(x) is dict else x


def _dlpack(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None) -> Any:
    """DLPack's protocol: `torch.from_dlpack(t)`, `np.from_dlpack(t)` get a copy of the value.

    The memory is copied because a tensor's value never changes, while other libraries may write to memory they are
    given even if it is marked read-only.  Raises BufferError if memory must be shared (copy=False), GradientError for
    a tensor that requires grad (outside of no_grad), as np.asarray does.
    """
    if copy is False:
        raise BufferError("a tensor's memory is not shared: its value never changes")
    if dl_device not in (None, (1, 0)):
        raise BufferError(f"a tensor is in the memory of the CPU, (1, 0), not on {dl_device}")
    return np.array(self).__dlpack__(stream=stream)


for _attribute, _value in {
    "__dlpack__": _dlpack,
    "__dlpack_device__": lambda self: (1, 0),  # the CPU
    "__array_priority__": 1000.0,
    "__pandas_priority__": 10_000,  # pandas leaves `series * t` to the tensor
    "__array_ufunc__": _array_ufunc,
    "__array_function__": _array_function,
}.items():
    setattr(AbstractTensor, _attribute, _value)
