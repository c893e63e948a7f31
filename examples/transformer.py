"""A small transformer that learns a text by heart, letter by letter.

Text: "The House That Jack Built", an English nursery rhyme (printed in 1755).  Each verse contains all the verses
before it, so the next letter can often be found by looking back: this is what attention does.

Two layers with four heads, written in `ad.einsum` and `ad.softmax`; the weights are a tree of arrays, Adam a few
calls of `ad.tree.map`, one step of training one compiled program.  At the end it writes a verse by itself.
"""

import numpy as np

import autodiff as ad

LINES = (
    "malt that lay in the", "rat that ate the", "cat that killed the", "dog that worried the",
    "cow with the crumpled horn that tossed the", "maiden all forlorn that milked the",
    "man all tattered and torn that kissed the", "priest all shaven and shorn that married the",
    "cock that crowed in the morn that waked the", "farmer sowing his corn that kept the",
)  # fmt: skip
VERSES = [f"this is the {' '.join([*LINES[:n][::-1], 'house that jack built'])}.\n" for n in range(len(LINES) + 1)]
TEXT = "".join(VERSES)
LETTERS = sorted({*TEXT})
CODES = np.array([LETTERS.index(letter) for letter in TEXT])

CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 48, 32, 4, 2, 16
CAUSAL = np.tril(np.ones((CONTEXT, CONTEXT), bool))  # a place looks at itself and back


def initial(rng):
    """Weights: embeddings of letters and places, and the layers."""

    def normal(*shape):
        return (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)

    def layer():
        sizes = {"query": (WIDTH, WIDTH), "key": (WIDTH, WIDTH), "value": (WIDTH, WIDTH), "out": (WIDTH, WIDTH),
                 "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}  # fmt: skip
        return {name: normal(*size) for name, size in sizes.items()}

    return {"letter": normal(len(LETTERS), WIDTH), "place": normal(CONTEXT, WIDTH), "read": normal(WIDTH, len(LETTERS)),
            "layers": [layer() for _ in range(LAYERS)]}  # fmt: skip


def normalised(x):
    """Each vector divided by the root of its mean square."""
    return x / ad.sqrt(ad.mean(x * x, axis=-1, keepdims=True) + 1e-5)


def attention(layer, x):
    """Values of the places that each place looks at, and how much it looks.   f[n,w] -> f[n,w], f[heads,n,n]"""
    q, k, v = ((normalised(x) @ layer[name]).reshape(CONTEXT, HEADS, -1) for name in ("query", "key", "value"))
    fit = ad.einsum("ihd,jhd->hij", q, k) / np.sqrt(WIDTH / HEADS)
    weight = ad.softmax(ad.where(CAUSAL, fit, -np.inf), axis=2)
    return ad.einsum("hij,jhd->ihd", weight, v).reshape(CONTEXT, WIDTH) @ layer["out"], weight


def scores(weights, codes):
    """Scores of the letter behind each place, and the attention of the last layer.   i[n] -> f[n,letters], ..."""
    x, weight = weights["letter"][codes] + weights["place"], None
    for layer in weights["layers"]:
        seen, weight = attention(layer, x)
        x = x + seen
        x = x + ad.gelu(normalised(x) @ layer["up"]) @ layer["down"]
    return normalised(x) @ weights["read"], weight


def loss(weights, text):
    """Cross-entropy of each next letter, mean over a batch of excerpts.   i[batch, n + 1] -> f[]"""
    found, _ = ad.vmap(scores, in_axes=(None, 0))(weights, text[:, :-1])
    log_p = ad.log_softmax(found, axis=2)
    return -ad.mean(ad.take_along_axis(log_p, text[:, 1:, None], axis=2))


@ad.jit
def step(state, text, rate):
    """One step of Adam: (state, loss)."""
    weights, mean, square, t = state
    value, gradient = ad.value_and_grad(loss)(weights, text)
    t = t + 1.0
    mean = ad.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
    square = ad.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, square, gradient)
    rate = ad.astype(rate * ad.sqrt(1 - 0.99**t) / (1 - 0.9**t), ad.float32)
    weights = ad.tree.map(lambda w, m, s: w - rate * m / (ad.sqrt(s) + 1e-8), weights, mean, square)
    return (weights, mean, square, t), value


def write(weights, text, length):
    """`text`, continued by the letter with the highest score each time."""
    predict = ad.jit(scores)
    for _ in range(length):
        last = np.array([LETTERS.index(letter) for letter in text[-CONTEXT:]])
        found, _ = predict(weights, np.pad(last, (0, CONTEXT - len(last))))
        text += LETTERS[int(np.asarray(found)[len(last) - 1].argmax())]
    return text


def main(long=False):
    rng = np.random.default_rng(0)
    weights = initial(rng)
    zeros = ad.tree.map(np.zeros_like, weights)
    state, losses, steps = (weights, zeros, zeros, 0.0), [], 1500 if long else 400
    for i in range(steps):
        starts = rng.integers(0, len(CODES) - CONTEXT, BATCH)
        excerpts = CODES[starts[:, None] + np.arange(CONTEXT + 1)]
        state, value = step(state, excerpts, 0.01 * min(1.0, i / 20) * (1 - i / steps))
        losses.append(float(value))
        if (i + 1) % 100 == 0:
            print(f"step {i + 1}: loss {losses[-1]:.3f}")
    written = write(state[0], "this is the dog", len(VERSES[4]) - len("this is the dog"))
    print(written.strip())
    assert losses[-1] < 0.35
    assert "dog that worried the cat that killed the rat that" in written
    shown = "this is the cat that killed the rat that ate the"
    _, weight = ad.jit(scores)(state[0], np.array([LETTERS.index(letter) for letter in shown]))
    return {"losses": losses, "shown": shown, "attention": np.asarray(weight)}


def draw(figure, found):
    """The loss, and the places that each letter looks back at."""
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.3])
    left.plot(found["losses"], lw=1)
    left.set(title="loss for each letter", xlabel="step", ylim=(0, None))
    right.imshow(found["attention"].max(axis=0), cmap="magma_r", vmax=1)
    ticks = range(CONTEXT)
    right.set_xticks(ticks, found["shown"], fontsize=5)
    right.set_yticks(ticks, found["shown"], fontsize=5)
    right.set(title="the letters that each letter looks at")


if __name__ == "__main__":
    from _plot import run

    run(main, draw, size=(7.2, 3.6))
