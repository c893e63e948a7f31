"""The tape: nodes, their kinds, and the leaves that gradients belong to.

A tape is a graph under construction: the nodes reachable from live handles.  Nothing else holds
it, so dropping the handles frees it.  A node links only to its inputs.

    Out      aval, requires_grad: the part of a kind from which the kinds of its readers follow    interned
    Kind     operation, parameters, Out                                                            interned
    Node     kind, inputs, value, number     value None: pending;  inputs and value: computed, with history
    Leaf     grad, hooks: the identity of a leaf, shared by all versions of its handle

Nodes are numbered in the order of creation, so sorting by number is a topological order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar
from weakref import _remove_dead_weakref, ref  # type: ignore[attr-defined]  # weakref's own dictionaries use it

import numpy as np

from codegen import ir
from codegen.ir import DTYPES, Aval, Op
from codegen.runtime.ufunc_loops import OWN, Runs, loops_of

from ..stand_ins import number_class
from ..tensor import CLASSES, Tensor
from . import machine

#: Live pending results of at most this many elements are computed together with any value that is asked for:
#: a loss or a metric costs nothing beside the work that it summarises.
SMALL = 64

#: Each operation has an interning table, which is emptied at this size: ten thousand batch sizes through a perceptron
#: keep 20 MB of kinds; with eight times this size they kept 250 MB.
TABLE_LIMIT = 1 << 11

#: The counter that numbers nodes in the order of creation; the native recorder uses it, too.
NUMBERS = itertools.count(1)
new_number: Callable[[], int] = NUMBERS.__next__
_new = object.__new__


class Out:
    """The aval of a value, and a flag for tracked gradients.  Interned: compare with `is`.

    as_leaf   the kind of an updated leaf of this aval, once a leaf was updated; None if gradients are tracked
    gradient  the kind of a gradient of a leaf of this aval, once there was one
    weak      True for a number argument of a traced function, and for results of Python's operators on such numbers:
              the number takes the dtype of the tensor that it is combined with
    """

    __slots__ = (
        "__weakref__", "as_leaf", "aval", "cls", "flows", "gradient", "requires_grad", "shape", "small", "weak",
    )  # fmt: skip

    def __init__(self, aval: Aval, requires_grad: bool, weak: bool, number: bool = False) -> None:
        self.aval = aval
        self.shape = aval.shape
        self.requires_grad = requires_grad
        self.weak = weak
        self.as_leaf: Kind | None = None
        self.gradient: Kind | None = None
        self.small = int(aval.size) <= SMALL  # int() takes a symbol's example and notes no condition
        self.flows = aval.dtype.kind in "fc"  # no gradient flows through a bool or an integer
        is_number = (weak or number) and not aval.shape
        self.cls = number_class(aval, weak) if is_number else CLASSES[Tensor, aval.dtype.type, aval.ndim]

    def __repr__(self) -> str:
        return f"{self.aval}{' grad' if self.requires_grad else ''}"


_Value = TypeVar("_Value")


class Alive(dict[Any, "ref[Any]"]):
    """Values by key, held weakly: a key has one object as long as something else refers to that object.

    Dead entries are removed when the table has doubled, not by weakref callbacks, which would swallow an interrupt.
    """

    __slots__ = ("limit",)

    def __init__(self) -> None:
        self.limit = 256

    def known(self, key: Hashable) -> Any:
        """The object of a key; None if there is none, or nothing else refers to it any more."""
        known = self.get(key)
        return None if known is None else known()

    def intern(self, key: Hashable, value: _Value) -> _Value:
        """The object of a key: `value`, unless the table has a live object for the key already.

        There is no lock, as making a value may run code that records: two threads that make one each get the same.
        """
        found: _Value | None
        made = ref(value)
        while (found := self.setdefault(key, made)()) is None:
            _remove_dead_weakref(self, key)
        if len(self) > self.limit:
            for old in list(self):
                _remove_dead_weakref(self, old)
            self.limit = 2 * len(self) + 256
        return found


#: All live Outs, held weakly: tables that refer to Outs are emptied one by one, and an Out must stay one object.
_LIVE_OUTS = Alive()


def store_bounded(table: dict[Any, _Value], key: Hashable, value: _Value) -> _Value:
    """Put a value into a table and return it; a full table is emptied first."""
    if len(table) >= TABLE_LIMIT:
        table.clear()
    return table.setdefault(key, value)


def out_of(aval: Aval, requires_grad: bool = False, weak: bool = False, number: bool = False) -> Out:
    """The interned Out of an aval and flags.   number: a 0-d value of fixed dtype that dispatches as a NumPy scalar"""
    flags = (requires_grad, weak, number)
    key = aval.shape, aval.dtype, flags
    found: Out | None = _LIVE_OUTS.known(key)
    return _LIVE_OUTS.intern(key, Out(aval, *flags)) if found is None else found


class Primitive(Op):
    """An operation that the tape records: an `Op` of the compiler, with its derivative.

    pull      pull(y_bar, y, xs, params, masked) -> cotangents of xs (None: zero).  All are Tensors, and the operations
              of the rule are recorded.  The attribute is None if the operation has no derivative.
    push      push(dxs, y, xs, params) -> tangent of y (dxs may hold None: zero); the attribute may be None
    heavy     True for a reduction, product or scatter: its value is stored if something live may read it again
    masks     True if its cotangents are masked (where, maximum, clip: see "strong zero" in `transforms.reverse`)
    keeps_mask  True if a masked cotangent stays masked through it (elementwise, moves, reductions)
    discrete  True for an integer or bool result, or a step function: no gradient flows through it, which is no error
    batch     batch(op, size, xs, mapped, **params) -> the results for many examples at once: see `ops.batching`
    written   written(operands, params, aval) -> the node with its value in the compiler's graph, for an operation that
              the compiler expresses by several nodes; None: the compiler has the operation itself
    memo      kinds by (Outs of the inputs, params): a table without gradients, and one with gradients
    """

    __slots__ = ("batch", "discrete", "heavy", "keeps_mask", "masks", "memo", "pull", "push", "written")

    def __init__(
        self,
        name: str,
        *,
        pull: Callable | None = None,
        push: Callable | None = None,
        heavy: bool = False,
        masks: bool = False,
        keeps_mask: bool = True,
        discrete: bool = False,
        batch: Callable | None = None,
        written: Callable[[Sequence[ir.Node], tuple, Aval], ir.Node] | None = None,
        **op: Any,
    ) -> None:
        super().__init__(name, **op)
        self.pull = pull
        self.push = push
        self.heavy = heavy
        self.masks = masks
        self.keeps_mask = keeps_mask
        self.discrete = discrete
        self.batch = batch
        self.written = written
        self.memo: tuple[dict, dict] = ({}, {})


class Kind:
    """Everything about a node but its wiring and value.  Interned: compare with `is`.

    computation  one object for all kinds that compute the same value, with gradients tracked or not
    rules    the programs that its derivative and batching rules recorded (`transforms.rule_programs`)
    runs     NumPy's loops that compute it, in the form that machine code reads; None until machine code needs them
    work     the number of elements of the result; infinite for loops and branches
    """

    __slots__ = (
        "__weakref__", "computation", "heavy", "op", "out", "params", "released", "released_kind", "rules", "runs",
        "tracks", "work",
    )  # fmt: skip

    def __init__(self, op: Primitive, params: tuple, out: Out, released: bool = False) -> None:
        self.op = op
        self.heavy = op.heavy  # copied, as `tracks` is, because machine code reads both from the kind
        self.tracks = out.requires_grad
        self.params = params
        self.out = out
        self.work = math.inf if op.has_regions else out.aval.size
        self.released = released
        self.released_kind: Kind | None = None  # the kind of such nodes after a backward released their history
        self.rules: Any = None
        self.runs: Any = None
        exactly = repr(params) if op is CONSTANT else params  # -0.0 is not 0.0, and nan is nan
        key = op, exactly, out.shape, out.aval.dtype
        self.computation: Computation = _COMPUTATIONS.known(key) or _COMPUTATIONS.intern(key, Computation())

    def run_as(self) -> None:
        """Set `runs`; machine code calls this method when it needs the loops."""
        aval = self.out.aval
        self.runs = machine.asks.runs(aval.dtype, aval.shape, *self._loops(aval.dtype))

    def _loops(self, dtype: np.dtype) -> Runs:
        reference: Any = self.op.reference
        if self.op is CONSTANT:  # one loop, which copies the value
            return 0, [(OWN["copy"], (-1,))], [reference(**self.op.keywords(self.params))]
        is_sum_of_all = "adds" in self.op.traits and self.out.aval.size == 1
        if is_sum_of_all and (added := loops_of(np.add)):
            return 1, [(added, (None, 0))], ()
        if self.params and not hasattr(reference, "loop"):
            return 0, (), ()  # only the Python function takes parameters
        if hasattr(reference, "in_ufuncs"):
            found: Runs = reference.in_ufuncs(dtype)
            return found
        loops = loops_of(reference)
        return (reference.nin, [(loops, range(reference.nin))], ()) if loops else (0, (), ())

    def __repr__(self) -> str:
        return f"{self.op.name}{self.params or ''}: {self.out}"


class Computation:
    """The identity of a computation: operation, parameters and aval.  Interned: compare with `is`."""

    __slots__ = ("__weakref__",)


_COMPUTATIONS = Alive()

#: All live kinds, held weakly: tables that refer to kinds are emptied one by one; keys of plans compare kinds by `is`.
_LIVE_KINDS = Alive()


def one_kind(key: tuple, op: Primitive, params: tuple, out: Out) -> Kind:
    """The interned kind of a key; a new one is made of the other arguments."""
    return _LIVE_KINDS.known(key) or _LIVE_KINDS.intern(key, Kind(op, params, out))


def kind_of(op: Primitive, params: tuple, outs: tuple[Out, ...], tracking: bool, aval: Aval) -> Kind:
    """Intern the kind of `op(*outs, **params)`, for which the shape rule gave `aval`."""
    tracks = tracking and not op.discrete and aval.dtype.kind in "fc" and any(o.requires_grad for o in outs)
    key, out = (op, tracking, outs, params), out_of(aval, tracks)
    kind = _LIVE_KINDS.known(key) or _LIVE_KINDS.intern(key, Kind(op, params, out))
    return store_bounded(op.memo[tracking], (outs, params), kind)


def released(kind: Kind) -> Kind:
    """The kind that replaces this one in nodes whose history a backward has released."""
    if kind.released_kind is None:
        kind.released_kind = Kind(kind.op, kind.params, kind.out, released=True)
    return kind.released_kind


#: The operation of every leaf's kind.
LEAF = Primitive("leaf", infer=lambda: None, reference=None, discrete=True)
#: A 0-d number that is part of the graph: the compiler may compute with it.
CONSTANT = Primitive(
    "constant",
    infer=lambda *, value, dtype: Aval((), DTYPES[dtype]),
    reference=lambda *, value, dtype: np.asarray(value, DTYPES[dtype]),
    params=("value", "dtype"),
    discrete=True,
)

_LEAF_KINDS: dict[Out, Kind] = {}


def leaf_kind(out: Out) -> Kind:
    """The kind of a node that holds given data."""
    return _LEAF_KINDS.get(out) or store_bounded(_LEAF_KINDS, out, one_kind((LEAF, out), LEAF, (), out))


class Leaf:
    """The identity of a leaf that requires grad; it survives in-place updates of the leaf's handle."""

    __slots__ = ("__weakref__", "after", "grad", "hooks", "owner")

    def __init__(self) -> None:
        self.grad: Any = None  # Tensor | None
        self.hooks: dict[object, Callable] = {}
        self.after: dict[object, Callable] = {}  # post-accumulate hooks
        self.owner: Any = None  # weak references to the handle that `after` hooks get, and to its node


class Node:
    """One operation applied to nodes, or a leaf.

    value    None (pending), an ndarray, or, for a recorded Python number, that number
    first, second, mark    fields of machine code, which keeps up to two inputs there (`codegen.runtime.recorder_nodes`)
    """

    __slots__ = ("first", "inputs", "kind", "mark", "number", "second", "value")

    kind: Kind
    inputs: tuple[Node, ...]
    value: np.ndarray | complex | None
    number: float

    # Read on every node, stored only by RichNode.
    leaf: Leaf | None = None
    retained: Leaf | None = None
    call: Any = None
    hooks: dict | None = None
    line: Any = None
    body: int | None = None
    flow: Any = None
    slot: int | None = None

    def __repr__(self) -> str:
        return f"<{self.number}: {self.kind}{'' if self.value is None else ' computed'}>"


class RichNode(Node):
    """A node with further fields: a leaf that requires grad, a boundary, a node with hooks or a known line.

    leaf    the identity under which gradients of this node are accumulated
    retained  the identity of a node that is no leaf, after `retain_grad`
    call    of a boundary: the call of a custom function, whose rule is its derivative
    body    of a boundary: the number of the input whose value it passes on; None: the value depends on all inputs
    flow    the slice of inputs that cotangents go to; None: all inputs
    slot    of an output of a call with several outputs: its number (the call is the node's first input)
    hooks   functions of the cotangent, in order of registration
    line    the user's line that recorded it; None if unknown
    """

    __slots__ = ("__weakref__", "body", "call", "flow", "hooks", "leaf", "line", "retained", "slot")


def rich_node(
    kind: Kind, inputs: tuple[Node, ...], value: Any = None, *, leaf: Leaf | None = None, call: Any = None
) -> RichNode:
    """A node with room for a leaf, a boundary call, hooks and a line."""
    node = _new(RichNode)
    node.kind = kind
    node.inputs = inputs
    node.value = value
    node.leaf = leaf
    node.retained = None
    node.call = call
    node.hooks = None
    node.line = None
    node.body = None
    node.flow = None
    node.slot = None
    node.number = new_number()
    return node


def data_node(kind: Kind, value: Any, inputs: tuple[Node, ...] = ()) -> Node:
    """A node that holds a value; None for a value that is given later."""
    node = _new(Node)
    node.kind = kind
    node.inputs = inputs
    node.value = value
    node.number = new_number()
    return node
