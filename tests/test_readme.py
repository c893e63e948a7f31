"""README.md and the pages of docs/ do what they say: their Python runs, with the results shown, the commands work."""

import ast
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from autodiff.cli import app

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


PAGES = sorted((ROOT / "docs").glob("*.md"))


def blocks(language, text=TEXT):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run(block, names):
    """Run a block; an expression with a comment on its line must have that value.  How many there were."""
    shown = 0
    lines = block.splitlines()
    for statement in ast.parse(block).body:
        source = ast.unparse(statement)
        _, hash_, comment = lines[statement.end_lineno - 1][statement.end_col_offset :].partition("# ")
        if isinstance(statement, ast.Expr) and hash_:
            assert repr(eval(source, names)) == comment, source
            shown += 1
        else:
            exec(compile(ast.Module([statement], []), "README.md", "exec"), names)
    return shown


def test_the_python_of_the_readme_runs_and_gives_what_it_shows(capsys):
    names = {"__name__": "readme"}
    with np.printoptions(precision=8):
        shown = sum(run(block, names) for block in blocks("python"))
    assert shown >= 5
    assert "= sin(x0)" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_of_a_page_runs_and_gives_what_it_shows(page):
    names = {"__name__": "page"}
    assert sum(run(block, names) for block in blocks("python", page.read_text(encoding="utf-8"))) >= 5


@pytest.mark.parametrize("line", [c for b in blocks("sh") for c in b.splitlines() if c.startswith("autodiff inspect")])
def test_a_command_of_the_readme_works(line, monkeypatch):
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(app, shlex.split(line)[1:])
    assert result.exit_code == 0, result.output


def test_the_readme_begins_with_the_two_commands_that_the_makefile_has():
    commands = [line.split("#")[0].split() for line in blocks("sh")[0].splitlines()]
    assert commands == [["make", "demo"], ["make", "test"]]
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"demo", "test"} <= set(targets)


def test_what_the_readme_points_to_is_there():
    named = re.findall(r"`((?:examples|autodiff|codegen|benchmarks|docs|tests)/[\w/.-]*)`", TEXT)
    assert named and [p for p in named if not (ROOT / p).exists()] == []
