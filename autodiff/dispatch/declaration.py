"""Declarations: the parameters of a generic function, and how calls bind to them.

A parameter that may be given by position dispatches, even if a call gives it by name; an omitted argument counts with
its default.  Keyword-only parameters never dispatch and are passed on by name.  For messages of errors that are raised
further down, `called` finds the call in the user's program.
"""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable, Iterable
from opcode import hasconst, opmap
from types import CodeType
from typing import Any, NoReturn

from ..errors import DispatchError, caller, located
from ..frames import is_ours, our_frames, written_at

_Kind = inspect._ParameterKind
#: Parameter names of PyTorch, and the names for them here.
_AXES = {"dim": "axis", "dims": "axis", "keepdim": "keepdims"}
_BY_POSITION = (_Kind.POSITIONAL_ONLY, _Kind.POSITIONAL_OR_KEYWORD)

#: The most cached ways to call one function; only `**options` can cause more.
_PLAN_LIMIT = 1024


class Declaration:
    """The parameters of a generic function.

    source     a function or signature that has the parameters
    fixed      names before `*`, in order: these dispatch
    variadic   the name of `*xs`, or None
    keywords   keyword-only names and their defaults (`Parameter.empty`: none)
    defaults   those of the last parameters in `fixed`
    """

    def __init__(self, name: str, source: Callable | inspect.Signature, place: str) -> None:
        self.name = name
        self.place = place
        #: The signature that Python's tools show.
        self.signature = source if isinstance(source, inspect.Signature) else inspect.signature(source)
        found = list(self.signature.parameters.values())
        positional = [p for p in found if p.kind in _BY_POSITION]
        #: The parameters that dispatch.
        self.parameters = positional + [p for p in found if p.kind is _Kind.VAR_POSITIONAL]
        self.fixed = tuple([p.name for p in positional])
        self.variadic = next((p.name for p in found if p.kind is _Kind.VAR_POSITIONAL), None)
        self.keywords = {p.name: p.default for p in found if p.kind is _Kind.KEYWORD_ONLY}
        self.open = any([p.kind is _Kind.VAR_KEYWORD for p in found])
        self.defaults = tuple([p.default for p in positional if p.default is not p.empty])
        self.keyword_defaults = {k: v for k, v in self.keywords.items() if v is not inspect.Parameter.empty}
        self._plans: dict[tuple, tuple | None] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters that dispatch; that of `*xs` is last."""
        return self.fixed if self.variadic is None else (*self.fixed, self.variadic)

    def names_of(self, count: int) -> list[str]:
        """The names for `count` arguments, or choices of a signature; the star of `*xs` included."""
        return [*self.fixed, *[f"*{self.variadic}"] * (count - len(self.fixed))]

    def bind(self, args: tuple, keywords: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """All arguments that dispatch, in order; and the keyword-only ones that were given.

        Raises DispatchError (a TypeError) for a call that Python would refuse: a missing argument, an
        unknown keyword, a name given twice.
        """
        return self.bound(args, keywords) or self.refuse(args, keywords)

    def bound(self, args: tuple, keywords: dict[str, Any]) -> tuple[tuple, dict[str, Any]] | None:
        """The result of `bind`; None for a call that Python would refuse."""
        key = (len(args), *keywords)
        try:
            plan = self._plans[key]
        except KeyError:
            if len(self._plans) >= _PLAN_LIMIT:
                self._plans.clear()
            plan = self._plans[key] = self._plan(args, keywords)
        if plan is None:
            return None
        sources, passed = plan
        found = args + tuple([keywords[name] if given else default for given, name, default in sources])
        return found, {name: keywords[name] for name in passed}

    def _plan(self, args: tuple, keywords: dict[str, Any]) -> tuple | None:
        """The source of each argument that is not given by position: (is given by name, name, default)."""
        try:
            self.signature.bind(*args, **keywords)
        except TypeError:
            return None
        rest = self.parameters[len(args) : len(self.fixed)]
        named = {p.name for p in rest if p.kind is _Kind.POSITIONAL_OR_KEYWORD and p.name in keywords}
        sources = tuple((p.name in named, p.name, p.default) for p in rest)
        return sources, tuple(name for name in keywords if name not in named)

    def refuse(self, args: tuple, keywords: dict[str, Any], others: Iterable[str] = ()) -> NoReturn:
        """Raise the error for a call that does not bind.   others: further names that the function takes"""
        known = dict.fromkeys([*self.fixed, *self.keywords, *others])
        unknown = [name for name in keywords if name not in known and not self.open]
        meant = difflib.get_close_matches(_AXES.get(unknown[0], unknown[0]), known, 1) if unknown else []
        says: Any = "takes no such arguments"
        try:
            self.signature.bind(*args, **keywords)
        except TypeError as error:
            says = error
        raise DispatchError(located(
            f"{self.name}: {says}\n  declared {self.name}{bare(self.signature)} at {self.place}",
            f"did you mean {meant[0]}=?" if meant else brackets(),
        ))

    def check(self, implementation: Callable, kind: str) -> list[inspect.Parameter]:
        """The parameters of a method that dispatch (without `ctx`), after a check against the declaration.

        Raises DispatchError if names or order differ: arguments are passed by position, so a method with two names
        swapped would silently compute something else.
        """
        try:
            signature = inspect.signature(implementation)
        except ValueError:  # some built-in functions have no signature
            return self.parameters
        parameters, lacks_ctx, order = list(signature.parameters.values()), False, "names and order"
        if kind == "forward":
            lacks_ctx = not (parameters and parameters[0].kind in _BY_POSITION)
            parameters, order = parameters[1:], "after a leading ctx, names and order"
        own = Declaration(self.name, signature.replace(parameters=parameters), "")
        if lacks_ctx or (own.names, set(own.keywords), own.open) != (self.names, set(self.keywords), self.open):
            raise DispatchError(
                f"{self.name}: the parameters of this {kind} are not those of the declaration\n"
                f"  declared {self.name}{bare(self.signature)} at {self.place}\n"
                f"  this {kind} {bare(signature)} at {place_of(implementation)}\n"
                f"  {order} must be the same, before and after '*'"
            )
        return own.parameters


class Shown:
    """The attribute `__signature__` of generic functions, made on each read."""

    def __get__(self, instance: Any, _: type) -> inspect.Signature:
        if instance is None:  # for the class itself Python shows the signature of its constructor
            raise AttributeError("__signature__")
        return instance.declaration.signature if instance.form is None else instance.form.signature


def bare(signature: inspect.Signature) -> str:
    """A signature without annotations: `(x, w, bias=None)`."""
    empty = inspect.Parameter.empty
    parameters = [p.replace(annotation=empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=parameters, return_annotation=empty))


def place_of(implementation: Callable) -> str:
    """The place where a function is written, `linear.py:12`; the user's current line if that is not known."""
    return written_at(inspect.unwrap(implementation)) or caller()


def has_body(function: Callable) -> bool:
    """True if the body of a declaration does something: more than a docstring, `...`, `pass` or `return None`."""
    code = getattr(function, "__code__", None)
    return code is None or not _steps(code) <= _IDLE


def _steps(code: CodeType) -> set[tuple[int, Any]]:
    """The instructions of a code object with their arguments or constants, whatever its number of cells."""
    pairs = zip(code.co_code[::2], code.co_code[1::2], strict=True)
    return {(op, code.co_consts[k] if op in hasconst else 0 if op == _CELLS else k) for op, k in pairs}


_CELLS = opmap["COPY_FREE_VARS"]


def _idle(cell: Any = None) -> Callable:
    """A function with a cell whose body uses all ways to do nothing."""

    def idle() -> None:
        """Nothing."""
        nonlocal cell
        ...
        return None

    return idle


#: The instructions of an empty body in the running version of Python; each version has its own.
_IDLE = _steps(_idle().__code__)


# ---------------------------------------------------------------- the call of the user's program, for messages

#: The modules that export the public functions of this library.
_HOMES = ("autodiff", "autodiff.linalg", "autodiff.special", "autodiff.fft", "autodiff.random")
_ARRAYS = "arrays stand in a list"
#: Parameters that take a tuple or a list, and the advice for each.
_LISTS = {
    **dict.fromkeys(("shape", "s"), "a shape of several numbers is a tuple"),
    **dict.fromkeys(("axes", "axis"), "several axes are a tuple"),
    **dict.fromkeys(("arrays", "tensors"), _ARRAYS),
    "repetitions": "several repetitions are a tuple",
    "data": "several numbers are one array in a list or tuple",
}


def called() -> tuple[Any, tuple, dict[str, Any]] | None:
    """The outermost running function of this library, with its arguments by position and by name.

    None during a call that `brackets` tries, so that this call does not try another.
    """
    found = None
    for frame in our_frames(sys._getframe(2)):
        home, code, local = frame.f_globals.get("__name__", ""), frame.f_code, frame.f_locals
        if code is brackets.__code__:
            return None
        match home, code.co_name:
            case "autodiff.dispatch.generic", "__call__":
                given = [local[name] for name in "abc" if local[name] is not frame.f_globals["OMITTED"]]
                found = local["self"], (*given, *local["rest"]), local["keywords"]
            case ("autodiff.ops.creation", "full") | ("autodiff.api", "tensor"):
                function = vars(sys.modules[home])[code.co_name]
                given = [local[name] for name in code.co_varnames[: code.co_argcount]]
                defaults = [*function.__defaults__]
                while defaults and given[-1] is defaults.pop():
                    given.pop()
                found = function, tuple(given), {}
    return found


def is_below(*modules: str) -> bool:
    """True if one of these modules of this library is running, called by the user's program."""
    return any(frame.f_globals.get("__name__") in modules for frame in our_frames(sys._getframe(1)))


def brackets() -> str:
    """The advice for a call that gives the elements of a list one by one; "" for any other call.

    The call is tried with brackets around the numbers; the advice is given only if that call succeeds.
    """
    function, given, keywords = called() or (None, (), {})
    if function is None or not is_ours(function.__module__):
        return ""
    declared = getattr(function, "declaration", None)
    if declared is not None:
        names, defaults = declared.fixed, declared.defaults
    else:
        names, defaults = function.__code__.co_varnames[: function.__code__.co_argcount], function.__defaults__ or ()
    place = next((i for i, name in enumerate(names) if name in _LISTS), len(names))
    needed = max(len(names) - len(defaults) - place - 1, 0)  # the parameters after the list that have no default
    is_element = _is_array if place < len(names) and _LISTS[names[place]] == _ARRAYS else _is_number
    end = place
    while end < len(given) - needed and is_element(given[end]):
        end += 1
    if end < place + 2:
        return ""
    row, rest = given[place:end], given[end:]
    inner = f"[{', '.join('abcdefghij'[: len(row)])}]"
    if is_element is _is_number:
        inner = str(row)
        try:
            function(*given[:place], row, *rest, **keywords)
        except Exception:
            return ""
    told = [*names[:place], inner, *map(repr, rest), *[f"{name}={x!r:.20}" for name, x in keywords.items()]]
    return f"{_LISTS[names[place]]}: {public_name(function)}({', '.join(told)})"


def _is_number(x: Any) -> bool:
    return hasattr(x, "__index__") and not isinstance(x, bool) and not hasattr(x, "shape")


def _is_array(x: Any) -> bool:
    return hasattr(x, "shape") or isinstance(x, list)


def public_name(function: Any) -> str:
    """`ad.linalg.det` for a function of the library; else the function's own name."""
    for home in _HOMES:
        named = getattr(sys.modules.get(home), function.__name__, None)
        if named is not None and inspect.unwrap(named) is inspect.unwrap(function):
            return f"ad{home.removeprefix('autodiff')}.{function.__name__}"
    return function.__name__
