"""Programs that type checkers accept in their strict modes, and what they make of each expression; all of them run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, assert_type

import numpy as np
from numpy.typing import ArrayLike, NDArray

import autodiff as ad

# ---------------------------------------------------------------- functions of one's own


@ad.function
def linear(input: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None) -> Any:
    """input @ weight.T (+ bias).   f[n,k], f[m,k], f[m] -> f[n,m]"""


@linear.forward(ad.Matrix, ad.Matrix, ad.Vector | None)
def _(ctx: ad.ForwardContext, input: ad.Matrix, weight: ad.Matrix, bias: ad.Vector | None = None) -> ad.Tensor:
    ctx.save_for_backward(input=input, weight=weight, bias=bias)
    ctx.rate = 0.5
    output = input @ weight.T
    return output if bias is None else output + bias


@linear.backward(ad.Matrix, ad.Matrix, ad.Vector | None)
def _(ctx: ad.BackwardContext, grad_output: ad.Tensor) -> dict[str, ad.Tensor | None]:
    s, needs = ctx.saved_variables, ctx.needs_input_grad
    assert ctx.rate == 0.5 and len(s) == 3 and s["input"] is s[0]
    return {
        "input": grad_output @ s.weight if needs.input else None,
        "weight": grad_output.T @ s.input if needs.weight else None,
        "bias": grad_output.sum(axis=0) if needs.bias else None,
    }


@ad.function
def mul_constant(tensor: ad.Tensor, constant: ad.Number) -> Any: ...


@mul_constant.forward
def scale(ctx: ad.ForwardContext, tensor: ad.Tensor, constant: ad.Number) -> ad.Tensor:
    ctx.save_for_backward(constant=constant)
    return tensor * constant


@scale.backward
def _(ctx: ad.BackwardContext, grad_output: ad.Tensor) -> dict[str, ad.Tensor]:
    return {"tensor": grad_output * ctx.saved_variables.constant}


@ad.function
def halved(x: ad.Tensor, times: int = 1) -> ad.Tensor:
    return x / float(2**times)


@halved.method(ad.Tensor[ad.float32, 2], int | float)
def _(x: ad.Tensor, times: int = 1) -> ad.Tensor:
    return x * float(0.5**times)


@halved.jvp(ad.Tensor)
def _(ctx: ad.BackwardContext, dx: ad.Tensor, _: None) -> ad.Tensor:
    return dx / 2


def custom_functions() -> None:
    x, w = ad.ones((2, 3)), ad.tensor(np.ones((4, 3)), requires_grad=True)
    linear(x, w).sum().backward()
    linear(np.ones((2, 3)), w, bias=ad.ones(4))
    assert w.grad.shape == (4, 3)
    assert_type(mul_constant(x, 2), Any)
    assert_type(halved(x), ad.Tensor)
    assert_type(halved(x, times=2), ad.Tensor)
    assert_type(scale(x, 2), ad.Tensor)
    scale.delete()


# ---------------------------------------------------------------- transformations


@dataclass
class Line:
    slope: ad.Tensor
    height: ad.Tensor


Parameters = dict[str, ad.Tensor]


def energy(x: ad.Tensor, scale: float = 1.0) -> ad.Tensor:
    return ad.sum(x**4) + scale * ad.sin(x).sum()


def misfit(p: Parameters, x: ad.Tensor, y: ad.Tensor, *, weight: float = 1.0) -> ad.Tensor:
    return weight * ad.mean((p["a"] * x + p["b"] - y) ** 2)


def with_prediction(p: Line, x: ad.Tensor) -> tuple[ad.Tensor, list[ad.Tensor]]:
    y = p.slope * x + p.height
    return (y * y).sum(), [y]


@ad.jit
def step(p: Parameters, x: ad.Tensor, y: ad.Tensor) -> tuple[ad.Tensor, Parameters]:
    value, gradient = ad.value_and_grad(misfit)(p, x, y)
    return value, {name: p[name] - 0.1 * gradient[name] for name in p}


@ad.jit(static_argnames="power")
def raised(x: ad.Tensor, power: int) -> ad.Tensor:
    return x**power


class Model:
    def __init__(self) -> None:
        self.scale = 2.0

    @ad.checkpoint
    def layer(self, x: ad.Tensor) -> ad.Tensor:
        return ad.tanh(self.scale * x)


def gradients() -> None:
    x, p = ad.tensor([0.5, 1.0]), {"a": ad.tensor(1.0), "b": ad.tensor(0.0)}
    assert_type(ad.grad(energy)(x), ad.Tensor)
    assert_type(ad.grad(energy)(x, 2.0), ad.Tensor)
    assert_type(ad.grad(energy, 0)(x, scale=2.0), ad.Tensor)
    assert_type(ad.grad(misfit)(p, x, x, weight=2.0), Parameters)
    assert_type(ad.grad(misfit, 1)(p, x, x), ad.Tensor)
    assert_type(ad.grad(misfit, argnums=(0, 1))(p, x, x), tuple[Parameters, ad.Tensor])
    assert_type(ad.grad(misfit, argnums=(0, 1, 2))(p, x, x), tuple[Parameters, ad.Tensor, ad.Tensor])
    assert_type(ad.grad(misfit, argnums=[1])(p, x, x), tuple[Any, ...])
    assert_type(ad.value_and_grad(misfit)(p, x, x), tuple[ad.Tensor, Parameters])
    assert_type(ad.value_and_grad(misfit, (0, 1))(p, x, x), tuple[ad.Tensor, tuple[Parameters, ad.Tensor]])
    line = Line(ad.tensor(1.0), ad.tensor(0.0))
    assert_type(ad.grad(with_prediction, has_aux=True)(line, x), tuple[Line, list[ad.Tensor]])
    value_and_aux, gradient = ad.value_and_grad(with_prediction, has_aux=True)(line, x)
    assert_type(value_and_aux, tuple[ad.Tensor, list[ad.Tensor]])
    assert_type(gradient, Line)
    slope = ad.grad(energy)
    assert_type(ad.grad(slope)(ad.tensor(2.0)), ad.Tensor)
    assert_type(ad.value_and_grad(ad.grad(energy))(ad.tensor(2.0)), tuple[ad.Tensor, ad.Tensor])
    w = ad.tensor([1.0, 2.0], requires_grad=True)
    assert_type(ad.grad((w * w).sum(), w), ad.Tensor)
    assert_type(ad.grad((w * w).sum(), [w]), list[ad.Tensor])
    ad.grad((w * w).sum(), [w, w * 2], allow_unused=True)


def of_arrays() -> None:
    """NumPy in, NumPy out, also of functions whose parameters are annotated as the tensors that they get."""
    a = np.array([0.5, 1.0])
    gradient = ad.grad(energy)(a)
    assert isinstance(gradient, np.ndarray)
    value, gradient = ad.jit(ad.value_and_grad(energy))(a)
    assert isinstance(value, np.floating) and isinstance(gradient, np.ndarray)
    assert ad.jit(energy)(a, scale=2.0) > 0 and ad.vmap(ad.sin)(a).shape == (2,)


def other_transformations() -> None:
    x, p = ad.tensor([0.5, 1.0]), {"a": ad.tensor(1.0), "b": ad.tensor(0.0)}
    assert_type(ad.jit(energy)(x), ad.Tensor)
    assert_type(step(p, x, x), tuple[ad.Tensor, Parameters])
    assert_type(raised(x, 3), ad.Tensor)
    assert_type(ad.jit(ad.grad(misfit))(p, x, x), Parameters)
    assert_type(ad.vmap(energy)(ad.ones((3, 2))), ad.Tensor)
    assert_type(ad.vmap(ad.grad(energy), in_axes=0)(ad.ones((3, 2))), ad.Tensor)
    assert_type(ad.checkpoint(energy)(x), ad.Tensor)
    assert_type(Model().layer(x), ad.Tensor)
    assert_type(ad.jacobian(energy)(x), ad.Tensor)
    assert_type(ad.hessian(energy)(x), ad.Tensor)
    y, pullback = ad.vjp(energy, x)
    assert_type(y, ad.Tensor)
    assert_type(pullback(y), tuple[ad.Tensor])
    pullback(1.0)
    assert_type(ad.vjp(misfit, p, x, x)[1], Callable[[Any], tuple[Parameters, ad.Tensor, ad.Tensor]])
    assert_type(ad.jvp(energy, (x,), (x,)), tuple[ad.Tensor, ad.Tensor])
    assert_type(ad.hvp(energy, (x,), (x,)), ad.Tensor)
    ad.check_gradients(energy, np.array([0.5, 1.0]))


def doubled(i: ad.Tensor, s: ad.Tensor) -> ad.Tensor:
    return s * 2 + i


def is_small(s: ad.Tensor) -> ad.Tensor:
    return s.sum() < 9


def summed(total: ad.Tensor, t: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
    return total + t, total


def moved(state: Parameters, t: ad.Tensor) -> tuple[Parameters, ad.Tensor]:
    return {name: part + t for name, part in state.items()}, state["a"]


def loops() -> None:
    x, p = ad.tensor([0.5, 1.0]), {"a": ad.tensor(1.0), "b": ad.tensor(0.0)}
    assert_type(ad.fori_loop(0, 3, doubled, x), ad.Tensor)
    assert_type(ad.while_loop(is_small, ad.square, x), ad.Tensor)
    assert_type(ad.while_loop(is_small, ad.exp, 0.0), ad.Tensor)
    assert_type(ad.scan(summed, 0.0, x), tuple[ad.Tensor, ad.Tensor])
    assert_type(ad.scan(moved, p, x), tuple[Parameters, ad.Tensor])
    assert_type(ad.cond(x.sum() > 0, energy, energy, x), ad.Tensor)
    ad.fori_loop(0, 3, lambda i, s: s * 2 + i, x)
    ad.while_loop(lambda s: s.sum() < 9, lambda s: s + 1, x)
    ad.scan(lambda total, t: (total + t, total), 0.0, x)
    ad.scan(lambda s, _: ({"a": s["a"] * 2, "b": s["b"]}, None), p, length=3)
    ad.cond(x.sum() > 0, lambda v: v * 2, lambda v: -v, x)


# ---------------------------------------------------------------- tensors and operations


def tensors() -> None:
    x, a = ad.tensor([0.5, 1.0], dtype=ad.float32, requires_grad=True), np.ones(2, np.float32)
    for y in (x + 1, 2.0 * x, x @ a, a @ x, a * x, x * a, np.float64(2) * x, x / np.float32(2), x**2, -x, x[0], x.T):
        assert_type(y, ad.Tensor)
    assert_type(x.shape, tuple[int, ...])
    assert_type(x.requires_grad, bool)
    assert_type(float(x.sum()), float)
    assert_type(x.sum(axis=0, keepdims=True).mean().reshape(1, 1).transpose(), ad.Tensor)
    assert_type(x > 0, ad.Tensor)
    assert_type(x == 0, ad.Tensor)
    assert_type(x.detach().numpy(), NDArray[Any])
    assert np.allclose(x.detach(), a * 0.75, atol=0.5) and f"{x.sum():.1f}" == "1.5"
    np.exp(x)
    x.sum().backward()
    handle = x.register_hook(lambda g: g * 2)
    handle.remove()
    with ad.no_grad():
        x -= 0.1 * x.grad
        x.grad = None


def operations() -> None:
    x = ad.tensor([[2.0, 1.0], [1.0, 3.0]])
    for y in (ad.sin(x), ad.exp(1.0), ad.sum(x, axis=(0, 1)), ad.matmul(x, x), ad.maximum(x, 0), ad.softmax(x)):
        assert_type(y, ad.Tensor)
    assert_type(ad.where(x > 1, x, 0.0), ad.Tensor)
    assert_type(ad.where(x > 1), tuple[ad.Tensor, ...])
    assert_type(ad.split(x, 2), list[ad.Tensor])
    assert_type(ad.concatenate([x, x], axis=1), ad.Tensor)
    assert_type(ad.linalg.solve(x, np.ones(2)), ad.Tensor)
    assert_type(ad.linalg.slogdet(x).logabsdet, ad.Tensor)
    assert_type(ad.linalg.eigh(x)[0], ad.Tensor)
    assert_type(ad.linalg.svd(x).S, ad.Tensor)
    assert_type(ad.linalg.qr(x, mode="r"), ad.Tensor)
    assert_type(ad.special.gammaln(x), ad.Tensor)
    assert_type(ad.fft.rfft(x, n=4), ad.Tensor)
    key, now = ad.random.split(ad.random.key(0))
    assert_type(ad.random.normal(now, (3, 2), dtype=ad.float32), ad.Tensor)
    assert_type(ad.stop_gradient(key), ad.Tensor)
    assert_type(ad.zeros((2, 3)), ad.Tensor)
    assert_type(ad.cache_info().compiles, int)
    with ad.max_compiles(9):
        print(ad.inspect(energy, "f64[2]").graph, ad.which(ad.matmul, x, x), ad.methods(ad.matmul))


# ---------------------------------------------------------------- types of one's own


class Interval(ad.AbstractTensor):
    def __init__(self, low: ad.Tensor, high: ad.Tensor) -> None:
        self.low, self.high = low, high


@ad.add.method(Interval, Interval)
def _(x1: Interval, x2: Interval) -> Interval:
    return Interval(x1.low + x2.low, x1.high + x2.high)


@ad.multiply.method(ad.Number, Interval)
def _(x1: ad.Number, x2: Interval) -> Interval:
    return Interval(x1 * x2.low, x1 * x2.high)


def width(i: Interval) -> ad.Tensor:
    upper: ad.Tensor = (i + i).high
    return upper - i.low


ad.tree.register(Interval, lambda i: ([i.low, i.high], None), lambda _, parts: Interval(*parts))


def types() -> None:
    i = Interval(ad.tensor(1.0), ad.tensor(2.0))
    assert (2 * i + i).high.item() == 6.0
    assert_type(ad.grad(width)(i), Interval)
    d = ad.Diagonal([2.0, 3.0])
    assert (d @ ad.ones(2)).shape == d.shape[:1] and isinstance(ad.linalg.inv(d), ad.Diagonal)
    assert isinstance(3, ad.Number) and isinstance(ad.ones(3), ad.Vector) and not isinstance(3, ad.Tensor)
    leaves, structure = ad.tree.flatten({"w": i})
    ad.tree.map(lambda x: x, ad.tree.unflatten(structure, leaves))


for _ in range(2):  # a name that methods have
    types()

PROGRAMS = [custom_functions, gradients, of_arrays, other_transformations, loops, tensors, operations, types]
