"""European call options by Black and Scholes (J. Political Economy 81, 1973): sum of prices and greeks, 1e6 options."""

import math

import c_kernel
import numpy as np
from targets import faster, within

TITLE = "Black-Scholes with greeks"
CASES = ["1e6 f64"]
ARGNUMS = (0, 1, 2, 3)
TARGETS = [faster(5, "jax"), within(1.1, "c")]
WITHOUT = ("autograd",)  # its namespace `autograd.numpy` has no erf


def inputs(case):
    rng = np.random.default_rng(0)
    n = 1_000_000
    return tuple(low + (high - low) * rng.random(n) for low, high in ((80, 120), (0.1, 0.5), (0.2, 2.0), (0.01, 0.05)))


def program(lib, spot, volatility, years, rate):
    """The sum of prices.  `lib` must have a function erf."""
    spread = volatility * lib.sqrt(years)
    d1 = (lib.log(spot / 100.0) + (rate + 0.5 * volatility * volatility) * years) / spread
    return lib.sum(spot * _normal(lib, d1) - 100.0 * lib.exp(-rate * years) * _normal(lib, d1 - spread))


def _normal(lib, x):
    return 0.5 * (1.0 + lib.erf(x * math.sqrt(0.5)))


def jax(*arrays):
    import jax.numpy as jnp
    import jax.scipy.special as special
    import peers

    class lib:
        sqrt, log, exp, sum, erf = jnp.sqrt, jnp.log, jnp.exp, jnp.sum, special.erf

    return peers.jax(lambda _, *a: program(lib, *a), ARGNUMS, arrays)


def numpy(spot, volatility, years, rate):
    from scipy.special import ndtr

    def run():
        root = np.sqrt(years)
        spread = volatility * root
        d1 = (np.log(spot / 100.0) + (rate + 0.5 * volatility * volatility) * years) / spread
        d2 = d1 - spread
        discounted = 100.0 * np.exp(-rate * years)
        n1, n2 = ndtr(d1), ndtr(d2)
        density = spot * np.exp(-0.5 * d1 * d1) / math.sqrt(2 * math.pi)
        price = np.sum(spot * n1 - discounted * n2)
        theta = density * volatility / (2 * root) + rate * discounted * n2
        return price, [n1, density * root, theta, years * discounted * n2]

    return run


def numba(spot, volatility, years, rate):
    import numba as nb

    @nb.njit(fastmath=True, parallel=True)
    def run(spot, volatility, years, rate):
        delta, vega, theta, rho = np.empty_like(spot), np.empty_like(spot), np.empty_like(spot), np.empty_like(spot)
        total = 0.0
        for i in nb.prange(spot.size):
            s, v, t, r = spot[i], volatility[i], years[i], rate[i]
            root = math.sqrt(t)
            d1 = (math.log(s / 100.0) + (r + 0.5 * v * v) * t) / (v * root)
            d2 = d1 - v * root
            discounted = 100.0 * math.exp(-r * t)
            n1 = 0.5 * (1.0 + math.erf(d1 * math.sqrt(0.5)))
            n2 = 0.5 * (1.0 + math.erf(d2 * math.sqrt(0.5)))
            density = s * math.exp(-0.5 * d1 * d1) / math.sqrt(2 * math.pi)
            total += s * n1 - discounted * n2
            delta[i], vega[i], rho[i] = n1, density * root, t * discounted * n2
            theta[i] = density * v / (2 * root) + r * discounted * n2
        return total, (delta, vega, theta, rho)

    return lambda: run(spot, volatility, years, rate)


def c(*arrays):
    return c_kernel.limit("black_scholes", arrays)


def plain_c(*arrays):
    return c_kernel.limit("black_scholes", arrays, plain=True)


def drjit(*arrays):
    import peers

    return peers.drjit(program, ARGNUMS, arrays)
