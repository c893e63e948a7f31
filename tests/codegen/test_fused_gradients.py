"""The kernels of the gradients that people compute: as few loops and buffers as an expert would write by hand."""

import numpy as np
import pytest
from outline import count, outline

import autodiff as ad
from codegen.kernel.nest import Operation
from codegen.program import Gemm, Kernel


def logistic(w, b, x, y):
    z = x @ w + b
    return ad.mean(ad.logsumexp(z, axis=1) - ad.sum(z * y, axis=1))


def labelled(w, b, x, labels):
    z = x @ w + b
    return ad.mean(ad.logsumexp(z, axis=1) - ad.take_along_axis(z, labels[:, None], axis=1)[:, 0])


def mlp(layers, x, y):
    for w, b in layers[:-1]:
        x = ad.relu(x @ w + b)
    w, b = layers[-1]
    return logistic(w, b, x, y)


def softmax(x, w):
    return ad.sum(ad.softmax(x, axis=1) * w)


def logsumexp(x):
    return ad.sum(ad.logsumexp(x, axis=1))


def layer_norm(x, scale, shift, w):
    centred = x - ad.mean(x, axis=1, keepdims=True)
    variance = ad.mean(centred * centred, axis=1, keepdims=True)
    return ad.sum((centred / ad.sqrt(variance + 1e-5) * scale + shift) * w)


def normal(x):
    return 0.5 * (1 + ad.erf(x * 0.7071067811865476))


def black_scholes(s, k, t, r, sigma):
    spread = sigma * ad.sqrt(t)
    d1 = (ad.log(s / k) + (r + 0.5 * sigma * sigma) * t) / spread
    d2 = d1 - spread
    return ad.sum(s * normal(d1) - k * ad.exp(-r * t) * normal(d2))


def chain(x):
    return ad.sum(ad.exp(-x * x) * ad.sin(x) + ad.log1p(x * x) * ad.tanh(x))


def ones(*shape):
    return np.ones(shape, np.float32)


GRADIENTS = {
    "logistic": (logistic, (0, 1), ones(784, 10), ones(10), ones(256, 784), ones(256, 10)),
    "labelled": (labelled, (0, 1), ones(784, 10), ones(10), ones(256, 784), np.zeros(256, np.int64)),
    "mlp": (mlp, 0, [(ones(784, 256), ones(256)), (ones(256, 128), ones(128)), (ones(128, 10), ones(10))],
            ones(128, 784), ones(128, 10)),
    "softmax": (softmax, 0, ones(4096, 1024), ones(4096, 1024)),
    "logsumexp": (logsumexp, 0, ones(4096, 1024)),
    "layer_norm": (layer_norm, (0, 1, 2), ones(512, 256), ones(256), ones(256), ones(512, 256)),
    "black_scholes": (black_scholes, (0, 1, 2, 3, 4), ones(5000), ones(5000), ones(5000), np.float32(0.1), ones(5000)),
    "chain": (chain, 0, ones(100_000)),
}


@pytest.fixture(scope="module")
def programs():
    """The program of each gradient, planned once."""
    found = {}
    for name, (f, argnums, *args) in GRADIENTS.items():
        found[name] = ad.inspect(ad.value_and_grad(f, argnums=argnums), *args).stages.program
    return found


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_gradient_is_fused_as_one_would_by_hand(name, programs, golden):
    golden(outline(programs[name]))


def works(program):
    return [type(step.work) for step in program.steps]


@pytest.mark.parametrize("name", ["softmax", "logsumexp", "layer_norm", "black_scholes", "chain"])
def test_value_and_gradient_without_products_are_one_kernel(name, programs):
    assert works(programs[name]) == [Kernel, *of_numbers(programs[name])]


def of_numbers(program):
    """The kernels that only make a number of finished sums, behind the one that makes these."""
    last = program.steps[-1]
    return [Kernel] if all(program.buffers[b].aval.size == 1 for b in last.buffers) else []


@pytest.mark.parametrize("name", ["logistic", "labelled"])
def test_a_classifier_is_two_products_a_kernel_and_a_mean(name, programs):
    assert works(programs[name]) == [Gemm, Kernel, Kernel, Gemm]
    forward, _, mean, backward = [step.work for step in programs[name].steps]
    assert not any(o.regions for o in mean.function.body.operations)
    assert not forward.transpose_a and backward.transpose_a


def test_a_layer_is_a_product_and_a_kernel_each_way(programs):
    assert works(programs["mlp"]).count(Gemm) == 8
    assert works(programs["mlp"]).count(Kernel) == 5 + 1, "and the mean"


def test_a_slope_is_computed_beside_the_value_that_is_stored():
    """A kernel for each tangent: its slope from its number takes an exponential, which the tangent has."""
    square = ones(32, 32)
    program = ad.inspect(ad.grad(lambda w, x: ad.sum(ad.tanh(ad.tanh(x @ w) @ w) @ w)), square, square).stages.program
    kernels = [step.work.function.name for step in program.steps if isinstance(step.work, Kernel)]
    assert len([n for n in kernels if "tanh" in n]) == 2 == len([n for n in kernels if "tanh_slope" in n])


@pytest.mark.parametrize(("name", "function", "times"), [
    ("softmax", "math.exp", 1), ("logsumexp", "math.exp", 1), ("logsumexp", "math.log", 1),
    ("logistic", "math.exp", 1), ("labelled", "math.exp", 1), ("layer_norm", "math.sqrt", 1),
    ("chain", "math.exp", 2), ("chain", "math.tanh", 1), ("chain", "math.log1p", 1), ("chain", "math.sin", 1),
    ("black_scholes", "math.erf", 2), ("black_scholes", "math.exp", 3), ("black_scholes", "math.log", 1),
])
def test_nothing_dear_is_computed_twice(name, function, times, programs):
    assert count(programs[name], function) == times


@pytest.mark.parametrize("name", ["softmax", "logsumexp", "layer_norm"])
def test_row_reductions_and_their_readers_are_in_one_loop_over_rows(name, programs):
    (step,) = programs[name].steps

    def depth(block):
        return max([1 + depth(r) for o in block.operations if isinstance(o, Operation) for r in o.regions], default=0)

    sweeps = [o for o in step.work.function.body.operations if o.regions and depth(o.regions[0]) > 1]
    assert len(sweeps) == 1


@pytest.mark.parametrize("shape", [(3, 2, 2), (20, 5, 1), (33, 20, 2), (70, 65, 32), (300, 200, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pairwise_distances_send_gradients_to_rows_and_to_columns(shape, dtype, rng):
    n, m, d = shape
    x, y = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(m, d)).astype(dtype)
    w = rng.random(m).astype(dtype)

    def energy(x, y):
        return ad.sum((ad.exp(-ad.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=2)) @ w) ** 2)

    differences = x[:, None, :].astype(np.float64) - y
    kernel = np.exp(-np.sum(differences**2, axis=2))
    slopes = -4 * differences * ((kernel @ w)[:, None] * w * kernel)[:, :, None]
    gradients = ad.jit(ad.grad(energy, argnums=(0, 1)))(x, y)
    for got, expected in zip(gradients, (slopes.sum(1), -slopes.sum(0)), strict=True):
        tolerance = 1e-13 if dtype is np.float64 else 1e-5
        assert np.abs(got - expected).max() <= tolerance * np.abs(slopes).max() * max(n, m)
