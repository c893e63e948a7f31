"""Exported programs of any size: one object, compiled with gcc, called with many sizes, compared with `ad.jit`."""

import ctypes
import itertools
import math
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from command_line import autodiff
from exported import linked, needs_gcc
from mlir_tools import verify_with_mlir_opt

import autodiff as ad

SIZES = (1, 2, 3, 7, 64, 1000)
#: Sizes that `jit` compiles before, so that it has code for any: it has for none that is the first of its shape.
BEFORE = (257, 50)


def normal(*shape):
    return np.random.default_rng(math.prod(shape)).normal(size=shape)


class Called:
    """An exported function of sizes."""

    def __init__(self, made, folder):
        library = linked(made.files[0], folder)
        self.made = made
        self.function, self.bytes = getattr(library, made.name), getattr(library, f"{made.name}_workspace_bytes")
        self.function.restype = self.bytes.restype = ctypes.c_int64

    def __call__(self, sizes, arrays, wanted):
        """(code, results), which are as large as `wanted`, for these sizes."""
        sizes = [*map(ctypes.c_int64, sizes)]
        size = self.bytes(*sizes)
        given = [np.ascontiguousarray(a, v.aval.dtype) for a, v in zip(arrays, self.made.arguments, strict=True)]
        results = [np.full(w.shape, 7, w.dtype) for w in wanted]
        memory = np.full(max(size, 0) + 128, 0xA5, np.uint8)
        begin = -memory.ctypes.data % 64
        pointers = [*[a.ctypes.data for a in (*given, *results)], memory.ctypes.data + begin]
        code = self.function(*sizes, *map(ctypes.c_void_p, pointers))
        assert (memory[begin + max(size, 0) :] == 0xA5).all(), "it wrote behind the workspace"
        return code, results


def dense(params, x, y):
    h = ad.tanh(x @ params["w"][0] + params["b"])
    return ad.mean((h @ params["w"][1] - y) ** 2)


def softmax(w, x, y):
    logits = x @ w
    return -ad.mean(ad.sum((logits - ad.logsumexp(logits, axis=1, keepdims=True)) * y, axis=1))


def scanned(a, xs):
    return ad.sum(ad.scan(lambda c, x: (ad.sin(c * ad.sum(a) + x), c), 0.5, xs)[1])


def layers(a, b, x):
    return ad.sum(ad.tanh(ad.tanh(x @ a) @ b) ** 2)


def by_size(x):
    return ad.sum(x) if x.shape[0] > 100 else ad.sum(x * x)


TABLE = normal(5)
#: name: (function, description of arguments, digits that differ from jit's where its code is for one size).
PROGRAMS = {
    "dense network": (dense, ({"w": ["f64[8,16]", "f64[16]"], "b": "f64[]"}, "f64[n,8]", "f64[n]"), 0),
    "large layers": (layers, ("f64[70,90]", "f64[90,40]", "f64[n,70]"), 0),
    "single precision": (layers, ("f32[7,9]", "f32[9,4]", "f32[n,7]"), 0),
    "softmax": (softmax, ("f64[8,5]", "f64[n,8]", "f64[n,5]"), 1),
    "elementwise": (lambda x: ad.sum(ad.exp(ad.sin(x)) * x), ("f64[n]",), 0),
    "divided by the size": (lambda x: ad.sum(x * x) / x.shape[0], ("f32[n,3]",), 0),
    "the size, in numbers": (lambda x: ad.sum(x * x.size + x.shape[0]), ("f64[n,3]",), 0),
    "scan": (scanned, ("f64[3]", "f64[n]"), 0),
    "loop": (lambda x: ad.sum(ad.fori_loop(0, 5, lambda i, c: ad.tanh(c) * x, x)), ("f64[n]",), 0),
    "while": (lambda x: ad.while_loop(lambda c: c < 100.0, lambda c: c * 1.5 + 1.0, ad.sum(x * x)), ("f64[n]",), 0),
    "cond": (lambda x: ad.cond(ad.sum(x) > 0.0, lambda: ad.sum(x @ x), lambda: ad.sum(x)), ("f64[n]",), 1),
    "factors": (lambda x: ad.sum(ad.log(ad.diagonal(ad.linalg.cholesky(x.T @ x + ad.eye(3))))), ("f64[n,3]",), 0),
    "vmap": (lambda w, x: ad.sum(ad.vmap(lambda row: ad.tanh(row @ w))(x)), ("f64[3]", "f64[n,3]"), 0),
    "sort": (lambda x: ad.sum(ad.sort(x) * ad.arange(x.shape[0])), ("f64[n]",), 1),
    "rows in order": (lambda x: ad.sum(ad.sort(x, axis=1) * x), ("f64[n,7]",), 1),
    "differences": (lambda x: ad.sum((x[1:] - x[:-1]) ** 2), ("f64[n]",), 1),
    "slices": (lambda x: ad.sum(x[::-1][1::2] ** 2) * x[-1] + ad.sum(x[-3:] * x[:3].mean()), ("f64[n]",), 1),
    "joined": (lambda x: ad.sum(ad.cumsum(ad.concatenate([x, x * x])) / x.shape[0]), ("f64[n]",), 1),
    "half of it": (lambda x: ad.sum(x[: x.shape[0] // 2] ** 2), ("f64[n]",), 1),
    "another branch": (by_size, ("f64[n]",), 0),
    "variance": (lambda x: ad.var(x), ("f64[n]",), 1),
    "deviations": (lambda x: ad.sum(ad.std(x, axis=0)), ("f64[n,4]",), 1),
    "sums along": (lambda w, x: ad.sum(ad.cumsum(x * w, axis=0)), ("f64[3]", "f64[n,3]"), 1),
    "a reshape": (lambda x: ad.sum(ad.reshape(x, (-1, 4)).max(axis=1)), ("f64[4 * n]",), 1),
    "zeros and ranges": (lambda x: ad.sum((ad.zeros(x.shape[0]) + x) * ad.arange(x.shape[0])), ("f64[n]",), 0),
    "read from outside": (lambda x: ad.sum((x @ TABLE) ** 2), ("f64[n,5]",), 0),
    "an index": (lambda x, i: x[i] ** 2, ("f64[n]", 0), 0),
}  # fmt: skip


def arrays_for(made, sizes):
    """Arguments of an exported function for these sizes."""
    given = dict(zip(made.sizes, sizes, strict=True))
    avals = [v.aval.at(given) if hasattr(v.aval, "at") else v.aval for v in made.arguments]
    return [normal(*a.shape).astype(a.dtype) if a.dtype.kind == "f" else np.zeros(a.shape, a.dtype) for a in avals]


def arguments_of(args, arrays):
    """The arguments in Python: the descriptions are replaced by arrays, in order."""
    left = iter(arrays)
    return ad.tree.map(lambda _: next(left), args)


@needs_gcc
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_object_has_the_results_of_jit_for_every_size(name, tmp_path):
    f, args, digits = PROGRAMS[name]
    made = ad.export(f, *args, out=tmp_path, name="loss")
    assert made.sizes == ("n",) and made.workspace_bytes is None
    call, jitted = Called(made, tmp_path), ad.jit(ad.value_and_grad(f))
    assert "n: any number from 1 on." in made.files[3].read_text()
    for n in (*BEFORE, *SIZES):
        arrays = arrays_for(made, [n])
        value, gradient = jitted(*arguments_of(args, arrays))
        wanted = [np.asarray(w) for w in (value, *ad.tree.leaves(gradient))]
        if n in BEFORE:
            continue
        code, results = call([n], arrays, wanted)
        assert code == 0
        for result, w in zip(results, wanted, strict=True):
            if digits:
                np.testing.assert_allclose(result, w, rtol=1e-12, atol=1e-13)
            else:
                np.testing.assert_array_equal(result, w, strict=True)


#: More functions, whose results need only be right.
NEIGHBOURS = {
    "concatenate": (lambda x: ad.sum(ad.concatenate([x, x * 2]) ** 2), "f64[n]"),
    "stack": (lambda x: ad.sum(ad.stack([x, x * 2])[1] ** 2), "f64[n]"),
    "pad": (lambda x: ad.sum(ad.pad(x, 1) ** 2), "f64[n]"),
    "tile": (lambda x: ad.sum(ad.tile(x, 3) ** 2), "f64[n]"),
    "convolve": (lambda x: ad.sum(ad.convolve(x, np.ones(3)) ** 2), "f64[n]"),
    "median": (ad.median, "f64[n]"),
    "quantile": (lambda x: ad.quantile(x, 0.3), "f64[n]"),
    "norm": (lambda x: ad.sum(ad.linalg.norm(x, axis=1)) * ad.linalg.norm(x), "f64[n,3]"),
    "max": (lambda x: ad.max(x) - ad.min(x), "f64[n]"),
    "einsum": (lambda x: ad.sum(ad.einsum("ij,kj->ik", x, x) ** 2), "f64[n,3]"),
    "split": (lambda x: ad.sum(ad.split(x, 2)[0] ** 2), "f64[2 * n]"),
    "roll": (lambda x: ad.sum(ad.roll(x, 1) * x), "f64[n]"),
    "linspace": (lambda x: ad.sum(ad.linspace(0.0, 1.0, x.shape[0]) * x), "f64[n]"),
    "outer": (lambda x: ad.sum(ad.tanh(x[:, None] * x)), "f64[n]"),
    "trace": (lambda x: ad.trace(x @ x.T), "f64[n,3]"),
    "triu": (lambda x: ad.sum(ad.triu(x @ x.T) ** 2), "f64[n,3]"),
    "full": (lambda x: ad.sum(ad.full(x.shape, 2.0) * x * x), "f64[n,2]"),
    "broadcast_to": (lambda x: ad.sum(ad.broadcast_to(x, (4, *x.shape)) ** 2), "f64[n]"),
    "cumprod": (lambda x: ad.sum(ad.cumprod(x)), "f64[n]"),
    "checkpoint": (lambda x: ad.sum(ad.checkpoint(lambda y: ad.tanh(y @ y.T))(x)), "f64[n,3]"),
    "grad": (lambda x: ad.sum(ad.grad(lambda y: ad.sum(ad.tanh(y) ** 2))(x) ** 2), "f64[n]"),
    "fori_loop": (lambda x: ad.fori_loop(0, x.shape[0], lambda i, c: c * x[i], 1.0), "f64[n]"),
    "power": (lambda x: ad.sum(abs(x) ** x.shape[0]), "f64[n]"),
}  # fmt: skip


@needs_gcc
@pytest.mark.slow
@pytest.mark.parametrize("name", NEIGHBOURS)
def test_other_functions_are_right_for_every_size(name, tmp_path):
    f, aval = NEIGHBOURS[name]
    made = ad.export(f, aval, out=tmp_path, name="loss")
    call = Called(made, tmp_path)
    for n in (1, 2, 3, 5, 17, 300):
        arrays = arrays_for(made, [n])
        wanted = [np.asarray(w) for w in ad.value_and_grad(f)(*arrays)]
        code, results = call([n], arrays, wanted)
        assert code == 0, n
        for result, w in zip(results, wanted, strict=True):
            np.testing.assert_allclose(result, w, rtol=1e-12, atol=1e-12)


PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include "loss.h"

static double *numbers(int64_t count, FILE *in) {
    double *found = malloc(sizeof(double) * (size_t)(count > 0 ? count : 1));
    if (!found || (in && fread(found, sizeof(double), (size_t)count, in) != (size_t)count)) exit(1);
    return found;
}

int main(void) {
    static const int64_t sizes[] = {1, 2, 3, 7, 64, 1000};
    FILE *in = fopen("in", "rb"), *out = fopen("out", "wb");
    if (!in || !out) return 1;
    for (int i = 0; i < 6; i++) {
        int64_t n = sizes[i], bytes = loss_workspace_bytes(n);
        if (bytes < 0) return 2;
        double *w = numbers(LOSS_PARAMS_W_0_SIZE, in), *v = numbers(LOSS_PARAMS_W_1_SIZE, in);
        double *b = numbers(LOSS_PARAMS_B_SIZE, in);
        double *x = numbers(LOSS_X_SIZE(n), in), *y = numbers(LOSS_Y_SIZE(n), in);
        double *value = numbers(LOSS_VALUE_SIZE, 0), *dw = numbers(LOSS_GRAD_PARAMS_W_0_SIZE, 0);
        double *dv = numbers(LOSS_GRAD_PARAMS_W_1_SIZE, 0), *db = numbers(LOSS_GRAD_PARAMS_B_SIZE, 0);
        double *dx = numbers(LOSS_GRAD_X_SIZE(n), 0);
        size_t unit = LOSS_WORKSPACE_ALIGNMENT;
        void *workspace = aligned_alloc(unit, ((size_t)bytes + unit) / unit * unit);
        if (loss(n, w, v, b, x, y, value, dw, dv, db, dx, workspace) != 0) return 3;
        fwrite(value, sizeof *value, LOSS_VALUE_SIZE, out);
        fwrite(dw, sizeof *dw, LOSS_GRAD_PARAMS_W_0_SIZE, out);
        fwrite(dv, sizeof *dv, LOSS_GRAD_PARAMS_W_1_SIZE, out);
        fwrite(db, sizeof *db, LOSS_GRAD_PARAMS_B_SIZE, out);
        fwrite(dx, sizeof *dx, (size_t)LOSS_GRAD_X_SIZE(n), out);
        free(w), free(v), free(b), free(x), free(y);
        free(value), free(dw), free(dv), free(db), free(dx), free(workspace);
    }
    if (loss_workspace_bytes(0) != -1 || loss_workspace_bytes(-3) != -1) return 4;
    if (loss_workspace_bytes(INT64_MAX / 2) != -1) return 5;
    if (loss(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) != LOSS_BAD_SIZES) return 6;
    return fclose(out) != 0;
}
"""


@needs_gcc
@pytest.mark.parametrize("language", ["c", "c++"])
def test_a_c_program_calls_one_object_with_many_sizes(language, tmp_path):
    if language == "c++" and shutil.which("g++") is None:
        pytest.skip("needs g++")
    f, args, _ = PROGRAMS["dense network"]
    made = ad.export(f, *args, out=tmp_path, name="loss", argnums=(0, 1))
    program = PROGRAM if language == "c" else PROGRAM.replace("= malloc", "= (double *)malloc")
    (tmp_path / "main.c").write_text(program)
    compiler = ["gcc", "-std=c11", "-pedantic"] if language == "c" else ["g++", "-x", "c++"]
    flags = ["-Wall", "-Wextra", "-Werror", "-c", "main.c", "-o", "main.o"]
    subprocess.run([*compiler, *flags], cwd=tmp_path, check=True)
    linker = "gcc" if language == "c" else "g++"
    subprocess.run([linker, "main.o", "loss.o", "-lm", "-o", "main"], cwd=tmp_path, check=True)
    jitted = ad.jit(ad.value_and_grad(f, (0, 1)))
    given, wanted = [], []
    for n in (*BEFORE, *SIZES):
        arrays = arrays_for(made, [n])
        value, gradients = jitted(*arguments_of(args, arrays))
        given.append(b"".join([x.tobytes() for x in arrays]))
        wanted.append(b"".join([np.asarray(x).tobytes() for x in (value, *ad.tree.leaves(gradients))]))
    (tmp_path / "in").write_bytes(b"".join(given[len(BEFORE) :]))
    subprocess.run([tmp_path / "main"], cwd=tmp_path, check=True, env={})
    assert (tmp_path / "out").read_bytes() == b"".join(wanted[len(BEFORE) :])


@needs_gcc
def test_the_program_on_the_page_runs(tmp_path):
    page = (Path(__file__).parent.parent / "docs/howto/export.md").read_text(encoding="utf-8")
    _, program = re.findall(r"```c\n(.*?)```", page, re.DOTALL)

    def loss(w, x, y):
        return ad.mean((ad.tanh(x @ w) - y) ** 2)

    ad.export(loss, "f64[3]", "f64[batch,3]", "f64[batch]", out=tmp_path)
    (tmp_path / "main.c").write_text(program)
    command = ["gcc", "-O1", "-Wall", "-Werror", "main.c", "loss.o", "-lm", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    said = subprocess.run(["./main"], cwd=tmp_path, check=True, capture_output=True, text=True, env={}).stdout
    w = np.array([0.1, 0.2, 0.3])
    wanted = [loss(w, np.arange(3.0 * n).reshape(n, 3) % 7 / 7, np.arange(float(n)) % 2) for n in (1, 10, 100, 1000)]
    np.testing.assert_allclose([*map(float, said.split())], wanted, rtol=1e-14)


def rows_by_rows(x, y):
    return ad.sum(ad.tanh(x @ y.T) ** 2)


def distances(x, y):
    return ad.sum(ad.exp(-ad.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1)))


@needs_gcc
@pytest.mark.parametrize("f", [rows_by_rows, distances])
def test_two_sizes(f, tmp_path):
    made = ad.export(f, "f64[n,3]", "f64[m,3]", out=tmp_path)
    assert made.sizes == ("n", "m") and "m: any number from 1 on" not in made.files[3].read_text().split("Sizes")[0]
    call = Called(made, tmp_path)
    reference = ad.value_and_grad(f)
    pairs = [*itertools.product((1, 2, 3, 8), repeat=2), (7, 33), (40, 1), (64, 130), (300, 5)]
    for sizes in pairs:
        arrays = arrays_for(made, sizes)
        wanted = [np.asarray(w) for w in reference(*arrays)]
        code, results = call(sizes, arrays, wanted)
        assert code == 0, sizes
        for result, w in zip(results, wanted, strict=True):
            np.testing.assert_allclose(result, w, rtol=1e-12, atol=1e-13)


@needs_gcc
def test_results_of_any_size_and_shape(tmp_path):
    made = ad.export(lambda x, y: {"sum": x + y, "first": x[0], "pairs": x @ y.T}, "f64[n,4]", "f64[n,4]", out=tmp_path,
                     name="both", gradient=False)  # fmt: skip
    assert [f"{v.name}: {v.aval}" for v in made.results] == [
        "result_sum: f64[n,4]", "result_first: f64[4]", "result_pairs: f64[n,n]"]  # fmt: skip
    text = made.files[3].read_text()
    assert "#define BOTH_RESULT_SUM_SIZE(n) (4 * (int64_t)(n))" in text and "#define BOTH_RESULT_FIRST_SIZE 4" in text
    call = Called(made, tmp_path)
    for n in (1, 2, 9):
        x, y = arrays_for(made, [n])
        code, results = call([n], [x, y], [x + y, x[0], x @ y.T])
        assert code == 0
        np.testing.assert_allclose(results[2], x @ y.T, rtol=1e-13, atol=1e-14)
        np.testing.assert_array_equal(results[0], x + y)


@needs_gcc
def test_multiples_of_the_rows_that_a_loop_takes_at_once_have_code(tmp_path):
    def loss(x):
        return ad.sum(ad.softmax(x, axis=1) * x) + ad.mean(ad.mean(x, axis=0) + x)

    made = ad.export(loss, "f64[n,3]", out=tmp_path, name="loss")
    assert "Sizes: n: any number from 1 on." in made.files[3].read_text()
    call = Called(made, tmp_path)
    for n in (23, 24, 64, 65, 256):
        (x,) = arrays_for(made, [n])
        wanted = ad.value_and_grad(loss)(x)
        code, results = call([n], [x], wanted)
        assert code == 0, n
        for result, w in zip(results, wanted, strict=True):
            np.testing.assert_allclose(result, w, rtol=1e-12, atol=1e-13)


@needs_gcc
def test_sizes_without_code_are_said_and_refused(tmp_path):
    def loss(x):
        if x.shape[0] % 8:
            raise ValueError("eights only")
        return ad.sum(x[:5] ** 2) + ad.sum(x)

    with pytest.raises(ValueError, match="eights only"):
        ad.export(loss, "f64[n]", out=tmp_path)
    made = ad.export(lambda x: ad.sum(x[4] ** 2 * x), "f64[n]", out=tmp_path, name="loss")
    assert "Sizes: n: from 5 on." in made.files[3].read_text()
    call = Called(made, tmp_path)
    assert call.bytes(ctypes.c_int64(4)) == -1
    x = np.ones(4)
    assert call([4], [x], [np.zeros(()), x])[0] == 16
    code, (value, _) = call([5], [np.arange(5.0)], [np.zeros(()), np.ones(5)])
    assert code == 0 and value == 160.0


def test_the_same_files_each_time(tmp_path):
    f, args, _ = PROGRAMS["dense network"]
    texts = [[file.read_bytes() for file in ad.export(f, *args, out=tmp_path, name="loss").files] for _ in range(2)]
    assert texts[0] == texts[1]


def test_the_mlir_text_is_accepted_by_mlir(tmp_path):
    f, args, _ = PROGRAMS["dense network"]
    verify_with_mlir_opt(ad.export(f, *args, out=tmp_path, name="loss").files[2].read_text())


# ---------------------------------------------------------------- misuse


def loops_over_rows(x):
    total = 0.0
    for i in range(x.shape[0]):
        total = total + ad.tanh(ad.sum(x[i]))  # here
    return total


def takes_blocks(x):
    total = ad.sum(x)
    for i in range(0, x.shape[0], 64):
        total = total + ad.sum(x[i] ** 2)  # here
    return total


def fixed_shape(x):
    return ad.sum(ad.reshape(x, (12,)) ** 2)  # here


def divides_by_a_float(x):
    y = ad.tanh(x)
    return ad.sum(y) * (1.0 / x.shape[0])  # here


def divides_by_len(x):
    return ad.sum(x) / len(x)  # here


def inverts(x):
    return ad.sum(x) * (1 / x.shape[0])  # here


def saturates(x):
    return ad.sum(x) * min(float(x.shape[0]), 100.0)  # here


def takes_a_root(x):
    return ad.sum(x) / math.sqrt(x.shape[0])  # here


def unrolls(x):
    return sum(ad.sum(row) ** 2 for row in x)  # here


def has_a_row_for_each_size(x):
    return ad.sum(ad.jacobian(ad.tanh, mode="reverse")(x))  # here


def has_a_column_for_each_size(x):
    return ad.sum(ad.jacobian(lambda t: ad.sum(t) * ad.ones(2), mode="forward")(x))  # here


def has_a_matrix_of_the_size(x):
    return ad.sum(ad.hessian(lambda t: ad.sum(t**3))(x))  # here


@pytest.mark.parametrize(
    "f", [loops_over_rows, takes_blocks, fixed_shape, divides_by_a_float, divides_by_len, inverts, saturates,
          takes_a_root, unrolls, has_a_row_for_each_size, has_a_column_for_each_size, has_a_matrix_of_the_size]
)  # fmt: skip
def test_a_program_of_one_size_is_refused_with_its_line_and_the_size(f, tmp_path):
    with pytest.raises(ad.Error) as error:
        ad.export(f, "f64[batch,3]", out=tmp_path)
    said = str(error.value)
    lines = Path(__file__).read_text().splitlines()
    begin = f.__code__.co_firstlineno
    here = next(k for k in range(begin, begin + 9) if lines[k - 1].endswith("# here"))
    assert f"at test_export_sizes.py:{here}, in " in said, said
    assert "batch" in said and "e0_" not in said and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "f, args, kind, said",
    [
        (lambda x, y: ad.sum(x * y), ("f64[n]", "f64[m]"), ad.ShapeError, "n and m stand for any numbers"),
        (lambda x: ad.sum(ad.reshape(x, (-1, 4))), ("f64[n]",), ad.ShapeError, r"f64\[4 \* n\] describes a multiple"),
        (lambda x: ad.sum(x), ("f64[n - 1]",), ad.Error, "a sum or product of them, not 'n - 1'"),
        (lambda x: ad.sum(x), ("f64[double]",), ad.Error, "'double' cannot be the name of a size"),
        (lambda x: ad.sum(x), ("f64[n,]]",), ad.Error, "is no array of a dtype and shape"),
        (lambda *x: ad.sum(x[0]), [f"f64[{c}]" for c in "abcde"], ad.Error, "there are at most 4"),
        (lambda x: ad.sum(ad.linalg.solve(x @ x.T, x)), ("f64[n,3]",), ad.DispatchError, "lu needs known sizes"),
        (lambda x: ad.sum(ad.linalg.eigh(x.T @ x)[0]), ("f64[n,3]",), ad.DispatchError, "eigh needs LAPACK"),
    ],
)
def test_a_misuse_is_told(f, args, kind, said, tmp_path):
    with pytest.raises(kind, match=said) as error:
        ad.export(f, *args, out=tmp_path, name="loss")
    assert "test_export_sizes.py" in str(error.value)


# ---------------------------------------------------------------- the command


def test_the_command_takes_names_of_sizes(tmp_path):
    file = tmp_path / "model.py"
    body = "    return ad.sum(ad.tanh(x['a'] @ w)) / x['a'].shape[0]\n"
    file.write_text(f"import autodiff as ad\ndef loss(w, x):\n{body}")
    words = ["export", f"{file}:loss", "--args", 'f64[3], {"a": f64[batch,3]}', "-o", str(tmp_path / "out")]
    found = autodiff(*words)
    assert "loss(batch, w: f64[3], x_a: f64[batch,3]) -> (value: f64[], grad_w: f64[3])" in found.output
    assert "int64_t batch," in (tmp_path / "out/loss.h").read_text()
    assert '"sizes": [\n    "batch"\n  ]' in autodiff(*words, "--json").output
    refused = autodiff("inspect", f"{file}:loss", "--args", 'f64[3], {"a": f64[batch,3]}')
    assert refused.exit_code == 2 and "has no known extents" in refused.output
