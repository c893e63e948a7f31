"""Exported programs: compiled with gcc, linked, run without Python, and compared to the bit with `ad.jit`."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from command_line import autodiff
from exported import PROGRAMS, called, needs_gcc, normal
from mlir_tools import verify_with_mlir_opt

import autodiff as ad


@needs_gcc
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_exported_gradient_has_the_bits_of_jit(name, tmp_path):
    f, args = PROGRAMS[name]
    made = ad.export(f, *args, out=tmp_path, name="loss")
    assert [file.name for file in made.files] == ["loss.o", "loss.ll", "loss.mlir", "loss.h"]
    leaves = [np.asarray(x) for x in ad.tree.leaves(args)]
    code, results = called(made, tmp_path, leaves)
    assert code == 0
    value, gradient = ad.jit(ad.value_and_grad(f))(*args)
    wanted = [value, *ad.tree.leaves(gradient)]
    assert made.results[0].name == "value"
    for result, w in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(result, w, strict=True)


@needs_gcc
@pytest.mark.parametrize("name", ["sort", "a loop of products"])
def test_what_leaves_python_has_no_checks(name, tmp_path, monkeypatch):
    monkeypatch.setenv("AUTODIFF_NATIVE_CHECKS", "1")
    test_an_exported_gradient_has_the_bits_of_jit(name, tmp_path)


PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include "loss.h"

int main(void) {
    static double w[LOSS_PARAMS_W_0_SIZE], v[LOSS_PARAMS_W_1_SIZE], b[1], x[LOSS_X_SIZE], y[LOSS_Y_SIZE];
    static double value[1], dw[LOSS_GRAD_PARAMS_W_0_SIZE], dv[LOSS_GRAD_PARAMS_W_1_SIZE], db[1];
    void *workspace = aligned_alloc(LOSS_WORKSPACE_ALIGNMENT,
        (LOSS_WORKSPACE_BYTES + LOSS_WORKSPACE_ALIGNMENT) / LOSS_WORKSPACE_ALIGNMENT * LOSS_WORKSPACE_ALIGNMENT);
    FILE *in = fopen("in", "rb"), *out = fopen("out", "wb");
    if (!fread(w, sizeof w, 1, in) || !fread(v, sizeof v, 1, in) || !fread(b, sizeof b, 1, in)
        || !fread(x, sizeof x, 1, in) || !fread(y, sizeof y, 1, in)) return 1;
    int64_t code = loss(w, v, b, x, y, value, dw, dv, db, workspace);
    fwrite(value, sizeof value, 1, out), fwrite(dw, sizeof dw, 1, out);
    fwrite(dv, sizeof dv, 1, out), fwrite(db, sizeof db, 1, out);
    free(workspace);
    return fclose(out) || code != 0;
}
"""


@needs_gcc
@pytest.mark.parametrize("language", ["c", "c++"])
def test_a_c_program_with_the_header_gives_the_bits_of_jit(language, tmp_path):
    if language == "c++" and shutil.which("g++") is None:
        pytest.skip("needs g++")
    f, args = PROGRAMS["dense network"]
    made = ad.export(f, *args, out=tmp_path, name="loss")
    leaves = [np.asarray(x, np.float64) for x in ad.tree.leaves(args)]
    (tmp_path / "main.c").write_text(PROGRAM)
    compiler = ["gcc", "-std=c11", "-pedantic"] if language == "c" else ["g++", "-x", "c++"]
    flags = ["-Wall", "-Wextra", "-Werror", "-c", "main.c", "-o", "main.o"]
    subprocess.run([*compiler, *flags], cwd=tmp_path, check=True)
    linker = "gcc" if language == "c" else "g++"
    subprocess.run([linker, "main.o", "loss.o", "-lm", "-o", "main"], cwd=tmp_path, check=True)
    (tmp_path / "in").write_bytes(b"".join([x.tobytes() for x in leaves]))
    subprocess.run([tmp_path / "main"], cwd=tmp_path, check=True, env={})
    value, gradient = ad.jit(ad.value_and_grad(f))(*args)
    wanted = b"".join([np.asarray(x).tobytes() for x in (value, *ad.tree.leaves(gradient))])
    assert (tmp_path / "out").read_bytes() == wanted
    assert "python" not in subprocess.run(["ldd", "main"], cwd=tmp_path, capture_output=True, text=True).stdout.lower()
    assert [v.label for v in made.arguments] == ["params['w'][0]", "params['w'][1]", "params['b']", "x", "y"]


@needs_gcc
def test_the_program_on_the_page_runs(tmp_path):
    page = (Path(__file__).parent.parent / "docs/howto/export.md").read_text(encoding="utf-8")
    program, _ = re.findall(r"```c\n(.*?)```", page, re.DOTALL)

    def loss(w, x, y):
        return ad.mean((ad.tanh(x @ w) - y) ** 2)

    ad.export(loss, "f64[3]", "f64[50,3]", "f64[50]", out=tmp_path)
    (tmp_path / "main.c").write_text(program)
    command = ["gcc", "-O1", "-Wall", "-Werror", "main.c", "loss.o", "-lm", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    said = subprocess.run(["./main"], cwd=tmp_path, check=True, capture_output=True, text=True, env={}).stdout
    w, x, y = np.array([0.1, 0.2, 0.3]), np.arange(150.0).reshape(50, 3) % 7 / 7, np.arange(50.0) % 2
    step = ad.jit(ad.value_and_grad(loss))
    for _ in range(100):
        value, gradient = step(w, x, y)
        w = w - 0.1 * gradient
    assert float(said) == pytest.approx(value, rel=1e-14)  # gcc may contract its own multiplications and additions


@needs_gcc
def test_codes_say_what_went_wrong(tmp_path):
    made = ad.export(lambda x, i: x[i] ** 2, normal(5), 3, out=tmp_path, name="picked")
    assert called(made, tmp_path, [normal(5), 99])[0] & 0xFFFFFFFF == 1
    made = ad.export(lambda a: ad.sum(ad.linalg.inv(a)), normal(3, 3), out=tmp_path, name="inverse")
    assert called(made, tmp_path, [np.zeros((3, 3))])[0] & 0xFFFFFFFF == 4
    header = made.files[3].read_text()
    assert "#define INVERSE_NOT_DEFINITE 4" in header and "#define INVERSE_INDEX_OUT_OF_RANGE 1" in header


def test_the_mlir_text_is_accepted_by_mlir(tmp_path):
    f, args = PROGRAMS["dense network"]
    verify_with_mlir_opt(ad.export(f, *args, out=tmp_path).files[2].read_text())


def test_results_alone_and_several_arguments(tmp_path):
    made = ad.export(lambda x, y: {"sum": x + y, "rest": (x * y, 7)}, "f64[3]", "f64[3]", out=tmp_path, name="both",
                     gradient=False)  # fmt: skip
    assert [v.name for v in made.results] == ["result_sum", "result_rest_0", "result_rest_1"]
    made = ad.export(lambda x, y: ad.sum(x * y * y), "f64[3]", "f64[3]", out=tmp_path, name="both", argnums=(0, -1))
    assert [v.name for v in made.results] == ["value", "grad_x", "grad_y"]
    assert [str(v.aval) for v in made.results] == ["f64[]", "f64[3]", "f64[3]"]


def test_names_that_c_keeps_get_another(tmp_path):
    made = ad.export(lambda double, workspace, *rest: ad.sum(double * workspace * rest[0]), *["f64[3]"] * 3,
                     out=tmp_path, name="f")  # fmt: skip
    assert [v.name for v in made.arguments] == ["double_", "workspace_", "rest_0"]


def test_names_that_differ_in_capitals_alone_have_macros_of_their_own(tmp_path):
    made = ad.export(lambda w, W, n: (ad.sum(w) * ad.sum(W) * ad.sum(n), 2j), "f64[3]", "f64[12]", "f64[n]",
                     out=tmp_path, name="f", gradient=False)  # fmt: skip
    assert [v.name for v in made.arguments] == ["w", "W_2", "n_2"]
    assert [str(v.aval) for v in made.results] == ["f64[]", "c128[]"]
    macros = re.findall(r"#define (\w+)", (tmp_path / "f.h").read_text())
    assert len(set(macros)) == len(macros)


def test_a_result_that_is_there_twice_is_one(tmp_path):
    made = ad.export(lambda x: [s := ad.sum(x), s, x * 1.5], "f64[3]", out=tmp_path, name="f", gradient=False)
    assert [(v.name, v.label) for v in made.results] == [
        ("result_0", "result[0] and result[1]"), ("result_2", "result[2]")]  # fmt: skip


@ad.function
def hosted(x): ...


@hosted.forward(ad.Tensor, host=True)
def _(ctx, x):
    return np.sin(x)


@hosted.backward(ad.Tensor, host=True)
def _(ctx, g):
    return g


@pytest.mark.parametrize(
    "f, said",
    [
        (lambda x: ad.sum(hosted(x)), r"host needs Python"),
        (lambda x: ad.sum(ad.linalg.eigh(x @ x.T)[0]), r"eigh needs LAPACK"),
        (lambda x: ad.sum(ad.linalg.svd(x)[1]), r"svd needs LAPACK"),
        (lambda x: ad.sum(abs(ad.fft.fft(x[0])) ** 2), r"fft.* needs tables of the Fourier transform"),
        (lambda x: ad.sum(ad.fori_loop(0, 3, lambda i, c: hosted(c), x)), r"host needs Python"),
    ],
)
def test_a_program_that_needs_more_than_machine_code_is_refused_by_name(f, said, tmp_path):
    with pytest.raises(ad.DispatchError, match=said) as error:
        ad.export(f, normal(4, 4), out=tmp_path, name="loss")
    assert "test_export.py" in str(error.value) and "pass its result as an argument" in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "call, kind, said",
    [
        (lambda out: ad.export(5, "f64[3]", out=out), ad.DispatchError, "export: takes a function, got 5"),
        (lambda out: ad.export(lambda x: x, "f64[3]", out=out), ad.Error, "'<lambda>' cannot be the name of a C"),
        (lambda out: ad.export(ad.sum, "f64[3]", out=out, name="double"), ad.Error, "'double' cannot be the name"),
        (lambda out: ad.export(ad.sum, "f64[3]", out=out / "file"), ad.Error, "file is a file"),
        (lambda out: ad.export(ad.sum, "f64[3]", out=3), ad.Error, "out is a folder's path, not 3"),
        (lambda out: ad.export(ad.sum, "f64[n", out=out), ad.Error, "numbers and names of sizes"),
        (lambda out: ad.export(ad.exp, "f64[3]", out=out, name="f"), ad.GradientError, "scalar"),
        (lambda out: ad.export(ad.sum, "i64[3]", out=out, name="total"), ad.DTypeError, "argument 0 of sum is int64"),
        (lambda out: ad.export(ad.sum, "f64[3]", out=out, argnums=4), ad.Error, "4"),
        (lambda out: ad.export(lambda x: None, "f64[3]", out=out, name="f", gradient=False), ad.Error, "no array"),
    ],
)
def test_a_misuse_is_told(call, kind, said, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(kind, match=said) as error:
        call(tmp_path)
    assert "test_export.py" in str(error.value)


# ---------------------------------------------------------------- the command


def run(*words):
    return autodiff("export", *words)


def test_the_command_writes_the_files_and_says_so(tmp_path):
    file = tmp_path / "model.py"
    file.write_text("import autodiff as ad\ndef loss(w, x):\n    return ad.sum(ad.tanh(x @ w))\n")
    found = run(f"{file}:loss", "--args", "f64[3], f64[5,3]", "-o", str(tmp_path / "out"), "--json")
    data = json.loads(found.output)
    assert [Path(f).name for f in data["files"]] == ["loss.o", "loss.ll", "loss.mlir", "loss.h"]
    assert all(Path(f).stat().st_size for f in data["files"])
    assert [v["name"] for v in data["results"]] == ["value", "grad_w"]
    assert "written in Python at model.py:2" in Path(data["files"][3]).read_text()
    text = run(f"{file}:loss", "--args", "f64[3], f64[5,3]", "-o", str(tmp_path / "out"), "--argnums", "0,1").output
    assert "grad_w: f64[3], grad_x: f64[5,3]" in text


@pytest.mark.parametrize(
    "words, code, said",
    [
        (["{}"], 2, "give FILE.py:FUNCTION"),
        (["{}:loss", "--args", "f64[3]"], 2, "-o FOLDER"),
        (["{}:los", "-o", "out"], 1, "no function 'los'"),
        (["{}:loss", "-o", "out"], 1, "--args has 0"),
        (["{}:loss", "-o", "out", "--args", "f64[3]", "--argnums", "x"], 2, "--argnums"),
        (["{}:loss", "-o", "out", "--args", "f64[3]", "--name", "a b"], 1, "cannot be the name of a C function"),
        (["{}:vector", "-o", "out", "--args", "f64[3]"], 1, "scalar"),
    ],
)
def test_a_wrong_command_is_told(words, code, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(
        "import autodiff as ad\ndef loss(w):\n    return ad.sum(w)\ndef vector(w):\n    return w * 2\n"
    )
    found = run(*[word.format("model.py") for word in words])
    assert found.exit_code == code and said in found.output, found.output
    assert not Path("out").exists()
