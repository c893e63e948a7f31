"""NumPy's call forms: its parameter names beside ours, and its further parameters, which methods need not have.

A call that binds to a function's declaration never comes here.  Any other is read as NumPy reads it, and then repeated:

    ad.sum(a=t, axis=0, out=None, initial=1.0)
        a         NumPy's name of the parameter at the place of x     x=t
        initial   a further parameter, which the body of `@further(sum_)` implements by the declared call
        out       None makes no difference to a tensor, and is left out; an array is refused with a reason

Names and places are those of the installed NumPy; so `np.sum(t, ...)` and `t.sum(...)` take the same arguments.  Users'
methods have the declared parameters only; bodies with further parameters make calls that dispatch to them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from codegen.lazily import imported
from codegen.records import NamedTuple

from ..custom.function import Function
from ..dispatch.declaration import brackets
from ..errors import DispatchError, DTypeError, located
from ..tensor import AbstractTensor
from .conversion import as_tensor, astype, dtype_of
from .declare import elements_of

_NOT_GIVEN = np._NoValue
_ANY: Any = object()
_NEVER: Any = ((), "it has no counterpart here")

#: NumPy's parameters that a function here may lack: the values that make no difference to a tensor, which are accepted,
#: and the reason why any other value is refused.
WITHOUT_EFFECT: dict[str, tuple[Any, str]] = {
    "assume_unique": (_ANY, "it only says what makes NumPy faster"),
    "axis": ((), "its operands have several axes: axes= names those of each"),
    "casting": (("no", "equiv", "safe", "same_kind", "unsafe"), "casting is one of NumPy's five rules"),
    "copy": ((None, True, False), "copy is True, False or None, and makes no difference to a value"),
    "device": ((None, "cpu"), "tensors are in the memory of the CPU"),
    "keepdims": ((False,), "its results have axes of their own"),
    "kind": ((None, "quicksort", "mergesort", "heapsort", "stable", "sort", "table"), "there is no such algorithm"),
    "like": ((None,), "it makes arrays of another library: call that library's function"),
    "optimize": (_ANY, "the order of products is chosen in any case"),
    "order": ((None, "C", "F", "A", "K"), "a tensor has no layout, and no fields to sort by"),
    "out": ((None, (None,), (None, None)), "a tensor is a value and cannot be written to: use the result"),
    "overwrite_input": (_ANY, "a tensor is a value, and is not overwritten"),
    "signature": ((None,), "dtype= says which dtype to compute in"),
    "subok": ((True, False), "there are no subclasses of tensors"),
    "where": ((True,), "without out= what it leaves out has no value: write ad.where(mask, result, other)"),
}

#: Functions whose `order` in NumPy names fields to sort by, not a layout.
_SORTING = ("argsort", "sort")
_OTHERWISE_CALLED = {"a_min": "min", "a_max": "max"}


class Refusal(NamedTuple):
    """A parameter of NumPy's that a call gives and the function does not take, with the reason."""

    name: str
    why: str


class _ParameterMap(NamedTuple):
    """The parameters of NumPy's function beside those of ours.

    names     our name of each parameter, by all names that are accepted for it
    places    NumPy's names of parameters that may be given by position, in order
    alike     the number of first parameters that are the same in both
    rest      all NumPy's names, with their defaults
    is_open   True if NumPy's function takes any keyword, or its parameters are unknown
    """

    names: dict[str, str]
    places: tuple[str, ...]
    alike: int
    rest: dict[str, Any]
    is_open: bool


class NumpyForm:
    """NumPy's way to call a function of this library.

    theirs       NumPy's function; None: there is none
    further      the body with further parameters (`@further`); None: there is none, or it is not imported yet
    takes_dtype  True if the function takes `dtype` and `casting`: the dtype to compute in
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.theirs: Callable | None = None
        self.further: Callable | None = None
        self.takes_dtype = False

    @cached_property
    def body(self) -> Callable | None:
        """The body with further parameters, or None; this imports the module of these bodies."""
        imported(f"{__package__}.numpy_parameters")
        return self.further

    @property
    def names(self) -> dict[str, str]:
        """Our name of each parameter, by all names that are accepted for it."""
        return self._parameter_map.names

    @property
    def signature(self) -> inspect.Signature:
        """The parameters that users see: the declared ones and the further ones."""
        if self.body is not None:
            return inspect.signature(self.body)
        declared = self.function.declaration.signature
        if not self.takes_dtype:
            return declared
        kind = inspect.Parameter.KEYWORD_ONLY
        more = [inspect.Parameter(name, kind, default=default) for name, default in _OF_DTYPE.items()]
        return declared.replace(parameters=[*declared.parameters.values(), *more])

    def __call__(self, args: tuple, keywords: dict[str, Any]) -> Any:
        """Make a call that does not bind to the declaration.  Raises DispatchError for arguments that nothing takes."""
        found = self.read(args, keywords)
        if isinstance(found, Refusal):
            raise _refused(self.function.__name__, found)
        args, keywords = found
        if self.function.binds(args, keywords):
            return self.function(*args, **keywords)
        if self.body is not None:
            return self.body(*args, **keywords)
        if not self.takes_dtype:
            self._refuse(args, keywords)
        dtype, casting = keywords.pop("dtype", None), keywords.pop("casting", "same_kind")
        args, keywords = self.function.declaration.bind(args, keywords)
        return in_dtype(dtype, casting, self.function, args, keywords)

    def declared(self, args: tuple, keywords: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """The arguments of a call that are declared: those that dispatch, and those that methods take by name."""
        found = self.read(args, keywords)
        if isinstance(found, Refusal):
            return args, keywords
        known = {*self.function.declaration.fixed, *self.function.declaration.keywords}
        return found[0], {name: x for name, x in found[1].items() if name in known}

    def read(self, args: tuple, keywords: dict[str, Any]) -> tuple[tuple, dict[str, Any]] | Refusal:
        """The arguments of a call by our names.  Raises DispatchError for an unknown name, or one given twice."""
        parameters = self._parameter_map
        names, places, alike, rest, is_open = parameters
        items = [*zip(places[alike:], args[alike:], strict=False), *keywords.items()]
        if len(args) > max(alike, len(places)):
            self._refuse(args, keywords)
        renamed: dict[str, Any] = {}
        for name, value in items:
            ours = names.get(name)
            if ours is None and not (name in rest or (is_open and name in WITHOUT_EFFECT)):
                self._refuse(args, keywords)
            if value is _NOT_GIVEN:
                continue
            if ours is None:
                if not self._is_without_effect(name, value, rest):
                    return Refusal(name, WITHOUT_EFFECT.get(name, _NEVER)[1])
                continue
            if ours in renamed or ours in self.function.declaration.fixed[: min(alike, len(args))]:
                raise DispatchError(located(f"{self.function.__name__}: got multiple values for {ours}", brackets()))
            renamed[ours] = value
        return args[:alike], renamed

    def _refuse(self, args: tuple, keywords: dict[str, Any]) -> None:
        names = self.names
        ours = {names.get(name, name): value for name, value in keywords.items()}
        self.function.declaration.refuse(args, ours, [*names, *self._parameter_map.rest])

    def _is_without_effect(self, name: str, value: Any, rest: dict[str, Any]) -> bool:
        """True if this value of a parameter makes no difference to a tensor, as NumPy's default."""
        if name == "order" and self.function.__name__ in _SORTING:
            return value is None
        return _makes_no_difference(name, value) or _is_like(value, rest.get(name, _ANY))

    @cached_property
    def _parameter_map(self) -> _ParameterMap:
        """The parameters of NumPy's function beside those of ours, found once."""
        declaration = self.function.declaration
        fixed = declaration.fixed
        body = inspect.signature(self.body).parameters if self.body is not None else {}
        more = _OF_DTYPE if self.takes_dtype else ()
        names = {name: name for name in (*fixed, *declaration.keywords, *body, *more)}
        try:
            theirs = list(inspect.signature(self.theirs).parameters.values()) if self.theirs is not None else []
        except ValueError:  # some functions of older NumPy versions have no signature
            theirs = []
        rest = {p.name: p.default for p in theirs}
        if any([p.kind is p.VAR_POSITIONAL for p in (*theirs, *body.values())]) or declaration.variadic is not None:
            return _ParameterMap(names, (), _UNLIMITED, rest, is_open=True)
        places = [p.name for p in theirs if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        places += [p.name for p in body.values() if p.kind is p.POSITIONAL_OR_KEYWORD][len(places) :]
        for name, ours in zip(places, fixed, strict=False):
            if name not in names and ours not in rest:
                names[name] = ours
        names |= {name: ours for name, ours in _OTHERWISE_CALLED.items() if name in rest and ours in names}
        same = [names.get(name) == ours for name, ours in zip(places, fixed, strict=False)]
        alike = (same.index(False) if False in same else len(fixed)) if places else len(fixed)
        is_open = not theirs or any([p.kind is p.VAR_KEYWORD for p in theirs])
        return _ParameterMap(names, tuple(places), alike, rest, is_open)


#: More arguments than any call has.
_UNLIMITED = 1 << 30

_OF_DTYPE = {"dtype": None, "casting": "same_kind"}
_DTYPE_TOLD = """
    dtype, casting   the dtype to compute in, and NumPy's rule for what may be converted to it
    """


def _makes_no_difference(name: str, value: Any) -> bool:
    may_be, _ = WITHOUT_EFFECT.get(name, _NEVER)
    return may_be is _ANY or any([_is_like(value, one) for one in may_be])


def check_without_effect(function: str, **given: Any) -> None:
    """Raise DispatchError for a parameter of NumPy's, accepted for its name only, whose value makes a difference."""
    for name, value in given.items():
        if not _makes_no_difference(name, value):
            raise _refused(function, Refusal(name, WITHOUT_EFFECT[name][1]))


def _refused(function: str, refusal: Refusal) -> DispatchError:
    return DispatchError(located(f"{function}: this {refusal.name}= is not taken", brackets() or refusal.why))


def _is_like(value: Any, one: Any) -> bool:
    return value is one or (type(value) is type(one) and type(value) in _BY_VALUE and value == one)


_BY_VALUE = frozenset((bool, int, float, str, tuple))


def form_of(function: Function) -> NumpyForm:
    """The form of a function, made and stored on the first call."""
    if function.form is None:
        function.form = NumpyForm(function)
    return function.form


def takes_as(function: Function, theirs: Callable) -> None:
    """Let a function accept the parameter names of a NumPy function, and of a ufunc `dtype` and `casting` too."""
    form = form_of(function)
    form.theirs = form.theirs or theirs
    if isinstance(theirs, np.ufunc) and not form.takes_dtype:
        form.takes_dtype = True
        function.__doc__ = f"{(function.__doc__ or '').rstrip()}\n{_DTYPE_TOLD}"


def further(function: Function) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare further parameters of a function, which its methods lack, by a body that makes declared calls.

        @further(sum_)
        def _(x, axis=None, *, dtype=None, keepdims=False, initial=None, where=None):
            ...

    The body has all parameters, the declared ones under their names; users see its signature.
    """

    def declare(body: Callable[..., Any]) -> Callable[..., Any]:
        body.__name__ = body.__qualname__ = function.__name__
        form_of(function).further = body
        return body

    return declare


def in_dtype(
    dtype: Any, casting: str, function: Callable, xs: Sequence[Any], keywords: dict[str, Any], name: str = ""
) -> Any:
    """A function's result for operands that are converted to `dtype` first; None: not converted.

    Raises DTypeError if the rule `casting` forbids the conversion of an operand, or a result has another dtype.
    """
    if dtype is None:
        return function(*xs, **keywords)
    name = name or function.__name__
    wanted = dtype_of(dtype, name)
    check_without_effect(name, casting=casting)
    given = [x if isinstance(x, AbstractTensor) else as_tensor(x, name) for x in xs]
    is_cast = all([np.can_cast(x.dtype, wanted, casting) for x in given])  # type: ignore[arg-type]  # NumPy checks it
    found = function(*[astype(x, wanted) for x in given] if is_cast else xs, **keywords)
    results = found if isinstance(found, tuple) else (found,)
    if any([y.dtype != wanted for y in results]):
        dtypes = ", ".join([str(x.dtype) for x in given])
        why = f"its results are {', '.join([str(y.dtype) for y in results])}" if is_cast else (
            f"the rule {casting!r} does not convert {dtypes}"
        )
        raise DTypeError(located(f"{name}: does not compute in {wanted}: {why}"))
    return found


def cast_by(casting: str, name: str, xs: Any, dtype: Any) -> list[Any]:
    """Arrays in a dtype (None: as they are).  Raises DTypeError if the rule `casting` forbids a conversion."""
    xs = elements_of(xs, name, "arrays")
    if dtype is None:
        return xs
    wanted = dtype_of(dtype, name)
    check_without_effect(name, casting=casting)
    given = [x if isinstance(x, AbstractTensor) else as_tensor(x, name) for x in xs]
    for x in given:
        if not np.can_cast(x.dtype, wanted, casting):  # type: ignore[arg-type]  # a string, which NumPy checks
            raise DTypeError(located(f"{name}: the rule {casting!r} does not convert {x.dtype} to {wanted}"))
    return [astype(x, wanted) for x in given]
