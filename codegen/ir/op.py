"""Operations, which the nodes of a graph apply.

An operation is declared once (in `autodiff.ops`) by its name, shape rule, NumPy reference and
lowering.  The table `OPS` finds it by name, for rewrites and when a graph is read from text; nothing
else is global.  This file declares only the operations `input` and `constant`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .aval import DTYPES, Aval


class Op:
    """One operation.

    name        the name in printed graphs
    infer       infer(*input avals, **params) -> Aval; raises when the inputs do not fit
    reference   reference(*arrays, **params) -> array: the NumPy function that *defines* the value
    lower       the lowering to loops (`codegen.lowering`), or None for an operation without loops
    params      names of the static parameters, in order; a node holds only their values
    traits      properties that passes test, e.g. "commutative"; see `codegen.passes`.  With "regions" some parameters
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


#: Every operation by name.  Filled by `define`.
OPS: dict[str, Op] = {}


def define(op: Op) -> Op:
    """Enter `op` into `OPS` and return it.  Raises ValueError if an operation has that name."""
    if op.name in OPS:
        raise ValueError(f"operation {op.name!r} is declared twice")
    OPS[op.name] = op
    return op


def _never(*_, **__):
    raise AssertionError("inputs carry their aval, and so do nodes that passes make")


def internal(name: str, lower: Any, params: tuple[str, ...] = ()) -> Op:
    """An operation that only passes use.  They give each node its aval; no graph shown to a user contains one."""
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
