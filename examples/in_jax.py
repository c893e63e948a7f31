"""A program of this library inside JAX: fit a damped oscillator by Newton's method, with `jax.hessian` and error bars.

    python examples/in_jax.py

The simulation is compiled once as one loop; JAX calls its machine code without Python, and differentiates through it.
"""

import importlib.util
import sys

import numpy as np

import autodiff as ad

if importlib.util.find_spec("jax") is None:
    print("JAX is not installed: pip install 'autodiff-native[jax]'")
    sys.exit()

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)
STEPS, DT, NOISE = 200, 0.05, 0.02


def motion(p):
    """The places of a mass that is let go at 1; p is its stiffness and damping.   f[2] -> f[STEPS]"""

    def step(state, _):
        x, v = state
        v = v - DT * (p[0] * x + p[1] * v)
        x = x + DT * v
        return (x, v), x

    return ad.scan(step, (1.0 + 0.0 * p[0], 0.0 * p[1]), length=STEPS)[1]


def main():
    truth = np.array([2.0, 0.2])
    measured = ad.jit(motion)(truth) + NOISE * np.random.default_rng(0).normal(size=STEPS)
    simulate = ad.interop.jax.wrap(motion)

    def misfit(p):
        return 0.5 * jnp.sum(((simulate(p) - measured) / NOISE) ** 2)

    newton = jax.jit(lambda p: p - jnp.linalg.solve(jax.hessian(misfit)(p), jax.grad(misfit)(p)))

    p = jnp.array([1.95, 0.25])
    for iteration in range(6):
        print(f"iteration {iteration}: misfit {misfit(p):9.2f}, stiffness {p[0]:.4f}, damping {p[1]:.4f}")
        p = newton(p)
    deviations = jnp.sqrt(jnp.diag(jnp.linalg.inv(jax.hessian(misfit)(p))))
    print(f"stiffness {p[0]:.4f} ± {deviations[0]:.4f} (2), damping {p[1]:.4f} ± {deviations[1]:.4f} (0.2)")

    starts = jnp.array([[1.95, 0.25], [2.05, 0.15], [2.0, 0.3]])
    found = jax.vmap(lambda p: jax.lax.fori_loop(0, 10, lambda _, q: newton(q), p))(starts)
    print("three starts at once:", np.asarray(found).round(4))

    assert np.abs((p - truth) / deviations).max() < 4
    assert np.abs(jax.grad(misfit)(p)).max() < 1e-6
    np.testing.assert_allclose(found, jnp.tile(p, (3, 1)), rtol=1e-8)


if __name__ == "__main__":
    main()
