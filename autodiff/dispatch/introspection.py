"""Questions about a generic function: its methods, the method that a call runs, the methods that are missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..errors import DispatchError, in_short, located
from .generic import GenericFunction
from .method import Method, complete, not_found
from .registry import all_functions
from .signature import Ambiguity, MethodTable, type_name


class _OnLines(list):
    """A list that prints one element to a line."""

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or "(none)"


class Match(NamedTuple):
    """The method that a call runs.

    method     the method (or, from `which_backward`, the rule)
    types      the types of its arguments, after conversion
    converted  a sentence for each argument that is converted before the call or by the method
    """

    method: Method
    types: tuple[type, ...]
    converted: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "\n".join([str(self.method), *(f"  converted: {c}" for c in self.converted)])


class Gap(NamedTuple):
    """A forward whose derivative may not be the intended one: its backward is missing, or is for larger types."""

    forward: Method
    backward: Method | None

    def __repr__(self) -> str:
        if self.backward is None:
            return f"{self.forward}\n  has no backward"
        return f"{self.forward}\n  takes the less specific {self.backward}"


def _generic(function: Any) -> GenericFunction:
    if not isinstance(function, GenericFunction):
        raise DispatchError(located(f"{in_short(function)} is not a generic function", "declare it with @ad.function"))
    return function


def methods(f: Any) -> list[Method]:
    """The methods of a generic function, most specific first; prints one to a line, with file and line.

    Raises DispatchError for an object that is no generic function.

    >>> import autodiff as ad
    >>> @ad.function
    ... def area(sides): ...
    >>> @area.method(ad.Vector)
    ... def _(sides):
    ...     return ad.prod(sides)
    >>> ad.methods(area)
    area(sides: Tensor[..., 1])  ...
    """
    complete()
    return _OnLines(_generic(f).table.ordered())


def which(f: Any, /, *args: Any, **keywords: Any) -> Match:
    """The method that a call runs.  Arguments are values, or classes that stand for values of these classes.

    Raises the errors of the call: DispatchError if no method fits, AmbiguityError.  Only values are
    converted, not classes.

    >>> import autodiff as ad
    >>> @ad.function
    ... def area(sides): ...
    >>> @area.method(ad.Vector)
    ... def _(sides):
    ...     return ad.prod(sides)
    >>> ad.which(area, ad.ones(2))
    area(sides: Tensor[..., 1])  ...
    >>> ad.which(area, ad.Vector)
    area(sides: Tensor[..., 1])  ...
    """
    f = _generic(f)
    if f.form is not None and not f.binds(args, keywords):
        args, keywords = f.form.declared(args, keywords)
    args, _ = f.declaration.bind(args, keywords)
    if any(isinstance(a, type) for a in args):
        classes = tuple(a if isinstance(a, type) else type(a) for a in args)
        method = f.table.find(classes)
        if method is None:
            raise not_found(f, f.table, classes, "method")
        return Match(method, classes, _written_out(f, method, classes))
    given, args = args, f.adopt_all(args)
    method = f.table.find(tuple(map(type, args)))
    if method is None:
        args = f.converted(args)
        method = f.table.find(tuple(map(type, args)))
        assert method is not None, "converted arguments have a method"
    classes = tuple(map(type, args))
    return Match(method, classes, (*_conversions(f, given, args), *_written_out(f, method, classes)))


def _conversions(f: GenericFunction, given: Sequence, args: Sequence) -> tuple[str, ...]:
    """The arguments that are converted before the method gets them."""
    return tuple(
        f"{name}: {type_name(type(old))} to {type_name(type(new))}{f.by(type(old))}"
        for name, old, new in zip(f.declaration.names_of(len(args)), given, args, strict=True)
        if type(old) is not type(new)
    )


def _written_out(f: GenericFunction, method: Method, classes: Sequence[type]) -> tuple[str, ...]:
    """The arguments that the method itself converts before anything else."""
    return tuple(
        f"{name}: {type_name(cls)} to {inside}"
        for name, cls in zip(f.declaration.names_of(len(classes)), classes, strict=True)
        if (inside := f.converts_inside(method, cls))
    )


def which_backward(f: Any, /, *args: Any, **keywords: Any) -> Match | None:
    """The backward rule of a call; None if the method's own program is differentiated.

    For a built-in operation it is the place where the library states the derivative.  Arguments are values or classes,
    as for `which`.  Raises DispatchError if the call runs a forward that no backward serves, and the errors of
    `which`.

    >>> import autodiff as ad
    >>> @ad.function
    ... def twice(x): ...
    >>> @twice.forward(ad.Tensor)
    ... def _(ctx, x):
    ...     return x * 2
    >>> @twice.backward(ad.Tensor)
    ... def _(ctx, y_bar):
    ...     return y_bar * 2
    >>> ad.which_backward(twice, 1.0)
    twice(x: Tensor)  backward  ...
      converted: x: float to Tensor[float64, 0]
    >>> ad.which_backward(ad.exp, 1.0)
    exp(x)  backward  elementwise.py:...
    >>> print(ad.which_backward(ad.mean, ad.Vector))
    None
    """
    f = _generic(f)
    match = which(f, *args, **keywords)
    rule = f.rule_for("backward", match.method, match.types)
    if rule is not None:
        return Match(rule, match.types, match.converted)
    if match.method.kind == "forward":
        raise not_found(f, f.rules["backward"], match.types, "backward")
    built_in = f.built_in_rule() if match.method.implementation is getattr(f, "__wrapped__", None) else None
    if built_in is None:
        return None
    return Match(Method(f, built_in, match.method.signature, "backward"), match.types, match.converted)


def ambiguities(function: Any = None) -> list[Ambiguity]:
    """All ambiguities of one generic function, or of all: among methods and rules.

    >>> import autodiff as ad
    >>> @ad.function
    ... def f(x, y): ...
    >>> @f.method(ad.Matrix, ad.Tensor)
    ... def _(x, y): ...
    >>> @f.method(ad.Tensor, ad.Matrix)
    ... def _(x, y): ...
    >>> print(ad.ambiguities(f))
    (Tensor[..., 2], Tensor[..., 2]): both of
      f(x: Tensor, y: Tensor[..., 2])  ...
      f(x: Tensor[..., 2], y: Tensor)  ...
    """
    complete()
    functions = all_functions() if function is None else [_generic(function)]
    found = _OnLines()
    for f in functions:
        for table in f.tables():
            found += table.ambiguities()
    return found


class Unreachable(NamedTuple):
    """A method that no call runs: for each call that fits it, another method is more specific."""

    method: Method
    instead: tuple[Method, ...]

    def __repr__(self) -> str:
        return "\n".join([f"{self.method}\n  is never chosen, because of", *(f"    {m}" for m in self.instead)])


def coverage(f: Any) -> list[Gap | Unreachable]:
    """The gaps in a function's methods: forwards without a backward of their own, methods that never run.

    A forward without a backward, or with only one for larger types, is a `Gap`: that backward may read values
    which this forward does not save.  A method or rule is `Unreachable` if more specific ones take every
    member of its unions.  The list is empty if there are no gaps.

    >>> import autodiff as ad
    >>> @ad.function
    ... def twice(x): ...
    >>> @twice.forward(ad.Tensor)
    ... def _(ctx, x):
    ...     return x * 2
    >>> ad.coverage(twice)
    twice(x: Tensor)  forward  ...
      has no backward
    """
    complete()
    f = _generic(f)
    gaps = _OnLines()
    for table in f.tables():
        gaps += _unreachable(table)
    rules = f.rules["backward"].ordered()
    for method in f.table.ordered():
        if method.kind != "forward" or "backward" in method.rules:
            continue
        nearest = _serving(rules, method)
        if None in nearest:
            gaps.append(Gap(method, None))
        else:
            wider = dict.fromkeys(r for r in nearest if r is not None and not r.signature <= method.signature)
            gaps += [Gap(method, rule) for rule in wider]
    return gaps


def _serving(methods: Sequence[Method], method: Method) -> list[Method | None]:
    """For each union-free signature of `method`, the first of `methods` that takes all its calls, or None."""
    return [next((m for m in methods if call <= m.signature), None) for call in method.signature.single()]


def _unreachable(table: MethodTable) -> list[Unreachable]:
    """The methods of a table for which each call that they take runs a more specific method."""
    found = []
    ordered = table.ordered()
    for method in ordered:
        below = [m for m in ordered if m.signature < method.signature]
        instead = _serving(below, method)
        if instead and all(instead):
            found.append(Unreachable(method, tuple(dict.fromkeys(m for m in instead if m is not None))))
    return found
