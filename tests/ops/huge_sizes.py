"""Calls of every operation that takes a size, a count or a place, with numbers near the ends of 64 bits.

    python huge_sizes.py ROUTE NUMBER ...

A line for each call: its name and number, and how it ended.  The address space is limited, so that whoever asks for
gigabytes is refused at once; a crash is seen by who started this.
"""

import re
import resource
import sys
import time

import numpy as np

import autodiff as ad

KEY = ad.random.key(0)


def one(x, n):
    """One element as many."""
    return ad.broadcast_to(x[0], (n,))


#: Of a size: the result has so many elements, or nearly, or more.
SIZES = {
    "tile": ad.tile, "tile both": lambda x, n: ad.tile(x, (n, n)), "repeat": ad.repeat,
    "repeat along": lambda x, n: ad.repeat(x[:, None], n, axis=1), "repeats": lambda x, n: ad.repeat(x, [n] * 4),
    "one repeat": lambda x, n: ad.repeat(x, [1, 1, 1, n]), "broadcast_to": one,
    "broadcast both": lambda x, n: ad.broadcast_to(x[0], (n, n)), "broadcast none": lambda x, n: ad.zeros((n, n, 0)),
    "reshape": lambda x, n: ad.reshape(x, (n, 4)), "reshape none": lambda x, n: ad.reshape(x[:0], (n, 0)),
    "kron": lambda x, n: ad.kron(x, one(x, n)), "outer": lambda x, n: ad.outer(one(x, n), one(x, n)),
    "cumsum": lambda x, n: ad.cumsum(ad.tile(x, n)), "cumprod": lambda x, n: ad.cumprod(one(x, n)),
    "cummax": lambda x, n: ad.cummax(one(x, n)), "sort": lambda x, n: ad.sort(ad.tile(x, n)),
    "argsort": lambda x, n: ad.argsort(one(x, n)), "concatenate": lambda x, n: ad.concatenate([one(x, n), one(x, n)]),
    "stack": lambda x, n: ad.stack([one(x, n)] * 4), "append": lambda x, n: ad.append(one(x, n), x),
    "pad": ad.pad, "pad before": lambda x, n: ad.pad(x, (n, 0)), "pad edge": lambda x, n: ad.pad(x, n, mode="edge"),
    "pad wrap": lambda x, n: ad.pad(x, (0, n), mode="wrap"), "eye": lambda x, n: x[0] * ad.eye(n),
    "tri": lambda x, n: x[0] * ad.tri(1, n), "zeros": lambda x, n: x[0] + ad.zeros(n),
    "ones": lambda x, n: x[0] * ad.ones((n, 4)), "full": lambda x, n: ad.full((n, 8), x[0]),
    "zeros of bool": lambda x, n: ad.zeros((n, 4), bool), "arange": lambda x, n: x[0] * ad.arange(n),
    "arange of floats": lambda x, n: x[0] * ad.arange(0.0, n, 0.5), "linspace": lambda x, n: ad.linspace(0.0, x[0], n),
    "logspace": lambda x, n: ad.logspace(0.0, x[0], n), "geomspace": lambda x, n: ad.geomspace(1.0, x[1], n),
    "indices": lambda x, n: x[0] * ad.indices((n, n)), "meshgrid": lambda x, n: ad.meshgrid(one(x, n), one(x, n))[0],
    "one_hot": lambda x, n: x[0] * ad.one_hot([0, 1], n), "bincount": lambda x, n: ad.bincount([0, 1, 1, 0], x, n),
    "segment_sum": lambda x, n: ad.segment_sum(x, [0, 1, 1, 0], n), "histogram": lambda x, n: ad.histogram(x, n)[1],
    "diagflat": ad.diagflat, "diag": ad.diag, "vander": ad.vander, "diag of many": lambda x, n: ad.diag(one(x, n)),
    "array_split": lambda x, n: ad.array_split(x, n)[0], "unstack": lambda x, n: ad.unstack(one(x, n))[0],
    "add_at": lambda x, n: ad.add_at(one(x, n), 0, 1.0), "set": lambda x, n: ad.add_at(ad.tile(x, n), slice(1, 3), 1.0),
    "fft": lambda x, n: ad.abs(ad.fft.fft(x, n)), "rfft": lambda x, n: ad.abs(ad.fft.rfft(x, n)),
    "ifft": lambda x, n: ad.abs(ad.fft.ifft(x, n)), "irfft": ad.fft.irfft, "hfft": ad.fft.hfft,
    "ihfft": lambda x, n: ad.abs(ad.fft.ihfft(x, n)), "fft of one more": lambda x, n: ad.abs(ad.fft.fft(x, n + 1)),
    "fft of 32 bits": lambda x, n: ad.abs(ad.fft.fft(ad.astype(x, np.float32), n)),
    "fft of columns": lambda x, n: ad.abs(ad.fft.fft(ad.outer(x, x), n, axis=0)),
    "fft2": lambda x, n: ad.abs(ad.fft.fft2(ad.outer(x, x), (n, 4))),
    "fftn": lambda x, n: ad.abs(ad.fft.fftn(ad.outer(x, x), (2, n))),
    "irfft2": lambda x, n: ad.fft.irfft2(ad.outer(x, x), (4, n)),
    "fft inside scan": lambda x, n: ad.scan(lambda c, r: (c, ad.abs(ad.fft.fft(x * r, n))), 1.0, x)[1],
    "fftfreq": lambda x, n: x[0] * ad.fft.fftfreq(n), "rfftfreq": lambda x, n: x[0] * ad.fft.rfftfreq(n),
    "normal": lambda x, n: x[0] * ad.random.normal(KEY, (n, 2)), "bits": lambda x, n: ad.random.bits(KEY, (n,)),
    "randint": lambda x, n: ad.random.randint(KEY, (n,), 0, 3), "keys": lambda x, n: ad.random.split(KEY, n),
    "choice": lambda x, n: ad.random.choice(KEY, x, (n,)), "gumbel": lambda x, n: ad.random.gumbel(KEY, (n, 2)),
    "categorical": lambda x, n: ad.random.categorical(KEY, x, shape=(n,)),
    "scan": lambda x, n: ad.scan(lambda c, _: (c * 0.5, c), x, None, length=n)[1],
    "scan of products": lambda x, n: ad.scan(lambda c, _: (c * 0.5, ad.outer(c, c)), x, None, length=n)[1],
    "inside scan": lambda x, n: ad.scan(lambda c, r: (c, ad.tile(c, n)), x, x)[1],
    "inside cond": lambda x, n: ad.cond(x[0] > 0, lambda a: ad.tile(a, n), lambda a: ad.tile(-a, n), x),
    "inside checkpoint": lambda x, n: ad.checkpoint(lambda a: ad.tile(a, n))(x),
    "vmap": lambda x, n: ad.vmap(lambda a: ad.broadcast_to(a, (n,)))(x),
    "matmul": lambda x, n: one(x, n)[:, None] @ one(x, n)[None], "einsum": lambda x, n: ad.einsum("i,j", x, one(x, n)),
    "stacks of matrices": lambda x, n: ad.broadcast_to(x[0], (n, 3, 3)) @ ad.ones((3, 3)),
    "tensordot": lambda x, n: ad.tensordot(one(x, n), x, 0), "convolve": lambda x, n: ad.convolve(one(x, n), x),
    "where": lambda x, n: ad.where(one(x, n) > 0, x[:, None], 2.0), "add": lambda x, n: one(x, n)[:, None] + one(x, n),
    "cast": lambda x, n: ad.real(ad.astype(one(x, n), complex)), "not": lambda x, n: ~ad.broadcast_to(x > 0, (n, 4)),
    "inv": lambda x, n: ad.linalg.inv(ad.broadcast_to(ad.outer(x, x) + ad.eye(4), (n, 4, 4))),
    "svd": lambda x, n: ad.linalg.svd(ad.broadcast_to(x[0], (n, 1)))[0], "softmax": lambda x, n: ad.softmax(one(x, n)),
    "dense": lambda x, n: ad.dense(ad.Diagonal(one(x, n))), "gradient": lambda x, n: ad.gradient(ad.tile(x, n)),
    "cross": lambda x, n: ad.cross(ad.broadcast_to(x[0], (n, 3)), ad.ones(3)), "take": lambda x, n: one(x, n)[[0, 1]],
    "jacobian": lambda x, n: ad.jacobian(lambda a: ad.broadcast_to(a[0], (n,)))(x),
}
#: Of a place, a distance or a number of times: the result is as large as for any other.
PLACES = {
    "roll": ad.roll, "rot90": lambda x, n: ad.rot90(ad.outer(x, x), n), "eye": lambda x, n: x[0] * ad.eye(2, k=n),
    "tri": lambda x, n: x[0] * ad.tri(3, k=n), "tril": lambda x, n: ad.tril(ad.outer(x, x), n),
    "triu": lambda x, n: ad.triu(ad.outer(x, x), n), "diagonal": lambda x, n: ad.diagonal(ad.outer(x, x), n),
    "trace": lambda x, n: ad.trace(ad.outer(x, x), n), "diff": ad.diff, "split": lambda x, n: ad.split(x, n)[0],
    "split at": lambda x, n: ad.split(x, [n])[1], "take": ad.take,
    "take clipped": lambda x, n: ad.take(x, n, mode="clip"),
    "take around": lambda x, n: ad.take(x, n, mode="wrap"), "item": lambda x, n: x[n], "from": lambda x, n: x[n:],
    "to": lambda x, n: x[:n], "by": lambda x, n: x[::n], "back from": lambda x, n: x[n:0:-1],
    "back by": lambda x, n: x[::-n], "add_at": lambda x, n: ad.add_at(x, n, 1.0), "sum": lambda x, n: ad.sum(x, axis=n),
    "expand_dims": ad.expand_dims, "tensordot": lambda x, n: ad.tensordot(x, x, n),
    "arange": lambda x, n: x[0] * ad.arange(n, n + 3),
    "matrix_power": lambda x, n: ad.linalg.matrix_power(ad.eye(3), n),
    "randint": lambda x, n: ad.random.randint(KEY, (3,), 0, n), "fold_in": lambda x, n: ad.random.fold_in(KEY, n),
}  # fmt: skip


def recorded(f, x):
    """Of a tensor, as it comes."""
    return f(ad.tensor(x)).numpy()


def compiled(f, x):
    """By `jit`."""
    return ad.jit(f)(x)


def differentiated(f, x):
    """One element, by `grad`."""
    return ad.grad(lambda x: ad.sum(ad.ravel(f(x))[:1]))(x)


def backward(f, x):
    """One element, by a recorded backward pass."""
    t = ad.tensor(x, requires_grad=True)
    y = ad.sum(ad.ravel(f(t))[:1])
    y.backward()
    return t.grad.numpy()


ROUTES = {r.__name__: r for r in (recorded, compiled, differentiated, backward)}

#: A lack of memory says how many bytes, or results of one call, are too many, and where.
SAYS_WHAT = re.compile(r"\d+ (bytes|results)\b[\s\S]* at (test_)?huge_sizes\.py")
#: What such calls end in where they have no result: an error that says what is too large, or does not fit.
EXPECTED = (MemoryError, ValueError, IndexError, OverflowError, ad.GradientError)
#: A refusal takes no longer than this, in seconds of a processor: tables of a size are not made before it is refused.
LATE_S = 5


def ending(route, f, n):
    """The end of a call, in a word or two."""
    x, start = np.arange(1.0, 5.0), time.process_time()
    found = _ending(route, f, n, x)
    taken_s = time.process_time() - start
    return found if taken_s < LATE_S else f"UNEXPECTED {taken_s:.0f} s until {found}"


def _ending(route, f, n, x):
    try:
        found = np.asarray(route(lambda x: f(x, n), x))
    except EXPECTED as error:
        if isinstance(error, MemoryError) and not SAYS_WHAT.search(str(error)):
            return f"UNEXPECTED words of a MemoryError: {error}".replace("\n", " ")
        return f"{type(error).__name__}: {str(error)[:60]}".replace("\n", " ")
    except Exception as error:
        return f"UNEXPECTED {type(error).__name__}: {str(error)[:200]}".replace("\n", " ")
    return f"result of {found.shape}" if found.size < 100 else f"UNEXPECTED result of {found.shape}"


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
    route, *numbers = sys.argv[1:]
    for name, f in [*SIZES.items(), *PLACES.items()]:
        for n in map(int, numbers):
            print(name, n, end=" ", flush=True)
            print(ending(ROUTES[route], f, n), flush=True)
    print("all")
