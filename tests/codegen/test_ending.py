"""A process that ends writes the files that were left open."""

import subprocess
import sys

import pytest

FIRST = "import autodiff as ad\nassert ad.grad(lambda x: ad.sum(x * x))(3.0) == 6.0\n"


def output_of(program: str) -> str:
    run = subprocess.run(
        [sys.executable, "-W", "ignore::ResourceWarning", "-c", program], check=True, capture_output=True, text=True
    )
    assert run.stderr == ""
    return run.stdout


@pytest.mark.parametrize(
    "program, said",
    [
        ("class A:\n    def __del__(self): print('gone')\na = A()\na.f = lambda: a\n", "gone\n"),
        ("def f():\n    try: yield\n    finally: print('gone')\na = f()\nnext(a)\ndef g(): return a\n", "gone\n"),
    ],
    ids=["__del__", "a suspended generator"],
)
def test_what_acts_when_it_goes_does(program, said):
    assert output_of(FIRST + program) == said


def test_a_file_that_was_left_open_is_written(tmp_path):
    file = tmp_path / "lines"
    output_of(f"{FIRST}file = open({str(file)!r}, 'w')\nfile.write('all of it')\ndef f(): return file\n")
    assert file.read_text() == "all of it"
