"""A program and the ways to ask for its derivatives of second order: for tests of what rules recorded."""

import numpy as np

import autodiff as ad

A = np.linspace(-1.5, 1.7, 100)
B = np.linspace(0.3, 2.1, 100)


def program(x):
    a = ad.sin(x) * x + 2.0
    b = ad.exp(-a * a) + x
    return (ad.tanh(b * a) * b + ad.where(x > 0, ad.log(ad.abs(x) + 0.1), x)).sum()


def slope(x, h=1e-6):
    """The derivative of the program for each entry, by differences of higher order."""
    def f(x):
        a = np.sin(x) * x + 2.0
        b = np.exp(-a * a) + x
        return np.tanh(b * a) * b + np.where(x > 0, np.log(np.abs(x) + 0.1), x)
    return (8 * (f(x + h) - f(x - h)) - f(x + 2 * h) + f(x - 2 * h)) / (12 * h)


def bend(x, v, h=1e-5):
    return (slope(x + h * v) - slope(x - h * v)) / (2 * h)


def with_create_graph(x):
    t = ad.tensor(x, requires_grad=True)
    g = ad.grad(program(t), t, create_graph=True)
    return ad.grad((g * g).sum(), t).numpy()


def with_backward(x):
    t = ad.tensor(x, requires_grad=True)
    program(t).backward(create_graph=True)
    g, t.grad = t.grad, None
    (g * g).sum().backward()
    return t.grad.numpy()


WAYS = {
    "grad of tensors": (lambda x: ad.grad(program)(ad.tensor(x)).numpy(), slope),
    "value and grad inside": (lambda x: ad.jvp(lambda x: ad.value_and_grad(program)(x)[1], (x,), (B,))[1],
                              lambda x: bend(x, B)),
    "jvp": (lambda x: ad.jvp(program, (x,), (B,))[1], lambda x: slope(x) @ B),
    "jvp of tensors": (lambda x: ad.jvp(program, (ad.tensor(x),), (ad.tensor(B),))[1].numpy(), lambda x: slope(x) @ B),
    "hvp": (lambda x: ad.hvp(program, x, B), lambda x: bend(x, B)),
    "grad of grad": (lambda x: ad.grad(lambda x: (ad.grad(program)(x) ** 2).sum())(x),
                     lambda x: 2 * bend(x, slope(x))),
    "pullback of tensors": (lambda x: ad.vjp(program, ad.tensor(x))[1](ad.tensor(3.0))[0].numpy(),
                            lambda x: 3 * slope(x)),
    "create_graph": (with_create_graph, lambda x: 2 * bend(x, slope(x))),
    "backward with create_graph": (with_backward, lambda x: 2 * bend(x, slope(x))),
}  # fmt: skip
VS = np.linspace(-1.0, 2.0, 12).reshape(3, 4)
