"""`autodiff inspect`: comparing stages, one kernel, files, colour, and all that --args can say."""

import contextlib
import json
import os
import re
import subprocess
import sys

import pytest
from command_line import autodiff
from work_done import is_watched

import autodiff as ad

USER = '''
from dataclasses import dataclass

import numpy as np

import autodiff as ad


@dataclass
class Params:
    w: object
    b: object


data = np.ones((8, 4))
params = {"w": np.ones((4, 3)), "rate": 0.5}


class Model:
    def __init__(self):
        self.w = ad.tensor(np.ones((4, 3)), requires_grad=True)

    def loss(self, x):
        return ad.sum((x @ self.w) ** 2)


class Sized:
    def __init__(self, n):
        self.n = n

    def loss(self, x):
        return ad.sum(x) * self.n


def loss(p, x):
    return ad.sum((ad.tanh(x @ p.w + p.b)) ** 2)


def product(w, x):
    return ad.sum(x @ w)


def scaled(x, rate, name="a"):
    return x * rate + len(name)


def rows(m):
    return m @ ad.ones((3, 3))


def steps(x):
    return ad.scan(lambda c, _: (ad.sin(c) * 2.0, c), x, length=4)[0]


if __name__ == "__main__":
    k = ad.jit(ad.grad(lambda x: ad.sum(ad.sin(x) * x)))
    k(np.ones(4))
    t = ad.tensor(np.ones(70), requires_grad=True)
    (ad.exp(t) * 2).sum().backward()
'''
LOSS = ["--args", "Params(w=f64[4,3], b=f64[3]), f64[8,4]", "--pass", "backward"]


@pytest.fixture
def user(tmp_path):
    path = tmp_path / "user.py"
    path.write_text(USER)
    return path


def run(*arguments):
    result = autodiff("inspect", *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_two_stages_are_compared_by_names_that_both_have(user):
    text = run(f"{user}:loss", *LOSS, "--diff", "graph", "optimized")
    assert text.startswith("--- graph\n+++ optimized\n@@") and "-  g: f64[8,3] = broadcast_to(" in text
    changed = [line for line in text.splitlines() if line[:1] in "+-"]
    assert len(changed) < 12, text  # all other lines are the same


def test_each_pass_is_a_stage(user):
    told = run(f"{user}:loss", *LOSS, "--stage", "passes")
    assert "+++ simplify.1" in told and "+++ dce.1" in told
    last = run(f"{user}:loss", *LOSS, "--stage", "dce.1")
    assert last == run(f"{user}:loss", *LOSS, "--stage", "optimized")
    seen = ad.inspect(lambda x: ad.sum(x * 1.0), "f64[3]")
    assert {"fold.1", "simplify.1", "by_parts", "prepare"} <= seen.passes.keys()
    for name in [*seen.passes, "passes", *ad.inspection.STAGES]:
        assert seen.stage(name)
    assert "no stage" in autodiff("inspect", f"{user}:loss", *LOSS, "--stage", "fold.9").output


def test_one_kernel_is_shown_alone(user):
    fused = run(f"{user}:loss", *LOSS, "--kernel", "1", "--stage", "fused")
    assert fused.startswith("  k1_") and fused.count("\n") == 1
    llvm = run(f"{user}:loss", *LOSS, "--kernel", "1", "--stage", "llvm")
    assert "define i32 @k1_" in llvm and "@k0_" not in llvm
    whole = run(f"{user}:loss", *LOSS, "--stage", "optimized")
    part = run(f"{user}:loss", *LOSS, "--kernel", "1", "--stage", "optimized")
    assert part and set(part.splitlines()) < set(whole.splitlines())
    failed = autodiff("inspect", f"{user}:loss", *LOSS, "--kernel", "7")
    assert failed.exit_code == 1 and "3 steps, numbered from 0: there is no kernel 7" in failed.output


def test_a_text_is_written_to_a_file(user, tmp_path):
    file = tmp_path / "out.mlir"
    assert run(f"{user}:loss", *LOSS, "--stage", "mlir", "--output", file) == ""
    assert file.read_text() == run(f"{user}:loss", *LOSS, "--stage", "mlir")
    failed = autodiff("inspect", f"{user}:loss", *LOSS, "--output", str(tmp_path / "no" / "x"))
    assert failed.exit_code == 1 and "cannot write" in failed.output


def test_an_object_file_is_written_for_gdb(user, tmp_path):
    file = tmp_path / "loss.o"
    run(f"{user}:loss", *LOSS, "--object", file)
    assert file.read_bytes()[:4] == b"\x7fELF" and b".debug_line" in file.read_bytes()


@pytest.mark.parametrize(
    ("function", "args", "first"),
    [
        ("loss", "Params(w=f64[4,3], b=f64[3]), data", "loss(p.w: f64[4,3], p.b: f64[3], x: f64[8,4]"),
        ("product", 'params["w"], data', "product(w: f64[4,3], x: f64[8,4])"),
        ("scaled", "f64[3], 2.0, 'text'", "scaled(x: f64[3], rate: f64[]"),
        ("scaled", 'f32[3], params["rate"]', "scaled(x: f32[3], rate: f64[]"),
        ("rows", "Diagonal[3]", "rows(m[0]: f64[3])"),
        ("rows", "Symmetric[f32,3]", "rows(m[0]: f32[3,3]"),
        ("rows", "UniformScaling[3]", "rows(m[0]: f64[])"),
        ("rows", "Permutation[3]", "rows("),
        ("Model.loss", "data", "loss(x: f64[8,4], self.w: f64[4,3])"),
    ],
)
def test_arguments_are_structured_values_literals_and_names_of_the_file(user, function, args, first):
    assert run(f"{user}:{function}", "--args", args, "--stage", "graph").startswith(first)


@pytest.mark.parametrize("args", ["f64[3", "Nothing[3]", "missing", "f64[3], g(x for x in [1])"])
def test_a_wrong_argument_is_answered_with_the_grammar(user, args):
    failed = autodiff("inspect", f"{user}:product", "--args", args)
    assert failed.exit_code == 2
    assert "Diagonal[3]  Symmetric[f32,4]" in failed.output and "a Python literal" in failed.output


def test_a_method_whose_object_cannot_be_made_says_what_to_do(user):
    failed = autodiff("inspect", f"{user}:Sized.loss", "--args", "f64[3]")
    assert failed.exit_code == 1 and "let the file have an instance, model = Sized(...)" in failed.output


def test_bodies_of_loops_are_printed(user):
    assert "sin(" in run(f"{user}:steps", "--args", "f64[]", "--stage", "optimized")
    assert run(f"{user}:steps", "--args", "f64[]", "--stage", "fused").count("sin") == 1


def test_graphs_of_a_script_name_its_lines_and_take_time(user):
    listed = run(user)
    assert "2 graphs compiled" in listed and " ms  (f64[4]) -> (f64[4])" in listed
    of_jit, recorded = (run(user, "--graph", n, "--stage", "graph") for n in (0, 1))
    assert "sin(x)  # user.py:" in of_jit
    assert recorded.startswith("f(t: f64[70]") and "backward of" in recorded and recorded.count("user.py:") > 4


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize(("stage", "no_color"), [("fused", ""), ("llvm", ""), ("graph", "1")])
def test_a_terminal_gets_colour_unless_it_is_not_wanted(user, stage, no_color):
    import pty

    master, slave = pty.openpty()
    command = [sys.executable, "-m", "autodiff", "inspect", f"{user}:product", "--args", "f64[4,3], data"]
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm-256color"}
    environment |= {"NO_COLOR": no_color} if no_color else {}
    shown = b""
    with subprocess.Popen([*command, "--stage", stage], stdout=slave, env=environment) as program:
        os.close(slave)
        with contextlib.suppress(OSError):  # the end, on Linux
            while said := os.read(master, 1 << 16):  # while it runs: a terminal holds few kilobytes that are not read
                shown += said
    os.close(master)
    assert program.returncode == 0
    assert (b"\x1b[" in shown) is (not no_color)


def test_a_page_is_written_beside_what_else_is_asked_for(user, tmp_path):
    page = tmp_path / "page.html"
    found = autodiff("inspect", f"{user}:loss", *LOSS, "--html", str(page), "--json")
    assert page.is_file() and json.loads(found.stdout)["version"] == 1
    found = autodiff("inspect", f"{user}:loss", *LOSS, "--html", str(page), "--stage", "tape")
    assert "ask " in found.stdout


def test_a_page_has_a_path():
    with pytest.raises(ad.Error, match=r"(?s)path is a file to write, not 3.*test_cli_inspect\.py"):
        ad.inspect(lambda x: x * x, "f64[3]").save_html(3)


def test_the_list_of_graphs_says_how_often_each_ran_and_what_that_took(tmp_path):
    """Also where the script takes a profile of its own."""
    script = tmp_path / "loops.py"
    script.write_text(
        "import numpy as np\nimport autodiff as ad\n"
        "def loss(w):\n    return ad.sum(ad.tanh(w) ** 2)\n"
        "f = ad.jit(ad.value_and_grad(loss))\nfor _ in range(7):\n    f(np.ones(300))\n"
        "ad.jit(ad.cos)(np.ones(9))\n"
        "with ad.profile() as p:\n    f(np.ones(300))\n"
    )
    rows = json.loads(run(script, "--json"))["graphs"]
    assert [(row["name"], row["runs"]) for row in rows] == [("loss", 7), ("cos", 1), ("loss", 1)]
    assert all([0 < row["running"] < 1 for row in rows])
    text = run(script)
    assert re.search(r"loss +loops\.py:7 .* ms, 7 runs in [\d.]+ ms  \(f64\[300\]\)", text)
    assert re.search(r"cos +loops\.py:8 .* ms, 1 run in [\d.]+ ms  \(f64\[9\]\)", text)
    assert not is_watched()
