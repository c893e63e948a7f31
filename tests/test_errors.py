"""Errors: their family, and the user's line."""

import gc
import inspect
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import numpy as np
import pytest

import autodiff as ad
from autodiff import errors
from autodiff.errors import caller
from autodiff.frames import UserLine, nearest_line, user_line


def internal(function):
    """`function` as if it stood in a module of ours."""
    space = {"__name__": "autodiff.somewhere", "function": function}
    exec("def call(*args): return function(*args)", space)
    return space["call"]


@pytest.mark.parametrize(
    ("kind", "also"),
    [
        (errors.ShapeError, ValueError),
        (errors.DTypeError, TypeError),
        (errors.GradientError, RuntimeError),
        (errors.ConcretizationError, TypeError),
        (errors.DispatchError, TypeError),
        (errors.AmbiguityError, errors.DispatchError),
    ],
)
def test_every_error_is_ours_and_the_python_error_that_people_expect(kind, also):
    assert issubclass(kind, errors.Error)
    assert issubclass(kind, also)
    assert kind.__doc__


@pytest.mark.smoke
def test_caller_names_the_short_file_the_line_and_the_function():
    def loss():
        return caller()

    line = loss.__code__.co_firstlineno + 1
    assert loss() == f"test_errors.py:{line}, in loss"


def test_caller_skips_our_own_frames():
    def loss():
        return internal(internal(caller))()

    assert loss().endswith(f":{loss.__code__.co_firstlineno + 1}, in loss")


def test_caller_names_a_method_with_its_class():
    class Net:
        def forward(self):
            return caller()

    assert Net().forward().endswith("in Net.forward")


def test_a_module_level_line_has_no_function():
    space = {"__name__": "__main__", "caller": caller}
    exec(compile("\n\nplace = caller()", "/somewhere/train.py", "exec"), space)
    assert space["place"] == "train.py:3"


def test_a_package_whose_name_only_begins_like_ours_is_the_users():
    space = {"__name__": "autodiff_tools.core", "caller": caller}
    exec(compile("def f(): return caller()", "tools.py", "exec"), space)
    assert space["f"]() == "tools.py:1, in f"


def calling(module, file, f=caller):
    """A function that calls f from that module in that file."""
    space = {"__name__": module, "f": f}
    exec(compile("def call(): return f()", file, "exec"), space)
    return space["call"]


@pytest.mark.parametrize("program", [
    "joblib/externals/loky/backend/popen_loky_posix.py", "ray/_private/workers/default_worker.py",
    "mpi4py/futures/__main__.py",
])  # fmt: skip
def test_the_program_of_a_worker_is_not_the_users(program, monkeypatch):
    package, home = ModuleType(program.partition("/")[0]), "/env/lib/site-packages"
    package.__file__ = f"{home}/{package.__name__}/__init__.py"
    monkeypatch.setitem(sys.modules, package.__name__, package)
    assert calling("__main__", f"{home}/{program}")().startswith("test_errors.py:")


@pytest.mark.parametrize(("imported", "place"), [("json", "test_errors.py:"), ("autodiff", "program.py:1, in call")])
def test_an_installed_program_is_the_users_if_it_imports_this_library(imported, place, tmp_path):
    file = tmp_path / "site-packages" / "numpy" / "program.py"
    file.parent.mkdir(parents=True)
    file.write_text(f"import {imported}\n")
    assert calling("__main__", str(file))().startswith(place)


def test_below_the_start_of_a_worker_process_there_is_no_line_of_the_users():
    """A process that was forked has the lines of its parent on the stack."""
    start = "multiprocessing.process", "/lib/python3/multiprocessing/process.py"
    assert calling(*start, lambda: caller())().startswith("test_errors.py:"), "a target of the user's has a line"
    decoding = calling("json.decoder", "/lib/python3/json/decoder.py")
    assert calling(*start, decoding)() == "json.decoder, outside of your program"
    assert calling(*start)() == "an unknown place"


def test_a_thread_that_runs_nothing_of_the_users_has_no_line():
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(caller).result() == "concurrent.futures.thread, outside of your program"
        assert pool.submit(nearest_line, 0).result() is None


def test_a_user_line_is_where_it_was_taken_even_in_a_loop_of_several_lines():
    lines = []
    for _ in range(2):
        lines.append(user_line())
        lines.append(user_line())
    first, second, third, _fourth = lines
    assert second.line == first.line + 1
    assert third == first
    assert first.file == __file__


def test_a_user_line_keeps_no_local_alive():
    class Big:
        pass

    def work():
        big = Big()
        return user_line(), weakref.ref(big)

    gc.disable()
    try:
        line, big = work()
        assert big() is None
    finally:
        gc.enable()
    assert isinstance(line, UserLine)


#: What arguments are where no array will do.
GIVEN = {"key": ad.random.key(0), "arrays": [np.ones(3)] * 2, "shift": 1, "indices_or_sections": 1}
#: Functions that take axes, under the names that they call themselves.
OF_AXES = {
    f"{space.__name__}.{name}".removeprefix("autodiff.ops.").removeprefix("autodiff.").removeprefix("linalg."): f
    for space in (ad, ad.linalg, ad.fft, ad.random)
    for name in space.__all__
    if callable(f := getattr(space, name)) and not isinstance(f, type) and f.__name__ == name
    if {"axis", "axes"} & set(inspect.signature(f).parameters) and not (space is ad.linalg and name in ad.__all__)
}


@pytest.mark.parametrize("name", OF_AXES)
def test_an_axis_that_is_not_there_is_refused_by_the_function_that_was_called(name):
    parameters = inspect.signature(OF_AXES[name]).parameters
    which = "axis" if "axis" in parameters else "axes"
    needed = [p.name for p in parameters.values() if p.default is p.empty and p.name != which]
    with pytest.raises(errors.ShapeError) as refused:
        OF_AXES[name](*[GIVEN.get(p, np.ones(3)) for p in needed], **{which: 7 if which == "axis" else (7,)})
    assert str(refused.value).startswith(f"{name}: ")
