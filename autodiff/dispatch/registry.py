"""Registries: the methods and rules of one generic function, how they are added and how one is chosen.

    methods and forwards   one table: the most specific method runs
    backwards, jvps        one table each, by the types of the call's inputs; besides, a method may
                           have a rule attached, which serves no other method

A choice is the answer to a question.  Answers are cached until a method is added or removed.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from abc import ABCMeta
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

from codegen.forks import renewed_in_child

from ..errors import AmbiguityError, DispatchError, caller
from ..frames import user_line
from ..sending import attach_registrations
from .declaration import Declaration, place_of
from .method import RULES, Method, annotated_types, choice_of, complete, is_own
from .reliance import functions, note
from .signature import ANY, Choice, MethodTable, Signature, most_specific

_REGISTERING = renewed_in_child(globals(), "_REGISTERING")


class Registry:
    """The methods and rules of one generic function.

    table    methods and forwards
    rules    a table for each kind of rule, made when its first rule is added
    site     a slot for the native recorder's data about a function that is called: see `ops.recorder`
    """

    __slots__ = ("__dict__", "__weakref__", "site")

    site: Any

    def __init__(self, declaration: Declaration) -> None:
        self.__name__ = declaration.name
        self.declaration = declaration
        self.table = MethodTable()
        self.rules: defaultdict[str, MethodTable] = defaultdict(MethodTable)
        #: True if some type is an abstract base class, with which a class may be registered at any time.
        self.is_abstract = False
        #: True if some method names a class of arrays: calls with an array and with a tensor then differ.
        self.names_arrays = False
        #: The records of choices (`reliance.Choices`) that hold an answer of this function, by id.
        self.watchers: dict[int, ref[Any]] = {}
        #: The number of changes: methods and rules added, replaced or deleted.
        self.changes = 0

    # ------------------------------------------------------------ registering

    def method(self, *types: Any) -> Any:
        """Add a method: `@f.method(Matrix, Matrix)`, or `@f.method`, which reads the annotations.

        Raises DispatchError if its parameters are not those of the declaration, or an argument is no type.

        >>> import autodiff as ad
        >>> @ad.function
        ... def half(x): ...
        >>> @half.method(ad.Tensor)
        ... def _(x):
        ...     return x / 2
        >>> @half.method(str)
        ... def _(x):
        ...     return x[: len(x) // 2]
        >>> half(3.0), half("both")
        (f64[] 1.5, 'bo')
        """
        return self._decorate("method", types)

    def forward(self, *types: Any, host: bool = False, out: Any = None) -> Any:
        """Add a method with a rule of its own: it takes `ctx`, computes, and saves values for its backward.

        host   True: forward gets NumPy arrays and may return them, for example to call functions of SciPy
        out    shape and dtype of the result of a host forward, such as "f64[3]", or a function that gets those of the
               arguments and returns them: a trace then need not run forward

        >>> import autodiff as ad
        >>> @ad.function
        ... def cube(x): ...
        >>> @cube.forward(ad.Tensor)
        ... def _(ctx, x):
        ...     ctx.save_for_backward(square=x * x)
        ...     return x * x * x
        >>> @cube.backward(ad.Tensor)
        ... def _(ctx, y_bar):
        ...     return 3 * y_bar * ctx.saved_variables.square
        >>> ad.grad(cube)(ad.tensor(2.0))
        f64[] 12.0
        """
        return self._decorate("forward", types, host=host, out=out)

    def backward(self, *types: Any, host: bool = False) -> Any:
        """Add the rule from the outputs' cotangents to the inputs', for calls with *inputs* of these types.

        host   as for `forward`

        >>> import autodiff as ad
        >>> @ad.function
        ... def clipped(x):
        ...     return ad.clip(x, 0.0, 1.0)
        >>> @clipped.backward(ad.Tensor)
        ... def _(ctx, y_bar):
        ...     return y_bar  # as if nothing were cut off
        >>> ad.grad(clipped)(ad.tensor(5.0))
        f64[] 1.0
        """
        return self._decorate("backward", types, host=host)

    def jvp(self, *types: Any) -> Any:
        """Add the rule from the inputs' tangents to the outputs', for calls with *inputs* of these types.

        >>> import autodiff as ad
        >>> @ad.function
        ... def clipped(x):
        ...     return ad.clip(x, 0.0, 1.0)
        >>> @clipped.jvp(ad.Tensor)
        ... def _(ctx, dx):
        ...     return dx  # as if nothing were cut off
        >>> ad.jvp(clipped, (ad.tensor(5.0),), (ad.tensor(2.0),))
        (f64[] 1.0, f64[] 2.0)
        """
        return self._decorate("jvp", types)

    def _decorate(self, kind: str, types: tuple, **options: Any) -> Any:
        if len(types) == 1 and (inspect.isroutine(types[0]) or isinstance(types[0], functools.partial)):
            return self._add(types[0], kind, (), options)
        return lambda implementation: self._add(implementation, kind, types, options)

    def _add(self, implementation: Callable, kind: str, types: tuple, options: dict) -> Method:
        where = f"{self.__name__}.{kind}"
        if is_own(self) and not is_own(implementation):
            complete()  # all methods of a library function must be there before a user adds one
        if not callable(implementation):
            raise DispatchError(f"{where}: {implementation!r} cannot be called\n  registered at {caller()}")
        if len(types) > len(self.declaration.names):
            raise DispatchError(
                f"{where}: {len(types)} types, but the parameters are {', '.join(self.declaration.names)}"
                f"\n  registered at {caller()}"
            )
        if kind in RULES:
            _check_rule(implementation, where)
            choices = [choice_of(spec, where) for spec in types]
        else:
            parameters = self.declaration.check(implementation, kind)
            choices = [choice_of(spec, where) for spec in types] or annotated_types(implementation, parameters, where)
        for name, choice in zip(self.declaration.names, choices, strict=False):
            if not choice.members and name != self.declaration.variadic:
                raise DispatchError(f"{where}: Never is for *xs only, not {name!r}\n  registered at {caller()}")
        method = Method(self, implementation, self._signature(choices), kind, **options)
        for choice in choices:
            for cls in choice.members:
                attach_registrations(cls)
        table = self.rules[kind] if kind in RULES else self.table
        with _REGISTERING:
            old = table.add(method)
            self.is_abstract |= any(isinstance(m, ABCMeta) for c in method.signature.choices for m in c.members)
            self._changed(method)
        if old is not None:
            _warn_replaced(old, method)
        return method

    def _signature(self, choices: Sequence[Choice]) -> Signature:
        """The signature of all parameters; one without a choice takes any type."""
        names = self.declaration.names
        padding = [ANY] * (len(names) - len(choices))
        return Signature([*choices, *padding], variadic=self.declaration.variadic is not None)

    def _attach(self, method: Method, kind: str, implementation: Callable | None, host: bool) -> Any:
        """Attach a rule to a method."""
        where = f"{self.__name__}: the {kind} of {method.implementation.__name__}"
        if implementation is None:
            return lambda given: self._attach(method, kind, given, host)
        if not inspect.isroutine(implementation) and not isinstance(implementation, functools.partial):
            raise DispatchError(
                f"{where} takes no types: it serves the calls that its method serves\n"
                f"  registered at {caller()}\n  for other types: @{self.__name__}.{kind}(...)"
            )
        _check_rule(implementation, where)
        rule = Method(self, implementation, method.signature, kind, host=host, attached_to=method)
        with _REGISTERING:
            method.rules[kind] = rule
            self._changed(rule)
        return rule

    def _remove(self, method: Method) -> None:
        with _REGISTERING:
            table = self.rules[method.kind] if method.kind in RULES else self.table
            if method.attached_to is None and table.methods.get(method.signature) is method:
                table.remove(method)
            elif method.attached_to is not None and method.attached_to.rules.get(method.kind) is method:
                del method.attached_to.rules[method.kind]
            else:
                return
            self._changed(method)

    def _changed(self, method: Method) -> None:
        """Count a change, and choose anew."""
        self.changes += 1
        self.choose_again()

    def choose_again(self) -> None:
        """Drop all cached choices, and cached results for which the new choice differs."""
        self._forget()
        for reference in list(self.watchers.values()):  # a copy: other threads may add to the dictionary
            choices = reference()
            if choices is not None:
                choices.recheck(self)

    def tables(self) -> list[MethodTable]:
        """The table of methods, and the table of each kind of rule."""
        return [self.table, *[self.rules[kind] for kind in RULES]]

    # ------------------------------------------------------------ choosing

    def rule_for(self, kind: str, method: Method, classes: Sequence[type]) -> Method | None:
        """The rule (`backward` or `jvp`) of a call that runs `method`; None if there is none.  Raises AmbiguityError.

        A rule attached to the method comes first; then the most specific for the call's inputs.  A plain method takes
        only a rule at least as specific as itself: a rule for larger types knows nothing about this method's program.
        """
        table = self.rules.get(kind)
        if kind in method.rules or not table:
            return method.rules.get(kind)
        cache, key = self._cache, (kind, method, *classes)
        if key in cache:
            return cache[key]
        is_plain = method.kind == "method"
        rules = [rule for rule in table if not is_plain or rule.signature <= method.signature]
        found = cache[key] = most_specific(rules, classes)
        return found

    def ask(self, *question: Any) -> Any:
        """The answer to a question; notes it with observers."""
        note(self, *question)
        return self.answer(question)

    def answer(self, question: tuple) -> Any:
        """The current answer to a question that was noted: see `reliance`.

        ("method", classes): the method that runs, and its rules; ("run", method, classes) and ("rules", method,
        classes): the same for a given method; ("named", place, class), ("pick", forms): about conversions.
        """
        cache = self._cache
        if question not in cache:
            cache[question] = self._answered(question)
        return cache[question]

    def _answered(self, question: tuple) -> Any:
        what, *rest = question
        try:
            match what:
                case "named":
                    return self._names(*rest)
                case "pick":
                    return self._pick(*rest)
                case "rules" | "run":
                    method, classes = rest
                case _:
                    (classes,) = rest
                    method = self.table.find(classes)
            return method, *[method and self.rule_for(kind, method, classes) for kind in RULES], self.names_arrays
        except AmbiguityError as error:
            return str(error)

    def _names(self, place: int, cls: type) -> bool:
        """True if some method names this class, by a type other than `object`, at this place."""
        place = min(place, len(self.declaration.names) - 1)
        return any(m.signature.choices[place].names(cls) for m in self.table)

    def _pick(self, forms: tuple[tuple[type, ...], ...]) -> list[int] | None:
        """The form of each argument for the method that needs the fewest conversions; None if no method fits."""
        fits = []
        for method in self.table.ordered():
            choices = method.signature.spread(len(forms))
            taken = [
                [i for i, cls in enumerate(classes) if choice.takes(cls)]
                for choice, classes in zip(choices, forms, strict=True)
            ]
            if all(taken):
                fits.append([first for first, *_ in taken])
        # Among methods that need equally many, min() takes the first, which is the most specific.
        return min(fits, key=sum) if fits else None

    def _forget(self) -> None:
        """Drop every choice.  The dictionary is new, so that a call which is being resolved cannot write into it."""
        #: Question → answer; (kind of rule, method, classes) → rule; and the keys of calls: see `GenericFunction`.
        self._cache: dict[Any, Any] = {}


def _check_rule(implementation: Callable, where: str) -> None:
    """Raise DispatchError unless a rule takes `ctx` first."""
    try:
        signature = inspect.signature(implementation)
    except ValueError:
        return
    first = next(iter(signature.parameters.values()), None)
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD, first.VAR_POSITIONAL):
        raise DispatchError(f"{where} takes (ctx, ...), not {signature}\n  written at {place_of(implementation)}")


def _warn_replaced(old: Method, new: Method) -> None:
    """Warn if a method of another file was replaced, perhaps by accident.  In a notebook redefining is normal."""
    (old_file, old_module), (new_file, new_module) = old.source, new.source
    # Cells of a notebook are several files of one module.
    if old_file == new_file or old_module == new_module:
        return
    line = user_line()
    warnings.warn_explicit(
        f"{new.heading()}: the {new.kind} at {new.place} replaces the {old.kind} at {old.place}",
        UserWarning,
        line.file if line else new_file,
        line.line if line else 1,
    )


def all_functions() -> list[Any]:
    """Every generic function that is alive, by module and name."""
    complete()
    return sorted(functions(), key=lambda f: (f.__module__, f.__qualname__))
