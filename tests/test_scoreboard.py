"""tools/scoreboard.py: each measure sees what it is for, and a figure that got worse fails."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parent.parent / "tools" / "scoreboard.py"
spec = importlib.util.spec_from_file_location("scoreboard", FILE)
scoreboard = importlib.util.module_from_spec(spec)
spec.loader.exec_module(scoreboard)

PLANTED = '''
"""Whether a module's docstring opens with a clause."""
from functools import cache

IR = """
  %a = add i32 1, 2
  store i32 %a, ptr %p
  ret i32 %a
"""
SHORT = "ret i32 0"

@cache
def walk(roots):
    """Every node."""
    stack = list(roots)
    while stack:
        node = stack.pop()
        stack += node.inputs

class Entry:
    """An entry."""

def run(text):
    exec(text)
'''


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of a few files, with the tool pointed at it."""
    monkeypatch.setattr(scoreboard, "ROOT", tmp_path)
    monkeypatch.setattr(scoreboard, "COMMITTED", tmp_path / "scoreboard.json")
    monkeypatch.setattr(scoreboard, "ROADS", tmp_path / "roads.py")
    files = {
        "autodiff/__init__.py": "",
        "roads.py": "import json, pathlib\nfile = pathlib.Path(__file__).with_name('roads.txt')\n"
        "n = int(file.read_text()) if file.exists() else 3\nfile.write_text(str(n - 1))\n"
        "print(json.dumps({'roads': n}))\n",
        "autodiff/tape/planted.py": PLANTED.lstrip(),
        "autodiff/one.py": "from . import two\nclass _Entry: ...\n",
        "autodiff/two.py": "def late():\n    from .one import Entry\n",
        "codegen/emit/ir.py": "IR = '''\n  ret i32 1\n  ret i32 2\n  ret i32 3\n'''\n",
        "codegen/three.py": "import math\nmath.log1p(1.0)\n",
        "tests/test_a.py": "import autodiff as ad\ndef test_one(): ...\n",
        "tests/test_b.py": "from autodiff.one import Entry\ndef test_two(): ...\ndef test_three(): ...\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["scoreboard.py", *arguments])
    return scoreboard.main()


def test_each_measure_counts_what_was_planted(project):
    found = scoreboard.Board().figures()
    assert found["files"] == 6
    assert found["lines of LLVM text outside emit and native"] == 3
    assert found["lines of the spine"] == PLANTED.lstrip().count("\n")
    assert found["bounded tables and caches"] == 1
    assert found["modules with exec"] == 1
    assert found["graph walks written by hand"] == 1
    assert found["import cycles, put off ones included"] == 1
    assert found["files that name log1p"] == 1
    assert found["class names used twice"] == 1
    assert found["docstrings that open with a clause"] == 1
    assert found["tests in files that import internals, of 1,000"] == 667


def test_a_figure_that_got_worse_fails_and_one_that_got_better_does_not(project, monkeypatch, capsys):
    assert run(monkeypatch, "--check") == 0  # nothing was committed yet
    assert run(monkeypatch, "--write") == 0
    assert run(monkeypatch, "--check") == 0
    (project / "codegen" / "four.py").write_text("from math import log1p\n", encoding="utf-8")
    capsys.readouterr()
    assert run(monkeypatch, "--check") == 1
    assert "worse: 1 before" in capsys.readouterr().out
    (project / "codegen" / "four.py").unlink()
    (project / "codegen" / "three.py").write_text("", encoding="utf-8")
    assert run(monkeypatch, "--check") == 0
    assert "better: 1 before" in capsys.readouterr().out


def test_a_road_more_is_looked_at_again(project):
    assert scoreboard.of_calls({}) == {"roads": 3}
    (project / "roads.txt").write_text("5")
    assert scoreboard.of_calls({"roads": 4}) == {"roads": 4} and (project / "roads.txt").read_text() == "3"
    (project / "roads.txt").write_text("9")
    assert scoreboard.of_calls({"roads": 4}) == {"roads": 7}  # thrice, and it stays worse


def test_a_road_is_a_set_of_functions(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("AUTODIFF_CACHE", "0")
    spec = importlib.util.spec_from_file_location("roads", FILE.with_name("roads.py"))
    roads = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(roads)
    monkeypatch.setattr(roads, "OURS", (__file__,))
    monkeypatch.setattr(roads, "REST_S", 0.0)
    turn = iter(range(1000))

    def inner():
        return next(turn)

    def outer():
        return inner() if next(turn) % 3 else None

    met = roads.Entered(outer)
    assert {name.rpartition(".")[2] for _, name in met.functions} <= {"outer", "inner"} and met.deepest <= 2
    assert len(met.files) == 1 and met.changes == 1
    assert roads.roads(outer) == 2 and roads.roads(inner) == 1
    assert len(roads.Entered(outer, until="outer").functions) == 1


def test_the_committed_figures_have_every_measure():
    committed = json.loads(FILE.with_suffix(".json").read_text(encoding="utf-8"))
    own, of_calls = [re.findall(r'^ {8,12}"([^"]+)":', f.read_text(encoding="utf-8"), re.MULTILINE)
                     for f in (FILE, FILE.with_name("roads.py"))]  # fmt: skip
    assert set(committed) == {*own, *of_calls}
