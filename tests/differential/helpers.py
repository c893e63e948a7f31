"""Functions that programs may call besides `ad`: custom functions and small functions to differentiate inside.

Every custom rule is the true derivative, so differences of the value can judge it.
"""

import numpy as np

import autodiff as ad

__all__ = ["NAMES"]


@ad.function
def gaussian(x):
    """exp(-x²), its rule from the saved result.   f[...] -> f[...]"""


@gaussian.forward(ad.Tensor)
def _(ctx, x):
    y = ad.exp(-x * x)
    ctx.save_for_backward(x=x, y=y)
    return y


@gaussian.backward(ad.Tensor)
def _(ctx, grad_output):
    s = ctx.saved_variables
    return {"x": -2.0 * s.x * s.y * grad_output}


@ad.function
def cubed(x):
    """x³ by way of a saved intermediate.   f[...] -> f[...]"""


@cubed.forward(ad.Tensor)
def _(ctx, x):
    t = x * x
    ctx.save_for_backward(t=t)
    return t * x


@cubed.backward(ad.Tensor)
def _(ctx, grad_output):
    return 3.0 * ctx.saved_variables.t * grad_output


@ad.function
def affine(x, w, b=None):
    """x @ w (+ b).   f[n,k], f[k,m], f[m] -> f[n,m]"""


@affine.forward(ad.Matrix, ad.Matrix, ad.Vector | None)
def _(ctx, x, w, b=None):
    ctx.save_for_backward(x=x, w=w)
    return x @ w if b is None else x @ w + b


@affine.backward(ad.Matrix, ad.Matrix, ad.Vector | None)
def _(ctx, grad_output):
    s, needs = ctx.saved_variables, ctx.needs_input_grad
    return {
        "x": grad_output @ s.w.T if needs.x else None,
        "w": s.x.T @ grad_output if needs.w else None,
        "b": grad_output.sum(axis=0) if needs.b else None,
    }


@ad.function
def polar(x, y):
    """(x² + y², x·y): two results, one rule.   f[...], f[...] -> f[...], f[...]"""


@polar.forward(ad.Tensor, ad.Tensor)
def _(ctx, x, y):
    ctx.save_for_backward(x, y)
    return x * x + y * y, x * y


@polar.backward(ad.Tensor, ad.Tensor)
def _(ctx, square_bar, product_bar):
    x, y = ctx.saved_tensors
    return 2.0 * x * square_bar + y * product_bar, 2.0 * y * square_bar + x * product_bar


@ad.function
def scaled(x, c):
    """c·x, with a method for a number and one for a tensor.   f[...], number or f[...] -> f[...]"""


@scaled.forward(ad.Tensor, ad.Number)
def _(ctx, x, c):
    ctx.save_for_backward(c=c)
    return x * c


@scaled.backward(ad.Tensor, ad.Number)
def _(ctx, grad_output):
    return {"x": grad_output * ctx.saved_variables.c}


@scaled.method(ad.Tensor, ad.Tensor)
def _(x, c):
    return x * c


@ad.function
def damped(x, rate=0.5):
    """A program with no rule of its own.   f[...] -> f[...]"""
    return x / (1.0 + rate * x * x)


@ad.function
def stats(x):
    """{"mean", "parts"}: results in containers.   f[n,...] -> f[], (f[n,...], f[n,...])"""


@stats.forward(ad.Tensor)
def _(ctx, x):
    ctx.save_for_backward(x=x)
    return {"mean": ad.mean(x), "parts": (ad.sin(x), ad.cos(x))}


@stats.backward(ad.Tensor)
def _(ctx, bars):
    x = ctx.saved_variables.x
    sin_bar, cos_bar = bars["parts"]
    return {"x": ad.broadcast_to(bars["mean"] / x.size, x.shape) + sin_bar * ad.cos(x) - cos_bar * ad.sin(x)}


def energy(z):
    """A scalar to differentiate inside of a program."""
    return ad.sum(ad.tanh(z) * z * 0.5)


def wave(z):
    """An elementwise function to push tangents through."""
    return ad.sin(z) * z


@ad.jit
def compiled_wave(z):
    return ad.sin(z) * z + 0.25


@ad.jit
def compiled_product(a, b):
    return ad.tanh(a) * b


def gap(x, axis=None):
    """The smallest distance between the largest and the second, and the smallest and the second, along axes.

    Infinite where there is only one."""
    x = np.asarray(x.detach() if isinstance(x, ad.Tensor) else x, np.float64)
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    axes = tuple(a % x.ndim for a in axes)
    kept = [a for a in range(x.ndim) if a not in axes]
    rows = np.sort(x.transpose(*kept, *axes).reshape(*[x.shape[a] for a in kept], -1), axis=-1)
    return np.inf if rows.shape[-1] < 2 else np.minimum(rows[..., -1] - rows[..., -2], rows[..., 1] - rows[..., 0])


def ladder(*shape):
    """A constant array of numbers between -1 and 1, no two alike."""
    size = int(np.prod(shape))
    return np.cos(1.0 + np.arange(size)).reshape(shape)


#: What the text of a program may name.
NAMES = {
    "affine": affine, "compiled_product": compiled_product, "compiled_wave": compiled_wave, "cubed": cubed,
    "damped": damped, "energy": energy, "gap": gap, "gaussian": gaussian, "ladder": ladder, "polar": polar,
    "scaled": scaled, "stats": stats, "wave": wave,
}  # fmt: skip
