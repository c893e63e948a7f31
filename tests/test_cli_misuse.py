"""The command line, misused: one message on stderr, exit code 2 for what makes no sense and 1 for what fails."""

import os
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from command_line import autodiff

ROOT = Path(__file__).parent.parent

FILES = {
    "good.py": """
import autodiff as ad

@ad.function
def twice(x): ...

@twice.forward(ad.Tensor)
def _(ctx, x):
    return x * 2.0

def loss(w, x):
    return ad.sum(ad.tanh(x @ w))

def vector(x):
    return x * 2.0

class Model:
    def loss(self, w):
        return ad.sum(w * w)

NUMBER = 3

if __name__ == "__main__":
    ad.jit(ad.grad(loss))(ad.ones((3, 2)).numpy(), ad.ones((4, 3)).numpy())
""",
    "functions.py": """
import sys
import autodiff as ad

def raises(x):
    raise KeyError("inside")

def refused(x):
    return ad.ones(3) @ ad.ones(4)

def number(x):
    return 3.0

def text(x):
    return str(x)

def ends(x):
    sys.exit(4)

def asks(x):
    return input()
""",
    "wrong.py": """
import autodiff as ad

@ad.function
def f(x): ...

f.forward(ad.Tensor)(lambda ctx, x: x * 2.0)
f.backward(ad.Tensor)(lambda ctx, g: {"x": g})
""",
    "raises.py": "raise ValueError('broken')\n",
    "exits.py": "import sys\nsys.exit(3)\n",
    "says.py": "import sys\nsys.exit('no data')\n",
    "stops.py": "import sys\nsys.exit()\n",
    "empty.py": "",
    "syntax.py": "def f(:\n",
    "binary.py": "\0",
    "imports.py": "import no_such_module\n",
    "recursion.py": "def f(x):\n    return f(x)\nf(1)\n",
    "notes.txt": "hi there\n",
}

AVALS = ["--args", "f64[3,2], f64[4,3]"]
ONE = ["--args", "f64[3]"]

#: Commands that run a script or take a function of a file.
OF_SCRIPTS = [["inspect"], ["explain"], ["profile"]]
OF_FUNCTIONS = [["inspect"], ["export", "-o", "out"], ["check"]]

#: What is wrong, the exit code, and a part of the message.
WRONG = [
    *[([*c, "nosuch.py"], 1, "there is no file nosuch.py") for c in OF_SCRIPTS],
    *[([*c, "raises.py"], 1, "ValueError: broken\n  at raises.py:1") for c in OF_SCRIPTS],
    *[([*c, "exits.py"], 1, "exits.py ended with exit code 3") for c in OF_SCRIPTS],
    *[([*c, "says.py"], 1, "says.py ended with the message: no data") for c in OF_SCRIPTS],
    *[([*c, "syntax.py"], 1, "SyntaxError") for c in OF_SCRIPTS],
    *[([*c, "binary.py"], 1, "null bytes") for c in OF_SCRIPTS],
    *[([*c, "imports.py"], 1, "No module named 'no_such_module'\n  at imports.py:1") for c in OF_SCRIPTS],
    *[([*c, "recursion.py"], 1, "RecursionError") for c in OF_SCRIPTS],
    *[([*c, "notes.txt"], 1, "notes.txt") for c in OF_SCRIPTS],
    *[([*c, "folder"], 1, "there is no file folder") for c in OF_SCRIPTS],
    *[([*c], 2, "Missing argument") for c in OF_SCRIPTS],
    *[([*c, "good.py", "--nosuch"], 2, "No such option: --nosuch") for c in OF_SCRIPTS],
    *[([*c, "nosuch.py:loss", *ONE], 1, "there is no file nosuch.py") for c in OF_FUNCTIONS],
    *[([*c, "good.py:losss", *ONE], 1, "no function 'losss': there are twice, loss") for c in OF_FUNCTIONS],
    *[([*c, "good.py:NUMBER", *ONE], 1, "no function 'NUMBER'") for c in OF_FUNCTIONS],
    *[([*c, "good.py:Model.nosuch", *ONE], 1, "no function 'Model.nosuch'") for c in OF_FUNCTIONS],
    *[([*c, ":loss", *ONE], 2, "give FILE.py:loss, or the name of a module") for c in OF_FUNCTIONS],
    *[([*c, "good.py:loss", *ONE], 1, "missing a required argument: 'x'\n  write, with commas") for c in OF_FUNCTIONS],
    *[([*c, "good.py:loss", "--args", "f64[3"], 2, "cannot be read") for c in OF_FUNCTIONS],
    *[([*c, "good.py:loss", "--args", "f64[3,2], f64[5,5]"], 1, "called at good.py:12, in loss") for c in OF_FUNCTIONS],
    *[([*c, "good.py:loss", *AVALS, "--argnums", "x"], 2, "--argnums takes numbers") for c in OF_FUNCTIONS],
    *[([*c, "good.py:loss", *AVALS, "--argnums", "7"], 2, "--argnums 7, but the number") for c in OF_FUNCTIONS],
    *[([*c, "raises.py:f", *ONE], 1, "ValueError: broken\n  at raises.py:1") for c in OF_FUNCTIONS],
    *[([*c, "exits.py:f", *ONE], 1, "exits.py ended with exit code 3") for c in OF_FUNCTIONS],
    *[([*c, "stops.py:f", *ONE], 1, "stops.py has no function 'f': there are none") for c in OF_FUNCTIONS],
    *[([*c, "empty.py:f", *ONE], 1, "empty.py has no function 'f': there are none") for c in OF_FUNCTIONS],
    *[([*c, "functions.py:raises", *ONE], 1, "KeyError: 'inside'\n  at functions.py:6") for c in OF_FUNCTIONS],
    *[([*c, "functions.py:refused", *ONE], 1, "called at functions.py:9, in refused") for c in OF_FUNCTIONS],
    *[([*c, "functions.py:text", *ONE], 1, "text") for c in OF_FUNCTIONS],
    *[([*c, "functions.py:ends", *ONE], 1, "functions.py ended with exit code 4") for c in OF_FUNCTIONS],
    *[([*c, "functions.py:asks", *ONE], 1, "functions.py") for c in OF_FUNCTIONS],
    (["inspect", "good.py:loss", *AVALS, "--stage", "nosuch"], 2, "no stage 'nosuch': there are tape"),
    (["inspect", "good.py:loss", *AVALS, "--diff", "nosuch", "fused"], 2, "no stage 'nosuch'"),
    (["inspect", "good.py:loss", *AVALS, "--pass", "up"], 2, "--pass is forward or backward, not 'up'"),
    (["inspect", "good.py:loss", *AVALS, "--kernel", "99"], 1, "there is no kernel 99"),
    (["inspect", "good.py:loss", *AVALS, "--output", "folder"], 1, "cannot write folder: Is a directory"),
    (["inspect", "good.py:loss", *AVALS, "--html", "no/x.html"], 1, "cannot write no/x.html"),
    (["inspect", "good.py:loss", *AVALS, "--time"], 2, "--time is for --html"),
    (["inspect", "good.py", "--graph", "5"], 1, "there is no --graph 5"),
    (["inspect", "good.py:loss", *AVALS, "--graph", "0"], 2, "--graph is for FILE.py alone"),
    (["inspect", "good.py:loss", *AVALS, "--kernel", "-1"], 2, "--kernel"),
    (["inspect", "good.py", "--graph", "-1"], 2, "--graph"),
    (["inspect", "good.py", *AVALS], 2, "are for FILE.py:FUNCTION, which is traced; good.py is run"),
    (["inspect", "good.py", "--pass", "backward"], 2, "are for FILE.py:FUNCTION"),
    (["inspect", "good.py", "loss"], 2, "unexpected extra argument"),
    (["inspect", "functions.py:number", *ONE], 1, "number returned float"),
    (["profile", "good.py", "--trace", "no/x.json"], 2, "there is no folder no"),
    (["profile", "good.py", "--top", "0"], 2, "--top"),
    (["export", "good.py:loss", *AVALS, "-o", "notes.txt"], 1, "notes.txt is a file"),
    (["export", "good.py:loss", *AVALS, "-o", "notes.txt/out"], 1, "cannot write notes.txt/out: Not a directory"),
    (["export", "good.py:loss", *AVALS], 2, "name a folder to write to: -o FOLDER"),
    (["export", "good.py", "-o", "out"], 2, "give FILE.py:FUNCTION"),
    (["export", "good.py:loss", *AVALS, "-o", "out", "--name", "a b"], 1, "'a b' cannot be the name"),
    (["export", "good.py:loss", *AVALS, "-o", "out", "--no-gradient", "--argnums", "9"], 2, "--argnums 9"),
    (["export", "good.py:vector", *ONE, "-o", "out"], 1, "vector must return a float scalar"),
    (["check", "good.py"], 2, "give FILE.py:FUNCTION"),
    (["check", "good.py:loss", *AVALS, "--order", "x"], 2, "--order"),
    (["check", "good.py:loss", *AVALS, "--order", "0"], 2, "--order"),
    (["check", "good.py:loss", *AVALS, "--low", "2"], 2, "--low 2.0 is not below --high"),
    (["check", "good.py:loss", *AVALS, "--high", "inf"], 2, "by a number"),
    (["check", "good.py:loss", *AVALS, "--seed", "-1"], 2, "--seed"),
    (["check", "good.py:vector", "--args", "f64[99999999999]"], 1, "Error: Unable to allocate"),
    (["rules", *ONE], 2, "--args are those of a function"),
    (["check", "good.py:loss", "--args", "i64[3,2], i64[4,3]"], 1, "no argument is a float array"),
    (["check", "functions.py:number", *ONE], 1, "number returned no float array"),
    (["rules", "matmull"], 1, "give a name such as matmul"),
    (["rules", "special.gammalnn"], 1, "special.gammaln"),
    (["rules", "good.py:nosuch"], 1, "no function 'nosuch'"),
    (["rules", "good.py:loss"], 1, "is no generic function: a function with methods and rules is declared by"),
    (["rules", "nosuch.py:twice"], 1, "there is no file nosuch.py"),
    (["rules", "raises.py:twice"], 1, "ValueError: broken"),
    (["cache", "nosuch"], 2, "unexpected extra argument"),
    (["demo", "--nosuch"], 2, "No such option"),
    (["doctor", "nosuch"], 2, "unexpected extra argument"),
    (["bench", "--nosuch"], 2, "No such option"),
    (["nosuch"], 2, "No such command 'nosuch'"),
    (["--nosuch"], 2, "No such option: --nosuch"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The present folder, with the files."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _is_quick(arguments):
    """True for a case that was wrong once; the others wait for --slow."""
    told = " ".join(arguments)
    once = r"says|:loss --args f64\[3\]$|inspect .*--argnums|notes.txt/|--no-gradient|^\S+$|losss"
    return re.search(rf"{once}|-1$|inf$|999|py --args|rules --args", told)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        pytest.param(*case, id=" ".join(case[0]), marks=[] if _is_quick(case[0]) else [pytest.mark.slow])
        for case in WRONG
    ],
)
def test_a_misuse_is_one_message_and_an_exit_code(folder, arguments, code, message):
    result = autodiff(*arguments)
    assert result.exit_code == code, result.output
    assert message in result.stderr and result.stdout == ""
    assert "Traceback" not in result.stderr and "an unknown place" not in result.stderr


def test_a_wrong_rule_is_called_at_no_line_of_the_command_line(folder):
    result = autodiff("check", "wrong.py:f", *ONE)
    assert result.exit_code == 1 and result.stderr.endswith("the rule: the backward of f at wrong.py:8\n")


def test_of_a_function_neither_a_graph_nor_rules_are_shown_in_silence(folder):
    for arguments, message in (
        (["inspect", "good.py:loss", *AVALS, "--graph", "0"], "--graph is for FILE.py alone"),
        (["rules", "good.py:loss"], "is declared by @ad.function"),
    ):
        result = autodiff(*arguments)
        assert result.exit_code and message in result.stderr


# ---------------------------------------------------------------- streams, faults, variables


def in_shell(command, **variables):
    """A command in a shell of its own, in which `AD` is the console command."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    text = command.replace("AD", f"'{sys.executable}' -m autodiff")
    return subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=False, env=environment)


needs_shell = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a system with /dev/full")


def test_a_folder_in_place_of_a_switch_is_warned_of(tmp_path):
    done = in_shell("AD cache", AUTODIFF_CACHE=str(tmp_path), AUTODIFF_CACHE_DIR=str(tmp_path))
    assert "AUTODIFF_CACHE_DIR names the folder" in done.stderr and done.returncode == 0
    assert in_shell("AD cache", AUTODIFF_CACHE="1", AUTODIFF_CACHE_DIR=str(tmp_path)).stderr == ""


@needs_shell
@pytest.mark.parametrize("arguments", ["--version", "rules matmul", "cache --json"])
def test_a_full_disk_is_one_message(arguments):
    done = in_shell(f"AD {arguments} > /dev/full")
    assert (done.returncode, done.stderr) == (1, "Error: cannot write to standard output: No space left on device\n")


@needs_shell
@pytest.mark.parametrize("rest", [">&-", "| true", "<&-"])
def test_streams_may_be_closed(rest):
    done = in_shell(f"AD rules matmul {rest}")
    assert done.stderr == ("Error: standard output is closed\n" if rest == ">&-" else "")
    assert done.returncode == (1 if rest == ">&-" else 0)


FAULT = """
import sys
from autodiff import cli
from autodiff.cli import rules
sys.argv = ["autodiff", "cache"]
cli.running.disk.default = lambda: {}["a fault"]
cli.main()
"""


@pytest.mark.parametrize("variable", ["0", "1"])
def test_a_fault_of_a_command_is_one_message_with_a_way_to_see_more(variable):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "AUTODIFF_FULL_TRACEBACKS": variable}
    done = subprocess.run(
        [sys.executable, "-c", FAULT], capture_output=True, text=True, check=False, env=environment
    )  # fmt: skip
    assert done.returncode == 1 and done.stdout == ""
    if variable == "0":
        assert done.stderr.splitlines()[0] == "KeyError: 'a fault'"
        assert "AUTODIFF_FULL_TRACEBACKS=1" in done.stderr and "Traceback" not in done.stderr
    else:
        assert "Traceback" in done.stderr


def test_a_command_names_a_variable_that_is_no_number(tmp_path):
    (tmp_path / "empty.py").write_text("")
    done = in_shell(f"AD inspect {tmp_path}/empty.py", AUTODIFF_PATIENCE="x")
    assert done.stderr.splitlines()[-1] == "Error: AUTODIFF_PATIENCE should be a number from 0 to 64, got 'x'"
    assert done.returncode == 1


@pytest.mark.parametrize("given", ["x", "99", "-1"])
def test_a_variable_that_is_no_number_is_named_when_it_is_looked_at(given):
    program = "import autodiff as ad\ntry: ad.config.patience\nexcept ValueError as error: print(error)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "AUTODIFF_PATIENCE": given}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment
    )  # fmt: skip
    assert done.stdout == f"AUTODIFF_PATIENCE should be a number from 0 to 64, got {given!r}\n", done.stderr


def test_an_empty_variable_is_as_none():
    with patch.dict(os.environ, {"AUTODIFF_PATIENCE": "", "PYTHONPATH": str(ROOT)}):
        told = subprocess.check_output([sys.executable, "-c", "import autodiff as ad; print(ad.config.patience)"])
    assert told.strip() == b"8"
