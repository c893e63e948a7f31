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
    files = {
        "autodiff/__init__.py": "",
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


def test_the_committed_figures_have_every_measure():
    committed = json.loads(FILE.with_suffix(".json").read_text(encoding="utf-8"))
    assert set(committed) == set(re.findall(r'^            "([^"]+)":', FILE.read_text(encoding="utf-8"), re.MULTILINE))
