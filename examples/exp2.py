"""A function that saves its result: its rule reads the output behind its own boundary.

So the second derivative goes through the rule again, and is right without a line about it.
"""

import numpy as np

import autodiff as ad


@ad.function
def exp2(x):
    """e to the power of x, with a rule of its own.   f[...] -> f[...]"""


@exp2.forward(ad.Tensor)
def _(ctx, x):
    result = ad.exp(x)
    ctx.save_for_backward(result=result)
    return result


@exp2.backward(ad.Tensor)
def _(ctx, grad_output):
    return grad_output * ctx.saved_variables.result


def total(f):
    """The sum of what f gives, as a function."""
    return lambda x: f(x).sum()


def main():
    x = np.array([0.0, 0.5, 1.0])
    derivative = total(exp2)
    for order in (1, 2, 3):
        derivative = ad.grad(derivative)
        value = derivative(x)
        print(f"derivative {order}:", value)
        assert np.allclose(value, np.exp(x))
        derivative = total(derivative)


if __name__ == "__main__":
    main()
