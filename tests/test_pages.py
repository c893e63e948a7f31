"""README.md and the pages of docs/ do what they say: Python and commands give what is shown, links lead somewhere.

A fenced `python` block is either a session (`>>>`, run as a doctest) or a program, where an expression with a comment
behind it must have that value.  All blocks of a page share their names.  A `console` block is run line by line.  A
program whose first line is `# fit.py` is a file of this name, which a `console` block may run: `$ python fit.py`.
Blocks of `torch` and `jax` are sessions too, which run where these libraries are installed.  So do blocks of an engine,
such as `ray`, which are files; a `text` block that begins with `$` runs them.
"""

import ast
import doctest
import gc
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import autodiff

import autodiff as ad

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\S*).*\n((?:(?!```).*\n)*?)```$", re.MULTILINE)
PEERS = ["torch", "jax"]
#: Label of its blocks -> its module.
ENGINES = {"dask": "distributed", "ray": "ray", "mpi4py": "mpi4py", "torchrun": "torch"}
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(page, *languages):
    """(language, text) of the fenced blocks of a page that are in one of these languages."""
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    return [(language, text) for language, text in found if language in languages]


def name(page):
    return page.relative_to(ROOT).as_posix()


class Checker(doctest.OutputChecker):
    """Pages show places as they are in a file of one's own: `called at train.py:41, in loss`."""

    PLACE = re.compile(r"(?:<doctest [^>]*>|[\w-]+\.(?:py|md)):\d+(?:, in [\w.<>]+)?")

    def check_output(self, want, got, optionflags):
        want, got = (self.PLACE.sub("PLACE", text) for text in (want, got))
        return super().check_output(want, got, optionflags)


def run_session(text, names, page):
    test = doctest.DocTest(doctest.DocTestParser().get_examples(text), names, page.stem, str(page), 0, text)
    test.globs = names  # the page's own, which the next block sees
    report = []
    runner = doctest.DocTestRunner(Checker(), verbose=False, optionflags=OPTIONS)
    runner.run(test, out=report.append, clear_globs=False)
    assert not runner.failures, "".join(report)


def write_files(page, folder, language="python"):
    for _, text in blocks(page, language):
        if found := re.match(r"# ([\w-]+\.py)\n", text):
            (folder / found[1]).write_text(text, encoding="utf-8")


def printed_by(command, folder, environment):
    """The text that a command of a page prints."""
    program, *arguments = shlex.split(command)
    if program == "python":
        run = [sys.executable, str(folder / arguments[0]), *arguments[1:]]
        environment = {**environment, "PYTHONPATH": str(ROOT)}
        result = subprocess.run(run, capture_output=True, text=True, timeout=300, cwd=folder, env=environment)
        return result.returncode, result.stdout + result.stderr
    assert program == "autodiff", command
    result = autodiff(*arguments)
    return result.exit_code, result.output


def run_program(text, names, page):
    lines = text.splitlines()
    for statement in ast.parse(text).body:
        source = ast.unparse(statement)
        _, hash_, comment = lines[statement.end_lineno - 1][statement.end_col_offset :].partition("# ")
        if isinstance(statement, ast.Expr) and hash_:
            assert repr(eval(source, names)) == comment, source
        else:
            exec(compile(ast.Module([statement], []), page.name, "exec"), names)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=name)
def test_the_python_of_a_page_runs_and_gives_what_it_shows(page, monkeypatch, tmp_path, cold, nothing_to_explain):
    monkeypatch.setattr(ad.config, "patience", 8)  # as users have it
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    try:
        with np.printoptions(precision=8):
            for _, text in blocks(page, "python"):
                (run_session if text.startswith(">>> ") else run_program)(text, names, page)
    finally:
        names.clear()
        gc.collect()  # the page's functions go, those with ambiguous methods among them


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "console")], ids=name)
def test_the_commands_of_a_page_print_what_it_shows(page, monkeypatch, tmp_path, sharing):
    monkeypatch.chdir(ROOT)
    write_files(page, tmp_path)
    for _, text in blocks(page, "console"):
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            code, output = printed_by(command, tmp_path, sharing)
            output = re.sub(r"^.*  tests/.*\n", "", output, flags=re.MULTILINE)  # methods of other tests' types
            if shown:
                assert Checker().check_output(shown, output, OPTIONS), f"{command}\n{output}"
            else:
                assert code == 0, output


@pytest.mark.filterwarnings("ignore")  # theirs
@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, *PEERS)], ids=name)
def test_the_code_of_a_peer_on_a_page_runs_and_gives_what_it_shows(page, peer):
    library = pytest.importorskip(peer)
    if peer == "jax":
        library.config.update("jax_enable_x64", False)  # as it starts, whatever other pages set
    names = {"__name__": "page"}
    for _, text in blocks(page, peer):
        run_session(text, names, page)


ON_ENGINES = [(page, engine) for page in PAGES for engine in ENGINES if blocks(page, engine)]


@pytest.mark.slow
@pytest.mark.parametrize("page, engine", ON_ENGINES, ids=[engine for _, engine in ON_ENGINES])
def test_the_programs_of_an_engine_print_what_a_page_shows(page, engine, tmp_path):
    pytest.importorskip(ENGINES[engine], exc_type=ImportError)
    write_files(page, tmp_path, engine)
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    for _, text in blocks(page, "text"):
        if not text.startswith("$ "):
            continue
        command, _, shown = text[2:].partition("\n")
        done = subprocess.run(
            shlex.split(command), capture_output=True, text=True, timeout=300, cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": path},
        )  # fmt: skip
        assert Checker().check_output(shown, done.stdout, OPTIONS), f"{command}\n{done.stdout}\n{done.stderr}"


COMMANDS = [c for _, b in blocks(ROOT / "README.md", "sh") for c in b.splitlines() if c.startswith("autodiff inspect")]


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_readme_works(line, monkeypatch):
    monkeypatch.chdir(ROOT)
    result = autodiff(*shlex.split(line)[1:])
    assert result.exit_code == 0, result.output


def test_the_readme_begins_with_the_two_commands_that_the_makefile_has():
    commands = [line.split("#")[0].split() for line in blocks(ROOT / "README.md", "sh")[0][1].splitlines()]
    assert commands == [["make", "demo"], ["make", "test"]]
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"demo", "test", "docs"} <= set(targets)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_what_a_page_points_to_is_there(page):
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:examples|autodiff|codegen|benchmarks|docs|tests)/[\w/.-]*)`", text)
    assert [p for p in named if not (ROOT / p).exists()] == []
    links = re.findall(r"\]\(([\w./-]+\.md)(?:#[\w-]+)?\)", text)
    assert [p for p in links if not (page.parent / p).exists()] == []


def test_every_block_of_python_is_found_by_these_tests():
    any_form = re.compile(r"^\s*[`~]{3,}\s*\{?(?:python|py|pycon|code-block)", re.MULTILINE)
    for page in PAGES:
        assert len(any_form.findall(page.read_text(encoding="utf-8"))) == len(blocks(page, "python")), name(page)
