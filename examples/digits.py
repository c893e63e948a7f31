"""A classifier of handwritten digits, trained with a custom loss.  `autodiff demo` runs this file.

Data: scikit-learn's bundled digits, 1,797 images of 8 x 8 pixels (E. Alpaydin and C. Kaynak, 1998), real
handwriting that ships with the package.  The loss is a dispatched function with a rule of its own: softmax
cross-entropy, whose gradient is known in closed form.

At the end: what was compiled and when, and time per step: recorded, under `ad.jit`, and by hand in NumPy.
"""

import os
import statistics
import sys
import time

import numpy as np
from sklearn.datasets import load_digits

import autodiff as ad

HIDDEN = 64
BATCH = 64
EPOCHS = 30


# ---------------------------------------------------------------- a custom function


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
    """Scores of ten digits.   f[64,h], f[h], f[h,10], f[10], f[n,64] -> f[n,10]"""
    return ad.tanh(x @ w1 + b1) @ w2 + b2


def loss(w1, b1, w2, b2, x, target):
    """The training loss of one mini-batch.   ..., f[n,64], f[n,10] -> f[]"""
    return cross_entropy(predict(w1, b1, w2, b2, x), target)


# ---------------------------------------------------------------- data


def load(rng):
    """Training and held-out images (f32[n,64]) and labels (i64[n]), shuffled."""
    images, digits = load_digits(return_X_y=True)
    order = rng.permutation(len(digits))
    x = (images[order] / 16.0).astype(np.float32)
    label = digits[order]
    return x[:1400], label[:1400], x[1400:], label[1400:]


def initial(rng):
    """Weights and biases of the two layers."""
    w1 = (rng.normal(size=(64, HIDDEN)) / 8).astype(np.float32)
    w2 = (rng.normal(size=(HIDDEN, 10)) / 8).astype(np.float32)
    return [w1, np.zeros(HIDDEN, np.float32), w2, np.zeros(10, np.float32)]


# ---------------------------------------------------------------- one step, three ways


def recorded_step(parameters, x, target, rate):
    """Record, ask for gradients, update in place: the loop that people write.  The loss, still pending."""
    value = loss(*[*parameters, x, target])
    value.backward()
    with ad.no_grad():
        for p in parameters:
            p -= rate * p.grad
            p.grad = None
    return value.detach()


@ad.jit
def jit_step(parameters, x, target, rate):
    """The same step as one native call: (loss, new parameters)."""
    value, gradients = ad.value_and_grad(lambda p: loss(*[*p, x, target]))(parameters)
    return value, [p - rate * g for p, g in zip(parameters, gradients, strict=True)]


def numpy_step(parameters, x, target, rate):
    """The same step by hand: (loss, new parameters)."""
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


# ---------------------------------------------------------------- training


def train(parameters, x, target, held_out, show):
    """Mini-batch gradient descent with a falling rate, in place.  Returns the held-out accuracy."""
    images, targets = ad.tensor(x), ad.tensor(target)
    x_held, label_held = held_out
    accuracy = 0.0
    for epoch in range(1, EPOCHS + 1):
        rate = 0.5 / (1 + 0.05 * epoch)
        total = ad.tensor(0.0, dtype=ad.float32)
        for i in range(0, len(x) - BATCH + 1, BATCH):
            total += recorded_step(parameters, images[i : i + BATCH], targets[i : i + BATCH], rate)
        with ad.no_grad():
            scores = predict(*[*parameters, x_held]).numpy()
        accuracy = float(np.mean(scores.argmax(axis=1) == label_held))
        show(epoch, total.item() / (len(x) // BATCH), accuracy)
    return accuracy


def progress(epoch, value, accuracy):
    """A line that is rewritten on a terminal; every tenth epoch elsewhere."""
    bar = "#" * (20 * epoch // EPOCHS)
    line = f"epoch {epoch:2d}/{EPOCHS} [{bar:<20}] loss {value:.4f}  held-out accuracy {100 * accuracy:.1f} %"
    if sys.stdout.isatty():
        print(f"\r{line}", end="\n" if epoch == EPOCHS else "", flush=True)
    elif epoch % 10 == 0:
        print(line)


# ---------------------------------------------------------------- time per step


def time_per_step(start, x, target, rounds=9):
    """Median seconds of one step, each way.  They take turns on the same mini-batches: one epoch a round."""
    images, targets = ad.tensor(x), ad.tensor(target)
    tensors = [ad.tensor(p, requires_grad=True) for p in start]
    found: dict[str, list[float]] = {"recorded": [], "jit": [], "numpy": []}
    for _ in range(rounds):
        arrays = {"jit": start, "numpy": start}
        for way, step in (("recorded", recorded_step), ("jit", jit_step), ("numpy", numpy_step)):
            began = time.perf_counter()
            for i in range(0, len(x) - BATCH + 1, BATCH):
                if way == "recorded":
                    step(tensors, images[i : i + BATCH], targets[i : i + BATCH], 0.1)
                else:
                    _, arrays[way] = step(arrays[way], x[i : i + BATCH], target[i : i + BATCH], 0.1)
            found[way].append((time.perf_counter() - began) / (len(x) // BATCH))
        for ours, by_hand in zip(arrays["jit"], arrays["numpy"], strict=True):
            np.testing.assert_allclose(ours, by_hand, rtol=1e-3, atol=1e-4)
    return {way: statistics.median(seconds) for way, seconds in found.items()}


def main(quiet=False):
    """Train, measure, say what was seen; the same as a dict."""
    say = (lambda *_: None) if quiet else print
    rng = np.random.default_rng(0)
    x, label, *held_out = load(rng)
    target = np.eye(10, dtype=np.float32)[label]
    start = initial(rng)

    say(f"the loss is a custom function:\n  {ad.which(cross_entropy, ad.Matrix, ad.Matrix)}")
    parameters = [ad.tensor(p, requires_grad=True) for p in start]
    before, began = ad.cache_info(), time.perf_counter()
    first = [ad.tensor(p, requires_grad=True) for p in start]
    recorded_step(first, ad.tensor(x)[:BATCH], ad.tensor(target)[:BATCH], 0.1)
    first_s = time.perf_counter() - began
    accuracy = train(parameters, x, target, held_out, say if quiet else progress)
    after = ad.cache_info()
    steps = EPOCHS * (len(x) // BATCH)
    seconds = time_per_step(start, x, target)

    file = os.path.relpath(__file__)
    arguments = "f32[64,64], f32[64], f32[64,10], f32[10], f32[64,64], f32[64,10]"
    inspect = f"autodiff inspect {file}:loss --args '{arguments}' --argnums 0,1,2,3 --pass backward --stage mlir"
    say(f"{steps} steps of training: {after.compiles - before.compiles} graphs compiled"
        f" (first step {1e3 * first_s:.0f} ms), {after.hits - before.hits} times a known one")
    say(f"time per step: recorded {1e6 * seconds['recorded']:.0f} µs, under ad.jit {1e6 * seconds['jit']:.0f} µs,"
        f" by hand in NumPy {1e6 * seconds['numpy']:.0f} µs")
    say(f"read its code:\n  {inspect}")
    assert accuracy > 0.95, accuracy
    return {
        "accuracy": accuracy,
        "steps": steps,
        "compiles": after.compiles - before.compiles,
        "hits": after.hits - before.hits,
        "first_step_s": first_s,
        "step_s": seconds,
        "inspect": inspect,
    }


if __name__ == "__main__":
    main()
