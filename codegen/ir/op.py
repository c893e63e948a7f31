"""Operations: what a node of a graph does.

An operation is declared once (in `autodiff.ops`): its name, shape rule, NumPy reference and
lowering.  The compiler finds it by name in `OPS` when it reads a graph from text; nothing
else is global.  This file knows no particular operation but `input` and `constant`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .aval import DTYPES, Aval


class Op:
    """One operation.

    name        the word used in printed graphs
    infer       infer(*input avals, **params) -> Aval; raises when the inputs do not fit
    reference   reference(*arrays, **params) -> array: the NumPy function that *defines* the value
    lower       how its loops are made (`codegen.lowering`), or None for what has no loops
    params      names of its static parameters, in order; a node holds just their values
    traits      words that passes ask for, e.g. "commutative"; see `codegen.passes`.  With "regions" some parameters
                are graphs (`Region`)
    """

    __slots__ = ("has_regions", "infer", "lower", "name", "params", "reference", "traits")

    def __init__(
        self,
        name: str,
        *,
        infer: Callable[..., Aval],
        reference: Callable[..., Any] | None,
        lower: Any = None,
        params: tuple[str, ...] = (),
        traits: frozenset[str] = frozenset(),
    ) -> None:
        self.name = name
        self.infer = infer
        self.reference = reference
        self.lower = lower
        self.params = params
        self.traits = frozenset(traits)
        self.has_regions = "regions" in self.traits

    def keywords(self, params: tuple) -> dict[str, Any]:
        """The parameter values of a node by name."""
        return dict(zip(self.params, params, strict=True))

    def __repr__(self) -> str:
        return self.name


#: Every operation by name.  Filled by declarations, read by `parse`.
OPS: dict[str, Op] = {}


def define(op: Op) -> Op:
    """Make `op` known by its name.  Raises ValueError when the name is taken."""
    if op.name in OPS:
        raise ValueError(f"operation {op.name!r} is declared twice")
    OPS[op.name] = op
    return op


def _never(*_, **__):
    raise AssertionError("inputs carry their aval, and so do nodes that passes make")


def internal(name: str, lower: Any, params: tuple[str, ...] = ()) -> Op:
    """An operation that only passes make, which know the aval of each node; it stands in no graph that a user sees."""
    return Op(name, infer=_never, reference=None, lower=lower, params=params)


#: The operation of a value that enters a graph.  Its aval is given, not inferred.
INPUT = define(Op("input", infer=_never, reference=None))

#: A 0-d number known when the graph is built: constant(value=2.0, dtype="f64").
CONSTANT = define(
    Op(
        "constant",
        infer=lambda *, value, dtype: Aval((), DTYPES[dtype]),
        reference=lambda *, value, dtype: np.asarray(value, DTYPES[dtype]),
        params=("value", "dtype"),
    )
)
