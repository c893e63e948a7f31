"""Host rules: forwards and backwards that need Python and values each time (SciPy, a C library, `float(g)`).

Recorded, a host forward simply runs: on read-only arrays when it is declared so, on tensors when it asks
by itself.  In a trace there are no values, so it becomes a host call.

What a host forward returns and saves is learnt from its first run outside of a trace: `Unlearnt` tells
`jit` to make one.  A host backward needs no learning: a gradient has its primal's aval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from codegen.ir import DTYPES, Aval, parse_aval

from .. import tree
from ..errors import ConcretizationError, GradientError, caller, located
from ..mode import MODE
from ..tape.ask import value_of
from ..tape.leaves import leaf
from ..tape.record import state
from ..tensor import Tensor
from .call import Packed
from .context import ForwardContext, attributes, said
from .host_call import arrays_of, host_call, in_own_recording, note_read_only
from .keys import static_key
from .outputs import Outputs, no_gradient
from .reads import held_by

__all__ = ["Unlearnt", "Visit", "learn", "run_on_arrays", "run_traced"]

class Unlearnt(ConcretizationError):
    """A trace met a host forward whose outputs are not known yet: it has to run outside of a trace once."""


class Visit(NamedTuple):
    """One call of a forward method.

    run      run(ctx, arguments by name) calls the method
    packed   the arguments;  needs: for each, whether it needs a gradient;  avals: of the tensors in them
    """

    function: Any
    method: Any
    run: Callable
    packed: dict[str, Packed]
    needs: list[bool]
    avals: tuple[Aval, ...]

    def context(self, values: dict[str, Any]) -> ForwardContext:
        """A context for one more run on these values."""
        return ForwardContext(self.function.__name__, list(values), self.needs, list(values.values()))

    def key(self) -> tuple:
        """The key of all that the outputs' avals may depend on."""
        packed = [(name, p[:2], *[static_key(x)[0] for x in p.statics]) for name, p in self.packed.items()]
        return (tuple(packed), self.avals)


def run_on_arrays(visit: Visit, ctx: ForwardContext, values: dict[str, Any]) -> Any:
    """Run a host forward now, on read-only arrays.

    An array that it was given reads back as that input; other arrays that it saves become constant tensors.
    """
    tensors = [x for x in tree.leaves(values) if isinstance(x, Tensor)]
    arrays = arrays_of(tensors)
    given = dict(zip(map(id, tensors), arrays, strict=True))
    host_values = tree.map(lambda x: given.get(id(x), x), values)
    own = visit.context(host_values)
    try:
        result = visit.run(own, host_values)
    except ValueError as error:
        note_read_only(error)
        raise
    seen: dict[int, tuple[Any, Tensor]] = {id(a): (a, t) for a, t in zip(arrays, tensors, strict=True)}

    def tensor_for(x: Any) -> Any:
        if not isinstance(x, (np.ndarray, np.generic)) or x.dtype not in _KNOWN:
            return x
        if id(x) not in seen:
            seen[id(x)] = (x, leaf(np.array(x, order="C", subok=False)))
        return seen[id(x)][1]

    told, new = said(own), said(ctx)
    declared = (result, told.saved, list(told.constant), list(told.dirty), attributes(own))
    result, new.saved, new.constant, new.dirty, on_it = tree.map(tensor_for, declared)
    new.materialize = told.materialize
    for name, value in on_it.items():
        setattr(ctx, name, value)
    return result


class Recipe(NamedTuple):
    """The leaves of a host forward: of its result, then those that it saved, then those that it set on `ctx`.

    tags    per leaf: ("input", place), ("same", earlier leaf), ("array", place among avals), ("static", value),
            ("number", place among avals): of Python's, returned, which is no tensor that could track
    avals   of what is computed
    trees   structures: of the result, of each saved value, of each attribute
    saved, attributes   names
    constant  leaves that are marked non-differentiable
    closed    names of tracking values that it read without being given them; None: not known
    declared  True: by `out=`; else learnt from a run
    """

    tags: tuple[tuple[str, Any], ...]
    avals: tuple[Aval, ...]
    trees: tuple[Any, ...]
    saved: tuple[str | None, ...] | None
    attributes: tuple[str, ...]
    constant: tuple[int, ...]
    materialize: bool
    closed: tuple[str, ...] | None = None
    declared: bool = False


_learnt: dict[ref[Any], dict[tuple, Recipe]] = {}
_LEARNT_LIMIT = 1024
_KNOWN = frozenset(DTYPES.values())


def _trees_of(ctx: ForwardContext, result: Any) -> list[Any]:
    told = said(ctx)
    return [result, *[v for _, v in told.saved or ()], *attributes(ctx).values()]


def _is_value(x: Any) -> bool:
    """True if a leaf is different in each run: arrays and numbers; not text, None, flags."""
    if isinstance(x, (Tensor, int, float, complex)):
        return not isinstance(x, bool)
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype.newbyteorder("=") in _KNOWN


def _aval_of(x: Any) -> Aval:
    if isinstance(x, Tensor):
        return x.aval
    array = np.asarray(x)
    return Aval(array.shape, array.dtype.newbyteorder("="))


def _made(visit_place: dict[int, int], ctx: ForwardContext, result: Any) -> tuple[Recipe, list[Any]]:
    """The recipe of one run, and the leaves that are computed.  `visit_place`: id of a given leaf -> its place."""
    told = said(ctx)
    tags: list[tuple[str, Any]] = []
    computed: list[Any] = []
    trees, seen = [], dict[int, int]()
    for value in _trees_of(ctx, result):
        leaves, structure = tree.flatten(value)
        trees.append(structure)
        for x in leaves:
            if id(x) in visit_place:
                tags.append(("input", visit_place[id(x)]))
            elif id(x) in seen and len(trees) > 1:
                tags.append(("same", seen[id(x)]))
            elif _is_value(x):
                is_number = len(trees) == 1 and not isinstance(x, (Tensor, np.ndarray, np.generic))
                tags.append(("number" if is_number else "array", len(computed)))
                computed.append(x)
            else:
                tags.append(("static", x))
            if isinstance(x, (Tensor, np.ndarray)):
                seen.setdefault(id(x), len(tags) - 1)
    recipe = Recipe(
        tuple(tags),
        tuple([_aval_of(x) for x in computed]),
        tuple(trees),
        None if told.saved is None else tuple([n for n, _ in told.saved]),
        tuple(attributes(ctx)),
        tuple([seen[id(x)] for x in told.constant if id(x) in seen]),
        told.materialize,
    )
    return recipe, computed


def learn(visit: Visit, ctx: ForwardContext, outputs: Outputs, closed: tuple[str, ...]) -> None:
    """Remember what a forward that needed values returned and saved, for traces to come."""
    places: dict[int, int] = {}
    for name, value in zip(visit.packed, ctx.inputs, strict=True):
        for x, p in zip(tree.leaves(value), visit.packed[name].places, strict=True):
            if p is not None:
                places[id(x)] = p
    if said(ctx).dirty:
        return  # an array has no handle whose value could be replaced
    table, key, returned = _learnt.setdefault(ref(visit.method, _learnt.pop), {}), visit.key(), outputs.as_returned()
    if visit.method.out is not None and key not in table:
        # A number is an array to out= where it is an argument of jit.
        numbers = [_aval_of(x) for x in tree.leaves(tuple(ctx.inputs)) if _is_value(x)]
        avals = next((a for a in (visit.avals, numbers) if _takes(visit.method.out, a)), None)
        if avals is not None:
            _check(visit, _made({}, ctx, returned)[0], _declared(visit, avals))
    if len(table) >= _LEARNT_LIMIT:
        table.clear()
    table[key] = _made(places, ctx, returned)[0]._replace(closed=closed)


def _check(visit: Visit, found: Recipe, known: Recipe) -> None:
    """Raise GradientError for a run that gave something else than is declared, or than the runs before it gave."""
    if found.avals[: len(known.avals)] == known.avals and found.trees[: len(known.trees)] == known.trees:
        return
    which = f"{visit.function.__name__}: this host forward ({visit.method.place})"
    gives, told = f"{which} gives {_told(found.avals)}", _told(known.avals)
    if known.declared:
        raise GradientError(located(f"{gives}, and its out= says {told}", "let them be the same"))
    raise GradientError(
        f"{gives} inside jit, and gave {told} for such inputs before\n"
        "  its outputs and what it saves may depend in shape and dtype on those of its inputs only"
    )


class _HostForward:
    """A forward inside of a compiled graph: arrays of the inputs in, what the recipe computes out."""

    def __init__(self, visit: Visit, recipe: Recipe) -> None:
        self.visit = visit
        self.recipe = recipe
        self.__qualname__ = f"{visit.function.__name__} forward"

    def __call__(self, *arrays: np.ndarray) -> list[Any]:
        visit, recipe = self.visit, self.recipe
        with in_own_recording():
            held: list[Any] = list(arrays) if visit.method.host else [leaf(np.array(a, order="C")) for a in arrays]
            values = {name: p.unpack(held.__getitem__) for name, p in visit.packed.items()}
            ctx = visit.context(values)
            try:
                result = visit.run(ctx, values)
            except ValueError as error:
                note_read_only(error)
                raise
            as_inputs = {what for tag, what in recipe.tags if tag == "input"}  # others are results, given or not
            found, computed = _made({id(x): i for i, x in enumerate(held) if i in as_inputs}, ctx, result)
            _check(visit, found, recipe)
            kept = computed[: len(recipe.avals)]
            return [value_of(x.node) if isinstance(x, Tensor) else np.asarray(x) for x in kept]


def _told(avals: Sequence[Aval]) -> str:
    return ", ".join(map(str, avals)) or "nothing"


def run_traced(visit: Visit, ctx: ForwardContext, values: dict[str, Any], cause: Exception | None = None) -> Any:
    """Record a host forward as a host call; what it saves is said to `ctx` in tensors.

    Raises Unlearnt when nothing is known about its outputs yet.
    """
    recipe = _learnt.get(ref(visit.method), {}).get(visit.key())
    if recipe is None and visit.method.out is not None and not any(visit.needs):  # no backward will read what it saved
        recipe = _declared(visit, visit.avals)
    if recipe is None:
        raise Unlearnt(located(
            f"{visit.function.__name__} ({visit.method.place}) needs values, and its outputs are not known",
            "call the function once outside of jit with arguments of these types, or declare out=",
        )) from cause
    returned = {tag for tag, _ in recipe.tags[: recipe.trees[0].size]}
    if any(visit.needs) and "number" in returned and returned <= {"number", "static"}:
        raise no_gradient(visit.function.__name__, caller(), has_number=True)
    by_place: dict[int, Tensor] = {}
    for value, p in zip(values.values(), visit.packed.values(), strict=True):
        tensors = [x for x in tree.leaves(value) if isinstance(x, Tensor)]
        by_place.update(zip([place for place in p.places if place is not None], tensors, strict=True))
    inputs = [by_place[i] for i in range(len(visit.avals))]
    made = host_call(_HostForward(visit, recipe), inputs, recipe.avals)
    now = state.now
    now.asked += 1
    now.looked += 1
    held = held_by(visit.method.implementation) if MODE.get().tracks else []
    read = [t.node for path, t in held if recipe.closed is None or repr(path[-1]) in recipe.closed]
    now.seen += [(now.asked, node) for node in read if node.kind.out.requires_grad]
    leaves: list[Any] = []
    for tag, what in recipe.tags:
        sources: Any = {"input": by_place, "same": leaves, "array": made, "number": made}.get(tag)
        leaves.append(what if sources is None else sources[what])
    return _say(recipe, ctx, leaves)


def _say(recipe: Recipe, ctx: ForwardContext, leaves: list[Any]) -> Any:
    """Rebuild from leaves what forward returned, and tell `ctx` what it said."""
    rest = iter(leaves)
    parts = [tree.unflatten(t, [next(rest) for _ in range(t.size)]) for t in recipe.trees]
    result, *others = parts
    told = said(ctx)
    for name in attributes(ctx):
        delattr(ctx, name)
    n = len(recipe.saved or ())
    told.saved = None if recipe.saved is None else tuple(zip(recipe.saved, others[:n], strict=True))
    told.constant = [leaves[i] for i in recipe.constant]
    told.constant += [x for x, (tag, _) in zip(leaves, recipe.tags, strict=True) if tag == "number"]
    told.dirty = []
    told.materialize = recipe.materialize
    for name, value in zip(recipe.attributes, others[n:], strict=True):
        setattr(ctx, name, value)
    return result


def _takes(out: Any, avals: Sequence[Aval]) -> bool:
    """True if an `out=` is none that is called, or can be called with these."""
    try:
        return not callable(out) or bool(signature(out).bind(*avals))
    except TypeError:
        return False


def _declared(visit: Visit, avals: Sequence[Aval]) -> Recipe:
    """The recipe of a forward as its `out=` declares it for arrays like these."""
    out, function, place = visit.method.out, visit.function.__name__, visit.method.place
    if not _takes(out, avals):
        given = ", ".join(map(str, avals))
        raise GradientError(located(
            f"{function}: the out= of its forward ({place}) does not take the {len(avals)} arrays of this call",
            f"a function given as out= gets one shape and dtype for each: {given}",
        ))
    texts, structure = tree.flatten(out(*avals) if callable(out) else out)
    try:
        made = tuple([x if isinstance(x, Aval) else parse_aval(str(x)) for x in texts])
    except ValueError as error:
        raise GradientError(located(f"{function}: the out= of its forward ({place}) names no array: {error}")) from None
    tags = tuple([("array", i) for i in range(len(made))])
    return Recipe(tags, made, (structure,), None, (), (), True, declared=True)
