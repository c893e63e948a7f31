"""`ad.jit`: a function is traced once per call signature; after that, native code is called.

    call signature  ->  SignatureEntry: an executable, how results are rebuilt, hidden inputs

A trace runs the function on arguments that have no values.  Numbers that the function closes over are frozen; arrays
and tensors that it reads become hidden inputs, whose present contents each call uses.  A call from plain code runs in
machine code, which checks the arguments (`entering`) and calls this module for an unknown signature.  A call of a size
that is expected not to come again runs without a trace (`entry`).  A call with tensors that track, or inside another
trace, records the traced nodes once more on the tape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any
from weakref import ref

from codegen.lazily import later

from . import sending
from .errors import check_callable
from .mode import MODE, Mode
from .tape.node import Kind, Node
from .tensor import Tensor
from .tracebacks import shorten
from .traces import Traces

if TYPE_CHECKING:
    from codegen.runtime import entered

    from . import argument_leaves
else:  # imported when the first function is called
    entered = later("codegen.runtime.entered")
    argument_leaves = later("autodiff.argument_leaves")


def jit(
    f: Callable | None = None, static_argnums: int | Sequence[int] = (), static_argnames: str | Sequence[str] = ()
) -> Callable:
    """A function that is traced once per call signature and then runs as native code.

    After three sizes that were called once each, a further size is traced only at its second call.

    static_argnums, static_argnames   arguments that stay Python values in f, whether passed by position or by name;
                                      f is traced for each of their values

    Arguments and results are any nesting of arrays, numbers, tensors and structured types.  If an argument holds a
    tensor, the results are tensors, else NumPy arrays.  Numbers and objects that f reads from outside are frozen.
    Raises ConcretizationError where f needs the value of an argument; DispatchError for an object that cannot be part
    of a signature, for an f that is no function, and for static_argnames that are no parameters.

    >>> import autodiff as ad, numpy as np
    >>> @ad.jit
    ... def f(x, y):
    ...     return (x * y).sum()
    >>> f(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    np.float64(11.0)
    """
    if f is None:
        return lambda g: jit(g, static_argnums=static_argnums, static_argnames=static_argnames)
    check_callable(f, "jit")
    return Compiled(f, Traces(f, argument_leaves.Statics.of(f, static_argnums, static_argnames), _enters))


class Compiled:
    """A function that `jit` made.  Machine code runs the calls that it knows (`entering`).

    traced   the entries of the function, by signature
    site     the entries that machine code runs; the attribute is absent while there are none
    """

    __slots__ = ("__dict__", "__weakref__", "site", "traced")

    __name__: str
    __qualname__: str
    site: Any

    def __init__(self, f: Callable, traced: Traces) -> None:
        self.__name__ = self.__qualname__ = "call"  # for a callable without a name
        self.traced = traced
        traced.function = ref(self)
        update_wrapper(self, f)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return _called(self, args, kwargs)
        except Exception as error:  # this frame is one more to leave out
            shorten(error)
            raise

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    __copy__ = __deepcopy__ = sending.copy_is_self

    def __reduce__(self) -> Any:
        if sending.goes_by_name(self):
            return self.__qualname__
        f = self.traced.f
        if isinstance(f, FunctionType) and not sending.is_found(f):
            sending.refuse(self)
        return _arriving, (sending.keys.key_of(self),), (f, self.traced.statics)

    def __setstate__(self, state: tuple) -> None:
        f, statics = state
        if hasattr(self, "traced") and (not sending.keys.has_arrived(self) or sending.same(self.traced.f, f)):
            return
        Compiled.__init__(self, f, Traces(f, statics, _enters))

    def __repr__(self) -> str:
        return f"<jit of {self.traced.f!r}>"


def _arriving(key: str) -> Compiled:
    """The function that was pickled with this key; an empty one at its first arrival, filled by `__setstate__`."""
    found: Compiled | None = sending.keys.find(key)
    return sending.keys.keep(key, Compiled.__new__(Compiled)) if found is None else found


def _called(function: Compiled, args: tuple, kwargs: dict[str, Any] | None) -> Any:
    """Run a call that machine code does not know."""
    try:
        return function.traced.call(args, kwargs or {})
    except Exception as error:
        shorten(error)
        raise


def _enters() -> bool:
    """Have machine code run the known calls of jit functions; True if it does."""
    if not isinstance(vars(Compiled)["__call__"], FunctionType):
        return True  # installed before
    handles = ((Tensor, "node"), (Node, "value"), (Node, "kind"), (Kind, "out"))
    return entered.install(Compiled, "site", (MODE, Mode, "careful"), _called, handles)
