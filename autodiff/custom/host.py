"""Host rules: forwards and backwards that need Python and values each time (SciPy, a C library, `float(g)`).

Recorded, a host forward simply runs: on read-only arrays when it is declared so, on tensors when it asks
by itself.  In a trace there are no values, so it becomes a host call: one operation of the graph whose
reference is Python, between compiled segments.

    host(inputs)  ->  one array, or all of them packed into words of 64 bits
    host_part(packed)  ->  each of them

What a host forward returns and saves is learnt from its first run outside of a trace: `Unlearnt` tells
`jit` to make one.  A host backward needs no learning: a gradient has its primal's aval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from codegen.garbage import reset_in_context, set_in_context
from codegen.ir import DTYPES, Aval, parse_aval
from codegen.lowering import Call as HostLowering

from .. import tree
from ..errors import ConcretizationError, GradientError, caller
from ..tape.ask import evaluate, value_of
from ..tape.leaves import leaf
from ..tape.loans import give_back
from ..tape.node import Node, Primitive
from ..tape.record import Recording, grad_mode, record, state, use
from ..tensor import Tensor
from .closures import held_by
from .context import ForwardContext, attributes, said
from .outputs import Outputs
from .packed import Packed

__all__ = ["Unlearnt", "Visit", "arrays_of", "host_call", "in_own_recording", "learn", "run_on_arrays", "run_traced"]

_WORD = 8


class Unlearnt(ConcretizationError):
    """A trace met a host forward whose outputs are not known yet: it has to run outside of a trace once."""


# ---------------------------------------------------------------- the operation


def _packed_reference(*arrays: np.ndarray, run: Callable, avals: tuple[Aval, ...]) -> np.ndarray:
    values = [np.ascontiguousarray(v, a.dtype) for v, a in zip(run(*map(_read_only, arrays)), avals, strict=True)]
    if len(values) == 1:
        return values[0].reshape(avals[0].shape)
    words = np.zeros(sum(map(_words, avals)), np.int64)
    at = 0
    for value, aval in zip(values, avals, strict=True):
        words[at : at + _words(aval)].view(np.uint8)[: value.nbytes] = value.reshape(-1).view(np.uint8)
        at += _words(aval)
    return words


def _words(aval: Aval) -> int:
    return -(-aval.size * aval.dtype.itemsize // _WORD)


def _part_reference(words: np.ndarray, *, at: int, aval: Aval) -> np.ndarray:
    flat = np.ascontiguousarray(words)[at : at + _words(aval)].view(np.uint8)
    return flat[: aval.size * aval.dtype.itemsize].view(aval.dtype).reshape(aval.shape)


def _packed_aval(*_: Aval, run: Callable, avals: tuple[Aval, ...]) -> Aval:
    return avals[0] if len(avals) == 1 else Aval((sum(map(_words, avals)),), np.int64)


class _OfEach(NamedTuple):
    """A host call for every example in turn: equal ones are the same graph shape.

    reference    of an operation on one example, and its parameters;  aval: of what it gives
    mapped       which inputs differ between examples
    """

    reference: Callable
    params: tuple[tuple[str, Any], ...]
    aval: Aval
    size: int
    mapped: tuple[bool, ...]

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        found = np.empty((self.size, *self.aval.shape), self.aval.dtype)
        for i in range(self.size):
            one = [a[i, ...] if m else a for a, m in zip(arrays, self.mapped, strict=True)]
            found[i] = self.reference(*one, **dict(self.params))
        return [found]


def _batch(op: Primitive, size: int, xs: tuple[Tensor, ...], mapped: tuple[bool, ...], **params: Any) -> Tensor:
    """Python is called once for each example, inside of one host call."""
    aval = op.infer(*[x.aval.with_shape(x.shape[m:]) for x, m in zip(xs, mapped, strict=True)], **params)
    assert op.reference is not None
    run = _OfEach(op.reference, tuple(params.items()), aval, size, tuple(mapped))
    return record(_HOST, xs, (run, (aval.with_shape((size, *aval.shape)),)))


#: run(*arrays) -> arrays of `avals`: called by Python each time, between native segments.
_HOST = Primitive(
    "host", infer=_packed_aval, reference=_packed_reference, params=("run", "avals"), lower=HostLowering(),
    discrete=True, heavy=True, batch=_batch, traits=("host",),
)
_PART = Primitive(
    "host_part", infer=lambda words, *, at, aval: aval, reference=_part_reference, params=("at", "aval"),
    lower=HostLowering(), discrete=True, heavy=True, batch=_batch,
)


def host_call(run: Callable, inputs: Sequence[Tensor], avals: Sequence[Aval]) -> list[Tensor]:
    """Record a call of `run(*arrays) -> arrays` of these avals.  Equal `run`s are the same graph shape."""
    if not avals:
        return []
    packed = record(_HOST, tuple(inputs), (run, tuple(avals)))
    if len(avals) == 1:
        return [packed]
    parts, at = [], 0
    for aval in avals:
        parts.append(record(_PART, (packed,), (at, aval)))
        at += _words(aval)
    return parts


@contextmanager
def in_own_recording() -> Iterator[None]:
    """Run a host rule inside of a run: what it records has nothing to do with what is being computed."""
    now = state.now
    use(Recording())
    token = set_in_context(grad_mode, False)
    try:
        yield
    finally:
        give_back(state.now.lent)
        reset_in_context(grad_mode, token)
        use(now)


def arrays_of(tensors: Sequence[Tensor]) -> list[np.ndarray]:
    """The values of tensors as read-only arrays, computed now.  Counts as asking for them."""
    evaluate([t.node for t in tensors], ends_recording=False)
    return [_read_only(value_of(t.node)) for t in tensors]


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


# ---------------------------------------------------------------- forward


class Visit(NamedTuple):
    """One call of a forward method.

    run      run(ctx, arguments by name) calls the method
    packed   the arguments;  needs: for each, whether it needs a gradient;  inputs: nodes of the tensors in them
    """

    function: Any
    method: Any
    run: Callable
    packed: dict[str, Packed]
    needs: list[bool]
    inputs: list[Node]

    def context(self, values: dict[str, Any]) -> ForwardContext:
        """A context for one more run on these values."""
        return ForwardContext(self.function.__name__, list(values), self.needs, list(values.values()))

    def key(self) -> tuple:
        """What the outputs' avals may depend on."""
        return (
            tuple([(name, p.structure, p.places, p.key()[0]) for name, p in self.packed.items()]),
            tuple([n.kind.out.aval for n in self.inputs]),
        )


def run_on_arrays(visit: Visit, ctx: ForwardContext, values: dict[str, Any]) -> Any:
    """Run a host forward now, on read-only arrays.

    An array that it was given reads back as that input; other arrays that it saves become constant tensors.
    """
    tensors = [x for x in tree.leaves(values) if isinstance(x, Tensor)]
    arrays = arrays_of(tensors)
    given = dict(zip(map(id, tensors), arrays, strict=True))
    host_values = tree.map(lambda x: given.get(id(x), x), values)
    own = visit.context(host_values)
    result = visit.run(own, host_values)
    seen: dict[int, tuple[Any, Tensor]] = {id(a): (a, t) for a, t in zip(arrays, tensors, strict=True)}

    def tensor_for(x: Any) -> Any:
        if not isinstance(x, (np.ndarray, np.generic)) or x.dtype not in _KNOWN:
            return x
        if id(x) not in seen:
            seen[id(x)] = (x, leaf(np.array(x, order="C", subok=False)))
        return seen[id(x)][1]

    _copy_said(own, ctx, tensor_for)
    return tree.map(tensor_for, result)


def _copy_said(source: ForwardContext, target: ForwardContext, change: Callable[[Any], Any]) -> None:
    """What was said to one context, said to another, every leaf changed."""
    told, new = said(source), said(target)
    new.saved = None if told.saved is None else tuple([(n, tree.map(change, v)) for n, v in told.saved])
    new.constant = [change(x) for x in told.constant]
    new.dirty = [change(x) for x in told.dirty]
    new.materialize = told.materialize
    for name, value in attributes(source).items():
        setattr(target, name, tree.map(change, value))


class Recipe(NamedTuple):
    """What a host forward made, leaf by leaf: its result, then what it saved, then what it set on `ctx`.

    tags    per leaf: ("input", place), ("same", earlier leaf), ("array", place among avals), ("static", value)
    avals   of what is computed
    trees   structures: of the result, of each saved value, of each attribute
    saved, attributes   names
    constant  leaves that are marked non-differentiable
    closed    names of tracking values that it read without being given them; None: not known
    """

    tags: tuple[tuple[str, Any], ...]
    avals: tuple[Aval, ...]
    trees: tuple[Any, ...]
    saved: tuple[str | None, ...] | None
    attributes: tuple[str, ...]
    constant: tuple[int, ...]
    materialize: bool
    closed: tuple[str, ...] | None = None


_learnt: dict[ref[Any], dict[tuple, Recipe]] = {}
_LEARNT_LIMIT = 1024
_KNOWN = frozenset(DTYPES.values())


def _trees_of(ctx: ForwardContext, result: Any) -> list[Any]:
    told = said(ctx)
    return [result, *[v for _, v in told.saved or ()], *attributes(ctx).values()]


def _is_value(x: Any) -> bool:
    """Whether a leaf is different in each run: arrays and numbers; not text, None, flags."""
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
    fixed: list[int] = []
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
                if len(trees) == 1 and not isinstance(x, (Tensor, np.ndarray, np.generic)):
                    fixed.append(len(tags))  # a number that is returned is no tensor that could track
                tags.append(("array", len(computed)))
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
        tuple(fixed + [seen[id(x)] for x in told.constant if id(x) in seen]),
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
    table = _learnt.setdefault(ref(visit.method, _learnt.pop), {})
    if len(table) >= _LEARNT_LIMIT:
        table.clear()
    table[visit.key()] = _made(places, ctx, outputs.as_returned())[0]._replace(closed=closed)


class _HostForward:
    """A forward inside of a compiled graph: arrays of the inputs in, what the recipe computes out."""

    def __init__(self, visit: Visit, recipe: Recipe) -> None:
        self.visit = visit._replace(inputs=[])
        self.recipe = recipe
        self.__qualname__ = f"{visit.function.__name__} forward"

    def __call__(self, *arrays: np.ndarray) -> list[Any]:
        visit, recipe = self.visit, self.recipe
        with in_own_recording():
            held: list[Any] = list(arrays) if visit.method.host else [leaf(np.array(a, order="C")) for a in arrays]
            values = {name: p.unpack(held.__getitem__) for name, p in visit.packed.items()}
            ctx = visit.context(values)
            result = visit.run(ctx, values)
            as_inputs = {what for tag, what in recipe.tags if tag == "input"}  # others are results, given or not
            found, computed = _made({id(x): i for i, x in enumerate(held) if i in as_inputs}, ctx, result)
            if found.avals[: len(recipe.avals)] != recipe.avals or found.trees[: len(recipe.trees)] != recipe.trees:
                raise GradientError(
                    f"{visit.function.__name__}: this host forward ({visit.method.place}) gives"
                    f" {_told(found.avals)} inside jit, and gave {_told(recipe.avals)} for such inputs before\n"
                    "  its outputs and what it saves may depend in shape and dtype on those of its inputs only"
                )
            kept = computed[: len(recipe.avals)]
            return [value_of(x.node) if isinstance(x, Tensor) else np.asarray(x) for x in kept]


def _told(avals: Sequence[Aval]) -> str:
    return ", ".join(map(str, avals)) or "nothing"


def run_traced(visit: Visit, ctx: ForwardContext, values: dict[str, Any], cause: Exception | None = None) -> Any:
    """Record a host forward as a host call; what it saves is said to `ctx` in tensors.

    Raises Unlearnt when nothing is known about its outputs yet.
    """
    recipe = _learnt.get(ref(visit.method), {}).get(visit.key()) or _declared(visit)
    if recipe is None:
        raise Unlearnt(
            f"{visit.function.__name__} ({visit.method.place}) needs values, and its outputs are not known\n"
            f"  called at {caller()}\n"
            "  call the function once outside of jit with arguments of these types, or declare out="
        ) from cause
    by_place: dict[int, Tensor] = {}
    for value, p in zip(values.values(), visit.packed.values(), strict=True):
        tensors = [x for x in tree.leaves(value) if isinstance(x, Tensor)]
        by_place.update(zip([place for place in p.places if place is not None], tensors, strict=True))
    inputs = [by_place[i] for i in range(len(visit.inputs))]
    made = host_call(_HostForward(visit, recipe), inputs, recipe.avals)
    now = state.now
    now.asked += 1
    now.looked += 1
    held = held_by(visit.method.implementation) if grad_mode.get() else []
    read = [t.node for path, t in held if recipe.closed is None or repr(path[-1]) in recipe.closed]
    now.seen += [(now.asked, node) for node in read if node.kind.out.requires_grad]
    leaves: list[Any] = []
    for tag, what in recipe.tags:
        sources: Any = {"input": by_place, "same": leaves, "array": made}.get(tag)
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
    told.dirty = []
    told.materialize = recipe.materialize
    for name, value in zip(recipe.attributes, others[n:], strict=True):
        setattr(ctx, name, value)
    return result


def _declared(visit: Visit) -> Recipe | None:
    """The recipe of a forward that declares `out=` and was not run yet, where no backward will read what it saved."""
    out = visit.method.out
    if out is None or any(visit.needs):
        return None
    avals = [n.kind.out.aval for n in visit.inputs]
    texts, structure = tree.flatten(out(*avals) if callable(out) else out)
    made = tuple([x if isinstance(x, Aval) else parse_aval(x) for x in texts])
    return Recipe(tuple([("array", i) for i in range(len(made))]), made, (structure,), None, (), (), True)
