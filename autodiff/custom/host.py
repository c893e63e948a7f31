"""Host rules: forwards and backwards that need Python and values at each run (SciPy, a C library, `float(g)`).

While operations are recorded, a host forward simply runs: on read-only arrays if it is declared a host rule, on tensors
if it evaluates one itself.  A trace has no values, so there it becomes a host call (`boundary.host_call`).

The outputs and saved values of a host forward are learnt from its first run outside a trace; `Unlearnt` tells `jit` to
do such a run.  A host backward needs none: a gradient has its primal's aval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from codegen.ir import KNOWN_DTYPES, Aval, parse_aval

from .. import tree
from ..errors import ConcretizationError, GradientError, caller, located
from ..mode import MODE
from ..tape.ask import evaluate, value_of
from ..tape.leaves import leaf
from ..tape.modes import no_grad
from ..tape.plan import read_only
from ..tape.record import Recording, state, use
from ..tensor import Tensor
from .boundary import host_call
from .call import Packed, Site
from .context import ForwardContext, attributes, declarations_of
from .keys import content_key
from .outputs import Outputs, no_gradient
from .reads import held_by


class Unlearnt(ConcretizationError):
    """A trace met a host forward whose outputs are not known yet: it has to run outside a trace once."""


class Visit(NamedTuple):
    """One call of a forward method.

    packed   the arguments;  needs: for each, True if it needs a gradient;  avals: those of the tensors in them
    """

    site: Site
    packed: dict[str, Packed]
    needs: list[bool]
    avals: tuple[Aval, ...]

    @property
    def name(self) -> str:
        """The function's name."""
        return self.site.function.__name__

    def run_on(self, held: Sequence[Any]) -> tuple[ForwardContext, Any]:
        """Run forward once more, with `held` in the tensors' places; returns its context and its result."""
        values = {name: p.unpack(held.__getitem__) for name, p in self.packed.items()}
        ctx = ForwardContext(self.name, list(values), self.needs, list(values.values()))
        try:
            return ctx, self.site.run(ctx, values)
        except ValueError as error:
            note_read_only(error)
            raise

    def key(self) -> tuple:
        """The key of all values that the outputs' avals may depend on."""
        packed = [(name, p[:2], *map(content_key, p.statics)) for name, p in self.packed.items()]
        return (tuple(packed), self.avals)


def run_on_arrays(visit: Visit, ctx: ForwardContext, values: dict[str, Any]) -> Any:
    """Run a host forward now, on read-only arrays.

    An argument array that it returns or saves counts as that input; other arrays become constant tensors.
    """
    tensors = _inputs_in(visit, values)
    arrays = arrays_of(tensors)
    own, result = visit.run_on(arrays)
    recipe, computed = _recipe_of({id(a): k for k, a in enumerate(arrays)}, own, result)
    known: dict[int, Any] = dict(zip(map(id, arrays), tensors, strict=True))
    for x in computed:
        is_array = isinstance(x, (np.ndarray, np.generic)) and x.dtype in KNOWN_DTYPES
        if id(x) not in known:
            known[id(x)] = leaf(np.array(x, order="C", subok=False)) if is_array else x
    result = _apply_recipe(recipe, ctx, lambda place: tensors[place] if place >= 0 else known[id(computed[-1 - place])])
    declared, new = declarations_of(own), declarations_of(ctx)
    new.constant, new.dirty = [[known.get(id(x), x) for x in xs] for xs in (declared.constant, declared.dirty)]
    return result


def _tensors_in(visit: Visit, values: dict[str, Any]) -> list[tuple[int, Any]]:
    """The place of each tensor in the arguments, and the value at that place in `values`."""
    pairs = zip(visit.packed.values(), values.values(), strict=True)
    found = [(p, x) for packed, value in pairs for p, x in zip(packed.places, tree.leaves(value), strict=True)]
    return [(p, x) for p, x in found if p is not None]


def _inputs_in(visit: Visit, values: dict[str, Any]) -> list[Any]:
    """The tensors in the arguments, by their places: one for each input."""
    by_place = dict(_tensors_in(visit, values))
    return [by_place[p] for p in range(len(visit.avals))]


class Recipe(NamedTuple):
    """A description of a host forward's result, saved values and declarations.

    parts     its result, saved values, and attributes of `ctx`; places: of inputs, or -1 - k for computed leaf k
    avals     those of the computed leaves;  numbers: places of returned Python numbers, which cannot track
    saved, attributes   names
    constant  places of the outputs that are marked non-differentiable
    closed    names of tracking values that it closes over; None: not known
    declared  True if the description comes from `out=`; else it was learnt from a run
    """

    parts: tuple[Packed, ...]
    avals: tuple[Aval, ...]
    numbers: tuple[int, ...] = ()
    saved: tuple[str | None, ...] | None = None
    attributes: tuple[str, ...] = ()
    constant: tuple[int, ...] = ()
    materialize: bool = True
    closed: tuple[str, ...] | None = None
    declared: bool = False


_learnt: dict[ref[Any], dict[tuple, Recipe]] = {}
_LEARNT_LIMIT = 1024


def _is_value(x: Any) -> bool:
    """True for a leaf that may differ in each run: an array or number; not text, None or a bool."""
    if isinstance(x, (Tensor, int, float, complex)):
        return not isinstance(x, bool)
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype.newbyteorder("=") in KNOWN_DTYPES


def _aval_of(x: Any) -> Aval:
    if isinstance(x, Tensor):
        return x.aval
    array = np.asarray(x)
    return Aval(array.shape, array.dtype.newbyteorder("="))


def _recipe_of(given: dict[int, int], ctx: ForwardContext, result: Any) -> tuple[Recipe, list[Any]]:
    """The recipe of one run, and the computed leaves.   given: the place of each input, by its id"""
    declared, place = declarations_of(ctx), dict(given)
    parts, computed, numbers = list[Packed](), list[Any](), list[int]()
    for value in (result, *[v for _, v in declared.saved or ()], *attributes(ctx).values()):
        leaves, structure = tree.flatten(value)
        places: list[int | None] = []
        for x in leaves:
            known = place.get(id(x)) if parts or id(x) in given else None  # a leaf returned twice is two outputs
            if known is None and _is_value(x):
                known = -1 - len(computed)
                computed.append(x)
                if isinstance(x, (Tensor, np.ndarray)):
                    place.setdefault(id(x), known)
                elif not (parts or isinstance(x, np.generic)):
                    numbers.append(known)
            places.append(known)
        statics = [x for x, known in zip(leaves, places, strict=True) if known is None]
        parts.append(Packed(structure, tuple(places), tuple(statics)))
    saved = None if declared.saved is None else tuple([n for n, _ in declared.saved])
    constant = tuple([place[id(x)] for x in declared.constant if id(x) in place])
    avals = tuple([_aval_of(x) for x in computed])
    return Recipe(
        tuple(parts), avals, tuple(numbers), saved, tuple(attributes(ctx)), constant, declared.materialize
    ), computed


def learn(visit: Visit, ctx: ForwardContext, outputs: Outputs, closed: tuple[str, ...]) -> None:
    """Store the recipe of a forward that needed values, for later traces."""
    if declarations_of(ctx).dirty:
        return  # in a trace forward gets arrays, which have no handle to give another value
    places = {id(x): p for p, x in _tensors_in(visit, dict(zip(visit.packed, ctx.inputs, strict=True)))}
    table, key = _learnt.setdefault(ref(visit.site.method, _learnt.pop), {}), visit.key()
    returned = outputs.rebuilt(outputs.returned)
    if visit.site.method.out is not None and key not in table:
        # For out= a number counts as an array if it is an argument of jit.
        numbers = [_aval_of(x) for x in tree.leaves(tuple(ctx.inputs)) if _is_value(x)]
        avals = next((a for a in (visit.avals, numbers) if _takes(visit.site.method.out, a)), None)
        if avals is not None:
            _check(visit, _recipe_of({}, ctx, returned)[0], _declared_recipe(visit, avals))
    if len(table) >= _LEARNT_LIMIT:
        table.clear()
    table[key] = _recipe_of(places, ctx, returned)[0]._replace(closed=closed)


def _check(visit: Visit, found: Recipe, known: Recipe) -> None:
    """Raise GradientError if a run does not give the declared outputs, or those of the runs before it."""
    trees = [[packed.structure for packed in recipe.parts[: len(known.parts)]] for recipe in (found, known)]
    if found.avals[: len(known.avals)] == known.avals and trees[0] == trees[1]:
        return
    which = f"{visit.name}: this host forward ({visit.site.method.place})"
    gives, told = f"{which} gives {_listed(found.avals)}", _listed(known.avals)
    if known.declared:
        raise GradientError(located(f"{gives}, and its out= says {told}", "let them be the same"))
    raise GradientError(
        f"{gives} inside jit, and gave {told} for such inputs before\n"
        "  its outputs and what it saves may depend in shape and dtype on those of its inputs only"
    )


def _host_forward(visit: Visit, recipe: Recipe) -> Callable[..., list[Any]]:
    """The function for a host call inside a compiled graph: arrays of the inputs  ->  the recipe's computed leaves."""

    def run(*arrays: np.ndarray) -> list[Any]:
        with in_own_recording():
            held: list[Any] = list(arrays) if visit.site.method.host else [leaf(np.array(a, order="C")) for a in arrays]
            ctx, result = visit.run_on(held)
            used = {place for packed in recipe.parts for place in packed.places}  # inputs not in it count as computed
            found, computed = _recipe_of({id(x): i for i, x in enumerate(held) if i in used}, ctx, result)
            _check(visit, found, recipe)
            kept = computed[: len(recipe.avals)]
            return [value_of(x.node) if isinstance(x, Tensor) else np.asarray(x) for x in kept]

    run.__qualname__ = f"{visit.name} forward"
    return run


def _listed(avals: Sequence[Aval]) -> str:
    return ", ".join(map(str, avals)) or "nothing"


def run_traced(visit: Visit, ctx: ForwardContext, values: dict[str, Any], cause: Exception | None = None) -> Any:
    """Record a host forward as a host call, and set its declarations on `ctx`, with tensors for saved values.

    Raises Unlearnt if its outputs are not known yet.
    """
    method = visit.site.method
    recipe = _learnt.get(ref(method), {}).get(visit.key())
    if recipe is None and method.out is not None and not any(visit.needs):  # no backward will read saved values
        recipe = _declared_recipe(visit, visit.avals)
    if recipe is None:
        raise Unlearnt(located(
            f"{visit.name} ({method.place}) needs values, and its outputs are not known",
            "call the function once outside of jit with arguments of these types, or declare out=",
        )) from cause
    returned = {place for place in recipe.parts[0].places if place is not None}
    if any(visit.needs) and recipe.numbers and returned <= {*recipe.numbers}:
        raise no_gradient(visit.name, caller(), has_number=True)
    inputs = _inputs_in(visit, values)
    made = host_call(_host_forward(visit, recipe), inputs, recipe.avals)
    now = state.now
    now.asked += 1
    now.float_asks += 1
    held = held_by(method.implementation) if MODE.get().tracks else []
    read = [t.node for path, t in held if recipe.closed is None or repr(path[-1]) in recipe.closed]
    now.asked_in_forward += [(now.asked, node) for node in read if node.kind.out.requires_grad]
    result = _apply_recipe(recipe, ctx, lambda place: inputs[place] if place >= 0 else made[-1 - place])
    declared = declarations_of(ctx)
    declared.constant = [*declared.constant, *[made[-1 - place] for place in recipe.numbers]]
    return result


def _apply_recipe(recipe: Recipe, ctx: ForwardContext, tensor_at: Callable[[int], Any]) -> Any:
    """Rebuild forward's result from its leaves, and set its declarations on `ctx`."""
    result, *others = [packed.unpack(tensor_at) for packed in recipe.parts]
    declared = declarations_of(ctx)
    for name in attributes(ctx):
        delattr(ctx, name)
    n = len(recipe.saved or ())
    declared.saved = None if recipe.saved is None else tuple(zip(recipe.saved, others[:n], strict=True))
    declared.constant = [tensor_at(place) for place in recipe.constant]
    declared.materialize = recipe.materialize
    for name, value in zip(recipe.attributes, others[n:], strict=True):
        setattr(ctx, name, value)
    return result


def _takes(out: Any, avals: Sequence[Aval]) -> bool:
    """True if an `out=` can be called with these avals, or is no function."""
    try:
        return not callable(out) or bool(signature(out).bind(*avals))
    except TypeError:
        return False


def _declared_recipe(visit: Visit, avals: Sequence[Aval]) -> Recipe:
    """The recipe that a forward's `out=` declares for arrays of these avals."""
    out, function, place = visit.site.method.out, visit.name, visit.site.method.place
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
    result = Packed(structure, tuple([-1 - k for k in range(len(made))]), ())
    return Recipe((result,), made, declared=True)


# ---------------------------------------------------------------- while a host rule runs


@contextmanager
def in_own_recording() -> Iterator[None]:
    """Run a host rule during another run, in a recording of its own, so that the outer one does not change."""
    now = state.now
    use(Recording())
    try:
        with no_grad():
            yield
    finally:
        use(now)


def note_read_only(error: Exception) -> None:
    """Add advice to the error of a write into a read-only argument of a host rule."""
    if isinstance(error, ValueError) and "read-only" in str(error):
        error.add_note("arrays that a host rule is given are read-only: write into a copy of its own, np.array(x)")


def arrays_of(tensors: Sequence[Tensor]) -> list[np.ndarray]:
    """The values of tensors as read-only arrays, computed now.  Counts as evaluating them."""
    evaluate([t.node for t in tensors], ends_recording=False)
    return [read_only(value_of(t.node)) for t in tensors]
