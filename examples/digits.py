"""A classifier of handwritten digits, trained with a custom loss.

Data: scikit-learn's bundled digits, 1,797 images of 8 x 8 pixels (E. Alpaydin and C. Kaynak, 1998), real
handwriting that ships with the package.  The loss is a dispatched function with a rule of its own: softmax
cross-entropy, whose gradient is known in closed form.

At the end: how often anything was compiled, time per step, and the same step written by hand in NumPy.
"""

import sys
import time

import numpy as np
from sklearn.datasets import load_digits

import autodiff as ad

HIDDEN = 64
BATCH = 64
EPOCHS = 30


@ad.function
def cross_entropy(logits, target):
    """Mean of -log softmax(logits)[target].   f[n,c], f[n,c] (one-hot rows) -> f[]"""


@cross_entropy.forward(ad.Matrix, ad.Matrix)
def _(ctx, logits, target):
    log_p = ad.log_softmax(logits, axis=1)
    ctx.save_for_backward(probability=ad.exp(log_p), target=target)
    return -(log_p * target).sum() / logits.shape[0]


@cross_entropy.backward(ad.Matrix, ad.Matrix)
def _(ctx, grad_output):
    s = ctx.saved_variables
    return {"logits": grad_output * (s.probability - s.target) / s.target.shape[0], "target": None}


def predict(w1, b1, w2, b2, x):
    """Scores of ten digits.   f[n,64] -> f[n,10]"""
    return ad.tanh(x @ w1 + b1) @ w2 + b2


def loss(w1, b1, w2, b2, x, target):
    """The training loss of one mini-batch."""
    return cross_entropy(predict(w1, b1, w2, b2, x), target)


def load(rng):
    """Training and held-out images (f32[n,64]) and labels, shuffled."""
    digits = load_digits()
    order = rng.permutation(len(digits.target))
    x = (digits.data[order] / 16.0).astype(np.float32)
    label = digits.target[order]
    return x[:1400], label[:1400], x[1400:], label[1400:]


def initial(rng):
    """Weights of the two layers."""
    w1 = (rng.normal(size=(64, HIDDEN)) / 8).astype(np.float32)
    w2 = (rng.normal(size=(HIDDEN, 10)) / 8).astype(np.float32)
    return [w1, np.zeros(HIDDEN, np.float32), w2, np.zeros(10, np.float32)]


def numpy_step(parameters, x, target, rate):
    """The same step by hand: loss, gradients, update."""
    w1, b1, w2, b2 = parameters
    hidden = np.tanh(x @ w1 + b1)
    logits = hidden @ w2 + b2
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    value = -(log_p * target).sum() / len(x)
    g = (np.exp(log_p) - target) / len(x)
    g_hidden = (g @ w2.T) * (1 - hidden * hidden)
    gradients = [x.T @ g_hidden, g_hidden.sum(axis=0), hidden.T @ g, g.sum(axis=0)]
    return value, [p - rate * d for p, d in zip(parameters, gradients, strict=True)]


def show(epoch, value, accuracy):
    """A progress line: rewritten on a terminal, every tenth epoch elsewhere."""
    bar = "#" * (20 * epoch // EPOCHS)
    line = f"epoch {epoch:2d}/{EPOCHS} [{bar:<20}] loss {value:.4f}  held-out accuracy {100 * accuracy:.1f} %"
    if sys.stdout.isatty():
        print(f"\r{line}", end="\n" if epoch == EPOCHS else "", flush=True)
    elif epoch % 10 == 0:
        print(line)


def train(parameters, x, target, x_held, label_held):
    """Mini-batch gradient descent with a falling rate.  Returns (held-out accuracy, seconds per step)."""
    images, targets = ad.tensor(x), ad.tensor(target)
    steps, spent, accuracy = 0, 0.0, 0.0
    for epoch in range(1, EPOCHS + 1):
        rate = 0.5 / (1 + 0.05 * epoch)
        total = ad.tensor(0.0, dtype=ad.float32)
        start = time.perf_counter()
        for i in range(0, len(x) - BATCH + 1, BATCH):
            value = loss(*parameters, images[i : i + BATCH], targets[i : i + BATCH])
            value.backward()
            with ad.no_grad():
                for p in parameters:
                    p -= rate * p.grad
                    p.grad = None
            total += value.detach()
            steps += 1
        mean = total.item() / (len(x) // BATCH)
        spent += time.perf_counter() - start
        with ad.no_grad():
            scores = predict(*parameters, x_held).numpy()
        accuracy = float(np.mean(scores.argmax(axis=1) == label_held))
        show(epoch, mean, accuracy)
    return accuracy, spent / steps


def main():
    rng = np.random.default_rng(0)
    x, label, x_held, label_held = load(rng)
    target = np.eye(10, dtype=np.float32)[label]
    start_values = initial(rng)

    parameters = [ad.tensor(p, requires_grad=True) for p in start_values]
    before = ad.cache_info()
    accuracy, step_s = train(parameters, x, target, x_held, label_held)
    after = ad.cache_info()

    by_hand = start_values
    start = time.perf_counter()
    repeats = 300
    for k in range(repeats):
        i = k % (len(x) // BATCH) * BATCH
        _, by_hand = numpy_step(by_hand, x[i : i + BATCH], target[i : i + BATCH], 0.1)
    numpy_s = (time.perf_counter() - start) / repeats

    print(f"{after.compiles - before.compiles} graphs compiled, {after.hits - before.hits} times a known one")
    print(f"time per step: {1e6 * step_s:.0f} µs (compiling included); the same step in NumPy: {1e6 * numpy_s:.0f} µs")
    print("read its code:  autodiff inspect examples/digits.py:loss --stage mlir --pass backward \\")
    print("    --args 'f32[64,64], f32[64], f32[64,10], f32[10], f32[64,64], f32[64,10]'")
    assert accuracy > 0.95, accuracy


if __name__ == "__main__":
    main()
