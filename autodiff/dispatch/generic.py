"""Generic functions: a name, a declaration, and methods chosen by the types of the arguments.

    call  →  bind to the declaration  →  classes of the arguments that dispatch  →  method  →  the function to run

On the warm path this is one dictionary look-up, from the types of the arguments to a callable that does the whole call,
conversions included.  The same dictionary has, by ("run", a given method if there is one, classes), the function to run
for arguments of these classes, or None if no method takes them.
A call that needs more than the types of its arguments gets a callable that does more, so other calls stay fast:

    adopt     before dispatch: an array becomes a constant tensor, unless a method names arrays
    convert   if no method was found: convert as few arguments as some method needs, the smallest change first

Packages above this one override the hooks.
"""

from __future__ import annotations

import functools
from abc import get_cache_token
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from codegen.lazily import later

from ..errors import DispatchError, amount, in_short, located
from ..sending import PARTS, copy_is_self
from ..tracebacks import border, shorten
from .declaration import Declaration, Shown, has_body, place_of
from .method import RULES, Method, not_found
from .registry import Registry
from .reliance import COLLECTING, OBSERVERS, add_function, note
from .signature import dispatched, type_name

if TYPE_CHECKING:
    from . import sent
else:  # imported on first use: only programs that send functions to other processes need it
    sent = later("autodiff.dispatch.sent")

#: The most conversions of one call's arguments, tried one after the other.
_CONVERSIONS = 8
#: A function with this many cached choices drops them all: a program may make classes without end.
_CACHE_LIMIT = 4096
#: The value of a parameter that a call leaves out.
OMITTED: Any = object()

PARTS["methods"] = (lambda cls: sent.methods_naming(cls), lambda _, methods: sent.register_arrived(methods))


class GenericFunction(Registry):
    """A function with methods.

    It is made from a Python function with its parameters; those before `*` dispatch.  The body of that function, if it
    has one, is the least specific method, which takes any arguments.  A copy is the function itself.
    """

    def __init__(self, declared: Callable) -> None:
        if not isinstance(declared, FunctionType):
            raise DispatchError(located(
                f"function: declares a function by a `def` with its parameters, got {declared!r:.40}"
            ))
        super().__init__(Declaration(declared.__name__, declared, place_of(declared)))
        self.__doc__, self.__qualname__, self.__wrapped__ = declared.__doc__, declared.__qualname__, declared
        self.__module__ = declared.__module__ or ""  # None: code that was run without the name of a module
        self._forget()
        if has_body(declared):
            self.table.add(Method(self, declared, self._signature([]), "method"))
        add_function(self)

    __signature__ = Shown()

    # ------------------------------------------------------------ hooks for the packages above

    def implementation(self, method: Method, classes: tuple[type, ...]) -> Callable:
        """The function that runs a method for these classes: it takes all arguments that dispatch, by position.

        Called once for each combination of classes.  Keyword-only arguments that a call leaves out get its defaults, or
        those of the declaration.
        """
        if method.kind == "forward":
            raise DispatchError(f"{self.__name__}: a plain generic function has no ctx for {method}")
        return method.implementation

    def built_in_rule(self) -> Callable | None:
        """The derivative that the library states for the function's own body; None: the body is differentiated."""
        return None

    #: Classes whose instances may dispatch as something else: see `adopt`.
    adopted: tuple[type, ...] = ()

    def adopt(self, argument: Any) -> Any:
        """The stand-in for an argument of one of the classes `adopted`: a constant tensor for an array.

        Dispatch uses the type of the result, which may be the argument itself.  Not called if a method names the
        argument's own class.
        """
        return argument

    def give_back(self, given: Sequence[Any], adopted: Sequence[Any]) -> None:
        """Called after a method has run with the arguments `adopted` in place of those `given`."""

    def convert(self, arguments: tuple, classes: tuple[type, ...]) -> Sequence | None:
        """Other arguments to try, after no method took these; None if nothing can be converted.

        Called again with its own result until a method fits, so it may convert numbers first, then structures.
        The method gets an argument converted only if it does not take the original.
        """
        return None

    def tell_converted(self, given: tuple, args: tuple) -> None:
        """Called when a call is about to run with `args`, which were converted from `given`."""

    def by(self, cls: type) -> str:
        """The end of a sentence that says how a class is converted: ` by ad.dense`."""
        return ""

    def converts_inside(self, method: Method, cls: type) -> str:
        """The words for a conversion that a method's body makes of arguments of a class; "" if it makes none."""
        return ""

    #: Native code that records calls with operands seen before, until some choice changes: see `ops.recorder`.
    learned: Any = None
    #: A function `form(args, keywords)` for calls that do not bind to the declaration: see `ops.forms`.
    form: Any = None

    # ------------------------------------------------------------ calling

    def _forget(self) -> None:
        super()._forget()
        if self.learned is not None:
            self.learned.forget()
        #: The token of registrations with abstract base classes when the choices were made.
        self._registered = get_cache_token()

    def __call__(self, a: Any = OMITTED, b: Any = OMITTED, c: Any = OMITTED, /, *rest: Any, **keywords: Any) -> Any:
        """Run the most specific method.  Up to three arguments are spelled out, which halves the time of a call."""
        try:
            if not (keywords or COLLECTING):
                if c is not OMITTED:
                    if not rest and (run := self._cache.get((type(a), type(b), type(c)))) is not None:
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

    def _make_room(self) -> None:
        """Drop all cached choices if there are too many."""
        if len(self._cache) >= _CACHE_LIMIT:
            self._forget()

    def _call(self, args: tuple, keywords: dict[str, Any]) -> Any:
        """A call off the warm path: with keywords, or with types that are not in the cache."""
        if keywords:
            bound = self.declaration.bound(args, keywords)
            if bound is None:
                return self._call_otherwise(args, keywords)
            args, keywords = bound
        if self.is_abstract:
            self.see_registered()
        run = None if COLLECTING and OBSERVERS.get() else self._cache.get(_key(args))
        if run is None:
            self._make_room()
            tail = () if len(args) == len(self.declaration.fixed) else self._tail(len(args))
            if tail is None:
                return self._call_otherwise(args, keywords)
            run = self._resolve(args, tail)
        return run(*args, **keywords)

    def _call_otherwise(self, args: tuple, keywords: dict[str, Any]) -> Any:
        """A call that does not bind to the declaration."""
        return self.form(args, keywords) if self.form is not None else self.declaration.refuse(args, keywords)

    def binds(self, args: tuple, keywords: dict[str, Any]) -> bool:
        """True if a call binds to the declaration."""
        return (self.declaration.bound(args, keywords) if keywords else self._tail(len(args))) is not None

    def _tail(self, count: int) -> tuple | None:
        """The defaults that complete a call of `count` positional arguments; None if it cannot be completed."""
        fixed, defaults = self.declaration.fixed, self.declaration.defaults
        missing = len(fixed) - count
        if missing > len(defaults) or (missing < 0 and self.declaration.variadic is None):
            return None
        return defaults[len(defaults) - missing :] if missing > 0 else ()

    def _resolve(self, args: tuple, tail: tuple) -> Callable:
        """The function for all calls with arguments of these types, completed by the defaults `tail`; caches it."""
        cache, key = self._cache, _key(args)
        if tail:
            full = self._resolve(args + tail, ())

            def run(*given, **keywords):
                return full(*given, *tail, **keywords)

        else:
            classes = tuple(map(type, args))
            adopts = bool(self.adopted) and any(issubclass(c, self.adopted) for c in classes)
            run = self._call_adopted if adopts else self._run(classes) or self._call_converted
        run = cache[key] = self._until_registration(run) if self.is_abstract else run
        return run

    def _until_registration(self, run: Callable) -> Callable:
        """`run`, until a class is registered with an abstract base class: then the function chooses again."""
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
        """The cached function for a call with such arguments, or None, and the arguments that the function gets."""
        full = args + (self._tail(len(args)) or ())
        return self._cache.get(_key(full)), full

    def is_served_by_body(self, *classes: type) -> bool:
        """True if the cached function for arguments of these classes is the body itself."""
        return self._cache.get(classes if len(classes) > 1 else classes[0]) is self.__wrapped__

    def _run(self, classes: tuple[type, ...]) -> Callable | None:
        """The function that runs arguments of exactly these classes; None if no method takes them."""
        if COLLECTING:
            note(self, "method", classes)
        cache, key = self._cache, ("run", *classes)
        if key in cache:
            return cache[key]
        method = self.table.find(classes)
        run = method and self.implementation(method, classes)
        if run is not None and run is not self.__wrapped__ and self.declaration.keyword_defaults:
            run = self._with_defaults(run)
        cache[key] = run
        return run

    def _with_defaults(self, run: Callable) -> Callable:
        """A function with the declared defaults of keyword-only arguments, if its own differ."""
        own, defaults = getattr(run, "__kwdefaults__", None) or {}, self.declaration.keyword_defaults
        is_same = all([name in own and own[name] is value for name, value in defaults.items()])
        return run if is_same else functools.partial(run, **defaults)

    def adopt_all(self, args: tuple) -> tuple:
        """All arguments; those of the classes in `adopted` are replaced by their stand-ins.

        An argument whose own class a method names at its place is not replaced, if that method then fits.
        """
        stays = [isinstance(a, self.adopted) and self.ask("named", i, type(a)) for i, a in enumerate(args)]
        fresh = tuple([a if stay else self._adopted(a) for a, stay in zip(args, stays, strict=True)])
        if any(stays) and self._run(tuple(map(type, fresh))) is None:
            return tuple(map(self._adopted, fresh))
        return fresh

    def _adopted(self, argument: Any) -> Any:
        return self.adopt(argument) if isinstance(argument, self.adopted) else argument

    def _call_adopted(self, *args: Any, **keywords: Any) -> Any:
        """A call with an argument that may dispatch as another class than its own."""
        given, args = args, self.adopt_all(args)
        if not keywords and not any([isinstance(a, self.adopted) for a in args]):
            run: Callable = self  # a normal call with the stand-ins, so that machine code can record it
        else:
            run = self._run(tuple(map(type, args))) or self._call_converted
        y = run(*args, **keywords)
        self.give_back(given, args)
        return y

    def converted(self, args: tuple) -> tuple:
        """All arguments, with as few conversions as some method needs.  Raises DispatchError if no method fits."""
        forms = [[a] for a in args]
        latest = args
        for _ in range(_CONVERSIONS):
            found = self.convert(latest, tuple(map(type, latest)))
            if found is None:
                break
            latest = tuple(found)
            for known, new in zip(forms, latest, strict=True):
                if type(new) is not type(known[-1]):
                    known.append(new)
            picks = self.ask("pick", tuple([tuple(map(type, known)) for known in forms]))
            if picks is not None:
                return tuple([known[pick] for known, pick in zip(forms, picks, strict=True)])
        classes = [tuple(map(type, known)) for known in forms]
        raise not_found(self, self.table, tuple(map(type, args)), "method", classes)

    def _call_converted(self, *args: Any, **keywords: Any) -> Any:
        """A call that no method takes without conversion."""
        given, args = args, self.converted(args)
        run = self._run(tuple(map(type, args)))
        assert run is not None, "converted arguments have a method"
        self.tell_converted(given, args)
        return run(*args, **keywords)

    @border
    def invoke(self, types: Sequence[type], /, *args: Any, **keywords: Any) -> Any:
        """Run the method that would be chosen for `types`, which the arguments must fit.

        A method can call a less specific one in this way: `f.invoke((Tensor, Tensor), a, b)`.
        Raises DispatchError if there is no such method or an argument does not fit.

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
        args, keywords = self.declaration.bind(args, keywords)
        if not isinstance(types, (tuple, list)) or not all([t is None or isinstance(t, type) for t in types]):
            raise DispatchError(located(
                f"{self.__name__}.invoke: the types come first, in a tuple, not {in_short(types)}"
            ))
        classes = tuple([type(None) if t is None else t for t in types])
        args = self.adopt_all(args)
        classes += tuple(map(type, args[len(classes) :]))
        pairs = zip(map(type, args), classes, strict=False)
        fit = all([issubclass(cls, wanted) or issubclass(dispatched(cls), wanted) for cls, wanted in pairs])
        if len(classes) != len(args) or not fit:
            raise DispatchError(located(
                f"{self.__name__}.invoke: the arguments ({', '.join(type_name(type(a)) for a in args)}) are not "
                f"of the types ({', '.join(map(type_name, classes))})"
            ))
        note(self, "method", classes)
        method = self.table.find(classes)
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
        note(self, "run", method, classes)
        key = ("run", method, *classes)
        run = self._cache.get(key)
        if run is None:
            self._make_room()
            cache = self._cache  # read before the next line: a registration there replaces the attribute
            run = cache[key] = self._with_defaults(self.implementation(method, classes))
        return run(*args, **keywords)

    # ------------------------------------------------------------ Python's object protocols

    def __repr__(self) -> str:
        count = len(self.table)
        return f"<{self.__name__}: generic function of {amount(count, 'method')}>"

    def _repr_html_(self) -> str:
        """The HTML for a notebook: the first line of the documentation, the methods folded."""
        from html import escape  # only notebooks need it

        head, *rest = map(escape, (repr(self)[1:-1], *(self.__doc__ or "").strip().splitlines()[:1]))
        lines = escape("\n".join(map(str, self.table)))
        return f"<details><summary><code>{head}</code> {''.join(rest)}</summary><pre>{lines}</pre></details>"

    __copy__ = __deepcopy__ = copy_is_self

    def __reduce__(self) -> Any:
        return sent.reduced(self)

    def __setstate__(self, state: tuple) -> None:
        sent.arrive(self, state)


def _key(args: tuple) -> Any:
    """The key of a call in the cache: the type of the only argument, or the tuple of types."""
    return type(args[0]) if len(args) == 1 else tuple(map(type, args))
