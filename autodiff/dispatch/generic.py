"""Generic functions: a name, a declaration, and methods chosen by the types of the arguments.

    call  →  bind to the declaration  →  classes of what dispatches  →  method  →  what runs it

On the warm path that is one dictionary look-up from the types of the arguments to a callable.
Whatever needs more than the types (arrays that dispatch by their dtype and rank, arguments that
are converted) is itself such a callable, so it slows nothing else down.

Floors above make this their own by overriding three hooks: `implementation`, `adopt` (with the
classes `adopted`) and `convert`.
"""

from __future__ import annotations

import functools
import inspect
from abc import get_cache_token
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from codegen.lazily import later

from ..errors import AmbiguityError, DispatchError, caller, in_short, located
from ..sending import PARTS
from ..tracebacks import shorten
from .converting import Converting, remember
from .declaration import Declaration, has_body, place_of
from .method import RULES, Method, complete, not_found
from .reliance import NOTHING, cache_now, enter, functions, note
from .signature import dispatched, type_name

if TYPE_CHECKING:
    from . import sent
else:  # for who sends functions to other processes
    sent = later("autodiff.dispatch.sent")

__all__ = ["GenericFunction", "all_functions"]

#: The value of a parameter that a call leaves out.
OMITTED: Any = object()

PARTS["methods"] = (lambda cls: sent.taken_along(cls), lambda _, told: sent.registered(told))


class _Shown:
    """The attribute `__signature__` of instances: made when somebody looks."""

    def __get__(self, instance: Any, _: type) -> inspect.Signature:
        if instance is None:  # the class itself has its constructor's
            raise AttributeError("__signature__")
        return instance.declaration.signature if instance.form is None else instance.form.signature


class GenericFunction(Converting):
    """A function with methods.

    name         as users call it
    source       what has the parameters, a function or a signature; those before `*` dispatch
    body         the least specific method, which takes anything (None: there is none)
    declared     the Python function that declares it, for its documentation and place

    Made from a Python declaration by `declare`.  Not to be copied: a copy is the function itself.
    """

    def __init__(
        self,
        name: str,
        source: Callable | inspect.Signature,
        body: Callable | None = None,
        declared: Callable | None = None,
    ) -> None:
        declared = declared or body
        super().__init__(Declaration(name, source, place_of(declared) if declared else caller()))
        self.__qualname__ = name
        if declared is not None:
            self.__doc__ = declared.__doc__
            self.__module__ = declared.__module__ or ""  # None: code that was run without the name of a module
            self.__qualname__ = getattr(declared, "__qualname__", name)
            self.__wrapped__ = declared
        self._forget()
        if body is not None:
            self.table.add(Method(self, body, self._signature([]), "method"))
        enter(self)

    @classmethod
    def declare(cls, function: Callable, **options: Any) -> Any:
        """The generic function that a Python function declares; its body, if it has one, takes anything."""
        if not isinstance(function, FunctionType):
            raise DispatchError(located(
                f"function: declares a function by a `def` with its parameters, got {function!r:.40}"
            ))
        body = function if has_body(function) else None
        return cls(function.__name__, function, body, function, **options)

    __signature__ = _Shown()

    # ------------------------------------------------------------ hooks for the floors above

    def implementation(self, method: Method, classes: tuple[type, ...]) -> Callable:
        """The function that a call with arguments of these classes runs: it takes all that dispatch, by position.

        Asked once for each combination of classes.
        """
        if method.kind == "forward":
            raise DispatchError(f"{self.__name__}: a plain generic function has no ctx for {method}")
        return method.implementation

    def built_in_rule(self) -> Callable | None:
        """The derivative of the function's own body, where the library states one; None: the body is differentiated."""
        return None

    #: Recordings by machine code for operands met before, as long as no choice changes: see `ops.recorder`.
    learned: Any = None
    #: Serves calls that do not bind to the declaration, `form(args, keywords)`: see `ops.forms`.
    form: Any = None

    # ------------------------------------------------------------ calling

    def _forget(self) -> None:
        """Drop every choice.  New dictionaries: a call resolved meanwhile must not write into them."""
        super()._forget()
        if self.learned is not None:
            self.learned.forget()
        #: Types of the arguments as they come → what serves the call, conversions included.
        self._kept: dict[Any, Callable] = {}
        #: The same, from a call on after which nobody observes the choices that are made.
        self._cache: dict[Any, Callable] = NOTHING
        #: Classes that are dispatched on, (after a chosen method) → what runs them; None: no method.
        self._runs: dict[tuple, Callable | None] = {}
        #: Question → answer: see `answer`.
        self._answers: dict[tuple, Any] = {}
        #: The registrations with abstract base classes (their token) when the choices were made.
        self._registered = get_cache_token()

    def __call__(
        self, a: Any = OMITTED, b: Any = OMITTED, c: Any = OMITTED, /, *rest: Any, **keywords: Any
    ) -> Any:
        """Run the most specific method: up to three arguments, written out, are called in half of the time."""
        try:
            if not (rest or keywords):
                if c is not OMITTED:
                    if (run := self._cache.get((type(a), type(b), type(c)))) is not None:
                        return run(a, b, c)
                elif b is not OMITTED:
                    if (run := self._cache.get((type(a), type(b)))) is not None:
                        return run(a, b)
                elif a is not OMITTED and (run := self._cache.get(type(a))) is not None:
                    return run(a)
            return self._call((*[x for x in (a, b, c) if x is not OMITTED], *rest), keywords)
        except Exception as error:
            shorten(error)
            raise

    def _call(self, args: tuple, keywords: dict[str, Any]) -> Any:
        """A call off the warm path: with keywords, or with types not met before."""
        if keywords:
            bound = self.declaration.bound(args, keywords)
            if bound is None:
                return self._call_otherwise(args, keywords)
            args, keywords = bound
        self.see_registered()
        if self._cache is not self._kept:
            self._cache = cache_now(self, self._kept)
        run = self._cache.get(_key(args))
        if run is None:
            tail = self.declaration.tail(len(args))
            if tail is None:
                return self._call_otherwise(args, keywords)
            run = self._resolve(args, tail)
        return run(*args, **keywords)

    def _call_otherwise(self, args: tuple, keywords: dict[str, Any]) -> Any:
        """A call that does not bind to the declaration."""
        return self.form(args, keywords) if self.form is not None else self.declaration.refuse(args, keywords)

    def binds(self, args: tuple, keywords: dict[str, Any]) -> bool:
        """True if a call is one of the declaration."""
        declaration = self.declaration
        return (declaration.bound(args, keywords) if keywords else declaration.tail(len(args))) is not None

    def _resolve(self, args: tuple, tail: tuple) -> Callable:
        """The function that serves calls with arguments of these types from now on, which these defaults complete."""
        cache, key = self._cache, _key(args)
        if tail:
            full = self._resolve(args + tail, ())

            def run(*given, **keywords):
                return full(*given, *tail, **keywords)

        else:
            classes = tuple(map(type, args))
            adopts = bool(self.adopted) and any(issubclass(c, self.adopted) for c in classes)
            run = self._call_adopted if adopts else self._run(classes) or self._call_converted
        return remember(cache, key, self._while_registered(run) if self.is_abstract else run)

    def _while_registered(self, run: Callable) -> Callable:
        """The function for calls until a class is registered with an abstract base class: then choose again."""
        registered = get_cache_token()

        def checked(*args: Any, **keywords: Any) -> Any:
            if registered == get_cache_token():
                return run(*args, **keywords)
            self.choose_again()
            return self(*args, **keywords)

        return checked

    def see_registered(self) -> None:
        """Choose again if a class was registered with an abstract base class, and some method names one."""
        if self.is_abstract and self._registered != get_cache_token():
            self.choose_again()

    def served_by(self, args: tuple) -> tuple[Callable | None, tuple]:
        """The function that was last found to serve a call with such arguments, and the arguments it gets."""
        run = self._kept.get(_key(args))
        tail = self.declaration.tail(len(args))
        if run is None or not tail:
            return run, args
        return self._kept.get(_key(args + tail)), args + tail

    def _run(self, classes: tuple[type, ...]) -> Callable | None:
        """The function that runs arguments of exactly these classes."""
        note(self, "method", classes)
        runs = self._runs
        if classes in runs:
            return runs[classes]
        method = self.find(classes)
        return remember(runs, classes, None if method is None else self._runner(method, classes))

    def _runner(self, method: Method, classes: tuple[type, ...]) -> Callable:
        """The implementation; keyword-only arguments that a call leaves out have the declared defaults."""
        run = self.implementation(method, classes)
        defaults = self.declaration.keyword_defaults
        own = getattr(run, "__kwdefaults__", None) or {}
        if all(name in own and own[name] is value for name, value in defaults.items()):
            return run
        return functools.partial(run, **defaults)

    def _call_adopted(self, *args: Any, **keywords: Any) -> Any:
        """A call with an argument that may dispatch as another class than its own."""
        given, args = args, self.adopt_all(args)
        if not keywords and not any([isinstance(a, self.adopted) for a in args]):
            run: Callable = self  # as if it had been given these: what is recorded natively, is
        else:
            run = self._run(tuple(map(type, args))) or self._call_converted
        y = run(*args, **keywords)
        self.give_back(given, args)
        return y

    def _call_converted(self, *args: Any, **keywords: Any) -> Any:
        """A call that no method takes as it is."""
        given, args = args, self.converted(args)
        run = self._run(tuple(map(type, args)))
        assert run is not None, "converted arguments have a method"
        self.tell_converted(given, args)
        return run(*args, **keywords)

    def invoke(self, types: Sequence[type], /, *args: Any, **keywords: Any) -> Any:
        """Run the method that would be chosen for `types`, which the arguments must fit.

        So a method can call a less specific one: `f.invoke((Tensor, Tensor), a, b)`.
        Raises DispatchError when there is none or an argument does not fit.

        >>> import autodiff as ad
        >>> @ad.function
        ... def size(x): ...
        >>> @size.method(ad.Tensor)
        ... def _(x):
        ...     return x.size
        >>> @size.method(ad.Matrix)
        ... def _(x):
        ...     return f"{x.shape[0]} rows, {size.invoke((ad.Tensor,), x)} elements"
        >>> size(ad.ones((2, 3)))
        '2 rows, 6 elements'
        """
        try:
            args, keywords = self.declaration.bind(args, keywords)
            if not isinstance(types, (tuple, list)) or not all([t is None or isinstance(t, type) for t in types]):
                raise DispatchError(located(
                    f"{self.__name__}.invoke: the types come first, in a tuple, not {in_short(types)}"
                ))
            classes = tuple([type(None) if t is None else t for t in types])
            args = self.adopt_all(args)
            classes += tuple(map(type, args[len(classes) :]))
            if len(classes) != len(args) or not all(map(_fits, args, classes)):
                raise DispatchError(located(
                    f"{self.__name__}.invoke: the arguments ({', '.join(type_name(type(a)) for a in args)}) are not "
                    f"of the types ({', '.join(map(type_name, classes))})"
                ))
            note(self, "method", classes)
            method = self.find(classes)
            if method is None:
                raise not_found(self, self.table, classes, "method")
            return self._run_method(method, args, keywords)
        except Exception as error:
            shorten(error)
            raise

    def _call_method(self, method: Method, args: tuple, keywords: dict[str, Any]) -> Any:
        """Run one given method of this function."""
        if method.kind in RULES:
            return method.implementation(*args, **keywords)
        args, keywords = self.declaration.bind(args, keywords)
        args = tuple(
            self.adopt(a) if isinstance(a, self.adopted) and not choice.names(type(a)) else a
            for a, choice in zip(args, method.signature.spread(len(args)), strict=True)
        )
        classes = tuple(map(type, args))
        if not method.signature.takes(classes):
            raise not_found(self, [method], classes, "method")
        return self._run_method(method, args, keywords)

    def _run_method(self, method: Method, args: tuple, keywords: dict[str, Any]) -> Any:
        classes = tuple(map(type, args))
        note(self, "run", method, classes)
        runs, key = self._runs, (method, *classes)
        run = runs.get(key) or remember(runs, key, self._runner(method, classes))
        return run(*args, **keywords)

    # ------------------------------------------------------------ choices that others rely on

    def close_cache(self) -> None:
        """Leave the warm path until the next call: somebody observes the choices that are made."""
        self._cache = NOTHING

    def ask(self, *question: Any) -> Any:
        """The answer to a question, which is noted."""
        note(self, *question)
        answers = self._answers
        return answers[question] if question in answers else self.answer(question)

    def answer(self, question: tuple) -> Any:
        """The present answer of dispatch to a question that was noted: see `reliance`.

        ("method", classes) the method that runs, and its rules; ("run", method, classes) those of a given method,
        ("rules", method, classes) of one that ran before; ("named", place, class), ("pick", forms) conversions.
        """
        answers = self._answers
        if question in answers:
            return answers[question]
        return remember(answers, question, self._answered(question))

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
                    method = self.find(classes)
            return method, *[method and self.rule_for(kind, method, classes) for kind in RULES], self.names_arrays
        except AmbiguityError as error:
            return str(error)

    # ------------------------------------------------------------ being an object

    def __repr__(self) -> str:
        count = len(self.table)
        return f"<{self.__name__}: generic function of {count} method{'' if count == 1 else 's'}>"

    def _repr_html_(self) -> str:
        """The page for a notebook: the first line of the documentation, the methods folded."""
        from html import escape  # for notebooks only

        head, *rest = map(escape, (repr(self)[1:-1], *(self.__doc__ or "").strip().splitlines()[:1]))
        lines = escape("\n".join(map(str, self.table)))
        return f"<details><summary><code>{head}</code> {''.join(rest)}</summary><pre>{lines}</pre></details>"

    def __reduce__(self) -> Any:
        return sent.reduced(self)

    def __setstate__(self, state: tuple) -> None:
        sent.arrive(self, state)


def _fits(argument: Any, cls: type) -> bool:
    return issubclass(type(argument), cls) or issubclass(dispatched(type(argument)), cls)


def _key(args: tuple) -> Any:
    """The key that a call looks up: the type of one argument, or the tuple of types."""
    return type(args[0]) if len(args) == 1 else tuple(map(type, args))


def all_functions() -> list[GenericFunction]:
    """Every generic function that is alive, by module and name."""
    complete()
    return sorted(functions(), key=lambda f: (f.__module__, f.__qualname__))
