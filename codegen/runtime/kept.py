"""Programs on disk: a graph that an earlier process compiled is neither planned nor emitted as text again.

    key = key_of(graph)                            None for a graph whose program cannot be stored
    plan = loaded(key, name, kernels, disk)        the plan, if it is on disk with all its code
    keep(disk, key, plan, owners)                  stores a plan for later processes

A process that finds all its programs on disk imports neither the passes nor the emitters, a third of its bytecode, and
does not load LLVM.  Only programs of kernels and products are stored; no loops, and no calls of NumPy.

A plan depends on the library's code, so the key includes the names, sizes and times of all files of this package and
of the packages that declare the graph's operations.  If one of the files has changed since this process began, the
process may run older code than the files contain, and no program is stored.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import DTYPES, OPS, Aval, Graph, Op, dtype_name
from ..lazily import later
from ..modes import modes
from ..program import Gemm
from . import engine
from .disk import FORMAT, DiskCache, blake2b
from .kernels import KernelTable, NativeKernel
from .launcher import LaunchPlan, NativeStep, Share
from .machine import package_identity

if TYPE_CHECKING:
    from . import products
    from .products import ProductStep
else:
    products = later("codegen.runtime.products")

#: The version of the stored format; increased when its content changes meaning.
VERSION = 2


# ------------------------------------------------------------ which graph


class _NotKept(Exception):
    """A graph whose parts do not identify its program in another process."""


def key_of(graph: Graph) -> str | None:
    """The key of a graph's program, equal in every process; None if the program cannot be stored."""
    if os.environ.get("AUTODIFF_VERIFY") == "1":  # the passes must run, to be verified
        return None
    try:
        described = marshal.dumps(_described(graph), 2)  # later versions may write equal values differently
        packages = {"codegen"}.union(*[_packages(op) for op in {node.op for node in graph.nodes}])
    except _NotKept:
        return None
    identities = [package_identity(name) for name in sorted(packages)]
    if None in identities:
        return None
    # Planning a graph computes constants by NumPy.
    versions = (f"plan {VERSION} {FORMAT}", sys.version, np.__version__)
    parts = (*versions, modes.of_code(), *engine.target_key(), *map(str, identities))
    return blake2b("\0".join(parts).encode() + b"\0" + described, digest_size=16).hexdigest()


def _described(graph: Graph) -> tuple:
    number = {node: i for i, node in enumerate((*graph.inputs, *graph.nodes))}
    nodes = [
        (node.op.name, _plain(node.params), _aval(node.aval), tuple([number[i] for i in node.inputs]))
        for node in graph.nodes
    ]
    return tuple([_aval(i.aval) for i in graph.inputs]), tuple(nodes), tuple([number[o] for o in graph.outputs])


def _aval(aval: Aval) -> tuple:
    return dtype_name(aval.dtype), _plain(aval.shape)


_PLAIN = frozenset((int, float, complex, str, bytes, bool, type(None)))


def _plain(value: Any) -> Any:
    """A parameter itself, if it is plain data.  Raises _NotKept otherwise."""
    if type(value) is tuple:
        for inner in value:
            if type(inner) not in _PLAIN:
                _plain(inner)
    elif type(value) not in _PLAIN:
        raise _NotKept
    return value


def _packages(op: Op) -> frozenset[str]:
    """The packages that declare an operation.  Raises _NotKept if another process may declare it otherwise."""
    functions = [op.infer, *vars(op.lower).values()] if hasattr(op.lower, "__dict__") else [op.infer]
    homes = {getattr(f, "__module__", None) or "" for f in functions if callable(f)}
    if OPS.get(op.name) is not op or type(op.lower).__name__ in ("Call", "Nest") or "" in homes:
        raise _NotKept
    return frozenset([home.partition(".")[0] for home in homes])


# ------------------------------------------------------------ what is kept of it


def keep(disk: DiskCache, key: str, plan: LaunchPlan, owners: Sequence[NativeKernel | ProductStep]) -> None:
    """Store a program of kernels and products on disk; `owners`: for each step the kernel or product it calls."""
    steps: list[tuple] = []
    for step, owner in zip(plan.steps, owners, strict=True):
        if isinstance(owner, NativeKernel):
            share = (step.share.total, step.share.chunk) if step.share else None
            steps.append(("kernel", owner.key, step.slots, step.extents, share))
        else:
            fields = tuple([getattr(owner.gemm, field) for field in type(owner.gemm).__match_args__])
            steps.append(("product", fields, step.slots))
    content = (
        tuple([_aval(a) for a in plan.inputs]), tuple([_aval(a) for a in plan.outputs]), plan.offsets,
        plan.workspace_bytes, tuple(steps), plan.is_long, plan.operations,
    )  # fmt: skip
    disk.store([key], marshal.dumps(content, 2), ())


def loaded(key: str, name: str, kernels: KernelTable, disk: DiskCache) -> LaunchPlan | None:
    """The plan of a stored program; None if the plan or code of a kernel is missing."""
    entry = disk.load(key)
    if entry is None:
        return None
    inputs, outputs, offsets, workspace, steps, is_long, operations = marshal.loads(entry.object_bytes)
    needed = {name for kind, name, *_ in steps if kind == "kernel"}
    found = kernels.kept(needed, lambda: disk)
    if not found.keys() >= needed:  # compared after loading: an object may hold further kernels whose files are gone
        return None
    made: list[NativeStep] = []
    owns: list[Any] = []
    for kind, what, slots, *rest in steps:
        if kind == "kernel":
            extents, share = rest
            made.append(NativeStep(found[what].address, slots, extents, Share(*share) if share else None))
            owns.append(found[what])
        else:
            product = products.product_step(Gemm(*what))
            made.append(NativeStep(product.address, slots, product.extents, product.share))
            owns.append(product)
    return LaunchPlan(
        name, _avals(inputs), _avals(outputs), offsets, workspace, tuple(made), is_long, tuple(dict.fromkeys(owns)),
        operations,
    )  # fmt: skip


def _avals(written: tuple) -> tuple[Aval, ...]:
    return tuple([Aval(shape, DTYPES[dtype]) for dtype, shape in written])
