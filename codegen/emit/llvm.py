"""Loop nests as one module of LLVM IR text (valid for LLVM 20 to 22).

    define i32 @k0(ptr %pointers, ptr %extents) {          what the runtime calls
      %x = load ptr, ptr %pointers, align 8
      ...
      %status = call i32 @k0.body(ptr %x, ptr %y, i64 %n)
      ret i32 %status
    }
    define internal i32 @k0.body(ptr noalias ... %x, ptr noalias ... %y, i64 %n) { loops }
    define internal <8 x double> @exp.v8f64(<8 x double> %x) alwaysinline { ... }      only those in use

The inner function is not inlined into the outer one, because `noalias` is cheap and certain only as an
attribute of parameters; without it some twenty pointers stop vectorisation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from ..kernel.nest import MemRef, NestFunction
from ..records import record, replace
from . import math as elementary
from .body import BodyWriter, Needs, argument_names
from .debug import PlaceOf, Places, joined
from .pieces import ALLOCATION, in_pieces
from .target import Target
from .types import ALIGNMENT

#: The attribute of a function for which LLVM generates code without optimisation: to optimise a call takes time in
#: proportion to the square of the number of arguments, 1.8 s for 4,000, and else .07.
NOT_OPTIMIZED = "autodiff.not.optimized"
_MANY = 250


@record(frozen=True)
class Emitted:
    """One function as text, with the declarations and functions that its module needs."""

    name: str
    text: str
    needs: Needs

    def named(self, name: str) -> Emitted:
        """A copy of the function under another name."""
        text = self.text.replace(f"@{self.name}.", f"@{name}.").replace(f"@{self.name}(", f"@{name}(")
        return Emitted(name, text, self.needs)


def emit_function(function: NestFunction, target_features: str = "", place_of: PlaceOf | None = None) -> Emitted:
    """Emit one function of a module; with debug info if `place_of` gives the places of its nodes."""
    needs = Needs(place_of)
    kinds = ["ptr" if isinstance(a.type, MemRef) else "i64" for a in function.arguments]
    wrapper = entrance(function.name, zip(kinds, argument_names(function), strict=True))
    return Emitted(function.name, wrapper + internal(function, needs, Target.of(target_features)), needs)


def nameless(function: NestFunction, name: str = "kernel") -> NestFunction:
    """The function under neutral names, so that equal code has equal text."""
    return replace(function, name=name, names=tuple([f"a{i}" for i in range(len(function.names))]))


def called_by(emitted: Iterable[Emitted]) -> set[str]:
    """The elementary functions that these functions call: called.exp.v8f64."""
    needs = [need for e in emitted for need in e.needs.functions]
    return {elementary.named(*need[:3], is_called=True)[1:] for need in needs if need[3]}


def module_of(emitted: Sequence[Emitted], target_features: str = "", own: Collection[str] | None = None) -> str:
    """The module of these functions, with one copy of each declaration and function that several of them need.

    own    see `elementary.definitions`
    """
    names = [e.name for e in emitted]
    assert len(set(names)) == len(names), f"functions of one name: {names}"
    calls: Counter[elementary.Need] = Counter()
    for e in emitted:
        calls |= e.needs.functions  # for each function the most calls in one kernel
    texts, declared = elementary.definitions(calls, Target.of(target_features), own)
    for e in emitted:
        declared |= e.needs.declarations
    declarations = "".join(f"{text}\n" for _, text in sorted(declared.items()))
    others = [text for text in (texts, declarations, "attributes #0 = { mustprogress noinline nounwind }\n") if text]
    return joined([*[(e.text, e.needs.metadata) for e in emitted], *[(text, []) for text in others]])


def entrance(name: str, arguments: Iterable[tuple[str, str]], more: Sequence[str] = ()) -> str:
    """The function that the runtime calls: it unpacks the two argument blocks and calls the inner function.

    arguments   the type, "ptr" or "i64", and name of each        more    further arguments to pass after them
    """
    lines, passed, places = [], [], {"ptr": 0, "i64": 0}
    for type, argument in arguments:
        place, places[type] = places[type], places[type] + 1
        address = block = "%.pointers" if type == "ptr" else "%.extents"
        if place:
            address = f"{block}.{place}"
            lines.append(f"  {address} = getelementptr inbounds {type}, ptr {block}, i64 {place}")
        lines.append(f"  {argument} = load {type}, ptr {address}, align 8")
        passed.append(f"{type} {argument}")
    lines.append(f"  %.status = call i32 @{name}.body({', '.join([*passed, *more])})")
    lines.append("  ret i32 %.status")
    mark = f' "{NOT_OPTIMIZED}"' if len(passed) > _MANY else ""
    head = f"define i32 @{name}(ptr %.pointers, ptr %.extents) noinline nounwind{mark} {{"
    return "\n".join([head, *lines, "}\n"])


def internal(function: NestFunction, needs: Needs, target: Target, *, is_part: bool = False) -> str:
    """The inner function.  `is_part`: it is inlined into its caller."""
    body = BodyWriter(function, needs, target)
    parameters = {
        body.names[argument]: _pointer(function, j) if isinstance(argument.type, MemRef) else "i64"
        for j, argument in enumerate(function.arguments)
    }
    name = f"{function.name}.body"
    lines, pieces = in_pieces(name, body.write(), parameters)
    if pieces:
        needs.declarations |= ALLOCATION
    taken = ", ".join([f"{type} {one}" for one, type in parameters.items()])
    head = f"define internal i32 @{name}({taken}) {'alwaysinline nounwind' if is_part else '#0'}"
    texts = [_text(function.name, head, lines, needs)]
    texts += [_text(function.name, f"{piece.head} #0", piece.lines, needs) for piece in pieces]
    return "".join(texts)


def _text(name: str, head: str, lines: Sequence[str], needs: Needs) -> str:
    """The text of one function.   name: that of the kernel, for debug info"""
    mark = ""
    if needs.place_of is not None:
        places = Places(name, needs.place_of)
        *lines, mark = places.among(needs.metadata, places.lines(lines))
    return "\n".join([f"{head}{mark} {{", *lines, "}\n"])


def _pointer(function: NestFunction, j: int) -> str:
    """The type of a pointer parameter, with attributes for all that is known of its memory.

    Memory of a known size may be read ahead of a branch, so that LLVM can turn the branch into a select.
    """
    memory = function.arguments[j].type
    assert isinstance(memory, MemRef)
    alignment = ALIGNMENT[memory.element]
    text = f"ptr noalias nofree align {alignment}"
    if memory.size:
        text += f" dereferenceable({alignment * memory.size})"
    return text if j in function.writes else f"{text} readonly"
