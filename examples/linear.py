"""A linear layer as a custom function: forward and backward chosen by the types of the arguments.

Shown: a skipped default (no bias) in the same rule, gradients only where they are needed, and the
second derivative, against finite differences.
"""

import numpy as np

import autodiff as ad


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


def difference(f, x, direction, step=1e-6):
    """The directional derivative of f at x by a central difference."""
    return (f(x + step * direction) - f(x - step * direction)) / (2 * step)


def main():
    rng = np.random.default_rng(0)
    x, w, b = rng.normal(size=(5, 3)), rng.normal(size=(2, 3)), rng.normal(size=2)

    def loss(w):
        return (linear(x, w, b) ** 3).sum()

    weight = ad.tensor(w, requires_grad=True)
    bias = ad.tensor(b, requires_grad=True)
    (linear(x, weight, bias) ** 3).sum().backward()
    direction = rng.normal(size=w.shape)
    first = np.sum(np.asarray(weight.grad) * direction)
    print("d loss along a direction:", first, "  difference:", difference(lambda w: float(loss(w)), w, direction))
    print("bias.grad:", bias.grad)
    assert np.isclose(first, difference(lambda w: float(loss(w)), w, direction), rtol=1e-6)

    gradient = ad.grad(loss)
    second = ad.grad(lambda w: (gradient(w) * direction).sum())(w)
    expected = difference(gradient, w, direction)
    print("second order, largest error:", np.abs(second - expected).max())
    assert np.allclose(second, expected, rtol=1e-6, atol=1e-6)

    weight.grad = None
    (linear(x, weight) ** 2).sum().backward()  # no bias: the same methods
    assert np.allclose(weight.grad, (2 * (x @ w.T)).T @ x)


if __name__ == "__main__":
    main()
