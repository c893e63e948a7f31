"""Calls of this library in PyTorch, and of PyTorch in this library, with their derivatives.

A wrapped function is a `torch.autograd.Function` over a `LeafProgram`: its backward applies the same class to the
program's gradient, its jvp to the program's tangent, its vmap to the program of batches.  So PyTorch may nest them in
any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from .. import tree
from ..errors import DispatchError, DTypeError, check_callable, located
from ..tensor import AbstractTensor
from .foreign import Chain, Layout, chained, wrapped
from .program import LeafProgram, program_of

try:
    import torch
    from torch import Tensor
    from torch.autograd import Function
except ImportError as error:
    raise ImportError("ad.interop.torch needs PyTorch: pip install 'autodiff-native[torch]'") from error


def wrap(f: Callable) -> Callable:
    """See `autodiff.interop.torch`."""
    check_callable(f, "interop.torch.wrap")
    programs: dict[Any, LeafProgram] = {}
    of_tensors: dict[int, LeafProgram] = {}

    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return torch.compiler.disable(call_here)(*args, **kwargs)
        return call_here(*args, **kwargs)

    def call_here(*args: Any, **kwargs: Any) -> Any:
        if not kwargs and all([isinstance(x, Tensor) for x in args]):
            leaves: Sequence[Any] = args
            program = of_tensors.get(len(args))
            if program is None:
                structure = tree.flatten((args, kwargs))[1]
                program = of_tensors.setdefault(len(args), program_of(programs, f, structure))
        else:
            leaves, structure = tree.flatten((args, kwargs))
            program = program_of(programs, f, structure)
        return _applied(program, leaves)

    return wraps(f)(call)


def from_torch(f: Callable) -> Callable:
    """See `autodiff.interop.torch`."""
    check_callable(f, "interop.torch.from_torch")

    def run(chain: Chain, structure: tree.Structure, leaves: Sequence[Any]) -> tuple[Layout, list[np.ndarray]]:
        function, nesting = chained(f, chain, structure, pull=_pulled)
        with torch.no_grad():
            found = function([torch.from_numpy(np.array(x)) if isinstance(x, _AS_TENSORS) else x for x in leaves])
        arrays = [x.detach().numpy(force=True) if isinstance(x, Tensor) else np.asarray(x) for x in found]
        return Layout(nesting[0], len(found)), arrays

    return wrapped(getattr(f, "__name__", type(f).__name__), run)


#: Arguments that become tensors.  Floats too: `torch.sin` takes no numbers, and 0-d tensors do not widen other dtypes.
_AS_TENSORS = (np.ndarray, np.generic, float, complex)


def _pulled(function: Callable[[list[Any]], Sequence[Any]], wanted: Sequence[int], outs: Sequence[int]) -> Callable:
    """The gradient of a function of a list of tensors, as a function of a list, which PyTorch differentiates again."""

    def pulled(given: list[Any]) -> Sequence[Tensor]:
        leaves, bars, is_recorded = list(given[: -len(outs)]), given[-len(outs) :], torch.is_grad_enabled()
        with torch.enable_grad():
            for i in wanted:
                if not leaves[i].requires_grad:
                    leaves[i] = leaves[i].detach().requires_grad_()
            results, moving = function(leaves), [leaves[i] for i in wanted]
            tracking = [(results[o], bar) for o, bar in zip(outs, bars, strict=True) if results[o].requires_grad]
            if not tracking:
                return [torch.zeros_like(x) for x in moving]
            return torch.autograd.grad(
                [x for x, _ in tracking], moving, [bar for _, bar in tracking],
                create_graph=is_recorded, allow_unused=True, materialize_grads=True,
            )  # fmt: skip

    return pulled


class _Levels:
    """The structure of one call's result; None for one array.  A class, since PyTorch would take a list apart."""

    __slots__ = ("structure",)

    structure: tree.Structure | None


def _applied(program: LeafProgram, leaves: Sequence[Any]) -> Any:
    """The program's result for these leaves, of which some are tensors."""
    nesting = _Levels()
    function = _Transformed if _is_transforming() else _TorchCall
    found = function.apply(program, nesting, torch.is_grad_enabled(), *leaves)
    if nesting.structure is None:
        return found
    return tree.unflatten(nesting.structure, list(found))


#: True inside `torch.func`'s transformations, which need a class with `setup_context` and `vmap`.
_is_transforming: Callable[[], bool] = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)

#: The number of arguments before the leaves: the program, the nesting, True if gradients are recorded.
FIRST = 3
_NO_GRADIENTS = (None,) * FIRST


class _Rules:
    """The rules of both classes: derivatives are calls of the same class over derived programs."""

    @staticmethod
    def backward(ctx: Any, *bars: Any) -> Any:
        needs = ctx.needs_input_grad[FIRST:]
        gradients, ctx.gradients = ctx.gradients, None  # PyTorch owns them now: a second backward computes its own
        kept, ctx.kept = ctx.kept, ()
        is_last = not torch.is_grad_enabled() and not _is_transforming()
        if gradients is not None and is_last:
            bar, known = bars[0], iter(gradients)
            factor = None if bar.item() == 1.0 else bar
            had = [_tensor(next(known)) if is_known else None for is_known in ctx.wanted]
            found = [g if g is None or factor is None else g.mul_(factor) for g in had]
            return (*_NO_GRADIENTS, *[g if needed else None for g, needed in zip(found, needs, strict=True)])
        wanted = tuple([i for i, needed in enumerate(needs) if needed])
        outs = tuple([o for o in ctx.outs if bars[o] is not None])
        found = [None] * len(needs)
        if outs:
            given = [*_saved(ctx), *[bars[o] for o in outs]]
            if kept and is_last:
                first = len(needs)
                pulled = ctx.program.pulled_with(ctx.wanted, wanted, outs)
                arrays = [_array(x) if isinstance(x, Tensor) else x for x in given]
                those = [_tensor(g) for g in pulled(*arrays[:first], *kept, *arrays[first:])]
            else:
                those = _applied(ctx.program.pulled(wanted, outs), given)
            for i, g in zip(wanted, those, strict=True):
                found[i] = g
        return (*_NO_GRADIENTS, *found)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        tangents = tangents[FIRST:]
        moved = tuple([i for i, t in enumerate(tangents) if t is not None])
        pushed = ctx.program.pushed(moved, ctx.outs)
        found = [None] * ctx.count
        if ctx.outs:
            for o, t in zip(ctx.outs, _applied(pushed, [*_saved(ctx), *[tangents[i] for i in moved]]), strict=True):
                found[o] = t
        return tuple(found) if ctx.is_several else found[0]


class _TorchCall(_Rules, Function):
    """A call outside of `torch.func`'s transformations: one program computes the value and what its gradient needs."""

    @staticmethod
    def forward(ctx: Any, program: LeafProgram, nesting: _Levels, tracks: bool, *leaves: Any) -> Any:
        arrays = [_array(x) if isinstance(x, Tensor) else x for x in leaves]
        gradients, kept = None, ()
        wanted = ctx.needs_input_grad[FIRST:] if tracks else ()
        if True in wanted:
            result, gradients, kept = program.with_gradients(wanted)(*arrays)
        else:
            result = program.run(*arrays)
        results = _results(result, nesting)
        _save(ctx, program, leaves, results, nesting)
        ctx.gradients, ctx.kept, ctx.wanted = gradients, kept, wanted
        return tuple(results) if ctx.is_several else results[0]


class _Transformed(_Rules, Function):
    """A call inside of `torch.func`'s transformations."""

    @staticmethod
    def forward(program: LeafProgram, nesting: _Levels, tracks: bool, *leaves: Any) -> Any:
        results = _results(program.run(*[_array(x) if isinstance(x, Tensor) else x for x in leaves]), nesting)
        return results[0] if nesting.structure is None else tuple(results)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        program, nesting, _, *leaves = inputs
        _save(ctx, program, leaves, output if isinstance(output, tuple) else (output,), nesting)
        ctx.gradients, ctx.kept = None, ()

    @staticmethod
    def vmap(info: Any, in_dims: tuple, program: LeafProgram, nesting: _Levels, tracks: bool, *leaves: Any) -> Any:
        dims = in_dims[FIRST:]
        mapped = program.mapped(tuple([None if d is None else 0 for d in dims]))
        moved = [x if d is None else x.movedim(d, 0) for x, d in zip(leaves, dims, strict=True)]
        found = _Transformed.apply(mapped, nesting, tracks, *moved)
        return found, (0 if nesting.structure is None else (0,) * len(found))


def _save(ctx: Any, program: LeafProgram, leaves: Sequence[Any], results: Sequence[Tensor], nesting: _Levels) -> None:
    """Store in `ctx` what the rules read."""
    ctx.program, ctx.count, ctx.is_several = program, len(results), nesting.structure is not None
    tensors = [x for x in leaves if isinstance(x, Tensor)]
    ctx.others = None if len(tensors) == len(leaves) else [_HERE if isinstance(x, Tensor) else x for x in leaves]
    ctx.save_for_backward(*tensors)
    ctx.save_for_forward(*tensors)
    ctx.outs = outs = tuple([i for i, x in enumerate(results) if x.is_floating_point() or x.is_complex()])
    if len(outs) < len(results):
        ctx.mark_non_differentiable(*[x for i, x in enumerate(results) if i not in outs])


_HERE = object()


def _saved(ctx: Any) -> list[Any]:
    """The leaves of the call, with the tensors that PyTorch saved."""
    if ctx.others is None:
        return list(ctx.saved_tensors)
    tensors = iter(ctx.saved_tensors)
    return [next(tensors) if x is _HERE else x for x in ctx.others]


def _array(t: Tensor) -> np.ndarray:
    """A tensor as an array over its memory; conjugate and negative views are copied.  Raises for any other tensor."""
    if t.dtype is torch.float16:
        raise _refusal(t, TypeError("ad has no float16"))
    try:
        return t.detach().numpy()
    except (TypeError, RuntimeError) as error:
        if t.device.type == "cpu" and t.layout is torch.strided and (t.is_conj() or t.is_neg()):
            return t.detach().resolve_conj().resolve_neg().numpy()
        raise _refusal(t, error) from error


def _refusal(t: Tensor, error: Exception) -> Exception:
    """The error for a tensor that has no array, with advice."""
    if str(error).startswith("Batching rule"):
        return DispatchError(located(
            "a wrapped function is mapped by PyTorch's older vmap (is_grads_batched, vectorize=True)",
            "it knows no functions but PyTorch's own: use those of torch.func",
        ))
    what = f"a wrapped function got a tensor of {t.dtype} on {t.device}"
    if t.device.type != "cpu":
        return DispatchError(located(
            what,
            "it computes in the memory of the CPU: pass t.cpu(), through which "
            "gradients flow, and give the result .to(device)",
        ))
    if t.layout is not torch.strided:
        return DispatchError(located(f"{what}, of {t.layout}", "pass t.to_dense()"))
    return DTypeError(located(f"{what}: {error}", "pass t.float() or t.double(), through which gradients flow"))


def _results(result: Any, nesting: _Levels) -> list[Tensor]:
    """The leaves of a result as tensors; their structure is stored in `nesting`."""
    if type(result) is np.ndarray or isinstance(result, np.generic):
        nesting.structure = None
        return [_tensor(result)]
    leaves, structure = tree.flatten(result)
    nesting.structure = structure if structure.children or not leaves else None
    return [_tensor(x) for x in leaves]


def _tensor(x: Any) -> Tensor:
    """A result as a tensor over the same memory; numbers and read-only arrays are copied."""
    if type(x) is np.ndarray:
        return torch.from_numpy(x if x.flags.writeable else x.copy())
    if isinstance(x, (np.generic, bool, int, float, complex)):
        return torch.from_numpy(np.array(x))
    if isinstance(x, AbstractTensor):
        raise DispatchError(located(
            f"a wrapped function got or returned a tensor of ad, {x.aval}",
            "pass PyTorch's tensors: torch.from_dlpack(t) makes one of a value",
        ))
    raise DispatchError(located(
        f"a wrapped function returned {x!r:.40} ({type(x).__name__})",
        "return arrays and numbers, in tuples, lists, dicts and dataclasses",
    ))
