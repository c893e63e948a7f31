"""A robust loss with methods for numbers and for arrays, and a line fitted through outliers.

Shown: one generic function, three methods; the width is a number (an argument of the compiled code, so
another width compiles nothing) or an array (then it has a gradient too); SciPy minimises without glue.
"""

import numpy as np
from scipy.optimize import minimize

import autodiff as ad


@ad.function
def huber(residual, width):
    """residual²/2 up to width, linear beyond.   f[...], f[...] or a number -> f[...]"""


@huber.method(ad.Number, ad.Number)
def _(residual, width):
    """Two numbers: plain Python, nothing is recorded."""
    size = abs(residual)
    return 0.5 * residual * residual if size <= width else width * (size - 0.5 * width)


@huber.forward(ad.Tensor, ad.Number | ad.Tensor)
def _(ctx, residual, width):
    size = abs(residual)
    ctx.save_for_backward(residual=residual, width=width, size=size)
    return ad.where(size <= width, 0.5 * residual * residual, width * (size - 0.5 * width))


@huber.backward(ad.Tensor, ad.Number)
def _(ctx, grad_output):
    s = ctx.saved_variables
    return {"residual": grad_output * ad.clip(s.residual, -s.width, s.width)}


@huber.backward(ad.Tensor, ad.Tensor)
def _(ctx, grad_output):
    s = ctx.saved_variables
    slope = ad.minimum(ad.maximum(s.residual, -s.width), s.width)
    return {
        "residual": ad.unbroadcast(grad_output * slope, s.residual),
        "width": ad.unbroadcast(grad_output * ad.relu(s.size - s.width), s.width),
    }


def main():
    assert huber(3.0, 1.0) == 2.5 and type(huber(3.0, 1.0)) is float
    print(ad.methods(huber))

    x = np.linspace(-4.0, 4.0, 9)
    derivative = ad.grad(lambda x, width: huber(x, width).sum())
    assert np.allclose(derivative(x, 1.5), np.clip(x, -1.5, 1.5))
    width = np.linspace(0.5, 3.0, 9)
    step = 1e-6
    by_width = ad.grad(lambda w: huber(x, w).sum())(width)
    difference = (huber(x, width + step) - huber(x, width - step)) / (2 * step)
    assert np.allclose(by_width, difference, atol=1e-8)

    rng = np.random.default_rng(0)
    t = np.linspace(0.0, 1.0, 200)
    y = 2.0 * t - 1.0 + 0.05 * rng.normal(size=t.size)
    y[::10] += 5.0  # every tenth measurement is far off

    def loss(line, width):
        return ad.mean(huber(line[0] * t + line[1] - y, width))

    before = ad.cache_info()
    fitted = {}
    for width in (100.0, 1.0, 0.3, 0.1):  # the first is least squares
        fitted[width] = minimize(ad.value_and_grad(loss), np.zeros(2), args=(width,), jac=True, method="BFGS").x
        print(f"width {width:5.1f}: slope {fitted[width][0]:.3f}, offset {fitted[width][1]:+.3f}   (true: 2, -1)")
    compiles = ad.cache_info().compiles - before.compiles
    print("graphs compiled for four widths:", compiles)
    assert np.abs(fitted[0.1] - [2.0, -1.0]).max() < 0.05 < np.abs(fitted[100.0] - [2.0, -1.0]).max()
    assert compiles == 1
    return {"t": t, "y": y, "fitted": fitted}


def draw(figure, found):
    """The measurements, and the lines fitted with the largest and the smallest width."""
    axes = figure.subplots()
    t = found["t"]
    axes.plot(t, found["y"], ".", color="black", ms=3)
    for width, line in found["fitted"].items():
        if width in (100.0, 0.1):
            axes.plot(t, line[0] * t + line[1], label="least squares" if width == 100.0 else f"width {width}")
    axes.set(title="a line through measurements of which every tenth is far off")
    axes.legend(loc="center right")


if __name__ == "__main__":
    from _plot import run

    run(main, draw)
