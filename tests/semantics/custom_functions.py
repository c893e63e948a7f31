"""Custom functions that several tests use: the teaching examples of SEMANTICS 1 as it writes them, and small ones."""

from __future__ import annotations

import numpy as np

import autodiff as ad

__all__ = [
    "X", "exp2", "leaf", "linear", "mul_constant", "mul_constant_function", "pair", "parameter", "squared",
]  # fmt: skip

X = np.array([1.0, -2.0, 3.0])


def parameter(value=(1.0, 2.0, 3.0)):
    return ad.tensor(value, requires_grad=True)


def leaf(value=X):
    return ad.tensor(value, requires_grad=True)


@ad.function
def linear(input, weight, bias=None):
    """input @ weight.T (+ bias).   f[n,k], f[m,k], f[m] -> f[n,m]"""


@linear.forward(ad.Matrix, ad.Matrix, ad.Vector | None)
def _(ctx, input, weight, bias=None):
    ctx.save_for_backward(input=input, weight=weight, bias=bias)
    output = input @ weight.T
    return output if bias is None else output + bias


@linear.backward(ad.Matrix, ad.Matrix, ad.Vector | None)
def _(ctx, grad_output):
    s, needs = ctx.saved_variables, ctx.needs_input_grad
    return {
        "input": grad_output @ s.weight if needs.input else None,
        "weight": grad_output.T @ s.input if needs.weight else None,
        "bias": grad_output.sum(axis=0) if needs.bias else None,
    }


def _scaled(ctx, grad_output):
    return {"tensor": grad_output * ctx.saved_variables.constant}


def mul_constant_function(rule=_scaled):
    """`mul_constant` made anew."""

    @ad.function
    def mul_constant(tensor, constant): ...

    @mul_constant.forward
    def scale(ctx, tensor: ad.Tensor, constant: ad.Number):
        ctx.save_for_backward(constant=constant)
        return tensor * constant

    scale.backward(rule)
    return mul_constant


mul_constant = mul_constant_function()


@ad.function
def exp2(x): ...


@exp2.forward(ad.Tensor)
def _(ctx, x):
    result = ad.exp(x)
    ctx.save_for_backward(result=result)
    return result


@exp2.backward(ad.Tensor)
def _(ctx, grad_output):
    return grad_output * ctx.saved_variables.result


def pair(forward, backward):
    """A custom function of one tensor."""

    @ad.function
    def f(x): ...

    f.forward(ad.Tensor)(forward)
    f.backward(ad.Tensor)(backward)
    return f


def squared(slope):
    """x * x, whose backward gives slope(g, x)."""

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    return pair(forward, lambda ctx, g: slope(g, *ctx.saved_tensors))
