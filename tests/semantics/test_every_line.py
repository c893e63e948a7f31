"""README.md in this folder says which tests hold which line of SEMANTICS: each is there, and each line has one."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent
TEXT = (HERE / "README.md").read_text(encoding="utf-8")


def lines():
    """(section, quotation, the tests that hold it), in order."""
    found = []
    section = ""
    for line in TEXT.splitlines():
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("- "):
            found.append((section, line[2:], []))
        elif line.startswith("  - "):
            found[-1][2].append(line[4:])
    return found


LINES = lines()
SECTIONS = list(dict.fromkeys(section for section, _, _ in LINES))


@cache
def names_in(path):
    return {n.name for n in ast.parse((ROOT / path).read_text(encoding="utf-8")).body if isinstance(n, ast.FunctionDef)}


@pytest.mark.parametrize("section", SECTIONS)
def test_each_line_is_held_by_tests_that_are_there(section):
    for _, line, tests in (found for found in LINES if found[0] == section):
        assert tests, f"no test holds: {line}"
        for test in tests:
            path, _, name = test.partition("::")
            assert (ROOT / path).is_file() and name in names_in(path), f"{test} is not there; it held: {line}"


def test_every_section_has_its_lines_and_every_quotation_stands_once():
    numbers = [int(n) for n in re.findall(r"^## (\d)\. ", TEXT, re.MULTILINE)]
    assert numbers == list(range(1, 10))
    quoted = [(section, line) for section, line, _ in LINES]
    assert len(set(quoted)) == len(quoted) > 200
