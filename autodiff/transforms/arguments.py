"""The arguments and results of a transformed function: fresh nodes for differentiated arguments, constants for others.

A call from plain code (no tensor among the arguments, in no trace and no other transformation) returns computed
NumPy arrays; every other call returns tensors.
"""

from __future__ import annotations

import inspect
import operator
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from codegen.garbage import set_in_context
from codegen.ir import KNOWN_DTYPES

from .. import tree
from ..config import config
from ..containers import unregistered
from ..errors import (
    DispatchError,
    DTypeError,
    GradientError,
    ShapeError,
    amount,
    caller,
    check_callable,
    check_not_masked,
    check_numbers,
    located,
    with_article,
)
from ..mode import MODE
from ..ops import as_tensor
from ..ops.conversion import as_numpy
from ..ops.primitive import F64
from ..stand_ins import StandsForArray, standing
from ..tape.ask import value_of
from ..tape.leaves import leaf, number_like_traced, tracked_node
from ..tape.node import LEAF, Node
from ..tape.record import ALIASES, IDENTITY, identity_of, state
from ..tape.walk import gradient_inputs, uncommon, value_inputs
from ..tensor import CLASSES, AbstractTensor, Tensor, handle

_DIFFERENTIABLE = (np.ndarray, AbstractTensor, np.generic, float, int, complex)


def is_plain(leaves: Sequence[Any]) -> bool:
    """True if a call comes from plain code: it then returns computed NumPy arrays."""
    now = state.now
    is_inside = now.tracing or now.unseen or now.transforming
    return not is_inside and not any([isinstance(x, AbstractTensor) for x in leaves])


def array_of(x: Any) -> np.ndarray:
    """A contiguous array of a number or array, which shares memory if possible: to be used during one call only."""
    check_not_masked(x)
    array = np.asarray(x, order="C")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def fresh(x: Any, what: Callable[[], str], *, shares: bool) -> Tensor:
    """A tensor with a new node, to differentiate with respect to.   shares: x is no tensor, its array is not copied"""
    if not shares and isinstance(x, AbstractTensor):
        t = as_tensor(x)
        _refuse_discrete(t.dtype, what)
        state.now.note_hidden_input(t)
        return standing(handle(identity_of(t.node)), x)
    array = array_of(x)
    _refuse_discrete(array.dtype, what)
    return standing(handle(tracked_node(array if shares else array.copy())), x)


def fitting(given: Any, like: Tensor, where: str, owner: str, name: str) -> Tensor:
    """The given cotangent or tangent as a tensor; raises if it does not fit `like`.   name: which of the two it is"""
    if isinstance(given, (int, float)) and not like.shape:
        given = np.asarray(given, like.dtype)
    t = as_tensor(given, where, f"a {name}")
    if t.aval != like.aval:
        error = ShapeError if t.shape != like.shape else DTypeError
        raise error(located(f"{where}: the {owner} is {like.aval}, its {name} {t.aval}"))
    return t


def leaf_name(structure: Any, root: str, function: str, number: int) -> str:
    """The words for one leaf of an argument: `argument 0['n'] of f`."""
    return f"{tree.names(structure, root)[number]} of {function}"


def argument_names(f: Callable, structure: tree.Structure) -> list[str]:
    """The names of the leaves of (args, kwargs) as the user writes them: `x`, `params['w']`."""
    args, kwargs = structure.children
    try:
        known = [*inspect.signature(f).parameters.values()]
    except (TypeError, ValueError):
        known = []
    parameters = [p.name for p in known if p.kind < p.VAR_POSITIONAL]
    several = next((p.name for p in known if p.kind == p.VAR_POSITIONAL), "args")
    parameters += [f"{several}[{i}]" for i in range(len(args.children) - len(parameters))]
    named = [*zip(parameters, args.children, strict=False), *zip(kwargs.rest or (), kwargs.children, strict=True)]
    return [name for root, child in named for name in tree.names(child, root)]


def _refuse_discrete(dtype: np.dtype, what: Callable[[], str]) -> None:
    if dtype.kind not in "fc":
        why, mend = ": only float arrays have gradients", "float, or differentiate another argument (argnums)"
    elif dtype not in KNOWN_DTYPES:
        why, mend = ", which is not a dtype of this library", "float32 or float64"
    else:
        return
    raise DTypeError(located(f"{what()} is {dtype}{why}", f"convert it to {mend}"))


def is_differentiable(x: Any) -> bool:
    """True for numbers, arrays and tensors, which have gradients.  Other leaves are passed on unchanged."""
    return isinstance(x, _DIFFERENTIABLE) and not isinstance(x, bool)


class Arguments:
    """The arguments of a transformed function, with fresh tensors for the differentiated ones.

    args, kwargs    the arguments to call the function with
    leaves     the fresh tensors, over all differentiated arguments, in order
    unflatten  gradients (one per leaf) -> gradients in the nesting of the arguments
    """

    def __init__(self, args: tuple, kwargs: dict[str, Any], argnums: int | Sequence[int], name: str) -> None:
        self.single = not isinstance(argnums, (tuple, list))
        self.numbers = checked_numbers(argnums, len(args), name)
        flat = [tree.flatten(a) for a in args]
        self.plain = is_plain([x for leaves, _ in flat for x in leaves])
        self.args = list(args)
        self.leaves: list[Tensor] = []
        self.parts: list[tuple[Any, list[Any]]] = []
        for i in self.numbers:
            leaves, structure = flat[i]
            before, made = len(self.leaves), []
            for k, x in enumerate(leaves):
                if is_differentiable(x) or is_differentiable(x := as_numpy(x)):
                    x = fresh(x, partial(leaf_name, structure, f"argument {i}", name, k), shares=self.plain)
                    # A second handle, so that an in-place update by f does not change the node of this one.
                    self.leaves.append(handle(x.node))
                made.append(x)
            if len(self.leaves) == before:
                check_differentiable(i, args[i], name)
            self.parts.append((structure, made))
            self.args[i] = tree.unflatten(structure, made)
        for i, x in enumerate(args):  # after the fresh nodes: older handles count as captured (`updates`)
            if i not in self.numbers:
                self.args[i] = tree.map(partial(constant_of, shares=self.plain), x)
        self.kwargs = {k: tree.map(partial(constant_of, shares=self.plain), v) for k, v in kwargs.items()}

    def others(self) -> list[Any]:
        """The leaves of differentiated arguments that are no arrays, and are passed on unchanged."""
        return [x for _, made in self.parts for x in made if not isinstance(x, Tensor)]

    def unflatten(self, gradients: Sequence[Any]) -> Any:
        """The gradients, one per fresh leaf, in the nesting of the arguments."""
        given = iter(gradients)
        found = [
            tree.unflatten(structure, [next(given) if isinstance(x, Tensor) else x for x in made])
            for structure, made in self.parts
        ]
        return found[0] if self.single else tuple(found)


def check_differentiable(i: int, x: Any, name: str) -> None:
    """Raise DTypeError for an argument without gradients.  Containers pass: their leaves may have gradients."""
    if x is not None and not is_differentiable(x) and tree.flatten(x)[1] is tree.LEAF and as_numpy(x) is x:
        raise DTypeError(located(
            f"argument {i} of {name} is {with_article(type(x).__name__)}: only float arrays have gradients",
            f"differentiate another argument (argnums){unregistered((x,))}",
        ))


def checked_numbers(argnums: int | Sequence[int], count: int, name: str) -> list[int]:
    """The numbers of the arguments to differentiate, from zero.  Raises DispatchError for a number out of range."""
    if type(argnums) is int and 0 <= argnums < count:
        return [argnums]
    try:
        numbers = [operator.index(i) for i in (argnums if isinstance(argnums, (tuple, list)) else (argnums,))]
    except TypeError:
        numbers = [count]  # no argument has it
    chosen = [i % count for i in numbers if -count <= i < count]
    if len(chosen) != len(numbers):
        problem = f"but the call has {amount(count, 'positional argument')}"
    elif len(set(chosen)) != len(chosen):
        problem = "names an argument twice"
    else:
        return chosen
    raise DispatchError(located(
        f"{name}: argnums={argnums!r} {problem}",
        "argnums is a number or a tuple of numbers of positional arguments, from zero",
    ))


def constant_of(x: Any, shares: bool) -> Any:
    """An argument that is not differentiated.

    shares    True: an array becomes a tensor that shares its memory during the call;  False: results may be computed
              after the call returns, so the tensor gets memory of its own
    """
    if isinstance(x, np.ndarray) and not shares:
        return standing(as_tensor(x), x)
    if isinstance(x, (np.ndarray, np.generic)):
        array = array_of(x)
        if isinstance(x, np.generic):
            return number_like_traced(array, array.dtype, weak=False) if array.dtype in KNOWN_DTYPES else as_tensor(x)
        return standing(leaf(array) if array.dtype in KNOWN_DTYPES else as_tensor(x), x)
    if not isinstance(x, Tensor):
        array = as_numpy(x)
        return x if array is x else as_tensor(array)
    return with_own_node(x)


def with_own_node(x: Any) -> Any:
    """A tensor under a new node, so that a function may update it in place; other values unchanged."""
    if not isinstance(x, Tensor):
        return x
    if type(x) is not CLASSES[Tensor, x.dtype.type, x.ndim] and not isinstance(x, StandsForArray):
        return x
    state.now.note_hidden_input(x)
    return standing(handle(identity_of(x.node, requires_grad=x.node.kind.out.requires_grad), x.masked), x)


def name_of(f: Callable, transformation: str, argnums: int | Sequence[int] = 0) -> str:
    """The name of a function, for messages.  Raises DispatchError if f is not callable, or argnums are no numbers."""
    check_callable(f, transformation)
    check_numbers(argnums, "argnums", transformation)
    return getattr(f, "__name__", type(f).__name__)


def applied(f: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """f of its arguments.  A TypeError or AttributeError about a list gets a note that the list is no array."""
    try:
        return f(*args, **kwargs)
    except (TypeError, AttributeError) as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:  # f does not take them
            error.add_note(f"  called at {caller()}")
        for name, given in (*[(f"argument {i}", a) for i, a in enumerate(args)], *kwargs.items()):
            kind = type(given).__name__
            if isinstance(given, (list, tuple)) and kind in str(error) and not hasattr(error, "__notes__"):
                error.add_note(
                    f"  {name} is a {kind}, and stays one: its elements are arguments of their own\n"
                    f"  np.array({kind}) makes one array of its numbers, with which one can compute"
                )
        raise


def run_recorded(f: Callable, args: Sequence[Any], kwargs: dict[str, Any], leaves: Iterable[Any]) -> Any:
    """Call the user's function so that it records nodes that track `leaves`."""
    now = state.now
    mode, mark = MODE.get(), object()
    before = now.transforming, now.differentiated, now.since
    try:  # an interrupt may come at any call from here on; every `ad.grad(f)(x)` pays for this, so without `within`
        now.transforming += 1
        now.differentiated = (*now.differentiated, *[t.node for t in leaves if isinstance(t, Tensor)])
        now.since = now.differentiated[-1].number if now.differentiated else 0
        config.transforming[mark] = threading.get_ident()
        set_in_context(MODE, mode.on)
        return applied(f, args, kwargs)
    finally:
        now.transforming, now.differentiated, now.since = before
        try:
            config.transforming.pop(mark, None)
            set_in_context(MODE, mode)
        finally:  # an interrupt may come before MODE is restored
            MODE.set(mode)


def scalar_and_aux(result: Any, has_aux: bool, name: str, transformation: str) -> tuple[Tensor, Any]:
    """The float scalar that a function returned, and its aux value.  Raises GradientError for other results."""
    aux = None
    if has_aux:
        result, aux = value_and_aux(result, name)
    if isinstance(result, (int, float, np.generic)) or (isinstance(result, np.ndarray) and not result.shape):
        result = as_tensor(np.asarray(result, np.float64) if isinstance(result, int) else result)
    if not isinstance(result, Tensor) or result.shape or result.dtype.kind != "f":
        got = str(result.aval) if isinstance(result, Tensor) else with_article(type(result).__name__)
        raise GradientError(located(
            f"{transformation}: {name} must return a float scalar, not {got}",
            _made_scalar(result),
        ))
    return result, aux


def value_and_aux(result: Any, name: str) -> tuple[Any, Any]:
    """The pair that a function returned.  Raises GradientError for another result."""
    if not (isinstance(result, tuple) and len(result) == 2):
        got = f"a tuple of {len(result)}" if isinstance(result, tuple) else with_article(type(result).__name__)
        raise GradientError(located(f"{name} must return (value, aux) under has_aux=True, not {got}"))
    return result


def _made_scalar(result: Any) -> str:
    """Advice on how to turn a result into a float scalar."""
    if result is None:
        return "it ends without `return`, or with one that has no value"
    if isinstance(result, tuple):
        return "return the number to differentiate first, and has_aux=True lets it return (number, anything else)"
    if isinstance(result, Tensor) and result.dtype.kind != "f" and not result.shape:
        return "ad.abs or ad.real of a complex number is a float" if result.dtype.kind == "c" else "convert it to float"
    return "sum or average the result, or use ad.vjp or ad.jacobian"


def plain_results(xs: Sequence[Any]) -> list[Any]:
    """The results of one call, for plain code: arrays that share no memory, NumPy scalars for 0-d, others unchanged."""
    taken: set[Node] = set()
    found = []
    for x in xs:
        if not isinstance(x, Tensor):
            found.append(x)
            continue
        value = value_of(x.node)
        if not value.shape:
            found.append(value[()])
            continue
        origin = _origin(x.node)
        is_held = origin in taken or origin.leaf is not None or not origin.inputs
        found.append(value.copy() if is_held else value)
        taken.add(origin)
    return found


def _origin(node: Node) -> Node:
    """The node whose memory holds the value of this computed node: aliases and boundaries are followed."""
    while node.inputs and (node.kind.op in ALIASES or node.body is not None):
        (node,) = value_inputs(node)
    return node


def tracks_outside(past: list[Node], mine: set[Node]) -> bool:
    """True if gradients can flow from a history to anything but the fresh nodes of this transformation.

    Younger fresh nodes than `mine` are arguments of inner transformations, which have ended: nobody asks for gradients.
    """
    oldest = min([n.number for n in mine], default=0)
    for node in uncommon(past):
        if node.leaf is not None:
            if node not in mine:
                return True
        elif node in mine:
            if any([i.kind.out.requires_grad for i in node.inputs]):
                return True
        elif not any([i.kind.out.requires_grad for i in gradient_inputs(node)]) and (
            node.number < oldest or node.kind.op not in (IDENTITY, LEAF)
        ):
            return True
    return False


def paired(name: str, primals: Any, tangents: Any) -> tuple[Sequence[Any], Sequence[Any]]:
    """Arguments and their directions as equally long sequences; primals that are no tuple or list are one argument."""
    if not isinstance(primals, (tuple, list)):
        primals, tangents = (primals,), (tangents,)
    if not isinstance(tangents, (tuple, list)) or len(primals) != len(tangents):
        given = len(tangents) if isinstance(tangents, (tuple, list)) else "no tuple of"
        raise GradientError(located(f"{name}: {amount(len(primals), 'primal')} but {given} tangents"))
    return primals, tangents


def with_directions(
    where: str, primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[tree.Structure, list[Any], dict[Node, Tensor], bool]:
    """The structure of primals, their leaves as fresh tensors or constants, each direction, and True for plain code."""
    leaves, structure = tree.flatten(tuple(primals))
    leaves = [as_numpy(x) for x in leaves]
    directions = [as_numpy(d) for d in tree.flatten_up_to(structure, tuple(tangents))]
    made_plain = is_plain([*leaves, *directions])
    called = partial(leaf_name, structure, "primal", where)
    made = [
        x if not is_differentiable(x)
        else constant_of(x, made_plain) if d is None and (isinstance(x, int) or getattr(x, "dtype", F64).kind in "biu")
        else fresh(x, partial(called, k), shares=made_plain)
        for k, (x, d) in enumerate(zip(leaves, directions, strict=True))
    ]  # fmt: skip
    given = {
        x.node: fitting(d, x, where, "primal", "tangent")
        for x, d in zip(made, directions, strict=True) if isinstance(x, Tensor) and d is not None
    }  # fmt: skip
    return structure, made, given, made_plain
