"""Elementwise work with expensive functions: value and gradient of sum(exp(-x²)·sin(x) + log1p(x²)·tanh(x))."""

import numpy as np
from c_kernel import build

TITLE = "elementwise chain, value and gradient"
CASES = [f"n = {n:,} {dtype}" for n in (1000, 100_000, 10_000_000) for dtype in ("f32", "f64")]
ARGNUMS = (0,)


def inputs(case):
    n = int(case.split()[2].replace(",", ""))
    return (np.linspace(-2.0, 3.0, n).astype({"f32": np.float32, "f64": np.float64}[case[-3:]]),)


def program(lib, x):
    return lib.sum(lib.exp(-x * x) * lib.sin(x) + lib.log1p(x * x) * lib.tanh(x))


def by_hand(x):
    q, s = np.exp(-x * x), np.sin(x)
    t, p = np.tanh(x), np.log1p(x * x)
    return np.sum(q * s + p * t), q * np.cos(x) - 2 * x * q * s + p * (1 - t * t) + 2 * x / (1 + x * x) * t


def reference(x):
    x = x.astype(np.float64)
    return lambda: by_hand(x)


def numpy(x):
    return lambda: by_hand(x)


def c(x):
    real, suffix = ("float", "f") if x.dtype == np.float32 else ("double", "")
    call = build(f"""
        #include <math.h>
        double run(long n, const {real} *restrict x, {real} *restrict g) {{
          {real} total = 0;
          #pragma omp parallel for simd reduction(+:total) schedule(static) if(n > 20000)
          for (long i = 0; i < n; i++) {{
            {real} v = x[i], q = exp{suffix}(-v * v), s = sin{suffix}(v);
            {real} t = tanh{suffix}(v), p = log1p{suffix}(v * v);
            total += q * s + p * t;
            g[i] = q * cos{suffix}(v) - 2 * v * q * s + p * (1 - t * t) + 2 * v / (1 + v * v) * t;
          }}
          return total;
        }}""")

    def run():
        gradient = np.empty_like(x)
        return call(x.size, x.ctypes.data, gradient.ctypes.data), gradient

    return run
