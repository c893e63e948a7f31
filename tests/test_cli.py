"""The command line: every stage, both passes, the same text in every run, and one message for what is wrong."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import autodiff
from mlir_tools import verify_with_mlir_opt

import autodiff as ad

EXAMPLES = Path(__file__).parent.parent / "examples"
LOSS = f"{EXAMPLES / 'digits.py'}:loss"
AVALS = "f32[64,64], f32[64], f32[64,10], f32[10], f32[64,64], f32[64,10]"

USER = '''
import autodiff as ad

print("imported")

@ad.function
def double(x):
    """Twice x."""

@double.forward(ad.Tensor)
def _(ctx, x):
    return x * 2

@double.backward(ad.Tensor[ad.float64])
def _(ctx, grad_output):
    return grad_output * 2

@ad.function
def ruleless(x): ...

@ruleless.forward(ad.Tensor)
def _(ctx, x):
    return x * 2

def vector(x):
    return x * 2

def product(a, b):
    return a @ b

def raises(x):
    raise ValueError("no good")

def nothing(x):
    return None

def asks(x):
    return x if x.sum() > 0 else -x

def of_dict(p):
    return (p["w"] * p["b"]).sum()

def trace(m):
    return ad.sum(m)

gradient = ad.grad(lambda x: (x * x).sum())

@ad.function
def wrong(x): ...

@wrong.forward(ad.Tensor)
def _(ctx, x):
    return x * 2

@wrong.backward(ad.Tensor)
def _(ctx, grad_output):
    return grad_output * 3

if __name__ == "__main__":
    print("as a script")
    gradient(ad.tensor([1.0, 2.0])).numpy()
'''


@pytest.fixture
def user_file(tmp_path):
    file = tmp_path / "user.py"
    file.write_text(USER)
    return file


def run(*arguments):
    return autodiff(*arguments)


def fails(*arguments, code=1):
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.mark.parametrize("which", ["forward", "backward"])
@pytest.mark.parametrize("stage", ad.inspection.STAGES)
def test_every_stage_of_the_digits_loss_is_shown(stage, which):
    result = run("inspect", LOSS, "--args", AVALS, "--stage", stage, "--pass", which, "--argnums", "0,1,2,3")
    assert result.exit_code == 0, result.output
    expected = {
        "tape": "tanh(", "graph": "= tanh(", "optimized": "= tanh(", "fused": "gemm f32 64x64x64", "mlir": "func.func",
        "llvm": "define", "llvm-opt": "define", "asm": "ret", "stats": "kernels",
    }
    assert expected[stage] in result.stdout


ALL_STAGES = """
import sys
from command_line import autodiff
for stage in ("tape", "fused", "mlir", "llvm-opt"):
    print(autodiff(*sys.argv[1:], "--stage", stage).output)
"""


def test_output_is_the_same_in_two_processes():
    arguments = ["inspect", LOSS, "--args", AVALS, "--pass", "backward", "--argnums", "0,1,2,3"]
    seen = []
    for seed in ("1", "2"):
        path = os.pathsep.join([str(EXAMPLES.parent), str(Path(__file__).parent)])
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": path}
        command = [sys.executable, "-c", ALL_STAGES, *arguments]
        seen.append(subprocess.run(command, capture_output=True, check=True, env=environment).stdout)
    assert b"define" in seen[0] and seen[0] == seen[1]


def test_the_mlir_that_is_shown_is_accepted_by_mlir_opt():
    result = run("inspect", LOSS, "--args", AVALS, "--stage", "mlir", "--pass", "backward")
    verify_with_mlir_opt(result.stdout)


def test_a_vector_valued_function_takes_a_seed_input(user_file):
    result = run("inspect", f"{user_file}:vector", "--args", "f64[3]", "--pass", "backward", "--stage", "graph")
    assert result.stdout.startswith("vector_gradient(x: f64[3], seed: f64[3]")


def test_arguments_nest(user_file):
    arguments = ["--args", '{"w": f32[3], "b": f32[]}', "--pass", "backward", "--stage", "graph"]
    result = run("inspect", f"{user_file}:of_dict", *arguments)
    assert result.stdout.startswith("of_dict_gradient(p['w']: f32[3], p['b']: f32[]")


def test_a_transformed_function_is_inspected_like_any_other(user_file):
    assert "f(x: f64[3])" in run("inspect", f"{user_file}:gradient", "--args", "f64[3]", "--stage", "graph").stdout


def test_a_module_is_found_by_its_name():
    assert "a: f64[2] = exp(x)" in run("inspect", "autodiff:exp", "--args", "f64[2]", "--stage", "graph").stdout


def test_inspecting_a_function_does_not_run_the_main_block(user_file):
    result = run("inspect", f"{user_file}:vector", "--args", "f64[3]")
    assert "imported" in result.stderr and "as a script" not in result.output


def test_a_script_lists_the_graphs_that_it_compiled(user_file):
    result = run("inspect", user_file, "--json")
    assert "as a script" in result.stderr
    (row,) = json.loads(result.stdout)["graphs"]
    assert row["inputs"] == ["f64[2]"] and row["outputs"] == ["f64[2]"] and row["place"].startswith("user.py:")
    listed = run("inspect", user_file).stdout
    assert listed.startswith("1 graph compiled") and "(f64[2]) -> (f64[2])" in listed and "user.py:" in listed
    assert "return" in run("inspect", user_file, "--graph", "0", "--stage", "graph").stdout
    assert "return" in run("inspect", user_file, "--stage", "graph").stdout


def test_a_stage_of_one_of_several_graphs_has_to_be_named(tmp_path):
    file = tmp_path / "two.py"
    file.write_text("import autodiff as ad\nad.jit(ad.sin)(ad.ones(2))\nad.jit(lambda x: x @ x)(ad.ones(3))\n")
    assert "graphs: say which one by --graph N" in fails("inspect", str(file), "--stage", "llvm")
    assert "two.py:3" in run("inspect", str(file)).stdout


def test_each_graph_of_a_script_has_the_reason_why_it_was_compiled(tmp_path):
    file = tmp_path / "many.py"
    file.write_text(
        """
import autodiff as ad
w = ad.tensor([1.0, 2.0], requires_grad=True)
f = ad.jit(lambda x: ad.sin(x).sum())
for n in (2, 3, 2, 3):
    f(ad.ones(n))
    ((ad.ones((n, 2)) @ w) ** 2).sum().backward()
float(ad.sum(w * 2.0))
"""
    )
    rows = json.loads(run("inspect", str(file), "--json").stdout)["graphs"]
    assert len(rows) >= 6 and all([row["reason"] for row in rows])
    told = {(row["place"], row["reason"]) for row in rows}
    assert ("many.py:6", "jit <lambda>: the first call") in told
    assert ("many.py:6", "jit <lambda>: argument x is f64[3], before it was f64[2]: axis 0 has 3, before 2") in told
    bigger = "backward: broadcast_to gives f64[3,2], before it gave f64[2,2]: axis 0 has 3, before 2"
    assert ("many.py:7", bigger) in told
    listed = run("inspect", str(file)).stdout
    assert listed.count("jit <lambda>: the first call") == 1


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        (["inspect", LOSS, "--args", AVALS, "--stage", "graph"], {"target", "pass", "stage", "text"}),
        (["inspect", LOSS, "--args", AVALS], {"target", "pass", "version", "nodes", "program", "texts"}),
        (["rules", "matmul"], {"function", "methods", "derivative", "ambiguous"}),
        (["rules"], {"ambiguities"}),
        (["rules", "matmul", "--args", "f64[2,2], f64[2]"], {"method", "backward"}),
        (["doctor"], {"autodiff", "LLVM", "a gradient", "native code", "recording", "ok"}),
    ],
)
def test_every_command_speaks_json(command, keys):
    result = run(*command, "--json")
    assert result.exit_code == 0, result.output
    assert keys <= set(json.loads(result.stdout))


def test_rules_lists_methods_rules_and_what_they_leave_open(user_file):
    text = run("rules", f"{user_file}:double").stdout
    assert "double(x: Tensor)  forward  user.py:10" in text and "user.py:14" in text
    assert "has no backward" in run("rules", f"{user_file}:ruleless").stdout


@pytest.mark.smoke
def test_rules_says_what_would_run(user_file):
    text = run("rules", f"{user_file}:double", "--args", "f64[3]").stdout
    assert "user.py:10" in text and "user.py:14" in text


def test_rules_says_in_which_folder_a_method_was_written(user_file, monkeypatch):
    assert "double(x: Tensor)  forward  user.py:10" in run("rules", f"{user_file}:double").stdout
    monkeypatch.chdir(user_file.parent.parent)
    inside = f"{user_file.parent.name}/user.py"
    text = run("rules", f"{user_file}:double").stdout
    assert f"double(x: Tensor)  forward  {inside}:10" in text and f"{inside}:14" in text
    assert f"{inside}:14" in run("rules", f"{user_file}:double", "--args", "f64[3]").stdout
    assert "autodiff/structured/fill.py:" in run("rules", "matmul").stdout


def test_the_librarys_own_methods_are_not_ambiguous():
    ours = [a for a in ad.ambiguities() if a.first.function.__module__.partition(".")[0] == "autodiff"]
    assert not ours, ours  # functions of other tests may still be there


def test_ambiguous_methods_are_listed_and_none_is_where_there_are_none(monkeypatch):
    @ad.function
    def f(x, y): ...

    f.method(ad.Matrix, ad.Tensor)(lambda x, y: x)
    monkeypatch.setattr("autodiff.dispatch.introspection.all_functions", lambda: [f])
    f.method(ad.Tensor, ad.Matrix)(lambda x, y: y)
    assert run("rules").stdout.startswith("(Tensor[..., 2], Tensor[..., 2]): both of\n  f(x: Tensor")
    f.method(ad.Matrix, ad.Matrix)(lambda x, y: x)
    assert run("rules").stdout == "no two methods are ambiguous\n"


@pytest.mark.smoke
def test_check_says_that_derivatives_are_right_or_which_rule_is_wrong(user_file):
    assert "agree with differences" in run("check", f"{user_file}:double", "--args", "f64[3]").stdout
    text = fails("check", f"{user_file}:wrong", "--args", "f64[3]")
    assert "wrong" in text and "user.py:55" in text
    report = run("check", f"{user_file}:wrong", "--args", "f64[3]", "--json")
    assert report.exit_code == 1 and json.loads(report.stdout)["ok"] is False


def test_check_moves_what_it_is_told_to(user_file):
    assert run("check", f"{user_file}:product", "--args", "f64[2,3], f64[3]", "--argnums", "1").exit_code == 0
    assert run("check", f"{user_file}:trace", "--args", "Diagonal(f64[3])").exit_code == 0
    assert "ValueError: no good" in fails("check", f"{user_file}:raises", "--args", "f64[3]")


def test_cache_says_what_is_kept_and_clears_it(tmp_path):
    environment = {"PYTHONPATH": str(EXAMPLES.parent), "AUTODIFF_CACHE_DIR": str(tmp_path), "AUTODIFF_CACHE": "1"}

    def cache(*options):
        command = [sys.executable, "-m", "autodiff", "cache", "--json", *options]
        return json.loads(subprocess.run(command, capture_output=True, check=True, env=environment).stdout)

    assert cache()["objects"] == 0
    doctor = [sys.executable, "-m", "autodiff", "doctor"]
    told = subprocess.run(doctor, capture_output=True, check=True, env=environment).stdout
    assert b"by machine code" in told, "the code that records is on disk for later processes"
    (tmp_path / "objects" / "notes.txt").write_text("not ours")
    assert cache()["objects"] > 0
    assert cache("--clear")["objects"] == 0
    assert (tmp_path / "objects" / "notes.txt").exists()


def test_a_cache_that_is_off_is_said_to_be():
    assert run("cache").stdout == "off\n"


def test_the_doctor_is_content():
    result = run("doctor")
    assert result.exit_code == 0 and "FAILS" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.py:f"], "there is no file nowhere.py"),
        (["nowhere.py"], "there is no file nowhere.py"),
        (["no_such_module:f"], "give a file that ends in .py"),
        (["{user}:nope"], "has no function 'nope': there are double"),
        (["{user}:raises", "--args", "f64[3]"], "ValueError: no good\n  at user.py:32, in raises"),
        (["{user}:product", "--args", "f64[3]"], "--args has 1 for product(a, b): missing a required argument: 'b'"),
        (["{user}:product", "--args", "f64[3,4], f64[5,4]"], "inner sizes differ: f64[3,4] @ f64[5,4]"),
        (["{user}:nothing", "--args", "f64[3]"], "nothing to look at"),
        (["{user}:nothing", "--args", "f64[3]", "--pass", "backward"], "nothing to look at"),
        (["{user}:asks", "--args", "f64[3]"], "asked at user.py:38, in asks"),
        (["{user}:ruleless", "--args", "f64[3]", "--pass", "backward"], "has no backward"),
        (["{user}:vector", "--args", "i64[3]", "--pass", "backward"], "argument 0 of vector is int64"),
        (["{user}", "--graph", "7"], "compiled 1 graph,"),
        (["{user}", "--graph", "0", "--stage", "tape"], "look at its graph"),
    ],
)
def test_a_mistake_in_the_target_is_one_message(user_file, arguments, says):
    assert says in fails("inspect", *[a.replace("{user}", str(user_file)) for a in arguments])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--stage", "nope"], "no stage 'nope': there are tape"),
        (["--pass", "sideways"], "--pass is forward or backward"),
        (["--args", "f64[3"], "cannot be read"),
        (["--args", "f99[3]"], "'f99' is neither"),
        (["--args", "f64[-3]"], "not negative"),
        (["--args", "Nonsense(f64[3])"], "there is no 'Nonsense'"),
        (["--args", "f64[3]", "--pass", "backward", "--argnums", "1"], "the number of arguments in --args is 1"),
        (["--args", "f64[3]", "--pass", "backward", "--argnums", "0,0"], "names an argument twice"),
        (["--args", "f64[3]", "--pass", "backward", "--argnums", "x"], "--argnums takes numbers"),
    ],
)
def test_a_mistake_in_an_option_is_a_usage_error(user_file, options, says):
    assert says in fails("inspect", f"{user_file}:vector", *options, code=2)


def test_a_file_that_raises_is_one_message(tmp_path):
    file = tmp_path / "broken.py"
    file.write_text("import numpy\nraise RuntimeError('at import')\n")
    for target in (file, f"{file}:f"):
        assert "RuntimeError: at import\n  at broken.py:2" in fails("inspect", target)


def test_a_script_that_exits_with_a_failure_fails(tmp_path):
    file = tmp_path / "exits.py"
    file.write_text("raise SystemExit(3)\n")
    assert "ended with exit code 3" in fails("inspect", file)


@pytest.mark.parametrize("name", ["linalg.solve", "random.normal", "fft.fft"])
def test_rules_of_functions_in_namespaces_are_listed(name):
    text = run("rules", name).stdout
    assert f"  {name.rpartition('.')[2]}(" in text and "autodiff/ops/" in text


@pytest.mark.parametrize(("name", "meant"), [("matmull", "matmul"), ("solve", "linalg.solve"), ("qqqq", "matmul")])
def test_what_is_no_function_is_told_the_one_that_is_meant(name, meant):
    assert f"give a name such as {meant}," in fails("rules", name)


def test_what_is_no_generic_function_has_no_rules(user_file):
    assert "no generic function" in fails("rules", "no_such_function")
    assert "no generic function" in fails("rules", f"{user_file}:vector")


# ---------------------------------------------------------------- the installation


def test_the_version_is_that_of_the_package():
    assert run("--version").output == f"autodiff {ad.__version__}\n"


def test_the_demo_says_what_to_install(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: found(name) if name.startswith("autodiff") else None)
    assert "pip install 'autodiff-native[examples]'" in fails("demo")


# ---------------------------------------------------------------- bench


def test_bench_runs_the_benchmarks_of_the_checkout(capfd):
    assert run("bench", "nosuch", "--rounds", 1, "--json").exit_code == 2
    said = capfd.readouterr().err
    assert "no row nosuch: there are " in said and "black_scholes, " in said


def test_bench_says_where_the_benchmarks_are_when_they_are_not_there(monkeypatch, tmp_path):
    monkeypatch.setattr("autodiff.cli.running.BENCHMARKS", tmp_path / "run.py")
    assert "clone the repository" in fails("bench")


def test_explain_runs_a_script_and_says_why_its_programs_were_new(tmp_path):
    script = tmp_path / "shapes.py"
    script.write_text(
        "import sys\nimport autodiff as ad\nprint(sys.argv[1:])\n"
        "for n in (3, 4):\n    (ad.ones(n) * 2.0).numpy()\nprint(ad.jit(ad.sin)(1.0))\n"
    )
    result = run("explain", script, "one", "two")
    assert result.exit_code == 0 and "['one', 'two']" in result.stderr
    assert "shapes.py:5: value" in result.stdout and "f64[4], before it gave f64[3]" in result.stdout
    assert "shapes.py:6: jit sin, 1 compiled\n    the first call" in result.stdout
    found = re.search(r"programs found 0 times, new twice, compiled (once|twice|\d+ times)$", result.stdout)
    assert found and found[1] not in ("1 times", "2 times")
    told = json.loads(run("explain", script, "--json").stdout)
    assert told["misses"] == 2 and told["explained"][-1]["what"] == "jit sin"
    assert set(told["explained"][0]) == {"what", "line", "reason", "times", "compiles"}
    script.write_text("1 / 0\n")
    assert "ZeroDivisionError" in fails("explain", script)
    assert "there is no file" in fails("explain", tmp_path / "none.py")


@pytest.mark.parametrize(
    "name, near", [("special.gamaln", "special.gammaln"), ("linalg.sovle", "linalg.solve"), ("exq", "exp")]
)
def test_a_name_that_is_nearly_one_is_answered_with_that(name, near):
    found = autodiff("rules", name)
    assert found.exit_code == 1 and f"give a name such as {near}," in found.output


@pytest.mark.parametrize("typed, offered", [("autodiff ex", "explain export"), ("autodiff inspect --sta", "--stage")])
def test_shells_complete_commands_and_options(typed, offered):
    words = {"_AUTODIFF_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    code = "import sys; sys.argv = ['autodiff']; from autodiff.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **words}, capture_output=True, text=True)
    assert done.stdout.split() == offered.split(), done.stderr
