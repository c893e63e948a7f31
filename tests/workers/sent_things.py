"""Things that people send to other processes, as a script defines them.

Run as a script, which makes them those of `__main__`: dumps each thing with its arguments and what it gives here.  The
other process, `received.py`, imports nothing of this file.
"""

import dataclasses
import pickle
import sys

import numpy as np

import autodiff as ad

X = np.array([1.0, 2.0])
scale = 3.0
W = ad.tensor([1.0, 5.0])


def loss(x):
    return ad.sum(x * x) * scale


@ad.jit
def step(x):
    return loss(x) + 1.0


@ad.jit(static_argnums=1)
def countdown(x, n):
    return x if n == 0 else countdown(x * 2.0, n - 1)


def scaled_by(k):
    def inner(x):
        return ad.sum(x) * k

    return ad.jit(inner)


class Model:
    """An estimator that holds a jit function of one of its methods."""

    def __init__(self, w):
        self.w = w
        self.step = ad.jit(self.loss)

    def loss(self, x):
        return ad.sum(x * self.w)

    def __call__(self, x):
        return self.step(x)


@dataclasses.dataclass
class Scaler:
    """A class whose objects are arguments of its jit method."""

    by: float

    @ad.jit
    def scale(self, x):
        return x * self.by


@ad.function
def cube(x): ...


@cube.forward(ad.Tensor)
def _(ctx, x):
    ctx.save_for_backward(x=x)
    return x * x * x


@cube.backward(ad.Tensor)
def _(ctx, g):
    return g * 3.0 * ctx.saved_variables.x**2


@ad.function
def wave(x): ...


@wave.forward(ad.Tensor, host=True)
def sine(ctx, x):
    return np.sin(x)


@sine.backward(host=True)
def _(ctx, g):
    return g * np.cos(ctx.inputs.x)


class Repeated(ad.AbstractTensor[..., 1]):
    """n equal elements, with methods on functions of the library."""

    dtype = np.dtype("float64")

    def __init__(self, element, n):
        self.element, self.n = element, n

    @property
    def shape(self):
        return (self.n,)


ad.tree.register(Repeated, lambda r: ((r.element,), r.n), lambda n, children: Repeated(children[0], n))


@ad.dense.method(Repeated)
def _(x):
    return ad.broadcast_to(x.element, (x.n,))


@ad.sin.method(Repeated)
def _(x):
    return Repeated(ad.sin(x.element) * 100.0, x.n)


class Unit:
    """A class of no base of the library's, with a method on a function of the script's."""

    def __init__(self, value):
        self.value = value


ad.tree.register(Unit, lambda u: ((u.value,), None), lambda _, children: Unit(children[0]))


@cube.method(Unit)
def _(x):
    return Unit(x.value * 7.0)


def annotated(x: ad.Matrix, y: ad.Tensor[ad.float32, 2] | None = None) -> ad.Tensor:
    return ad.sum(x)


#: name: (what is sent, its arguments, which are sent with it)
THINGS = {
    "jit": (step, (X,)),
    "jit that calls itself": (ad.jit(lambda x: countdown(x, 3)), (X,)),
    "jit of a lambda": (ad.jit(lambda x: ad.sum(x) * 2), (X,)),
    "jit of a closure": (scaled_by(4.0), (X,)),
    "jit with static arguments": (ad.jit(lambda x, n: x * n, static_argnums=1), (X, 3)),
    "jit that captures a tensor": (ad.jit(lambda x: ad.sum(x * W)), (X,)),
    "jit of value_and_grad": (ad.jit(ad.value_and_grad(loss)), (X,)),
    "jit of a loop": (ad.jit(lambda x: ad.scan(lambda c, r: (c + r, c), 0.0, x)[0]), (X,)),
    "grad": (ad.grad(loss), (X,)),
    "value_and_grad": (ad.value_and_grad(loss), (X,)),
    "vmap": (ad.vmap(lambda x: x * 2), (X,)),
    "vmap of grad": (ad.vmap(ad.grad(loss)), (np.ones((2, 2)),)),
    "hessian": (ad.hessian(loss), (X,)),
    "jacobian": (ad.jacobian(loss), (X,)),
    "checkpoint": (ad.checkpoint(loss), (ad.tensor(X),)),
    "jvp": (lambda x: ad.jvp(loss, (x,), (x,)), (X,)),
    "vjp": (lambda x: ad.vjp(loss, x)[1](1.0), (X,)),
    "hvp": (lambda x: ad.hvp(loss, x, x), (X,)),
    "an estimator with a jit function": (Model(X), (X,)),
    "a jit function of a bound method": (Model(X).step, (X,)),
    "a jit method": (Scaler(2.5).scale, (X,)),
    "a function with a rule": (cube, (ad.tensor(X),)),
    "its gradient": (ad.grad(lambda x: ad.sum(cube(x))), (X,)),
    "its gradient by jit": (ad.jit(ad.grad(lambda x: ad.sum(cube(x)))), (X,)),
    "a host rule": (ad.grad(lambda x: ad.sum(wave(x))), (X,)),
    "a method on a function of one's own": (lambda: cube(Unit(2.0)).value, ()),
    "a type's dense form": (lambda: ad.exp(Repeated(ad.tensor(0.5), 3)), ()),
    "a type's method on a function of ours": (lambda: ad.sin(Repeated(ad.tensor(0.5), 3)).element, ()),
    "a value of a type": (ad.dense, (Repeated(ad.tensor(1.0), 2),)),
    "a gradient in a type": (lambda: ad.grad(lambda r: ad.sum(r))(Repeated(2.0, 3)).element, ()),
    "a registered class": (lambda: ad.grad(lambda u: u.value * u.value)(Unit(3.0)).value, ()),
    "ad.sum": (ad.sum, (X,)),
    "ad.max": (ad.max, (X,)),
    "ad.special.erf": (ad.special.erf, (X,)),
    "ad.linalg.det": (ad.linalg.det, (np.eye(2),)),
    "ad.fft.fft": (ad.fft.fft, (X,)),
    "ad.random": (lambda: ad.random.normal(ad.random.key(0), (2,)), ()),
    "annotations": (annotated, (np.ones((2, 2)),)),
    "classes": (lambda *found: [c.__name__ for c in found], (ad.Matrix, type(W), ad.Tensor, ad.AbstractTensor[..., 1])),
    "a structured value": (lambda d: ad.sum(d @ X), (ad.Diagonal(X),)),
    "an inspection": (str, (ad.inspect(loss, X),)),
    "all of an inspection": (lambda seen: seen.html + seen.dot, (ad.inspect(loss, X, backward=True),)),
}  # fmt: skip


def plain(y):
    """Tensors and arrays as lists, to compare."""
    if isinstance(y, ad.Tensor):
        return y.detach().tolist()
    if isinstance(y, (tuple, list)):
        return [plain(v) for v in y]
    return y.tolist() if hasattr(y, "tolist") else y


if __name__ == "__main__":
    import cloudpickle

    sent = [(name, cloudpickle.dumps((f, args)), plain(f(*args))) for name, (f, args) in THINGS.items()]
    with open(sys.argv[1], "wb") as file:
        pickle.dump(sent, file)
