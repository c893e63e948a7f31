"""Hand-written C programs for some rows, as an expert in the machine would write them: the limits for our times.

They use full vectors, fast mathematics, libmvec for elementary functions, OpenMP threads, and one sweep over memory.
`python benchmarks/c_limits.py [ROW ...]` prints the ratio of our time to that of each program.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

sys.path[0:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from peers import GENERIC  # noqa: E402  the folders above come first

__all__ = ["LIMITS", "build", "limit"]

#: The flags for gcc.  Without the last four gcc 12 combines sin and cos into `sincos`, which has no vector form.
FLAGS = (
    "-O3", "-march=native", "-mprefer-vector-width=512", "-ffast-math", "-fopenmp", "-shared", "-fPIC",
    "-fno-builtin-sin", "-fno-builtin-cos", "-fno-builtin-sinf", "-fno-builtin-cosf",
)  # fmt: skip

CHAIN = """
double run(long n, const real *restrict x, real *restrict g) {
  double total = 0;
  #pragma omp parallel for reduction(+:total) schedule(static) if(n > 5000)
  for (long b = 0; b < n; b += 4096) {
    real part = 0;
    long end = b + 4096 < n ? b + 4096 : n;
    #pragma omp simd reduction(+:part)
    for (long i = b; i < end; i++) {
      real v = x[i], v2 = v * v, q = F(exp)(-v2), s = F(sin)(v), t = F(tanh)(v), p = F(log1p)(v2);
      part += q * s + p * t;
      g[i] = q * (F(cos)(v) - 2 * v * s) + p * (1 - t * t) + 2 * v / (1 + v2) * t;
    }
    total += part;
  }
  return total;
}"""

BLACK_SCHOLES = """
double run(long n, const real *restrict S, const real *restrict V, const real *restrict T, const real *restrict R,
           real *restrict gS, real *restrict gV, real *restrict gT, real *restrict gR) {
  real total = 0;
  #pragma omp parallel for simd reduction(+:total) schedule(static) if(parallel: n > 5000)
  for (long i = 0; i < n; i++) {
    real s = S[i], v = V[i], t = T[i], r = R[i], root = F(sqrt)(t), spread = v * root;
    real d1 = (F(log)(s * .01) + (r + .5 * v * v) * t) / spread, d2 = d1 - spread;
    real k = 100 * F(exp)(-r * t);
    real n1 = .5 + .5 * F(erf)(d1 * .70710678118654752), n2 = .5 + .5 * F(erf)(d2 * .70710678118654752);
    real density = s * .3989422804014327 * F(exp)(-.5 * d1 * d1);
    total += s * n1 - k * n2;
    gS[i] = n1; gV[i] = density * root; gT[i] = density * v / (2 * root) + r * k * n2; gR[i] = t * k * n2;
  }
  return total;
}"""

LOGSUMEXP = """
double run(long n, const real *restrict x, real *restrict g) {
  enum { W = 1024 };
  double total = 0;
  #pragma omp parallel for reduction(+:total) schedule(static)
  for (long i = 0; i < n; i++) {
    const real *restrict a = x + i * W; real *restrict o = g + i * W, e[W];
    real top = a[0], sum = 0;
    #pragma omp simd reduction(max:top)
    for (int j = 0; j < W; j++) top = a[j] > top ? a[j] : top;
    #pragma omp simd reduction(+:sum)
    for (int j = 0; j < W; j++) sum += e[j] = F(exp)(a[j] - top);
    total += F(log)(sum) + top;
    real each = 1 / sum;
    #pragma omp simd
    for (int j = 0; j < W; j++) o[j] = e[j] * each;
  }
  return total;
}"""

SOFTMAX = """
double run(long n, const real *restrict x, const real *restrict t, real *restrict gx) {
  enum { W = 1024 };
  double total = 0;
  #pragma omp parallel for reduction(+:total) schedule(static)
  for (long i = 0; i < n; i++) {
    const real *restrict a = x + i * W, *restrict b = t + i * W; real *restrict o = gx + i * W, e[W];
    real top = a[0], sum = 0, dot = 0;
    #pragma omp simd reduction(max:top)
    for (int j = 0; j < W; j++) top = a[j] > top ? a[j] : top;
    #pragma omp simd reduction(+:sum,dot)
    for (int j = 0; j < W; j++) { sum += e[j] = F(exp)(a[j] - top); dot += e[j] * b[j]; }
    real each = 1 / sum, mean = dot * each;
    total += mean;
    #pragma omp simd
    for (int j = 0; j < W; j++) o[j] = e[j] * each * (b[j] - mean);
  }
  return total;
}"""

CUSTOM = """
double run(long n, const real *restrict x, const real *restrict w, real *restrict gx, real *restrict gw) {
  enum { B = 64, K = 100 };
  real total = 0;
  #pragma omp parallel for reduction(+:total) schedule(static) if(n > 500)
  for (long b = 0; b < n; b += B) {
    real s[K][B], c[K][B], y[B], g[B], u[B];
    int m = n - b < B ? n - b : B;
    for (int j = 0; j < m; j++) { y[j] = x[b + j]; g[j] = 1; u[j] = 0; }
    for (int k = 0; k < K; k++) {
      #pragma omp simd
      for (int j = 0; j < m; j++) { s[k][j] = F(sin)(y[j]); c[k][j] = F(cos)(y[j]); y[j] = s[k][j] * w[b + j]; }
    }
    for (int j = 0; j < m; j++) total += y[j];
    for (int k = K - 1; k >= 0; k--) {
      #pragma omp simd
      for (int j = 0; j < m; j++) { u[j] += g[j] * s[k][j]; g[j] *= w[b + j] * c[k][j]; }
    }
    for (int j = 0; j < m; j++) { gx[b + j] = g[j]; gw[b + j] = u[j]; }
  }
  return total;
}"""

MLP = """
enum { N = 32, H = 16 };
double run(long n, const real *restrict w1, const real *restrict b1, const real *restrict w2, const real *restrict b2,
           const real *restrict w3, const real *restrict b3, const real *restrict x, const real *restrict y,
           real *restrict g1, real *restrict c1, real *restrict g2, real *restrict c2, real *restrict g3,
           real *restrict c3) {
  real total = 0;
  for (int j = 0; j < 2 * H; j++) g1[j] = 0;
  for (int j = 0; j < H; j++) c1[j] = c2[j] = g3[j] = 0;
  for (int j = 0; j < H * H; j++) g2[j] = 0;
  c3[0] = 0;
  real h1[N][H], h2[N][H], d[N];
  for (int i = 0; i < N; i++) {
    real z[H];
    for (int j = 0; j < H; j++) z[j] = b1[j] + x[2 * i] * w1[j] + x[2 * i + 1] * w1[H + j];
    #pragma omp simd
    for (int j = 0; j < H; j++) h1[i][j] = F(tanh)(z[j]);
    for (int j = 0; j < H; j++) z[j] = b2[j];
    for (int k = 0; k < H; k++) for (int j = 0; j < H; j++) z[j] += h1[i][k] * w2[k * H + j];
    #pragma omp simd
    for (int j = 0; j < H; j++) h2[i][j] = F(tanh)(z[j]);
    real out = b3[0] - y[i];
    for (int j = 0; j < H; j++) out += h2[i][j] * w3[j];
    total += out * out;
    d[i] = out * 2 / N;
  }
  for (int i = 0; i < N; i++) {
    real e[H], f[H];
    c3[0] += d[i];
    for (int j = 0; j < H; j++) {
      g3[j] += h2[i][j] * d[i];
      e[j] = d[i] * w3[j] * (1 - h2[i][j] * h2[i][j]);
      c2[j] += e[j];
    }
    for (int k = 0; k < H; k++) {
      f[k] = 0;
      for (int j = 0; j < H; j++) { g2[k * H + j] += h1[i][k] * e[j]; f[k] += e[j] * w2[k * H + j]; }
    }
    for (int j = 0; j < H; j++) {
      f[j] *= 1 - h1[i][j] * h1[i][j];
      c1[j] += f[j]; g1[j] += x[2 * i] * f[j]; g1[H + j] += x[2 * i + 1] * f[j];
    }
  }
  return total / N;
}"""

TINY = """
double run(long n, const real *restrict x, const real *restrict w, const real *restrict b, real *restrict g) {
  real total = 0;
  #pragma omp simd reduction(+:total)
  for (int i = 0; i < 8; i++) { real t = F(tanh)(x[i] * w[i]); total += t; g[i] = b[0] * w[i] * (1 - t * t); }
  return total * b[0];
}"""

#: For each row of `rows`: the C source, and the numbers of the arguments for which it computes gradients.
LIMITS: dict[str, tuple[str, tuple[int, ...]]] = {
    "chain": (CHAIN, (0,)),
    "black_scholes": (BLACK_SCHOLES, (0, 1, 2, 3)),
    "row logsumexp": (LOGSUMEXP, (0,)),
    "row softmax": (SOFTMAX, (0,)),
    "custom_chain": (CUSTOM, (0, 1)),
    "mlp": (MLP, (0, 1, 2, 3, 4, 5)),
    "tiny": (TINY, (0,)),
}


def build(name: str, dtype: np.dtype) -> Callable[..., float]:
    """The function `double run(long n, pointers ...)` of a row, which takes n and addresses.

    Raises FileNotFoundError if gcc is missing.
    """
    real, macro = ("float", "name##f") if dtype == np.float32 else ("double", "name")
    head = f"#include <math.h>\ntypedef {real} real;\n#define F(name) {macro}\n"
    folder = Path(tempfile.mkdtemp())
    file, library = folder / "limit.c", folder / "limit.so"
    file.write_text(head + LIMITS[name][0])
    subprocess.run(["gcc", *FLAGS, file, "-o", library, "-lm"], check=True)
    run = ctypes.CDLL(str(library)).run
    run.restype = ctypes.c_double
    return run


def limit(name: str, arrays: Sequence[np.ndarray]) -> Callable[[], tuple[float, list[np.ndarray]]]:
    """The C program of a row.  Each call writes its results to the same memory, so no call pays for new pages."""
    run = build(name, arrays[0].dtype)
    results = [np.empty_like(arrays[j]) for j in LIMITS[name][1]]
    given = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, *results)]
    n = ctypes.c_long(len(arrays[0]))
    return lambda: (run(n, *given), results)


def cases() -> list[tuple[str, str, str]]:
    """(limit, row, case) for each case that has a limit."""
    found = []
    for name in LIMITS:
        row = "rows_of_a_matrix" if name.startswith("row ") else name
        wanted = [c for c in importlib.import_module(f"rows.{row}").CASES if not c.startswith("784")]
        found += [(name, row, case) for case in wanted if not name.startswith("row ") or case == name]
    return found


def seconds(program: Callable[[], object], calls: int) -> float:
    """The mean seconds of a call, over `calls` calls."""
    start = time.perf_counter()
    for _ in range(calls):
        program()
    return (time.perf_counter() - start) / calls


def compare(name: str, row: str, case: str, rounds: int = 15) -> tuple[float, float]:
    """The least seconds of a call of our program and of the limit, which run in turns; checks that both agree."""
    module = importlib.import_module(f"rows.{row}")
    arrays = module.inputs(case)
    ours = module.ours(*arrays) if hasattr(module, "ours") else GENERIC["ours"](module.program, module.ARGNUMS, arrays)
    program = limit(name, arrays)
    (value, gradients), (expected, right) = ours(), program()
    rtol = 1e-3 if arrays[0].dtype == np.float32 else 1e-9
    np.testing.assert_allclose(value, expected, rtol=rtol)
    for g, r in zip(gradients, right, strict=True):
        np.testing.assert_allclose(g, r, rtol=rtol, atol=rtol * float(np.abs(r).max()))
    best = [min(seconds(p, 1) for _ in range(3)) for p in (ours, program)]
    for _ in range(rounds):
        for j, p in enumerate((ours, program)):
            best[j] = min(best[j], seconds(p, max(1, int(2e-2 / best[j]))))
    return best[0], best[1]


def main() -> None:
    """Print the table, for the number of threads in AUTODIFF_THREADS (by default 1)."""
    threads = os.environ.get("AUTODIFF_THREADS", "1")
    os.environ.update(AUTODIFF_THREADS=threads, OMP_NUM_THREADS=threads)
    print(f"| {threads} threads | ours | C | ours / C |\n|---|---|---|---|")
    for name, row, case in cases():
        if sys.argv[1:] and not any(f"{row} {case}".startswith(given) for given in sys.argv[1:]):
            continue
        ours, c = compare(name, row, case)
        print(f"| {row} {case} | {1e6 * ours:.2f} µs | {1e6 * c:.2f} µs | {ours / c:.2f} |", flush=True)


if __name__ == "__main__":
    main()
