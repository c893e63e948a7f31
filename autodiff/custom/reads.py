"""The values that a user's function reads from its closure, globals and defaults, rather than as arguments.

    facts_of(code)                      the names that its instructions read: cached, as a code object never changes
    reads_of(function)                  the current values of these names, for `keys` and `watching`
    held_by(function)                   (path of names, tensor) for each tensor that it can read by name
    closed_over(nodes, inputs, since)   the tracking nodes that a forward read and that are no inputs of its call
    boundary_inputs_in_place(...)       while a rule runs, handles that it reads stand for the boundary's own inputs

The rule of a forward says nothing about such a value.  A value that tracks gradients becomes an input of the boundary
after the inputs of the call, and the rule gives it no gradient: derivatives with respect to other tensors are right,
and a gradient through the value is an error that names it.

A rule may read any value.  A tensor of a trace becomes an input of the boundary too: the rule runs later, perhaps on
other nodes (the body of a loop, all examples of `vmap`), among which another node has that value.
"""

from __future__ import annotations

import builtins
import dis
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import numpy as np

from codegen.records import NamedTuple

from .. import tree
from ..errors import GradientError
from ..tape.node import Node
from ..tape.walk import by_number, gradient_inputs
from ..tensor import Tensor

#: Packages whose classes and modules are fixed: a program that uses them does not change them.
_FIXED = frozenset(("_operator", "autodiff", "builtins", "cmath", "codegen", "collections", "dataclasses", "enum",
                    "functools", "itertools", "math", "numpy", "operator", "scipy", "typing"))
#: The instructions that read a global, or an attribute, in all tested versions of Python.
_GLOBAL_READS = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"))
_ATTRIBUTE_READS = frozenset(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"))
#: Instructions that may change a value while a rule runs, or that find names in other ways.
_UNWATCHABLE = frozenset(("STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_BUILD_CLASS", "IMPORT_NAME", "LOAD_NAME"))


class CodeFacts(NamedTuple):
    """The names that a code object, and the functions that it defines, read.

    reads          globals and their attributes (`np.pi` is ("global", "np", "pi")), and ("import", a module)
    attributes     names of attributes that are read from any value, in order
    is_watchable   True if the code can run with watched numbers
    """

    reads: tuple[tuple[str, ...], ...]
    attributes: tuple[str, ...]
    is_watchable: bool


@lru_cache(maxsize=1024)
def facts_of(code: CodeType) -> CodeFacts:
    """The facts of a code object."""
    reads: dict[tuple[str, ...], None] = {}
    attributes: dict[str, None] = {}
    is_watchable = True
    path: tuple[str, ...] = ()
    for instruction in dis.get_instructions(code):
        name, value = instruction.opname, instruction.argval
        argument = value if type(value) is str else ""
        reads_attribute = name in _ATTRIBUTE_READS
        if path and reads_attribute:
            path = (*path, argument)
        elif name in _GLOBAL_READS or (path and name not in ("CACHE", "PUSH_NULL")):
            if path:
                reads[path] = None
            path = ("global", argument) if name in _GLOBAL_READS else ()
        if reads_attribute:
            attributes[argument] = None
        if name == "IMPORT_NAME":
            reads["import", argument] = None
        if (
            name in _UNWATCHABLE
            or (name in ("STORE_DEREF", "DELETE_DEREF") and argument in code.co_freevars)
            or ((reads_attribute or name == "STORE_ATTR") and argument.startswith("__"))
        ):
            is_watchable = False
    if path:
        reads[path] = None
    for inner in [facts_of(c) for c in code.co_consts if isinstance(c, CodeType)]:
        reads |= dict.fromkeys(inner.reads)
        attributes |= dict.fromkeys(inner.attributes)
        is_watchable = is_watchable and inner.is_watchable
    return CodeFacts(tuple(reads), tuple(attributes), is_watchable)


#: A read: where it is, the value, True if the value covers all of the read.  See `reads_of`.
Read = tuple[tuple, Any, bool]


def is_fixed(module: str | None) -> bool:
    """True if a module belongs to a package that programs use without changing it."""
    return (module or "").partition(".")[0] in _FIXED


def is_library_function(function: FunctionType) -> bool:
    """True if a function belongs to a fixed package and reads nothing from the user's program.

    A function with a closure may read the program's values there, unless the closure is its own cache.
    """
    is_closed = function.__closure__ is None or getattr(function, "is_remembered", False)
    return is_closed and is_fixed(function.__module__)


def reads_of(function: FunctionType) -> list[Read]:
    """The values that a function reads by name: (where, value, True if the value covers all of the read).

    where   ("cell", number), ("default", number), ("keyword", name), ("global", name, attribute, ...),
            ("import", a module), of which the value does not cover all if the module may change
    """
    found: list[Read] = []
    for i, cell in enumerate(function.__closure__ or ()):
        found.append((("cell", i), _contents(cell), True))
    for i, value in enumerate(function.__defaults__ or ()):
        found.append((("default", i), value, True))
    for name, value in (function.__kwdefaults__ or {}).items():
        found.append((("keyword", name), value, True))
    for where in facts_of(function.__code__).reads:
        found.append((where, *_read(function.__globals__, where)))
    return found


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _read(names: dict[str, Any], where: tuple[str, ...]) -> tuple[Any, bool]:
    """The value of `name.attribute.attribute` among globals now, and True if it covers all of the read."""
    if where[0] == "import":
        return None, is_fixed(where[1])
    value = names[where[1]] if where[1] in names else getattr(builtins, where[1], None)
    used = 2
    for attribute in where[2:]:
        if not isinstance(value, (ModuleType, type)):
            break  # an attribute of an object, for which `keys` makes one key
        value = getattr(value, attribute, None)
        used += 1
    # The attributes of a function are not covered: any code may set them.
    return value, used == len(where) or type(value) is not FunctionType


# ---------------------------------------------------------------- tensors that a function can read

#: The names that lead from a function to a value, outermost first.
Path = tuple[str, ...]
#: The search of one function stops after this many values.
_MOST = 2000
_DEEPEST = 6

#: Classes whose instances hold no tensors.
_BARE = frozenset((type(None), bool, int, float, complex, str, bytes, np.ndarray, ModuleType, type(np.sum), np.ufunc))


def _is_bare(value: Any) -> bool:
    """True for a value that leads to no tensor: numbers, text, arrays, classes, library functions."""
    if type(value) in _BARE or isinstance(value, (type, np.generic)):
        return True
    if isinstance(value, FunctionType):
        return is_library_function(value)
    return getattr(type(value), "is_generic_function", False) and is_fixed(value.__module__)


def held_by(function: Any) -> list[tuple[Path, Tensor]]:
    """(path, tensor) for every tensor that a function, or a function that it calls, can read by name.

    A container is searched completely; an object only for attributes that these functions name.  Each handle is found
    once, by its shortest path.
    """
    found: dict[int, tuple[Path, Tensor]] = {}
    seen: set[int] = set()
    attributes: dict[str, None] = {}  # names of attributes that the functions found so far read
    objects: list[tuple[Path, Any]] = []
    asked: set[tuple[int, str]] = set()
    queue: deque[tuple[Path, Any]] = deque([(("",), function)])
    while queue:
        path, value = queue.popleft()
        if isinstance(value, Tensor):
            found.setdefault(id(value), (path, value))
        elif id(value) not in seen and len(path) <= _DEEPEST and len(seen) < _MOST and not _is_bare(value):
            seen.add(id(value))
            if isinstance(value, FunctionType):
                attributes.update(dict.fromkeys(facts_of(value.__code__).attributes))
            parts = _parts(path[-1], value)
            if parts is None:
                objects.append((path, value))
                # A call of the object runs these functions: the one that `jit` wraps, and its `__call__`.
                run = getattr(value, "__wrapped__", None), _attribute_of(value, "__call__")
                parts = [(path[-1], function) for function in run]
            queue.extend([((*path, name), part) for name, part in parts])
        if not queue:  # a function found after an object may read more of its attributes
            for path, value in objects:
                new = [name for name in attributes if (id(value), name) not in asked]
                asked.update([(id(value), name) for name in new])
                queue.extend([((*path, f"{path[-1]}.{name}"), _attribute_of(value, name)) for name in new])
    return list(found.values())


def _parts(name: str, value: Any) -> list[tuple[str, Any]] | None:
    """The named parts of a function, or of the container called `name`; None for an object."""
    if isinstance(value, FunctionType):
        code, reads = value.__code__, reads_of(value)
        first = code.co_argcount - len(value.__defaults__ or ())
        names = {"cell": code.co_freevars, "default": code.co_varnames[first:]}
        parts = [(names[kind][where[0]] if kind in names else ".".join(where), x) for (kind, *where), x, _ in reads]
        return [*parts, (name, getattr(value, "__wrapped__", None))]
    if isinstance(value, MethodType):
        return [(name, value.__func__), (f"{name}.__self__", value.__self__)]
    if isinstance(value, partial):
        held = (value.func, *value.args, *value.keywords.values())
        return [(f"{name}, part {k}", x) for k, x in enumerate(held)]
    if getattr(type(value), "is_generic_function", False):
        return [(f"{name}, method {k}", method.implementation) for k, method in enumerate(value.table)]
    leaves, structure = tree.flatten(value)
    return None if structure.cls is None else list(zip(tree.names(structure, name), leaves, strict=True))


def _attribute_of(value: Any, name: str) -> Any:
    """The value of an object's attribute in its dictionary or a slot; else the function that the class has for it."""
    own = getattr(value, "__dict__", {})
    if name in own:
        return own[name]
    found = next((vars(owner)[name] for owner in type(value).__mro__ if name in vars(owner)), None)
    if isinstance(found, MemberDescriptorType):
        return getattr(value, name, None)
    return getattr(found, "fget", None) or getattr(found, "__func__", None) or getattr(found, "func", None) or found


# ---------------------------------------------------------------- nodes that a forward read


def closed_over(roots: Sequence[Node], inputs: Collection[Node], since: float) -> list[Node]:
    """The tracking nodes that a forward read and that are no inputs of its call, by creation number.

    roots    the nodes of its results, and those it evaluated;  since: the number of its first node
    """
    found: list[Node] = []
    seen = {*inputs}
    level: Sequence[Node] = roots
    stack: list[Node] = []
    while True:  # one loop without calls: it is part of the cost of each call of a forward
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
    """A function's names for the values of nodes; shape and dtype for a node without a name."""
    if not nodes:
        return ()
    known: dict[Node, str] = {}
    for path, t in held_by(function):
        known.setdefault(t.node, repr(path[-1]))
    return tuple([known.get(n, f"a tensor {n.kind.out.aval}") for n in nodes])


def refuse_closed(call: Any, rule: str, is_wanted: Callable[[int], bool]) -> None:
    """Raise GradientError if a gradient is needed through a value that a forward closes over."""
    function = call.function.__name__
    for place, name in enumerate(call.shape.closed, call.shape.closed_at):
        if is_wanted(place):
            raise GradientError(
                f"{function}: a gradient is wanted through {name}, which its forward ({call.method.place}) reads"
                f" without being given it: the {rule} says nothing of it\n"
                f"  called at {call.line}\n"
                f"  pass it as an argument of {function}; ad.stop_gradient(...) says that it is a constant;\n"
                "  or write the forward as a method (.method), which is differentiated as it stands"
            )


# ---------------------------------------------------------------- while a rule runs


@contextmanager
def boundary_inputs_in_place(rule: Any, reads: Mapping[Path, int], node_at: Callable[[int], Any]) -> Iterator[None]:
    """While the block runs, the handles that a rule reads have the nodes of its boundary's inputs.

    reads    path of names to a tensor of a trace -> its place among these inputs
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


def tracked_by(rule: Any, reads: Mapping[Path, int], node_at: Callable[[int], Node]) -> list[Node]:
    """The tracking nodes that a rule closes over: see `boundary_inputs_in_place`."""
    with boundary_inputs_in_place(rule, reads, node_at):
        return [t.node for _, t in held_by(rule.implementation) if t.node.kind.out.requires_grad]
