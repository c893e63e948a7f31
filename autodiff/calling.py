"""Callers: a known call signature of a jit function goes from Python arguments to native code and back.

For each entry of a jit function straight-line Python is written that takes nested arguments apart, gives
the arrays to the native launcher, and puts the results together:

    def call(args, kwargs):                     # f({"w": w, "b": b}, x) -> (y, {"n": n})
        if len(args) != 2 or kwargs: return MISS
        c0, v2 = args
        if type(c0) is not dict or tuple(c0) != k0: return MISS
        v0, v1, = c0.values()
        found = launch(v0, v1, v2)
        if found is None: return MISS
        r0, r1, = found
        return (r0, {"n": r1[()]})

What the launcher checks (exact class, dtype, extents, layout) is not checked here.  `MISS` sends a call
to the Python path, which converts, traces or raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codegen.written import defined

from . import tree
from .argument_leaves import has_key
from .config import config
from .tape.node import Node
from .tensor import Tensor

__all__ = ["MISS", "CallerWriter", "write_caller"]

#: The answer of a caller to a call that is not the one it was written for.
MISS: Any = object()


def write_caller(
    launch: Callable[..., tuple | None],
    signature: tree.Structure,
    kinds: Sequence[tuple[str, Any]],
    hidden: Sequence[Any],
    result: tree.Structure,
    leaves: Sequence[tuple[int | None, Any]],
    avals: Sequence[Any],
    meets: bool,
    fits: Callable[[], bool] | None,
) -> Callable[[tuple, dict], Any] | None:
    """The caller of one entry; None when its arguments hold containers that only their class takes apart.

    launch      gives a tuple of arrays, or None when an argument does not fit
    signature   the structure of (args, kwargs)
    kinds       for each leaf of it: ("array", rank), ("number", exact class), ("static", the object),
                ("keyed", the key of a static object that may change)
    hidden      further inputs: tensors, nodes or arrays whose present contents count
    result      the structure of what is returned
    leaves      for each leaf of it: (position among the arrays or None, the object if None)
    avals       of the arrays
    meets       whether the trace met tensors: while a function is differentiated a call may have to track them
    fits        whether what decided the trace still has its values; None: nothing did
    """
    writer = CallerWriter(fits)
    if not writer.take_apart(signature):
        return None
    if meets:
        writer.refuse("transforming")
    inputs = writer.check_leaves(kinds) + writer.look_up(hidden)
    writer.lines.append(f"found = launch({', '.join(inputs)})")
    writer.refuse("found is None")
    if avals:
        writer.lines.append(f"{_tuple([f'r{i}' for i in range(len(avals))])} = found")
    names = [
        writer.name(given, "g") if position is None else f"r{position}" + ("" if avals[position].shape else "[()]")
        for position, given in leaves
    ]
    writer.env |= {"launch": launch, "transforming": config.transforming}
    return writer.caller(f"return {writer.put_together(result, iter(names))}")


class CallerWriter:
    """Lines of a caller, and the objects that they name."""

    def __init__(self, fits: Callable[[], bool] | None) -> None:
        self.lines: list[str] = []
        self.env: dict[str, Any] = {"__name__": __name__, "fits": fits}
        self.leaf_names: list[str] = []
        self._names = 0
        if fits is not None:
            self.refuse("not fits()")

    def refuse(self, condition: str) -> None:
        """A call of which this holds is not the one known."""
        self.lines.append(f"if {condition}: return MISS")

    def name(self, value: Any, prefix: str) -> str:
        """A name for an object."""
        name = f"{prefix}{len(self.env)}"
        self.env[name] = value
        return name

    def caller(self, *last: str) -> Callable[[tuple, dict], Any]:
        """The function of these lines and the last ones."""
        self.env |= {"MISS": MISS, "ndarray": np.ndarray}
        return defined("call", "\n    ".join(["def call(args, kwargs):", *self.lines, *last]), self.env)

    # ------------------------------------------------------------ arguments

    def take_apart(self, signature: tree.Structure) -> bool:
        """Bind every leaf of (args, kwargs) to a name.  False: some container cannot be written out."""
        args, kwargs = signature.children
        return self._bind(args, "args", is_known=True) and self._bind(kwargs, "kwargs", is_known=True)

    def _bind(self, structure: tree.Structure, container: str, is_known: bool = False) -> bool:
        """Bind the children of a container; `is_known`: its class need not be looked at."""
        cls, rest = structure.cls, structure.rest
        if not is_known:
            self.refuse(f"type({container}) is not {self.name(cls, 'C')}")
        count = len(structure.children)
        if cls not in (tuple, list, dict) and not (
            isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")
        ):
            self.lines.append(f"parts, rest = split({container})")  # as only its class knows
            self.refuse(f"exactly(rest) != {self.name(structure.exact, 'k')} or len(parts) != {count}")
            self.env.update(split=tree.split, exactly=tree.exactly)
            container = "parts"
        if cls is dict:
            if not count:
                self.refuse(container)
                return True
            self.refuse(f"tuple({container}) != {self.name(rest, 'k')}")
            if not all([type(key) is str for key in rest]):
                self.refuse(f"exactly(tuple({container})) != {self.name(structure.exact, 'k')}")
                self.env["exactly"] = tree.exactly
            container += ".values()"
        elif cls in (tuple, list):
            self.refuse(f"len({container}) != {count}")
        if not count:
            return True
        names = []
        for child in structure.children:
            self._names += 1
            names.append(f"{'v' if child.cls is None else 'c'}{self._names}")
        self.lines.append(f"{_tuple(names)} = {container}")
        for name, child in zip(names, structure.children, strict=True):  # depth first, as leaves are counted
            if child.cls is None:
                self.leaf_names.append(name)
            elif not self._bind(child, name):
                return False
        return True

    def check_leaves(self, kinds: Sequence[tuple[str, Any]]) -> list[str]:
        """Check what the launcher does not; the names of the leaves that are inputs, in order."""
        inputs = []
        for name, (kind, what) in zip(self.leaf_names, kinds, strict=True):
            if kind == "static":
                self.refuse(f"{name} is not {self.name(what, 's')}")
                continue
            if kind == "keyed":
                self.refuse(f"not has_key({name}, {self.name(what, 's')})")
                self.env["has_key"] = has_key
                continue
            if kind == "tensor":
                inputs.append(self.check_tensor(name, what))
                continue
            if kind == "number":
                self.refuse(f"type({name}) is not {self.name(what, 'C')}")
            elif not what:
                self.refuse(f"type({name}) is not ndarray")  # numbers, NumPy's too, dispatch as numbers
            inputs.append(name)
        return inputs

    def check_tensor(self, name: str, out: Any) -> str:
        """Check that a leaf is a tensor like this; an expression of the array that it holds."""
        self.refuse(f"type({name}) is not {self.name(out.cls, 'C')}")
        self.lines.append(f"n = {name}.node")
        self.refuse(f"n.kind.out is not {self.name(out, 'O')}")
        self.lines.append(f"{name} = n.value")
        self.refuse(f"type({name}) is not ndarray")  # pending, or a number
        return name

    def look_up(self, hidden: Sequence[Any]) -> list[str]:
        """Expressions of the present contents of hidden inputs."""
        names = []
        for k, source in enumerate(hidden):
            if isinstance(source, Tensor):
                name = f"present{k}"
                self.lines.append(f"{name} = {self.name(source, 't')}.node.value")
                self.refuse(f"{name} is None")
                names.append(name)
            else:
                names.append(self.name(source.value if isinstance(source, Node) else source, "h"))
        return names

    # ------------------------------------------------------------ results

    def put_together(self, structure: tree.Structure, names: Any) -> str:
        """An expression of a tree with these leaves."""
        if structure.cls is None:
            return next(names)
        parts = [self.put_together(child, names) for child in structure.children]
        if structure.cls is tuple:
            return f"({_tuple(parts)})" if parts else "()"
        if structure.cls is list:
            return f"[{', '.join(parts)}]"
        if structure.cls is dict:
            keys = [self.name(key, "k") for key in structure.rest]
            return f"{{{', '.join(f'{k}: {p}' for k, p in zip(keys, parts, strict=True))}}}"
        return f"{self.name(tree.joiner(structure), 'j')}([{', '.join(parts)}])"


def _tuple(names: Sequence[str]) -> str:
    return ", ".join(names) + ","
