"""`Function`: a generic function whose methods may have derivative rules of their own.

A `forward` method runs inside a boundary.  So does an ordinary method for whose types a `backward` is registered: the
rule replaces the derivative of the method's program.  For dispatch, an array counts as a constant tensor of its dtype
and rank, and is passed as one, unless a method names np.ndarray; an array argument of a traced function, which is a
tensor there, is treated in the same way (`stand_ins.standing`).  If no method accepts a number but one accepts a 0-d
tensor, the number is converted; if none accepts a structured value, `ad.dense` converts that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from codegen.ir import KNOWN_DTYPES
from codegen.lazily import later

from ..dispatch import GenericFunction
from ..dispatch.method import Method, is_own, types_of_call
from ..dispatch.signature import ANY, dispatched, type_name
from ..errors import check_not_masked
from ..frames import UserLine
from ..stand_ins import StandsForArray, declared
from ..tape.leaves import leaf, number_leaf, taken
from ..tape.lines import rule_function
from ..tape.misses import note
from ..tape.record import identity_of
from ..tape.watched import ALL_WATCHED, WatchedArray, plain
from ..tensor import AbstractTensor, Tensor, handle

if TYPE_CHECKING:
    from . import call as calls
    from . import forward as forwards
else:  # imported on first use: only programs with custom rules need them
    calls = later("autodiff.custom.call")
    forwards = later("autodiff.custom.forward")

_NUMBERS = {t: np.dtype(t) for t in (bool, int, float, complex)}

#: Conversions from a structured value to a tensor, for a call that fits no method.  Filled by `ops.conversion`.
CONVERSIONS: list[Callable[[AbstractTensor], Tensor]] = []

#: The package of operations, whose bodies convert structured arguments by `ad.dense`.
_OPERATIONS = "autodiff.ops."


class Function(GenericFunction):
    """A generic function of this library: see `ad.function`."""

    is_generic_function = True
    primitive: Any = None
    takes_watched = False
    __call__ = GenericFunction.__call__  # an attribute of this class, which machine code replaces (`ops.recorder`)

    # ------------------------------------------------------------ the function that a call runs

    def built_in_rule(self) -> Callable | None:
        return None if self.primitive is None else rule_function(self.primitive)

    def implementation(self, method: Method, classes: tuple[type, ...]) -> Callable:
        """The function to call for a method and types; it refuses a structured value that holds many (see `vmap`)."""
        run = self._boundary(method, classes)
        places = [k for k, cls in enumerate(classes) if hasattr(cls, "check_one")]
        if not places:
            return run

        def of_one(*args: Any, **keywords: Any) -> Any:
            for k in places:
                args[k].check_one()
            return run(*args, **keywords)

        return of_one

    def _boundary(self, method: Method, classes: tuple[type, ...]) -> Callable:
        """The method itself, or a boundary around it if a rule replaces its derivative."""
        run = method.implementation
        if not (self.takes_watched and run is self.__wrapped__) and not ALL_WATCHED.isdisjoint(classes):
            return self._call_seen
        is_forward = method.kind == "forward"
        if not (is_forward or self.rules or method.rules):
            return run
        backward = self.rule_for("backward", method, classes)
        if not is_forward and backward is None and self.rule_for("jvp", method, classes) is None:
            return run
        return forwards.calling(calls.Site(self, method, classes, backward))

    def _call_seen(self, *args: Any, **keywords: Any) -> Any:
        """Call the function with plain numbers in place of watched ones, for a method that does not know these."""
        return self(*map(plain, args), **{name: plain(x) for name, x in keywords.items()})

    # ------------------------------------------------------------ arguments

    adopted = (np.ndarray, WatchedArray, StandsForArray)

    def adopt(self, argument: Any) -> Any:
        """An array of a known dtype as a constant tensor (a copy: a tensor's value never changes)."""
        if isinstance(argument, Tensor):
            return handle(argument.node, argument.masked)
        if type(argument) is not np.ndarray:
            check_not_masked(argument)
        dtype = argument.dtype
        return taken(argument, dtype) if dtype in KNOWN_DTYPES else argument

    def give_back(self, given: Sequence[Any], adopted: Sequence[Any]) -> None:
        """Pass each in-place update by a method on to the caller's handle, which is another one."""
        for old, new in zip(given, adopted, strict=True):
            if isinstance(old, StandsForArray) and isinstance(old, Tensor) and new.node is not old.node:
                old.node, old.masked = new.node, new.masked

    def convert(self, arguments: tuple, classes: tuple[type, ...]) -> Sequence | None:
        """Numbers as 0-d tensors; else structured values, and values of a user's types, as dense tensors."""
        if any(c in _NUMBERS or issubclass(c, np.generic) for c in map(dispatched, map(type, arguments))):
            return [_as_scalar(a) for a in arguments]
        if any(_is_structured(type(a)) for a in arguments):
            return [_as_dense(a) for a in arguments]
        return None

    def tell_converted(self, given: tuple, args: tuple) -> None:
        """Let `ad.explain` report the arguments that were converted to dense tensors."""
        for old, new in zip(given, args, strict=True):
            if old is not new and _is_structured(type(old)):
                told_dense(self.__name__, old)

    def by(self, cls: type) -> str:
        """` by ad.dense` for a structured type."""
        return " by ad.dense" if _is_structured(cls) else ""

    def converts_inside(self, method: Method, cls: type) -> str:
        """The words for the conversion of a structured argument inside the body of a library operation; else ""."""
        is_body = all(choice is ANY for choice in method.signature.choices)
        module = method.implementation.__module__ or ""
        is_ours = (module == "autodiff" or module.startswith(_OPERATIONS)) and self.__name__ != "dense"
        return "Tensor by ad.dense" if is_body and is_ours and _is_structured(cls) else ""

    def _changed(self, method: Method) -> None:
        if not is_own(method.implementation) and any(choice.names(np.ndarray) for choice in method.signature.choices):
            self._look_for_arrays()
        super()._changed(method)

    def choose_again(self) -> None:
        """Choose methods anew after a class was registered with an abstract base class, which np.ndarray may match."""
        if self.is_abstract:
            self._look_for_arrays()
        super().choose_again()

    def _look_for_arrays(self) -> None:
        self.names_arrays = any(choice.names(np.ndarray) for m in self.table for choice in m.signature.choices)
        declared.has_array_methods |= self.names_arrays

    # ------------------------------------------------------------ rules

    def explain_missing_rule(self, method: Method, classes: Sequence[type], line: UserLine | None) -> str:
        """The message for a call that needs a gradient and has no rule."""
        types = ", ".join(type_name(c) for c in classes)
        rules = [f"    {rule!r}" for rule in self.rules["backward"]]
        known = "\n  the rules there are:\n" + "\n".join(rules) if rules else ""
        return (
            f"{self.__name__}({types}) has no backward\n"
            f"  its forward is at {method.place}, called at {line or 'an unknown place'}{known}\n"
            f"  register one: @{self.__name__}.backward{types_of_call(self, classes)}"
        )


def _as_scalar(a: Any) -> Any:
    a = plain(a)
    if isinstance(a, Tensor) and dispatched(type(a)) is not type(a):
        return handle(identity_of(a.node, requires_grad=a.node.kind.out.requires_grad))
    if type(a) in _NUMBERS:
        return number_leaf(a, _NUMBERS[type(a)])
    return leaf(np.asarray(a)) if isinstance(a, np.generic) and a.dtype in KNOWN_DTYPES else a


def _as_dense(a: Any) -> Any:
    if _is_structured(type(a)):
        for convert in CONVERSIONS:
            return convert(a)
    return a


def told_dense(function: str, x: AbstractTensor) -> None:
    """Let `ad.explain` report that a function got x as a dense tensor, made by `ad.dense`."""
    note("dense", f"{function} has no method for {type(x).__name__}: ad.dense writes it out")


def _is_structured(cls: type) -> bool:
    return issubclass(cls, AbstractTensor) and not issubclass(cls, Tensor)


def function(declaration: Callable) -> Function:
    """Declare a generic function.

    Every method has the parameters of the declaration.  A body (more than a docstring, `...` or `pass`)
    is the least specific method.

    `f.method(*types)` adds a program in other operations; it needs no rule.  `f.forward(*types)` and
    `f.backward(*types)` add a pair that replaces differentiation: forward gets a `ctx`; backward gets the
    `ctx` and the cotangents of the outputs, and returns those of the inputs.

    >>> import autodiff as ad
    >>> @ad.function
    ... def cube(x): ...
    >>> @cube.forward(ad.Tensor)
    ... def _(ctx, x):
    ...     ctx.save_for_backward(x=x)
    ...     return x * x * x
    >>> @cube.backward(ad.Tensor)
    ... def _(ctx, g):
    ...     return {"x": 3 * g * ctx.saved_variables.x ** 2}
    >>> x = ad.tensor(2.0, requires_grad=True)
    >>> cube(x).backward()
    >>> x.grad
    f64[] 12.0
    """
    return Function(declaration)
