"""Lines that type checkers refuse, each of them marked.  Nothing here is called."""

import numpy as np

import autodiff as ad


def energy(x: ad.Tensor) -> ad.Tensor:
    return (x * x).sum()


@ad.function
def halved(x: ad.Tensor, times: int = 1) -> ad.Tensor:
    return x / float(2**times)


def operations(x: ad.Tensor) -> None:
    ad.sine(1.0)  # refused
    ad.sin()  # refused
    ad.sin(1, 2, bogus=3)  # refused
    ad.sin("1.0")  # refused
    ad.sum(x, axes=0)  # refused
    ad.sum(x, axis="rows")  # refused
    ad.matmul(x)  # refused
    ad.matmul.methods(ad.Tensor)  # refused
    ad.exp(x).sine()  # refused
    ad.linalg.solve(x)  # refused
    ad.linalg.sovle(x, x)  # refused
    ad.special.gammaln(x, x)  # refused
    ad.fft.rfft(x, n="all")  # refused
    ad.random.normal(ad.random.key(0), shpae=(2,))  # refused
    ad.where(x > 0, x)  # refused
    print(ad.linalg.svd(x).D)  # refused
    ad.split(x, 2).sum()  # refused


def tensors(x: ad.Tensor) -> None:
    ad.tensor([1.0], requires_gard=True)  # refused
    ad.Tensor([1.0])  # refused
    x.summ()  # refused
    x.sum(axis="rows")  # refused
    x.shape = (2,)  # refused
    x + "1"  # refused
    x @ None  # refused
    x.backward(np.ones(2), retain=True)  # refused
    x.register_hook(lambda: None)  # refused
    ad.Diagonal()  # refused


def functions(x: ad.Tensor) -> None:
    halved(x, 2, 3)  # refused
    halved(x, time=2)  # refused
    halved.forwards(ad.Tensor)  # refused
    halved.forward(ad.Tensor, hosted=True)  # refused
    halved.method(2)  # refused
    ad.grad(energy, argnum=1)  # refused
    ad.grad(energy)(x).item().lower() + ad.grad(energy)(x).lower()  # refused
    ad.value_and_grad(energy)(x)[2]  # refused
    ad.jit(x)  # refused
    ad.vmap(energy, axis=0)  # refused
    print(ad.vmap(energy)(x).rows)  # refused
    ad.jacobian(energy, mode="sideways")  # refused
    ad.fori_loop(0, 3, lambda s: s, x)  # refused
