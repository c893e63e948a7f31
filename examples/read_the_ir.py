"""Every stage of one gradient, from what was recorded to the machine code that runs.

The same from the command line:

    autodiff inspect examples/read_the_ir.py:loss --args 'f64[4], f64[1000,4], f64[1000]' --stage mlir --pass backward
"""

import autodiff as ad


def loss(w, x, y):
    """Mean squared error of a linear model.   f[k], f[n,k], f[n] -> f[]"""
    return ad.mean((x @ w - y) ** 2)


def main():
    seen = ad.inspect(loss, "f64[4]", "f64[1000,4]", "f64[1000]", backward=True)
    for stage in ("tape", "graph", "optimized", "fused", "mlir", "llvm", "llvm-opt", "asm", "stats"):
        text = seen.stage(stage)
        lines = text.splitlines()
        print(f"---- {stage}: {len(lines)} lines ----")
        print("\n".join(lines[:40]))
        if len(lines) > 40:
            print(f"... {len(lines) - 40} more lines: autodiff inspect shows all")
        print()
        assert text.strip()


if __name__ == "__main__":
    main()
