"""A chain of a hundred calls of a custom function with a backward rule: y = sin(y) * w, 100 times."""

import c_kernel
import numpy as np
from precision import wider
from targets import faster, within

TITLE = "100 custom functions in a chain"
CASES = ["n = 10 f64", "n = 1,000 f64"]
ARGNUMS = (0, 1)
TARGETS = [faster(8, "jax"), within(1.5, "c")]


def inputs(case):
    n = int(case.split()[2].replace(",", ""))
    return np.linspace(-1.0, 1.0, n), np.linspace(0.9, 1.1, n)


def ours(x, w):
    import autodiff as ad

    @ad.function
    def step(y, w): ...

    @step.forward(ad.Tensor, ad.Tensor)
    def _(ctx, y, w):
        s = ad.sin(y)
        ctx.save_for_backward(y=y, w=w, s=s)
        return s * w

    @step.backward(ad.Tensor, ad.Tensor)
    def _(ctx, g):
        s = ctx.saved_variables
        return {"y": g * s.w * ad.cos(s.y), "w": g * s.s}

    def program(x, w):
        y = x
        for _ in range(100):
            y = step(y, w)
        return ad.sum(y)

    f = ad.jit(ad.value_and_grad(program, argnums=ARGNUMS))
    return lambda: f(x, w)


def torch(x, w):
    import peers
    import torch as t

    class Step(t.autograd.Function):
        @staticmethod
        def forward(ctx, y, w):
            s = t.sin(y)
            ctx.save_for_backward(y, w, s)
            return s * w

        @staticmethod
        def backward(ctx, g):
            y, w, s = ctx.saved_tensors
            return g * w * t.cos(y), g * s

    def program(_, x, w):
        y = x
        for _ in range(100):
            y = Step.apply(y, w)
        return y.sum()

    return peers.torch(program, ARGNUMS, (x, w))


def jax(x, w):
    import jax as j
    import jax.numpy as jnp
    import peers

    @j.custom_vjp
    def step(y, w):
        return jnp.sin(y) * w

    def forward(y, w):
        s = jnp.sin(y)
        return s * w, (y, w, s)

    def backward(kept, g):
        y, w, s = kept
        return g * w * jnp.cos(y), g * s

    step.defvjp(forward, backward)

    def program(_, x, w):
        y = x
        for _ in range(100):
            y = step(y, w)
        return jnp.sum(y)

    return peers.jax(program, ARGNUMS, (x, w))


def numpy(x, w):
    def run():
        y, kept = x, []
        for _ in range(100):
            s = np.sin(y)
            kept.append((y, s))
            y = s * w
        g, gw = np.ones_like(x), 0.0
        for before, s in reversed(kept):
            gw = gw + g * s
            g = g * w * np.cos(before)
        return np.sum(y), [g, gw]

    return run


def c(*arrays):
    return c_kernel.limit("custom_chain", arrays)


def reference(*arrays):
    return numpy(*map(wider, arrays))
