"""A type of one's own: intervals, and a classifier that is right for every point of a box.

`Interval(low, high)` stands for all arrays in between.  Methods of `+`, `@` and `relu` make it run through any network
that is written with them; the product gets a rule of its own.  The results are bounds of the score for all inputs in
the box.  The bounds have gradients, so a network can be trained until they are good enough: then it provably gives the
same answer in the whole box, which is called certified training.

(Bounds are rounded as all floating-point numbers: they hold but for the last digits.)
"""

import numpy as np

import autodiff as ad

BOX = 0.12  # half the side of the boxes
SQUARE = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]])


class Interval(ad.AbstractTensor):
    """All arrays between `low` and `high`."""

    def __init__(self, low, high):
        self.low, self.high = low, high


ad.tree.register(Interval, lambda x: ([x.low, x.high], None), lambda _, parts: Interval(*parts))


@ad.add.method(Interval, ad.Tensor)
def _(x1, x2):
    return Interval(x1.low + x2, x1.high + x2)


@ad.relu.method(Interval)
def _(x):
    return Interval(ad.relu(x.low), ad.relu(x.high))


def centre_and_radius(x):
    """The middle of an interval, and half its width."""
    return 0.5 * (x.low + x.high), 0.5 * (x.high - x.low)


@ad.matmul.forward(Interval, ad.Matrix)
def _(ctx, x1, x2):
    centre, radius = centre_and_radius(x1)
    centre, radius = centre @ x2, radius @ ad.abs(x2)
    ctx.save_for_backward(x1=x1, x2=x2)
    return Interval(centre - radius, centre + radius)


@ad.matmul.backward(Interval, ad.Matrix)
def _(ctx, grad_output):
    """Gradients come in the types of the arguments: an Interval and a matrix."""
    s = ctx.saved_variables
    centre, radius = centre_and_radius(s.x1)
    to_centre, to_radius = grad_output.low + grad_output.high, grad_output.high - grad_output.low
    back, spread = 0.5 * to_centre @ s.x2.T, 0.5 * to_radius @ ad.abs(s.x2).T
    to_matrix = centre.T @ to_centre + ad.sign(s.x2) * (radius.T @ to_radius)
    return {"x1": Interval(back - spread, back + spread), "x2": to_matrix}


# ---------------------------------------------------------------- a network that has never heard of intervals


def score(weights, x):
    """Positive for one class, negative for the other.   [(f[k,m], f[m]), ...], f[n,2] or an Interval -> f[n,1]"""
    *hidden, (w, b) = weights
    for w_hidden, b_hidden in hidden:
        x = ad.relu(x @ w_hidden + b_hidden)
    return x @ w + b


def margin(weights, x, y, box):
    """The least of y * score in a box around each point, y = -1 or 1.   f[n]"""
    found = score(weights, Interval(x - box, x + box))
    return ad.where(y > 0, found.low[:, 0], -found.high[:, 0])


@ad.jit
def step(weights, velocity, x, y, box, rate):
    """One step of descent with momentum, on the loss of the worst point in each box."""
    gradient = ad.grad(lambda w: ad.mean(ad.softplus(-margin(w, x, y, box))))(weights)
    velocity = ad.tree.map(lambda v, g: 0.9 * v + g, velocity, gradient)
    return ad.tree.map(lambda w, v: w - rate * v, weights, velocity), velocity


def train(x, y, box, steps=1500):
    """Weights of a network; the box grows to its size over the first half of the steps."""
    rng = np.random.default_rng(1)
    sizes = [(2, 32), (32, 32), (32, 1)]
    weights = [(rng.normal(size=s) * np.sqrt(2 / s[0]), np.zeros(s[1])) for s in sizes]
    velocity = ad.tree.map(np.zeros_like, weights)
    for i in range(steps):
        weights, velocity = step(weights, velocity, x, y, box * min(1.0, 2 * i / steps), 0.05 * (1 - i / steps))
    return weights


def main():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, np.pi, 300)
    y = np.where(np.arange(300) % 2, 1.0, -1.0)
    x = np.stack([y * np.cos(angle) - 0.5 * y, y * np.sin(angle) - 0.25 * y], axis=1) + 0.05 * rng.normal(size=(300, 2))

    def both_ends(low, high, matrix):
        product = Interval(low, high) @ matrix
        return ad.sum(product.low**2 + ad.sin(product.high))

    matrix = rng.normal(size=(2, 4))
    ad.check_gradients(both_ends, x[:3] - BOX, x[:3] + BOX, matrix)  # the rule, against differences
    print(ad.which_backward(ad.matmul, Interval(x, x), matrix))

    found = {}
    for name, size in (("trained at points", 0.0), ("trained on boxes", BOX)):
        weights = train(x, y, size)
        right = np.sign(np.asarray(score(weights, x))[:, 0]) == y
        certified = np.asarray(margin(weights, x, y, BOX)) > 0
        print(f"{name}: {100 * right.mean():.0f} % right, {100 * certified.mean():.0f} % certified in their box")
        found[name] = {"weights": weights, "certified": certified}
        inside = x[:, None] + BOX * rng.uniform(-1, 1, size=(300, 50, 2))  # no point of a certified box may fail
        signs = np.sign(np.asarray(score(weights, inside.reshape(-1, 2))).reshape(300, 50))
        assert (signs == y[:, None])[certified].all()
    before, after = (f["certified"].mean() for f in found.values())
    assert after > 0.85 and after > before + 0.1
    return {"x": x, "y": y, "found": found}


def draw(figure, results):
    """The two networks; boxes in which the answer is not certain are red."""
    side = np.linspace(-2.0, 2.0, 161)
    grid = np.stack(np.meshgrid(side, 0.8 * side), axis=-1)
    for axes, (name, found) in zip(figure.subplots(1, 2), results["found"].items(), strict=True):
        values = np.asarray(score(found["weights"], grid.reshape(-1, 2))).reshape(grid.shape[:2])
        axes.contourf(*grid.transpose(2, 0, 1), values, [-1e9, 0, 1e9], colors=["#fbe3c8", "#cfdcee"])
        for point, label, certain in zip(results["x"], results["y"], found["certified"], strict=True):
            colour, width = ("C0" if label > 0 else "C1", 0.6) if certain else ("C3", 1.2)
            axes.plot(*(point + BOX * SQUARE).T, color=colour, lw=width)
        share = 100 * found["certified"].mean()
        axes.set(title=f"{name}: {share:.0f} % certified", xticks=[], yticks=[], aspect="equal")


if __name__ == "__main__":
    from _plot import run

    run(main, draw)
