"""The user's frames: the line that an error names, when the call came from another library."""

import concurrent.futures
import functools
import heapq
import importlib
import json
import sys
import unittest

import numpy as np
import pytest

import autodiff as ad


def wrong(*_args, **_keywords):
    """A function of the user's in which an error is raised, at its only line."""
    return ad.ones(3) @ ad.ones(4)


def scipy(name):
    pytest.importorskip("scipy")
    home, _, attribute = name.partition(".")
    return getattr(importlib.import_module(f"scipy.{home}"), attribute)


def drawn(f, *args):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    return f(pyplot.figure().gca(), *args)


def sklearn_transformed(f, x):
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    return preprocessing.FunctionTransformer(f).fit_transform(x)


def sklearn_fitted(x):
    return pytest.importorskip("sklearn.linear_model").LinearRegression().fit(x, x)


def pandas(x):
    return pytest.importorskip("pandas").Series(x)


MATRIX = np.ones((3, 3))

#: A library calls a function that is handed to it.
HANDED = {
    "minimize": lambda f: scipy("optimize.minimize")(f, np.ones(3)),
    "root": lambda f: scipy("optimize.root")(f, np.ones(3)),
    "least_squares": lambda f: scipy("optimize.least_squares")(f, np.ones(3)),
    "brentq": lambda f: scipy("optimize.brentq")(f, 0.0, 1.0),
    "differential_evolution": lambda f: scipy("optimize.differential_evolution")(f, [(0, 1)]),
    "quad": lambda f: scipy("integrate.quad")(f, 0.0, 1.0),
    "solve_ivp": lambda f: scipy("integrate.solve_ivp")(f, (0.0, 1.0), [1.0]),
    "linear operator": lambda f: scipy("sparse.linalg").LinearOperator((3, 3), matvec=f) @ np.ones(3),
    "vectorize": lambda f: np.vectorize(f)(np.ones(3)),
    "apply_along_axis": lambda f: np.apply_along_axis(f, 0, MATRIX),
    "piecewise": lambda f: np.piecewise(np.ones(3), [np.ones(3) > 0], [f]),
    "fromfunction": lambda f: np.fromfunction(f, (2, 2)),
    "sklearn": lambda f: sklearn_transformed(f, MATRIX),
    "joblib": lambda f: pytest.importorskip("joblib").Parallel(1)([(f, (1.0,), {})]),
    "pandas": lambda f: pandas([1.0, 2.0]).apply(f),
    "json": lambda f: json.dumps(object(), default=f),
    "nlargest": lambda f: heapq.nlargest(1, [1.0, 2.0], f),
    "singledispatch": lambda f: functools.singledispatch(f)(1.0),
    "unittest": lambda f: unittest.TestCase().assertRaises(KeyError, f, 1.0),
    "map": lambda f: list(map(f, [1.0])),
}


def error_of(run, *args):
    with pytest.raises(Exception) as found:
        run(*args)
    error = found.value
    while not isinstance(error, ad.Error):  # a library's own error, about ours
        error = error.__cause__ or error.__context__
        assert error is not None, found.value
    return str(error)


@pytest.mark.parametrize("name", HANDED)
def test_an_error_in_a_function_that_a_library_calls_names_the_users_line(name):
    line = wrong.__code__.co_firstlineno + 2
    assert f"\n  called at test_frames.py:{line}, in wrong" in error_of(HANDED[name], wrong)


@pytest.mark.parametrize("name", HANDED)
def test_an_error_in_our_function_that_a_library_calls_names_the_line_that_called_the_library(name):
    message = error_of(HANDED[name], functools.partial(ad.reshape, shape=(7, 8, 9)))
    assert "\n  called at test_frames.py:" in message, message


TRACKED = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)

#: A library is given a tensor, of which it makes an array.
GIVEN = {
    "minimize": lambda: scipy("optimize.minimize")(lambda x: x.sum(), TRACKED),
    "trapezoid": lambda: scipy("integrate.trapezoid")(TRACKED),
    "interp1d": lambda: scipy("interpolate.interp1d")(TRACKED, np.ones(3)),
    "linalg": lambda: scipy("linalg.norm")(TRACKED),
    "csr_matrix": lambda: scipy("sparse.csr_matrix")(TRACKED),
    "array": lambda: np.array(TRACKED),
    "poly1d": lambda: np.poly1d(TRACKED),
    "genfromtxt": lambda: np.ma.array(TRACKED),
    "sklearn": lambda: sklearn_fitted(TRACKED),
    "almost equal": lambda: unittest.TestCase().assertAlmostEqual(TRACKED, np.ones(4)),
    "nlargest": lambda: heapq.nlargest(1, [TRACKED, ad.ones(4)]),
}


@pytest.mark.parametrize("name", GIVEN)
def test_an_error_of_a_tensor_that_a_library_was_given_names_the_users_line(name):
    assert " at test_frames.py:" in error_of(GIVEN[name])


@pytest.mark.parametrize("draw", [
    lambda axes: axes.plot(ad.jit(lambda x: axes.plot(x) and x)([1.0, 2.0])),
    lambda axes: axes.plot(TRACKED, ad.ones(4) + ad.ones(5)),
    lambda axes: axes.callbacks.process("ylim_changed", ad.ones(4) + ad.ones(5)),
])  # fmt: skip
def test_an_error_while_matplotlib_draws_names_the_users_line(draw):
    assert " at test_frames.py:" in error_of(drawn, draw)


def test_matplotlib_draws_a_tensor_that_tracks():
    (line,) = drawn(lambda axes: axes.plot(TRACKED))
    assert list(line.get_ydata()) == [1.0, 2.0, 3.0]


def test_a_thread_without_a_line_of_the_users_names_none_of_the_standard_library():
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        place = "called at concurrent.futures.thread, outside of your program"
        assert place in error_of(list, pool.map(ad.linalg.cholesky, [np.ones(3)]))


# ---------------------------------------------------------------- packages


CALLS = "def call(f, *args):\n    return f(*args)\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Write a package into a folder on Python's path, and import it."""
    made = []

    def write(folder, name, **files):
        home = tmp_path / folder / name
        home.mkdir(parents=True)
        for file, text in {"__init__": "", **files}.items():
            (home / f"{file}.py").write_text(text)
        monkeypatch.syspath_prepend(str(home.parent))
        made.append(name)
        return importlib.import_module(name)

    yield write
    for name in [m for m in sys.modules if m.partition(".")[0] in made]:
        del sys.modules[name]


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages"])
def test_an_installed_package_that_does_not_import_this_library_is_not_the_users(package, folder):
    called = package(folder, f"foreign_{folder[:4]}", __init__=CALLS)
    message = error_of(called.call, ad.reshape, 1.0, (2, 3))
    assert "called at test_frames.py:" in message and "error_of" in message


@pytest.mark.parametrize("text", [
    "import autodiff as ad\n",
    "from autodiff import linalg\n",
    "def later():\n    import autodiff\n",
])  # fmt: skip
def test_an_installed_package_that_imports_this_library_is_the_users(package, text):
    called = package("site-packages", f"users_{len(text)}", __init__=text + CALLS)
    line = len(text.splitlines()) + 2
    assert f"called at __init__.py:{line}, in call" in error_of(called.call, ad.reshape, 1.0, (2, 3))


def test_all_of_a_package_is_the_users_as_soon_as_one_of_its_modules_imports_this_library(package):
    called = package("site-packages", "users_parts", __init__=CALLS, models="import autodiff\n")
    assert "called at test_frames.py:" in error_of(called.call, ad.reshape, 1.0, (2, 3))
    importlib.import_module("users_parts.models")
    assert "called at __init__.py:2, in call" in error_of(called.call, ad.reshape, 1.0, (2, 3))


def test_a_file_of_the_users_may_have_the_name_of_a_module_of_pythons(package, monkeypatch):
    monkeypatch.delitem(sys.modules, "tabnanny", raising=False)
    called = package("work", "tabnanny", __init__=CALLS)
    assert "called at __init__.py:2, in call" in error_of(called.call, ad.reshape, 1.0, (2, 3))


def test_a_warning_names_the_users_line_below_another_package(package):
    called = package("site-packages", "foreign_warned", __init__=CALLS)
    with pytest.warns(ad.LostGradientWarning) as found:
        ad.grad(lambda x: x * called.call(float, x))(3.0)
    assert found[0].filename == __file__
