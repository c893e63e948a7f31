"""Threads that ask for values and gradients of one pending graph, at once: a process of its own (`test_threads`).

    python threads_program.py WHAT native|python

Threads take turns as often as the interpreter allows, so that they meet in the middle of everything.
"""

import faulthandler
import random
import sys
import threading

import numpy as np

import autodiff as ad
from autodiff.ops import recorder

faulthandler.enable()
MISTAKES = []


def at_once(*works):
    """Run each in a thread; they begin together."""
    barrier = threading.Barrier(len(works))

    def run(work):
        try:
            barrier.wait()
            work()
        except Exception as error:
            MISTAKES.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def expect(got, wanted):
    if not np.allclose(got, wanted, rtol=1e-9, atol=1e-11):
        MISTAKES.append(f"{got} instead of {wanted}")


def values():
    """Threads that look at two results of one chain."""
    data = np.arange(5.0)
    x = ad.tensor(data, requires_grad=True)
    for trial in range(300):
        y, wanted = x, data
        for _ in range(20):
            y, wanted = ad.sin(y * 1.1) + 0.01 * trial, np.sin(wanted * 1.1) + 0.01 * trial
        z = (y * y).sum()

        def look_at_y(y=y, wanted=wanted):
            expect(y.detach().numpy(), wanted)

        def look_at_z(z=z, wanted=wanted):
            expect(z.detach().numpy(), (wanted * wanted).sum())

        at_once(look_at_z, look_at_y, look_at_z)


def gradients():
    """Threads that go back into one leaf."""
    for _ in range(4):
        w = ad.tensor(np.zeros(3), requires_grad=True)

        def go_back(w=w):
            for _ in range(500):
                (w * 2.0).sum().backward()

        at_once(*[go_back] * 4)
        expect(w.grad.numpy(), np.full(3, 4000.0))


@ad.function
def cube(x):
    return x * x * x


@cube.forward
def cube_forward(ctx, x: ad.Tensor):
    ctx.save_for_backward(x)
    return x * x * x


@cube.backward
def cube_backward(ctx, y_bar: ad.Tensor):
    (x,) = ctx.saved_tensors
    return 3.0 * x * x * y_bar


STEPS = (
    lambda np, cube, a, b: np.sin(a),
    lambda np, cube, a, b: a * b,
    lambda np, cube, a, b: a + b * 0.5,
    lambda np, cube, a, b: cube(a) * 0.01,
    lambda np, cube, a, b: a - a.sum() * 0.1,
    lambda np, cube, a, b: np.exp(-a * a),
    lambda np, cube, a, b: a[::-1] * b,
    lambda np, cube, a, b: a + b[1:2],
)


def random_results(np, cube, x, w, seed):
    """The results of a random program for x and w."""
    choose = random.Random(seed)
    made = [x, w]
    for _ in range(choose.randrange(3, 12)):
        step, a, b = choose.choice(STEPS), choose.choice(made[-4:]), choose.choice(made)
        made.append(step(np, cube, a, b))
    return made


def random_asks():
    """Threads that look at values of random programs, go back, and use them further."""
    choose = random.Random(0)
    data = np.linspace(-1, 1, 5), np.linspace(0.2, 0.9, 5)
    for trial in range(60):
        seed = choose.randrange(8)
        wanted = random_results(np, lambda a: a * a * a, *data, seed)
        x, w = (ad.tensor(a, requires_grad=True) for a in data)
        made = random_results(ad, cube, x, w, seed)
        loss, backs = made[-1].sum(), []

        def ask(thread, trial=trial, wanted=wanted, made=made, loss=loss, backs=backs, x=x):
            choose = random.Random(1000 * trial + thread)
            for _ in range(6):
                k, what = choose.randrange(len(made)), choose.randrange(4)
                if what == 0:
                    expect(made[k].detach().numpy(), wanted[k])
                elif what == 1:
                    expect((made[k].detach() * 2.0).sum().item(), 2.0 * wanted[k].sum())
                elif what == 2:
                    loss.backward(retain_graph=True)
                    backs.append(1)
                else:
                    ad.grad(loss, [x], retain_graph=True, allow_unused=True)

        at_once(*[lambda thread=thread, ask=ask: ask(thread) for thread in range(choose.randrange(2, 5))])
        alone = [ad.tensor(a, requires_grad=True) for a in data]
        random_results(ad, cube, *alone, seed)[-1].sum().backward()
        for shared, own in zip((x, w), alone, strict=True):
            if backs and own.grad is not None:
                expect(shared.grad.numpy(), len(backs) * own.grad.numpy())


if __name__ == "__main__":
    sys.setswitchinterval(1e-5)
    if sys.argv[2] == "python":
        recorder._installed.is_settled = True  # it is never installed
    {"values": values, "gradients": gradients, "random_asks": random_asks}[sys.argv[1]]()
    print(len(MISTAKES), "mistakes", *MISTAKES[:1])
