"""The user's names for values that a function reads from around it: of variables, their entries and attributes.

    w = np.ones(3)
    params = {"bias": 1.0}
    ad.inspect(lambda x: x @ w + params["bias"], "f64[3]")           w,  params['bias']
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from ..tensor import AbstractTensor, Tensor
from .node import Node

__all__ = ["variable_of"]

#: Entries of a container that are looked at.
_MOST = 64


def variable_of(node: Node, frame: FrameType) -> str:
    """The name under which the program has what a node holds, in the frame that reads it; "" for none.

    A number is known by a variable only where none like it is written in the function.
    """
    value = node.value
    if not isinstance(value, np.ndarray) and any([_is_same(node, c) for c in frame.f_code.co_consts]):
        return ""
    near = list(_variables(frame))
    inside = ((name + inner, found) for name, held in near for inner, found in _inside(held))
    return next((name for name, held in chain(near, inside) if _is_same(node, held)), "")


def _variables(frame: FrameType) -> Iterator[tuple[str, Any]]:
    code, near = frame.f_code, frame.f_locals
    for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
        if name in near:
            yield name, near[name]
    for name in near if code.co_name == "<module>" else code.co_names:
        if name in near or name in frame.f_globals:
            yield name, near.get(name, frame.f_globals.get(name))


def _inside(held: Any) -> Iterator[tuple[str, Any]]:
    """The entries of a container, and the attributes of an object of the user's."""
    if isinstance(held, dict):
        yield from [(f"[{key!r}]", x) for key, x in [*held.items()][:_MOST]]
    elif isinstance(held, (list, tuple)):
        yield from [(f"[{k}]", x) for k, x in enumerate(held[:_MOST])]
    elif not isinstance(held, (ModuleType, type, AbstractTensor)) and (own := getattr(held, "__dict__", None)):
        yield from [(f".{name}", x) for name, x in [*own.items()][:_MOST]]


def _is_same(node: Node, held: Any) -> bool:
    """True if a variable holds the value of a node."""
    value = node.value
    if isinstance(held, Tensor):
        return held.node is node
    if isinstance(held, np.ndarray) and isinstance(value, np.ndarray):
        is_like = held.size > 0 and held.shape == value.shape and held.dtype == value.dtype
        return is_like and held.__array_interface__["data"] == value.__array_interface__["data"]
    return type(held) in (bool, int, float, complex) and type(held) is type(value) and held == value
