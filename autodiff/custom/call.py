"""`CustomCall`: the data of one call of a custom function, held by its boundary.  It holds no node and no tensor.

Most of this data is equal for every call in a loop, so it is kept once and shared:

    Site    the called function, its method, and the types of the arguments
    Shape   the place that each tensor comes from, and the containers around: interned, so equal ones are one object
    Call    a site, a shape, the values that are no tensors, the user's line

A value that holds tensors is taken apart (`pack`), so that a call makes no reference cycle, and its data can be part of
a key.  The place that a tensor comes from is a number: its place among the boundary's inputs, or -1 - k for tracked
output k, read back behind its boundary.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from types import FunctionType
from typing import Any

import numpy as np

from codegen.ir import DTYPES, Aval
from codegen.records import NamedTuple

from .. import tree
from ..frames import UserLine
from ..session import namespace
from ..tape.node import Alive
from ..tensor import Tensor
from .keys import ReadsWalk, static_key
from .reads import Path, boundary_inputs_in_place, is_fixed


def as_it_is(value: Any) -> Any:
    """A leaf that is no tensor, unchanged."""
    return value


def own_copy(leaf: Any) -> Any:
    """A leaf that is no tensor, as a call keeps it: an array is copied, so that no later write changes it."""
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


#: Classes whose instances hold no tensors, and never will.
HOLDS_NONE = frozenset(
    (type(None), bool, int, float, complex, str, bytes, range, slice, type, FunctionType, np.ndarray, np.bool_,
     *[d.type for d in DTYPES.values()])
)  # fmt: skip


class Packed(NamedTuple):
    """A value taken apart: its containers, the places of its tensors, and its other leaves.

    structure  the containers; None for a tensor by itself
    places     for each leaf: the place of a tensor (int), or None
    statics    the leaves that are no tensors, in order; arrays among them are copies
    """

    structure: Any
    places: tuple[int | None, ...]
    statics: tuple[Any, ...]

    def unpack(self, tensor_at: Callable[[int], Any], static: Callable[[Any], Any] = as_it_is) -> Any:
        """The value put together: `tensor_at(place)` for each tensor, `static(leaf)` for each other leaf."""
        if self.structure is None and (place := self.places[0]) is not None:
            return tensor_at(place)
        statics = iter(self.statics)
        leaves = [static(next(statics)) if p is None else tensor_at(p) for p in self.places]
        return leaves[0] if self.structure is None else tree.unflatten(self.structure, leaves)


def pack(value: Any, place_of: Callable[[Tensor], int], tensor_of: Callable[[Any], Tensor | None]) -> Packed:
    """A value taken apart.   tensor_of: the tensor that a leaf stands for, None if it stands for none"""
    if isinstance(value, Tensor):
        return Packed(None, (place_of(value),), ())
    if type(value) in HOLDS_NONE and tensor_of(value) is None:
        return Packed(tree.LEAF, (None,), (own_copy(value),))
    leaves, structure = tree.flatten(value)
    tensors = list(map(tensor_of, leaves))
    places = tuple([None if t is None else place_of(t) for t in tensors])
    return Packed(structure, places, tuple([own_copy(x) for x, t in zip(leaves, tensors, strict=True) if t is None]))


class Site:
    """The function, method and types of a call.

    function   the generic function;  method  its forward method;  types  those of the call's arguments
    has_context  True if the method takes `ctx` first
    transparent  True if reverse mode differentiates the body: there is a jvp, but no backward
    has_token    True if the backward is a host rule, which finds the call by a token
    gives_new_nodes  True if forward gets new nodes for inputs that it also reads, or may read, by other names
    """

    __slots__ = ("function", "gives_new_nodes", "has_context", "has_token", "method", "transparent", "types")

    def __init__(self, function: Any, method: Any, types: tuple[type, ...], backward: Any) -> None:
        self.function, self.method, self.types = function, method, types
        self.has_context = method.kind == "forward"
        self.transparent = not self.has_context and backward is None
        self.has_token = backward is not None and backward.host
        self.gives_new_nodes = False

    def run(self, ctx: Any, arguments: Mapping[str, Any]) -> Any:
        """Run the method on arguments by name."""
        declaration, rest = self.function.declaration, dict(arguments)
        given = [rest.pop(name) for name in declaration.fixed]
        if declaration.variadic is not None:
            given += rest.pop(declaration.variadic)
        if self.has_context:
            given.insert(0, ctx)
        return self.method.implementation(*given, **rest)


#: A part of a call: its name, then structure and places as in `Packed`.
Part = tuple[str | None, Any, tuple[int | None, ...]]


class CallShape:
    """All data of a call except its site, its avals and the values that are no tensors.

    parts                  arguments by name, saved values, attributes by name, the outputs, in order: each a Packed
                           without statics, and the number of these
    materialize            True if the cotangent of an unused output is zeros
    classes                the program's own classes among the containers: a rule may call their methods
    closed, closed_at      names of tracking values that forward closes over, and the place of the first: see `reads`
    """

    __slots__ = (
        "__weakref__", "classes", "closed", "closed_at", "materialize", "n_arguments", "n_saved", "names", "parts",
    )  # fmt: skip

    def __init__(
        self, parts: tuple[Part, ...], n_arguments: int, n_saved: int, materialize: bool, closed: tuple[str, ...] = (),
        closed_at: int = 0,
    ) -> None:  # fmt: skip
        self.names = [name for name, _, _ in parts]
        self.parts = [(Packed(structure, places, ()), places.count(None)) for _, structure, places in parts]
        self.n_arguments, self.n_saved = n_arguments, n_saved
        self.materialize, self.closed, self.closed_at = materialize, closed, closed_at
        met = dict.fromkeys([cls for _, structure, _ in parts for cls in classes_of(structure)])
        self.classes = tuple([cls for cls in met if not is_fixed(cls.__module__)])


def classes_of(structure: tree.Structure | None) -> Iterator[type]:
    """The classes of the containers in a nesting."""
    if structure is not None and structure.cls is not None:
        yield structure.cls
        for child in structure.children:
            yield from classes_of(child)


class MappedCall(NamedTuple):
    """A call for one example, inside a call for many (`vmap`): its rules are applied to each example.

    inner    the call for one example;  size: the number of examples
    mapped   for each input of the boundary, True if it differs between examples, which lie along axis 0
    pull, push   functions that apply the rules: see `transforms.batch.walk`
    """

    inner: CustomCall
    size: int
    mapped: tuple[bool, ...]
    pull: Callable[..., list[Tensor | None]]
    push: Callable[..., list[Tensor | None]]


#: All shapes that are alive: keys of plans compare them by identity.
_LIVE_SHAPES = Alive()


def shape_of(*key: Any) -> CallShape:
    """The interned shape of a call with these parts.   key: the arguments of `CallShape`"""
    found: CallShape | None = _LIVE_SHAPES.known(key)
    return found or _LIVE_SHAPES.intern(key, CallShape(*key))


class CustomCall:
    """The call of a custom function that a boundary stands for.

    site, shape  data shared with other calls: see above
    statics    the values that are no tensors: of arguments, saved, attributes, result
    avals      those of the tracked outputs
    opaque     True if forward evaluated tensors: the derivative of its saved values may then be unknown
    token      place of the number by which a host rule finds this call when it runs; None: no host rule
    line       the user's line
    reads      tensors of a trace that its rules close over: path of names -> place among the boundary's inputs
    numbers    numbers and arrays that its rule may read, as `key` found them last
    structure  everything else in its key
    each       for a call for many examples: the call for one; else None
    """

    __slots__ = (
        "__weakref__", "avals", "each", "is_pure", "line", "numbers", "opaque", "reads", "shape", "site", "statics",
        "structure", "token",
    )  # fmt: skip

    def __init__(
        self, site: Site, shape: CallShape, statics: tuple[Any, ...], avals: tuple[Aval, ...], opaque: bool,
        token: int | None, line: UserLine | None,
    ) -> None:  # fmt: skip
        self.site = site
        self.shape = shape
        self.statics = statics
        self.avals = avals
        self.opaque = opaque
        self.token = token
        self.line = line
        self.reads: Mapping[Path, int] = _NO_READS
        self.is_pure = True
        self.numbers: list[Any] = _NONE
        self.structure: Any = None
        self.each: MappedCall | None = None

    def of_all(self, each: MappedCall) -> CustomCall:
        """The call for many examples like this one."""
        other = copy.copy(self)
        other.each = each
        other.avals = tuple([a.with_shape((each.size, *a.shape)) for a in self.avals])
        return other

    # ------------------------------------------------------------ what is shared

    function = property(attrgetter("site.function"), doc="The generic function.")
    method = property(attrgetter("site.method"), doc="Its forward method.")
    types = property(attrgetter("site.types"), doc="The types of the arguments.")
    transparent = property(attrgetter("site.transparent"), doc="True if reverse mode differentiates the body.")
    materialize = property(attrgetter("shape.materialize"), doc="True if the cotangent of an unused output is zeros.")
    is_one = property(lambda self: len(self.avals) == 1, doc="True if it has one output that is tracked.")

    # ------------------------------------------------------------ what a rule reads

    @property
    def arguments(self) -> dict[str, Packed]:
        """One Packed per declared parameter, by name."""
        return dict(self._named(0, self.shape.n_arguments))

    @property
    def saved(self) -> list[tuple[str | None, Packed]]:
        """(name or None, Packed) in the order of save_for_backward."""
        return self._named(self.shape.n_arguments, self.shape.n_arguments + self.shape.n_saved)

    @property
    def attributes(self) -> dict[str, Packed]:
        """The values that forward set as attributes of its context, by name."""
        return dict(self._named(self.shape.n_arguments + self.shape.n_saved, -1))

    @property
    def result(self) -> Packed:
        """The outputs in their container."""
        return self.packed()[-1]

    def _named(self, start: int, stop: int) -> list[tuple[Any, Packed]]:
        return list(zip(self.shape.names[start:stop], self.packed()[start:stop], strict=True))

    def packed(self) -> list[Packed]:
        """All values that a rule may read: arguments, saved, attributes, result."""
        statics = iter(self.statics)
        parts = self.shape.parts
        return [Packed(p.structure, p.places, tuple(islice(statics, n))) if n else p for p, n in parts]

    # ------------------------------------------------------------ rule and key

    def rule(self, kind: str = "backward") -> Any:
        """The rule that is registered for this call now; None if there is none."""
        site = self.site
        return site.method.rules.get(kind) or site.function.rule_for(kind, site.method, site.types)

    def _is_by_token(self, rule: Any) -> bool:
        """True for a host rule that finds this call by its token when it runs, and reads everything then."""
        return rule is not None and rule.host and self.token is not None

    def key(self, rules_by_site: dict[int, tuple] | None = None) -> Any:
        """This call's part of the rule key.  Sets `is_pure`: True if the key and `numbers` are all that the rule reads.

        A number counts by its type, and also by its value if the rule was seen to look at the number.

        rules_by_site   rules of other calls in this recording, with their keys, by site: many calls have few sites
        """
        if self.each is not None:
            inner, size, mapped, *_ = self.each
            key, self.is_pure, self.numbers = inner.rules_key("backward"), inner.is_pure, _NONE
            return (key, size, mapped)  # the rule of one example gets plain numbers
        found = None if rules_by_site is None else rules_by_site.get(id(self.site))
        if found is None:
            rule, walk = self.rule(), ReadsWalk([])
            found = rule, None if self._is_by_token(rule) else self._key_of(rule, walk), walk
            if rules_by_site is not None:
                rules_by_site[id(self.site)] = found
        rule, code, of_rule = found
        if self._is_by_token(rule):
            self.is_pure, self.numbers = True, _NONE
            return (rule, self.shape)
        self.numbers = numbers = [*(of_rule.numbers or ())]
        self.is_pure, parts = of_rule.is_whole and not (rule is not None and rule.host), ()
        if self.statics or self.shape.classes:
            walk = ReadsWalk(numbers)
            parts = self._parts(walk)
            self.is_pure &= walk.is_whole
        self.structure = structure = (code, self.shape, parts)
        if not numbers:
            return structure
        looked = LOOKS.get(structure, ())
        if looked:
            self.is_pure &= all([type(numbers[i]) is not np.ndarray for i in looked])
        return key_of(structure, numbers, looked)

    def rules_key(self, *kinds: str) -> Any:
        """A key for recording the rules of these kinds (default: both), in which the current numbers count by value."""
        walk, (first, *others) = ReadsWalk(), [self.rule(kind) for kind in kinds or ("backward", "jvp")]
        by_token = self._is_by_token(first)
        keys = [first if by_token else self._key_of(first, walk), *[self._key_of(rule, walk) for rule in others]]
        parts = () if by_token else self._parts(walk)
        self.is_pure = walk.is_whole and (by_token or first is None or not first.host)
        return (self.shape, *keys, parts)

    def recorded_key(self) -> Any:
        """A key of all that decides, beside tensors, what both rules of this call record; None if no key can say it.

        Numbers count by value.  No key is made for host rules, nor if the forward evaluated tensors.
        """
        rules = [self.rule(), self.rule("jvp")]
        if self.opaque or self.token is not None or any([rule is not None and rule.host for rule in rules]):
            return None
        key = self.rules_key()
        return (key, self.transparent) if self.is_pure else None

    def _key_of(self, rule: Any, walk: ReadsWalk) -> Any:
        """The key of a rule; a tensor of a trace in it counts by its place.  None if there is no rule."""
        if rule is None:
            return None
        if not self.reads:
            return walk.key(rule.implementation)
        with boundary_inputs_in_place(rule, self.reads, _NodePlace):
            return walk.key(rule.implementation)

    def _parts(self, walk: ReadsWalk) -> tuple:
        """The keys of the values that a rule may read from the call."""
        return (*[walk.key(x) for x in self.statics], *[walk.of_class(cls) for cls in self.shape.classes])


class _NodePlace:
    """A stand-in for the node at a place, while a key is made: `ReadsWalk.key` reads its `number`."""

    __slots__ = ("number",)

    def __init__(self, place: int) -> None:
        self.number = ("place", place)


_NONE: list[Any] = []
_NO_READS: Mapping[Path, int] = {}

#: Structure of a call (its key without numbers) -> indices of the numbers that its rule was seen to look at
#: (`watching`).  These count by value in the key; all others are arguments of the graph.  A plan that was made earlier
#: is not found under the longer key, so it never answers for a value that its own run has looked at.
LOOKS = namespace("looks")


def key_of(structure: Any, numbers: Sequence[Any], looked: tuple[int, ...]) -> Any:
    """The key of a call with this structure; the numbers with the indices `looked` count by value."""
    return (structure, looked, tuple([static_key(numbers[i])[0] for i in looked]))
