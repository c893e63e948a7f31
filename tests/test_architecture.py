"""The links of the pages for contributors lead to files that define what they name."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ("ARCHITECTURE.md", "GLOSSARY.md", "CONTRIBUTING.md")
LINK = re.compile(r"\[(`?)([^\]`]+)\1\]\(([^)]+)\)")


def defined(file):
    """The names that a Python file defines at its top."""
    names = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(name.id for t in targets for name in ast.walk(t) if isinstance(name, ast.Name))
    return names


@pytest.mark.smoke
@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_what_it_names(page):
    found = LINK.findall((ROOT / page).read_text(encoding="utf-8"))
    lost = [
        (name, path)
        for code, name, path in found
        if not (ROOT / path).exists() or (code and path.endswith(".py") and name not in defined(ROOT / path))
    ]
    assert found or page == "GLOSSARY.md"
    assert lost == []


def test_each_road_has_ten_stops():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for road in ("loss.backward()", "jit(f)(x)", "A new operation"):
        section = text.split(f"## {road}\n")[1].split("\n## ")[0]
        assert [int(n) for n in re.findall(r"^(\d+)\. ", section, re.MULTILINE)] == list(range(1, 11)), road
