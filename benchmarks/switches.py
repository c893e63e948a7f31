"""Switches that turn off one mechanism of the library in a worker process, for mechanisms.py.

The library has no flags for most mechanisms: a switch replaces the function that implements one, before anything is
compiled.  Results stay right, which tests/test_benchmarks.py checks.
"""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable
from functools import partial
from typing import Any

__all__ = ["SWITCHES", "switch_off"]

SWITCHES: dict[str, Callable[[], None]] = {}


def switch_off(name: str) -> None:
    """Turn off a mechanism in this process.  Raises KeyError for an unknown name."""
    SWITCHES[name]()


def _switch(name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def named(off: Callable[[], None]) -> Callable[[], None]:
        SWITCHES[name] = off
        return off

    return named


def _replace(owner: Any, name: str, value: Any) -> Any:
    """Replace an existing attribute of a module or class; returns the old value."""
    found = importlib.import_module(owner) if isinstance(owner, str) else owner
    old = getattr(found, name)
    setattr(found, name, value)
    return old


# ---------------------------------------------------------------- calling and recording


@_switch("native launcher")
def _launcher() -> None:
    """Calls go through ctypes, and there is no pool of outputs."""
    os.environ["AUTODIFF_LAUNCHER"] = "0"


@_switch("output pool")
def _pool() -> None:
    _replace("codegen.runtime.memory", "POOL_BYTES", 0)


@_switch("native answers")
def _answers() -> None:
    """Recordings are found by exact keys, in Python."""
    _replace("autodiff.tape.machine", "use_asks", lambda recorder: None)  # the native recorder stays


@_switch("templates")
def _templates() -> None:
    """Each call of a composite function of the library runs its body again to record it."""
    template = importlib.import_module("autodiff.ops.template").Template
    _replace(template, "program", lambda self, *args, **keywords: None)


@_switch("native recorder")
def _recorder() -> None:
    """All operations are recorded by Python, also those of programs that were recorded before."""
    _replace("codegen.runtime.record", "set_up", lambda layout: None)


@_switch("updates in machine code")
def _updates() -> None:
    """`t += x` is recorded by Python; other operators are still recorded by machine code."""
    recorder = importlib.import_module("codegen.runtime.record").Recorder
    site = recorder.site
    _replace(recorder, "site", lambda self, sort, *given: 0 if sort == "in_place" else site(self, sort, *given))


@_switch("recordings in parts")
def _recordings_in_parts() -> None:
    """A long recording is one graph, whatever its length, and is not cut into parts."""
    _replace("autodiff.tape.parts", "ending_of", lambda *given: None)


@_switch("known sizes")
def _sizes() -> None:
    """Each new size of a recording runs the rules again and makes a new graph."""
    _replace("autodiff.tape.ask", "form_of", lambda *given: (None, ()))


@_switch("patience")
def _patience() -> None:
    """Every new program is compiled at its first evaluation."""
    importlib.import_module("autodiff").config.patience = 0


@_switch("disk cache")
def _disk() -> None:
    """New processes find no code that earlier processes cached on disk."""
    ours = _replace("rows.start", "ours", lambda program, kept: ours(program, "nothing kept"))


@_switch("threads")
def _threads() -> None:
    os.environ["AUTODIFF_THREADS"] = "1"


# ---------------------------------------------------------------- fusion


@_switch("fusion of any kind")
def _fusion() -> None:
    """Each operation is a separate kernel, and stores its result."""
    demand = importlib.import_module("codegen.passes.demand")
    ir = importlib.import_module("codegen.ir.op")

    def every_node(prepared: Any, probed: Any) -> set:
        nodes = prepared.graph.nodes
        needed = _choose(prepared, probed) | set(prepared.graph.outputs)
        return needed | {n for n in nodes if n.op not in (ir.INPUT, ir.CONSTANT) and demand.is_fused(n) and n.aval.size}

    _choose = _replace("codegen.passes.fuse", "choose_roots", every_node)
    _replace("codegen.passes.fuse", "fit", lambda *given: None)


@_switch("several results in one kernel")
def _outputs() -> None:
    """A value that several results need is fused into each of them, or stored."""
    _replace("codegen.passes.fuse", "fit", lambda *given: None)


@_switch("row-local chains")
def _rows() -> None:
    """A loop that reads a reduction is a later kernel than the reduction, also for reductions of rows."""

    def fit(group: Any, unit: Any, root: Any, reaches: Any) -> Any:
        read = reaches.of(root.node).leaves & unit.made
        made = [r for r in unit.roots.values() if r.is_reduction and reaches.leaf(r.node) & read]
        return None if made else _fit(group, unit, root, reaches)

    _fit = _replace("codegen.passes.fuse", "fit", fit)


@_switch("reductions in a shared sweep")
def _reductions() -> None:
    """Each reduction is a separate kernel, which sweeps over its operand."""

    def fit(group: Any, unit: Any, root: Any, reaches: Any) -> Any:
        shares = root.is_reduction and unit.roots
        return None if shares else _fit(group, unit, root, reaches)

    _fit = _replace("codegen.passes.fuse", "fit", fit)


@_switch("parts added up by themselves")
def _windows() -> None:
    """The gradients of slices are added up as whole arrays."""
    pipeline = importlib.import_module("codegen.passes.pipeline")
    pipeline.PASSES = tuple([(name, run) for name, run in pipeline.PASSES if name != "windows"])


@_switch("parts stored where they go")
def _joins() -> None:
    """A loop over a concatenation chooses among its parts for each element."""
    _replace("codegen.passes.prepare", "as_join", lambda node: node)


@_switch("small products as loops")
def _products() -> None:
    """All matrix products are separate steps; small ones are no longer loops of a kernel."""
    _replace("codegen.kernel.operands", "_LOOP_LIMIT", 0)


@_switch("in-place storage")
def _in_place() -> None:
    _replace("codegen.passes.drafts", "share_memory", lambda graph, fused, placed, names: {})
    _replace("codegen.passes.drafts", "same_memory", lambda graph, fused: {})


# ---------------------------------------------------------------- kernels


@_switch("run-time extents")
def _extents() -> None:
    """Every extent is a constant of its kernel."""
    _replace("codegen.passes.drafts", "with_arguments", lambda kernel, varying=(): kernel)


@_switch("vector math")
def _math() -> None:
    """Elementary functions of one argument call libm for each lane of a vector."""
    written = importlib.import_module("codegen.emit.math")
    two = written._OF_TWO
    functions = {n: f if n in two else lambda k, x: x for n, f in written.FUNCTIONS.items()}
    _replace(written, "FUNCTIONS", functions)
    everywhere = dict.fromkeys(functions.keys() - two, lambda k, x: k.abs(x) < math.inf)
    _replace(written, "_FAR", {**written._FAR, **everywhere})
    _replace(written, "_IN_REGISTERS", written._IN_REGISTERS & two)


@_switch("explicit vectors")
def _vectors() -> None:
    """Loops are emitted for single elements, and LLVM vectorises them if it can."""
    llvm = importlib.import_module("llvmlite.binding")  # imported first, so that the compiler uses this library, too
    importlib.import_module("codegen.runtime.llvm")._loaded.clear()
    engine = importlib.import_module("codegen.runtime.engine")

    def usual_passes(machine: Any, module: Any) -> None:
        """Run LLVM's standard passes; each module needs a new pass manager."""
        tuning = llvm.create_pipeline_tuning_options(speed_level=2)
        tuning.loop_vectorization, tuning.slp_vectorization = True, False
        builder = llvm.create_pass_builder(machine, tuning)
        builder.getModulePassManager().run(module, builder)

    _replace(engine._Compiler, "_pipeline", property(lambda compiler: partial(usual_passes, compiler.machine)))
    _replace("codegen.emit.body", "plan_loop", lambda *args, **keywords: None)


@_switch("native transforms")
def _transforms() -> None:
    """Fourier transforms are computed by NumPy."""
    _replace("codegen.runtime.fourier", "is_native", lambda node: False)


@_switch("native orders")
def _orders() -> None:
    """Sorting is done by NumPy."""
    _replace("codegen.runtime.orders", "is_native", lambda node: False)


@_switch("blocks of elements")
def _blocks() -> None:
    """Each step of a loop runs over all elements, not over one block of them at a time."""
    _replace("codegen.runtime.loops", "blocks_of", lambda loop: None)
