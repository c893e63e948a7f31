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
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import DispatchError, caller, user_line
from .declaration import Declaration, has_body, place_of
from .method import KINDS, RULES, Method
from .resolution import Table, most_specific, not_found
from .signature import ANY, Choice, Signature, annotated_types, choice_of, type_name
from .warm import with_arity

__all__ = ["GenericFunction", "all_functions", "epoch"]

#: Combinations of types that one function remembers before it starts again.
_CACHE_LIMIT = 4096
#: Conversions of one call's arguments that are tried one after the other.
_CONVERSIONS = 8

_FUNCTIONS: weakref.WeakSet[GenericFunction] = weakref.WeakSet()
_REGISTERING = threading.RLock()


class Epoch:
    """Counts the registrations in the whole process: equal numbers, equal choices."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0

    def __repr__(self) -> str:
        return f"epoch {self.now}"


#: `epoch.now` rises with every method that is added, replaced or deleted, on any function.
epoch = Epoch()


class GenericFunction:
    """A function with methods.

    name         as users call it
    signature    the parameters; those before `*` dispatch
    body         the least specific method, which takes anything (None: there is none)
    declared     the Python function that declares it, for its documentation and place

    Made from a Python declaration by `declare`.  Not to be copied: a copy is the function itself.
    """

    def __new__(cls, name: str, signature: inspect.Signature, *_args: Any, **_keywords: Any) -> GenericFunction:
        faster = with_arity(cls, signature) if cls.__call__ is GenericFunction.__call__ else cls
        return object.__new__(faster)

    def __init__(
        self, name: str, signature: inspect.Signature, body: Callable | None = None, declared: Callable | None = None
    ) -> None:
        declared = declared or body
        self.__name__ = self.__qualname__ = name
        self.__signature__ = signature
        if declared is not None:
            self.__doc__ = declared.__doc__
            self.__module__ = declared.__module__
            self.__qualname__ = getattr(declared, "__qualname__", name)
            self.__wrapped__ = declared
        self.declaration = Declaration(name, signature, place_of(declared) if declared else caller())
        self.table = Table()
        self.rules = {kind: Table() for kind in RULES}
        #: Types of the arguments as they come → what serves the call, conversions included.
        self._cache: dict[Any, Callable] = {}
        #: Classes that are dispatched on, (after a chosen method) → what runs them; None: no method.
        self._runs: dict[tuple, Callable | None] = {}
        #: (place, class of an argument) → whether a method names the class there.
        self._named: dict[tuple[int, type], bool] = {}
        self._listeners: list[Callable[[GenericFunction, Method], None]] = []
        if body is not None:
            self.table.add(Method(self, body, self._signature([]), "method"))
        _FUNCTIONS.add(self)

    @classmethod
    def declare(cls, function: Callable, **options: Any) -> Any:
        """The generic function that a Python function declares; its body, if it has one, takes anything."""
        body = function if has_body(function) else None
        return cls(function.__name__, inspect.signature(function), body, function, **options)

    # ------------------------------------------------------------ hooks for the floors above

    def implementation(self, method: Method, classes: tuple[type, ...]) -> Callable:
        """What a call with arguments of these classes runs: takes all that dispatch, by position.

        Asked once for each combination of classes.
        """
        if method.kind == "forward":
            raise DispatchError(f"{self.__name__}: a plain generic function has no ctx for {method}")
        return method.implementation

    #: Classes whose instances may dispatch as something else: see `adopt`.
    adopted: tuple[type, ...] = ()

    def adopt(self, argument: Any) -> Any:
        """What stands for an argument of one of the classes `adopted`: a constant tensor for an array.

        Dispatch is on the type of what is returned, which may be the argument itself.  Not asked
        where a method names the argument's own class.
        """
        return argument

    def convert(self, arguments: tuple, classes: tuple[type, ...]) -> Sequence | None:
        """Other arguments to try where no method takes these; None when there is nothing to convert.

        Asked again with what it returned, until a method fits: numbers first, say, then structures.
        """
        return None

    # ------------------------------------------------------------ registering

    def method(self, *types: Any) -> Any:
        """Add a method: `@f.method(Matrix, Matrix)`, or bare, reading the annotations."""
        return self._decorate("method", types)

    def forward(self, *types: Any, host: bool = False, out: Any = None) -> Any:
        """Add half of a pair: takes `ctx`, computes, saves what its backward reads."""
        return self._decorate("forward", types, host=host, out=out)

    def backward(self, *types: Any, host: bool = False) -> Any:
        """Add the rule from the outputs' cotangents to the inputs', for calls with *inputs* of these types."""
        return self._decorate("backward", types, host=host)

    def jvp(self, *types: Any) -> Any:
        """Add the rule from the inputs' tangents to the outputs', for calls with *inputs* of these types."""
        return self._decorate("jvp", types)

    def _decorate(self, kind: str, types: tuple, **options: Any) -> Any:
        if len(types) == 1 and (inspect.isroutine(types[0]) or isinstance(types[0], functools.partial)):
            return self._add(types[0], kind, (), options)
        return lambda implementation: self._add(implementation, kind, types, options)

    def _add(self, implementation: Callable, kind: str, types: tuple, options: dict) -> Method:
        where = f"{self.__name__}.{kind}"
        if not callable(implementation):
            raise DispatchError(f"{where}: {implementation!r} cannot be called\n  registered at {caller()}")
        if len(types) > len(self.declaration.names):
            raise DispatchError(
                f"{where}: {len(types)} types for {len(self.declaration.names)} parameters"
                f" ({', '.join(self.declaration.names)})\n  registered at {caller()}"
            )
        if kind in RULES:
            _check_rule(implementation, where)
            choices = [choice_of(spec, where) for spec in types]
        else:
            parameters = self.declaration.check(implementation, kind)
            choices = [choice_of(spec, where) for spec in types] or annotated_types(implementation, parameters, where)
        self._refuse_empty(choices, where)
        method = Method(self, implementation, self._signature(choices), kind, **options)
        table = self.rules[kind] if kind in RULES else self.table
        with _REGISTERING:
            old = table.add(method)
            self._changed(method)
        if old is not None:
            _warn_replaced(old, method)
        return method

    def _signature(self, choices: Sequence[Choice]) -> Signature:
        """A full signature; what is not given takes anything."""
        names = self.declaration.names
        padding = [ANY] * (len(names) - len(choices))
        return Signature([*choices, *padding], variadic=self.declaration.variadic is not None)

    def _refuse_empty(self, choices: Sequence[Choice], where: str) -> None:
        for name, choice in zip(self.declaration.names, choices, strict=False):
            if not choice.members and name != self.declaration.variadic:
                raise DispatchError(f"{where}: Never is for *xs only, not {name!r}\n  registered at {caller()}")

    def _attach(self, method: Method, kind: str, implementation: Callable | None, host: bool) -> Any:
        """Give a method its own rule."""
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
            if method.attached_to is not None:
                removed = method.attached_to.rules.get(method.kind) is method
                if removed:
                    del method.attached_to.rules[method.kind]
            else:
                removed = (self.rules[method.kind] if method.kind in RULES else self.table).remove(method)
            if removed:
                self._changed(method)

    def _changed(self, method: Method) -> None:
        """Forget every choice.  New dictionaries: a call resolved meanwhile must not write into them."""
        self._cache = {}
        self._runs = {}
        self._named = {}
        epoch.now += 1
        for listener in list(self._listeners):
            listener(self, method)

    def on_change(self, listener: Callable[[GenericFunction, Method], None]) -> Callable[[], None]:
        """Call `listener(function, method)` after a method is added, replaced or deleted; returns how to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    # ------------------------------------------------------------ choosing

    def find(self, classes: Sequence[type]) -> Method | None:
        """The method for arguments of exactly these classes, all given, none converted.

        Raises AmbiguityError.
        """
        return self.table.find(classes)

    def rule_for(self, kind: str, method: Method, classes: Sequence[type]) -> Method | None:
        """The rule (`backward` or `jvp`) of a call that runs `method`; None when there is none.

        The one attached to the method; else the most specific for the call's inputs.  A plain
        method takes only a rule that is at least as specific as itself: one written for larger
        types knows nothing of this program, so the program itself is differentiated.
        Raises AmbiguityError.
        """
        attached = method.rules.get(kind)
        if attached is not None:
            return attached
        rules: list[Method] = list(self.rules[kind])
        if method.kind == "method":
            rules = [rule for rule in rules if rule.signature <= method.signature]
        return most_specific(rules, classes)

    # ------------------------------------------------------------ calling

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Run the most specific method.  (`warm.with_arity` puts a faster equal in its place.)"""
        if not keywords:
            run = self._cache.get(_key(args))
            if run is not None:
                return run(*args)
        return self._call(args, keywords)

    def _call(self, args: tuple, keywords: dict[str, Any]) -> Any:
        """A call off the warm path: with keywords, or with types not met before."""
        if keywords:
            args, keywords = self.declaration.bind(args, keywords)
        run = self._cache.get(_key(args))
        if run is None:
            run = self._resolve(args)
        return run(*args, **keywords)

    def _resolve(self, args: tuple) -> Callable:
        """What serves calls with arguments of these types from now on."""
        cache = self._cache
        tail = self.declaration.tail(len(args))
        if tail:
            full = self._resolve(args + tail)

            def run(*given, **keywords):
                return full(*given, *tail, **keywords)

        else:
            classes = tuple(map(type, args))
            adopts = bool(self.adopted) and any(issubclass(c, self.adopted) for c in classes)
            run = self._call_adopted if adopts else self._run(classes) or self._call_converted
        return _remember(cache, _key(args), run)

    def _run(self, classes: tuple[type, ...]) -> Callable | None:
        """What runs arguments of exactly these classes."""
        runs = self._runs
        if classes in runs:
            return runs[classes]
        method = self.find(classes)
        return _remember(runs, classes, None if method is None else self._runner(method, classes))

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
        args = self.adopt_all(args)
        run = self._run(tuple(map(type, args))) or self._call_converted
        return run(*args, **keywords)

    def adopt_all(self, args: tuple) -> tuple:
        """All arguments, those of the classes `adopted` adopted.

        One whose own class a method names at its place stays as it is, if that method then fits.
        """
        kept = [isinstance(a, self.adopted) and self._names(place, type(a)) for place, a in enumerate(args)]
        fresh = tuple([a if keep else self._adopted(a) for a, keep in zip(args, kept, strict=True)])
        if any(kept) and self._run(tuple(map(type, fresh))) is None:
            return tuple(map(self._adopted, fresh))
        return fresh

    def _adopted(self, argument: Any) -> Any:
        return self.adopt(argument) if isinstance(argument, self.adopted) else argument

    def _names(self, place: int, cls: type) -> bool:
        """Whether some method says more than `object` about this class at this place."""
        named, key = self._named, (place, cls)
        if key in named:
            return named[key]
        place = min(place, len(self.declaration.names) - 1)
        return _remember(named, key, any(m.signature.choices[place].names(cls) for m in self.table))

    def _call_converted(self, *args: Any, **keywords: Any) -> Any:
        """A call that no method takes as it is."""
        args = self.converted(args)
        run = self._run(tuple(map(type, args)))
        assert run is not None, "converted arguments have a method"
        return run(*args, **keywords)

    def converted(self, args: tuple) -> tuple:
        """All arguments, converted until some method takes them.  Raises DispatchError when none ever does."""
        classes = first = tuple(map(type, args))
        for _ in range(_CONVERSIONS):
            found = self.convert(args, classes)
            if found is None:
                break
            args = tuple(found)
            classes = tuple(map(type, args))
            if self.find(classes) is not None:
                return args
        raise not_found(self, self.table, first, "method")

    def invoke(self, types: Sequence[type], /, *args: Any, **keywords: Any) -> Any:
        """Run the method that would be chosen for `types`, which the arguments must fit.

        So a method can call a less specific one: `f.invoke((Tensor, Tensor), a, b)`.
        Raises DispatchError when there is none or an argument does not fit.
        """
        args, keywords = self.declaration.bind(args, keywords)
        classes = tuple([type(None) if t is None else t for t in types])
        args = self.adopt_all(args)
        classes += tuple(map(type, args[len(classes) :]))
        if len(classes) != len(args) or not all(issubclass(type(a), c) for a, c in zip(args, classes, strict=True)):
            raise DispatchError(
                f"{self.__name__}.invoke: the arguments ({', '.join(type_name(type(a)) for a in args)})"
                f" are not of the types ({', '.join(map(type_name, classes))})\n  called at {caller()}"
            )
        method = self.find(classes)
        if method is None:
            raise not_found(self, self.table, classes, "method")
        return self._run_method(method, args, keywords)

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
        runs, key = self._runs, (method, *classes)
        run = runs.get(key) or _remember(runs, key, self._runner(method, classes))
        return run(*args, **keywords)

    # ------------------------------------------------------------ being an object

    def __repr__(self) -> str:
        count = len(self.table)
        return f"<{self.__name__}: generic function of {count} method{'' if count == 1 else 's'}>"

    def __reduce__(self) -> str:
        return self.__qualname__


def _key(args: tuple) -> Any:
    """What `warm` looks up: the type of one argument, or the tuple of types."""
    return type(args[0]) if len(args) == 1 else tuple(map(type, args))


def _remember(table: dict, key: Any, value: Any) -> Any:
    if len(table) >= _CACHE_LIMIT:
        table.clear()
    table[key] = value
    return value


def all_functions() -> list[GenericFunction]:
    """Every generic function that is alive, by module and name."""
    return sorted(_FUNCTIONS, key=lambda f: (f.__module__, f.__qualname__))


def _check_rule(implementation: Callable, where: str) -> None:
    """Raise unless a rule takes `ctx` first."""
    try:
        signature = inspect.signature(implementation)
    except ValueError:
        return
    first = next(iter(signature.parameters.values()), None)
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD, first.VAR_POSITIONAL):
        raise DispatchError(f"{where} takes (ctx, ...), not {signature}\n  written at {place_of(implementation)}")


def _warn_replaced(old: Method, new: Method) -> None:
    """Redefining is normal in a notebook; from another file it may be an accident."""
    (old_file, old_module), (new_file, new_module) = old.source, new.source
    # Cells of a notebook are files of one module.
    if old_file == new_file or old_module == new_module:
        return
    line = user_line()
    warnings.warn_explicit(
        f"{new.heading()}: the {new.kind} at {new.place} replaces the {old.kind} at {old.place}",
        UserWarning,
        line.file if line else new_file,
        line.line if line else 1,
    )


assert set(RULES) < set(KINDS)
