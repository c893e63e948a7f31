"""Methods: one implementation for arguments of certain types; reading types; the error when no method fits a call.

Some methods are in modules that are imported late (`late`).  No call needs such a method before the import, since it
takes types that its own module defines.  A list of methods needs all of them (`complete`).
"""

from __future__ import annotations

import contextlib
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from codegen.lazily import imported

from ..errors import DispatchError, caller
from ..frames import user_frame
from ..tracebacks import border
from .declaration import place_of
from .signature import Choice, NamedUnion, NoneType, Signature, as_types, dispatched, listed, type_name

if TYPE_CHECKING:
    from .registry import Registry

#: The kinds of methods that are rules, not programs.
RULES = ("backward", "jvp")
#: The number of near misses that an error shows.
_SHOWN = 3


class Method:
    """One implementation of a generic function, or one of its rules.

    function        the generic function
    implementation  the user's function
    signature       the types it takes; for a rule, those of the call's *inputs*
    kind            "method"    a program, differentiated through its operations
                    "forward"   half of a pair, takes `ctx` first
                    "backward"  "jvp"   rules
    host            True if it needs NumPy arrays and Python at each run
    out             avals of a host forward's outputs, if given
    place           `linear.py:12`
    rules           rules attached to this method: they serve no other

    A call of it runs this method, not the one that dispatch would choose.
    """

    def __init__(
        self, function: Any, implementation: Callable, signature: Signature, kind: str, *, host: bool = False,
        out: Any = None, attached_to: Method | None = None,
    ) -> None:
        self.function, self.implementation, self.signature, self.kind = function, implementation, signature, kind
        self.host, self.out, self.attached_to = host, out, attached_to
        self.place = place_of(implementation)
        self.rules: dict[str, Method] = {}
        self.__doc__ = implementation.__doc__

    def backward(self, implementation: Callable | None = None, /, *, host: bool = False) -> Any:
        """Attach the rule that pulls cotangents back through this method: `@scale.backward`."""
        return self.function._attach(self, "backward", implementation, host)

    def jvp(self, implementation: Callable | None = None, /) -> Any:
        """Attach the rule that pushes tangents forward through this method: `@scale.jvp`."""
        return self.function._attach(self, "jvp", implementation, False)

    def delete(self) -> None:
        """Remove this method from its function; calls choose anew.  A second call does nothing."""
        self.function._remove(self)

    @border
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Run this method.  Raises DispatchError when the arguments are not of its types."""
        return self.function._call_method(self, args, keywords)

    @property
    def source(self) -> tuple[str, str]:
        """The file and the module in which the implementation is written."""
        written = inspect.unwrap(self.implementation)
        code = getattr(written, "__code__", None)
        return (code.co_filename if code else "", getattr(written, "__module__", None) or "")

    def heading(self) -> str:
        """`linear(input: Matrix, weight: Matrix, bias: Vector | None)`."""
        choices = self.signature.choices
        told = ["" if repr(choice) == "object" else f": {choice}" for choice in choices]
        names = self.function.declaration.names_of(len(choices))
        return f"{self.function.__name__}({', '.join(map(str.__add__, names, told))})"

    def __repr__(self) -> str:
        kind = "" if self.kind == "method" else f"  {'host ' if self.host else ''}{self.kind}"
        return f"{self.heading()}{kind}  {self.place}"


# ---------------------------------------------------------------- methods in modules that are imported late

_LIBRARY = __name__.partition(".")[0] + "."

_modules: list[str] = []


def late(module: str) -> None:
    """Announce a module that registers methods when it is imported, which may be later."""
    _modules.append(module)


def complete() -> None:
    """Import the announced modules."""
    while _modules:
        name = _modules[0]
        imported(name)
        _modules[:] = [module for module in _modules if module != name]


def is_own(thing: Any) -> bool:
    """True if a function or class is written in the library itself."""
    return (getattr(thing, "__module__", None) or "").startswith(_LIBRARY)


# ---------------------------------------------------------------- reading types


def choice_of(spec: Any, where: str) -> Choice:
    """The choice that a type, a union, a tuple of types or None stands for.

    Raises DispatchError, beginning with `where`, for anything else: list[int], Literal, ...
    """
    members: list[type] = []
    waiting: list[Any] = [spec]
    while waiting:
        part = waiting.pop(0)
        if part is None:
            members.append(NoneType)
        elif part is typing.Any or part is inspect.Parameter.empty:
            members.append(object)
        elif part is typing.Never or part is typing.NoReturn:
            continue
        elif isinstance(part, NamedUnion):
            members += part.members
        elif isinstance(part, type) and not isinstance(part, types.GenericAlias):
            members.append(part)
        elif isinstance(part, tuple):
            waiting[:0] = part
        elif isinstance(part, types.UnionType) or typing.get_origin(part) is typing.Union:
            waiting[:0] = typing.get_args(part)
        else:
            raise DispatchError(
                f"{where}: {part!r} is not a type that a call can be dispatched on\n"
                f"  registered at {caller()}\n"
                f"  use classes and unions of them: list, ad.Vector | None"
            )
    return Choice(members)


def annotated_types(function: Callable, parameters: Sequence[inspect.Parameter], where: str) -> list[Choice]:
    """The choices that the annotations of parameters name; a missing annotation means `object`."""
    choices = []
    for parameter in parameters:
        spec = parameter.annotation
        place = f"{where}, parameter {parameter.name!r}"
        # Two rounds: under `from __future__ import annotations`, an annotation in quotes is text within text.
        for _ in range(2):
            spec = _evaluate(spec, inspect.unwrap(function), place) if isinstance(spec, str) else spec
        choices.append(choice_of(spec, place))
    return choices


def _evaluate(text: str, function: Callable, where: str) -> Any:
    """The object that a textual annotation names: in its module, its closure, or the user's frame around it."""
    code = getattr(function, "__code__", None)
    frame = user_frame()
    names = dict(frame.f_locals) if frame is not None and code in frame.f_code.co_consts else {}
    for name, cell in zip(code.co_freevars if code else (), getattr(function, "__closure__", None) or (), strict=True):
        # A cell is empty if its name is bound further down in the program.
        with contextlib.suppress(ValueError):
            names[name] = cell.cell_contents
    try:
        return eval(text, getattr(function, "__globals__", {}), names)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise DispatchError(
            f"{where}: cannot make out the annotation {text!r}: {error}\n  registered at {caller()}"
        ) from error


# ---------------------------------------------------------------- the error when no method fits


def not_found(
    function: Registry,
    methods: Iterable[Method],
    classes: Sequence[type],
    what: str,
    forms: Sequence[Sequence[type]] = (),
) -> DispatchError:
    """The error for classes that no method (or rule) takes: it shows the nearest methods, and why they do not fit.

    forms   for each argument its own class and all classes that it can be converted to
    """
    complete()
    forms = forms or [(cls,) for cls in classes]
    ranked = sorted(((_misfits(m, classes, forms), m) for m in methods), key=lambda pair: len(pair[0]))
    lines = [f"{function.__name__} has no {what} for {listed(classes)}"]
    for misfits, method in ranked[:_SHOWN]:
        lines.append(f"  near: {method}")
        lines += [f"    {misfit}" for misfit in misfits]
    if not ranked:
        lines.append(f"  it has none at all; declared at {function.declaration.place}")
    lines.append(f"  called at {caller()}")
    lines.append(f"  to add one: @{function.__name__}.{what}{types_of_call(function, classes)}")
    return DispatchError("\n".join(lines))


def types_of_call(function: Registry, classes: Sequence[type]) -> str:
    """The types to register a method with, so that it takes a call; the classes of all `*xs` become one union."""
    fixed = len(function.declaration.fixed)
    rest = [Choice(map(dispatched, classes[fixed:]))] if len(classes) > fixed else []
    return as_types([*[Choice((dispatched(c),)) for c in classes[:fixed]], *rest])


def _misfits(method: Method, classes: Sequence[type], forms: Sequence[Sequence[type]]) -> list[str]:
    """A text for each argument that does not fit, converted or not: `weight is str, not Matrix`."""
    names = method.function.declaration.names_of(len(classes))
    return [
        f"{name} is {type_name(cls)}, not {choice}"
        + (f": np.array({name}) is an array of its numbers" if cls in (list, tuple) and "Tensor" in str(choice) else "")
        for name, cls, known, choice in zip(names, classes, forms, method.signature.spread(len(classes)), strict=True)
        if not any(map(choice.takes, known))
    ]
