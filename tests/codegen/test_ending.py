"""At the end of a process its objects are left to the system where nobody can tell, and only there."""

import io
import subprocess
import sys
from types import ModuleType

import pytest

from codegen.ending import acts, makes_more_than_memory

#: Python 3.12 itself freezes some objects when it starts.
PRINT = """
import atexit, gc
first = gc.get_freeze_count()
atexit.register(lambda: print('left:', gc.get_freeze_count() > first, flush=True))
"""
FIRST = "import autodiff as ad\nassert ad.grad(lambda x: ad.sum(x * x))(3.0) == 6.0\n"


def output_of(program: str) -> str:
    run = subprocess.run(
        [sys.executable, "-W", "ignore::ResourceWarning", "-c", program], check=True, capture_output=True, text=True
    )
    assert run.stderr == ""
    return run.stdout


class Final:
    """Acts when it goes."""

    def __del__(self) -> None:
        """Nothing that a test could miss."""


class Heir(Final):
    """It, too."""


def suspended():
    yield 1


def compiled_module(name, file):
    module = ModuleType(name)
    module.__file__ = file
    return {name: module}


def test_a_process_that_only_computes_leaves_its_objects_to_the_system():
    assert output_of(PRINT + FIRST + "print('done')") == "done\nleft: True\n"


@pytest.mark.parametrize(
    "program, said",
    [
        ("class A:\n    def __del__(self): print('gone')\na = A()\na.f = lambda: a\n", "gone\n"),
        ("def f():\n    try: yield\n    finally: print('gone')\na = f()\nnext(a)\ndef g(): return a\n", "gone\n"),
        ("gc.callbacks.append(lambda when, what: None)\n", ""),
        ("import sys\nsys.modules['_gdbm'] = None\n", ""),
    ],
    ids=["__del__", "a suspended generator", "who watches the collector", "a database"],
)
def test_what_acts_when_it_goes_does(program, said):
    assert output_of(PRINT + FIRST + program) == f"left: False\n{said}"


def test_a_file_that_was_left_open_is_written(tmp_path):
    file = tmp_path / "lines"
    output_of(f"{FIRST}file = open({str(file)!r}, 'w')\nfile.write('all of it')\ndef f(): return file\n")
    assert file.read_text() == "all of it"


@pytest.mark.parametrize("thing", [Final(), Heir(), suspended(), io.StringIO()], ids=lambda x: type(x).__name__)
def test_objects_that_act_are_known_by_their_class(thing):
    assert acts([thing]) and acts([1, [], thing, {}])


def test_functions_classes_arrays_and_the_files_of_the_process_do_not_act():
    import numpy as np

    files = [sys.__stdout__, sys.__stderr__]
    assert not acts([suspended, Final, np.ones(3), {}, [Heir], *files, *[f.buffer for f in files]])
    assert acts([*files, *files])


def test_a_class_that_cannot_be_looked_at_is_an_exception_so_that_all_ends_as_ever():
    class Strange(type):
        @property
        def __mro__(cls):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        acts([Strange("Odd", (), {})()])


def test_machine_code_of_others_and_databases_may_make_what_acts():
    suffix = __import__("_imp").extension_suffixes()[0]
    assert not makes_more_than_memory({"math": __import__("math"), "none": None})
    assert not makes_more_than_memory(compiled_module("numpy.linalg.lapack", f"lapack{suffix}"))
    assert not makes_more_than_memory(compiled_module("mine", "mine.py"))
    assert makes_more_than_memory(compiled_module("tables.core", f"core{suffix}"))
    assert makes_more_than_memory(compiled_module("_sqlite3", f"_sqlite3{suffix}"))
