"""Values that a forward or a rule reads without being given them: from its closure, its globals, its defaults.

A forward's rule says nothing of such a value.  Where it tracks gradients it becomes an input of the boundary behind
those of the call, to which the rule gives no gradient: differentiating with respect to anything else is right, and a
gradient that is wanted through it is an error that names it.

    closed_over(nodes, inputs, since)   the tracking nodes that a forward read and that are no inputs of its call
    held_by(function)                   (path of names, tensor) for what a function can read by name
    holder(function)                    a quick question: may it read one of these nodes just now?
    standing(...)                       while a rule runs, handles that it reads name the boundary's own inputs

A rule may read anything.  A value of a trace, which has none of its own, is an input of the boundary too: the rule runs
later, perhaps on other nodes (the body of a loop, all examples of `vmap`), where that value is another node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, NoReturn

import numpy as np

from .. import tree
from ..errors import GradientError
from ..frames import UserLine
from ..tape.node import Node
from ..tape.walk import by_number, gradient_inputs
from ..tensor import Tensor
from .code_facts import facts_of
from .reads import is_fixed, is_library_function, reads_of

__all__ = ["Path", "closed_over", "held_by", "holder", "names_of", "refuse_closed", "standing", "tracked_by"]

#: The names by which a value is reached from a function, outermost first.
Path = tuple[str, ...]
#: Values that one function may hold before the rest is not looked at.
_MOST = 2000
_DEEPEST = 6


def closed_over(roots: Sequence[Node], inputs: Collection[Node], since: float) -> list[Node]:
    """The nodes through which gradients leave a forward other than through its inputs, by creation.

    roots    what the forward made, or asked the value of;  since: the number of its first node
    """
    found: list[Node] = []
    seen = {*inputs}
    level: Sequence[Node] = roots
    stack: list[Node] = []
    while True:  # a call is as fast as this loop: it is short for the few operations of a forward
        for node in level:
            if node not in seen and node.kind.out.requires_grad:
                seen.add(node)
                if node.number > since and node.leaf is None:
                    stack.append(node)
                else:
                    found.append(node)
        if not stack:
            return sorted(found, key=by_number) if found else found
        node = stack.pop()
        level = node.inputs if type(node) is Node else gradient_inputs(node)


def names_of(nodes: Sequence[Node], function: Any) -> tuple[str, ...]:
    """A function's names for the values of these nodes; shape and dtype where it has none."""
    if not nodes:
        return ()
    known: dict[Node, str] = {}
    for path, t in held_by(function):
        known.setdefault(t.node, repr(path[-1]))
    return tuple([known.get(n, f"a tensor {n.kind.out.aval}") for n in nodes])


def refuse_closed(name: str, rule: str, function: str, place: str, line: UserLine | None) -> NoReturn:
    """Raise GradientError: a gradient is wanted through a value that a forward, or its rule, closes over."""
    raise GradientError(
        f"{function}: a gradient is wanted through {name}, which its forward ({place}) reads without being given it:"
        f" the {rule} says nothing of it\n"
        f"  called at {line}\n"
        f"  pass it as an argument of {function}; ad.stop_gradient(...) says that it is a constant;\n"
        "  or write the forward as a method (.method), which is differentiated as it stands"
    )


# ---------------------------------------------------------------- while a rule runs


@contextmanager
def standing(rule: Any, reads: Mapping[Path, int], node_at: Callable[[int], Any]) -> Iterator[None]:
    """Let the handles that a rule reads name the inputs of its boundary.

    reads    by which names a value of a trace is read -> its place among these inputs
    """
    if not reads:
        yield
        return
    moved: list[tuple[Tensor, Node]] = []
    try:
        for path, t in held_by(rule.implementation):
            place = reads.get((rule.kind, *path))
            if place is not None:
                moved.append((t, t.node))
                t.node = node_at(place)
        yield
    finally:
        for t, node in moved:
            t.node = node


# ---------------------------------------------------------------- what a function can read


def tracked_by(rule: Any, reads: Mapping[Path, int], node_at: Callable[[int], Node]) -> list[Node]:
    """The nodes that a rule closes over and that track gradients: as `standing` has them."""
    places = [(t.node, reads.get((rule.kind, *path))) for path, t in held_by(rule.implementation)]
    nodes = [node if place is None else node_at(place) for node, place in places]
    return [n for n in nodes if n.kind.out.requires_grad]


def holder(function: Any) -> Callable[[Sequence[Node]], bool] | None:
    """A quick test: may the function read the value of one of these nodes now?  None where it never can.

    What it and the functions that it calls refer to by name is listed once; a name that has a module stays one.
    """
    cells: list[Any] = []
    names: list[tuple[dict[str, Any], str]] = []
    functions = [function] if isinstance(function, FunctionType) else []
    is_open = not functions
    for f in functions:
        for (kind, *where), value, _ in [] if is_library_function(f) else reads_of(f):
            if kind == "cell":
                assert f.__closure__ is not None, "a cell is one of a closure"
                cells.append(f.__closure__[where[0]])
            elif kind == "global" and type(f.__globals__.get(where[0])) is not ModuleType:
                names.append((f.__globals__, where[0]))
            elif kind != "global" and not _is_bare(value):
                is_open = True
            if isinstance(value, FunctionType) and not any([value is other for other in functions]):
                functions.append(value)
    if not (cells or names or is_open):
        return None

    def holds(nodes: Sequence[Node]) -> bool:
        if not is_open:
            try:
                values = [c.cell_contents for c in cells]
            except ValueError:  # one that is not filled yet
                values = [None]
            values += [namespace.get(name) for namespace, name in names]
            if all([_is_bare(x) or any([x is f for f in functions]) for x in values]):
                return False
        return any([t.node in nodes for _, t in held_by(function)])

    return holds


#: Classes whose instances hold no tensors.
_BARE = frozenset((type(None), bool, int, float, complex, str, bytes, np.ndarray, ModuleType, type(np.sum), np.ufunc))


def _is_bare(value: Any) -> bool:
    """True of what leads to no tensor: numbers, text, arrays, classes, functions of libraries."""
    if type(value) in _BARE or isinstance(value, (type, np.generic)):
        return True
    if isinstance(value, FunctionType):
        return is_library_function(value)
    return getattr(type(value), "is_generic_function", False) and is_fixed(value.__module__)


def held_by(function: Any) -> list[tuple[Path, Tensor]]:
    """(path, tensor) for every tensor that a function can read by name, the functions that it calls included.

    Of a container everything; of an object the attributes that these functions name.  Each handle once.
    """
    search = _Search()
    search.add((), "", function)
    search.go()
    return list(search.found.values())


class _Search:
    """A search through what functions hold, the nearest first.

    found        (path, tensor) by the identity of a handle;  seen: identities of what was looked into
    attributes   what the functions that were met read of objects
    objects      with their paths: each is looked into for every attribute
    """

    def __init__(self) -> None:
        self.found: dict[int, tuple[Path, Tensor]] = {}
        self.attributes: dict[str, None] = {}
        self._seen: set[int] = set()
        self._queue: deque[tuple[Path, Any]] = deque()
        self._objects: list[tuple[Path, Any]] = []
        self._asked: set[tuple[int, str]] = set()

    def add(self, above: Path, name: str, value: Any) -> None:
        """Look into a value, called by this name in what stands above it, later."""
        if isinstance(value, Tensor):
            self.found.setdefault(id(value), ((*above, name), value))
        elif id(value) not in self._seen and len(above) < _DEEPEST and len(self._seen) < _MOST and not _is_bare(value):
            self._seen.add(id(value))
            self._queue.append(((*above, name), value))

    def go(self) -> None:
        """Look into everything; into objects as often as another function tells what is read of them."""
        while self._queue or self._read_objects():
            while self._queue:
                self._look(*self._queue.popleft())

    def _look(self, path: Path, value: Any) -> None:
        name = path[-1]
        if isinstance(value, MethodType):
            self.add(path, name, value.__func__)
            self.add(path, f"{name}.__self__", value.__self__)
        elif isinstance(value, partial):
            for k, x in enumerate((value.func, *value.args, *value.keywords.values())):
                self.add(path, f"{name}, part {k}", x)
        elif isinstance(value, FunctionType):
            self._look_at_function(path, value)
        elif getattr(type(value), "is_generic_function", False):
            for k, method in enumerate(value.table):
                self.add(path, f"{name}, method {k}", method.implementation)
        else:
            leaves, structure = tree.flatten(value)
            if structure.cls is None:
                self._objects.append((path, value))
                self.add(path, name, getattr(value, "__wrapped__", None))  # of what `jit` made
                self.add(path, name, _attribute_of(value, "__call__"))
            else:
                for n, x in zip(tree.names(structure, name), leaves, strict=True):
                    self.add(path, n, x)

    def _look_at_function(self, path: Path, function: FunctionType) -> None:
        code = function.__code__
        self.attributes.update(dict.fromkeys(facts_of(code).attributes))
        first_default = code.co_argcount - len(function.__defaults__ or ())
        for (kind, *where), value, _ in reads_of(function):
            if kind == "cell":
                name = code.co_freevars[where[0]]
            elif kind == "default":
                name = code.co_varnames[first_default + where[0]]
            else:
                name = ".".join(where)
            self.add(path, name, value)
        self.add(path, path[-1], getattr(function, "__wrapped__", None))

    def _read_objects(self) -> bool:
        """Add the attributes of objects that were not read so far; whether there were any."""
        before = len(self._asked)
        for path, value in self._objects:
            for attribute in list(self.attributes):
                if (id(value), attribute) not in self._asked:
                    self._asked.add((id(value), attribute))
                    self.add(path, f"{path[-1]}.{attribute}", _attribute_of(value, attribute))
        return len(self._asked) > before


def _attribute_of(value: Any, name: str) -> Any:
    """The value that an object holds under a name, in its dictionary or a slot; else its class's function."""
    own = getattr(value, "__dict__", {})
    if name in own:
        return own[name]
    found = next((vars(owner)[name] for owner in type(value).__mro__ if name in vars(owner)), None)
    if isinstance(found, MemberDescriptorType):
        return getattr(value, name, None)
    return getattr(found, "fget", None) or getattr(found, "__func__", None) or getattr(found, "func", None) or found
