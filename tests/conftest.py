"""Things that tests share: goldens, a seeded generator, the tiers."""

import gc
import importlib.util
import os
import re
import shutil
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from codegen.lazily import later

# Random programs are the same ones in every run, however long a busy machine takes for one: a test that fails fails for
# what was changed.  Those that look for new ones say so (`derandomize=False`) and are marked slow.
settings.register_profile("same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("same")

# Tests find what they compile, not what the user's cache holds, in this process and in those that they start.
os.environ["AUTODIFF_CACHE"] = "0"
# They use most graphs once, and mean native code; those of eager mode switch it on themselves.
os.environ["AUTODIFF_PATIENCE"] = "0"
os.environ["AUTODIFF_EAGER"] = "0"
os.environ["AUTODIFF_FAST_MATH"] = os.environ["AUTODIFF_DETERMINISTIC"] = "0"
os.environ["AUTODIFF_FLUSH_SUBNORMALS"] = os.environ["AUTODIFF_FULL_TRACEBACKS"] = "0"

if os.environ.get("AUTODIFF_NATIVE_CHECKS") == "1":
    from exact_keys import compare

    compare()

GOLDENS = Path(__file__).parent / "golden"

# A peer that is not installed: what imports it is not looked through for examples.
collect_ignore = [] if importlib.util.find_spec("torch") else ["differential/torch_names.py"]


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


def pytest_collection_modifyitems(config, items):
    """Leave slow tests out unless they are asked for, by --slow or by -m."""
    if config.getoption("--slow") or "slow" in config.getoption("-m"):
        return
    slow = {item for item in items if item.get_closest_marker("slow")}
    config.hook.pytest_deselected(items=[*slow])
    items[:] = [item for item in items if item not in slow]


def pytest_ignore_collect(collection_path, config):
    """Files without a test of the smoke tier are not imported if it alone is asked for: that would take longer."""
    if config.getoption("-m") == "smoke" and collection_path.suffix == ".py":
        return "pytest.mark.smoke" not in collection_path.read_text(encoding="utf-8") or None
    return None


@pytest.hookimpl(hookwrapper=True)
def pytest_collection():
    """Collected tests stay to the end: the collector of cycles need not go through it again and again."""
    gc.disable()
    yield
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture
def thawed():
    """Nothing is frozen meanwhile, as in a program."""
    gc.unfreeze()
    yield
    gc.collect()
    gc.freeze()


_files = []  # that of the test before
_own_compiler = []  # the marks `llvm` of this test


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """A test finds the process as if it were alone.

    Recording is native from the start: made beside the tests, it would be put in front amid one of them.

    Collections go through what the tests of this file make, not through what earlier ones left in the tables: millions
    of objects after some thousand tests, 0.6 s for each of hundreds of full collections.

    Small results that another test left pending, and something still holds, are not computed along here.
    """
    from autodiff.ops import recorder
    from autodiff.tape.record import state

    if not _files:
        recorder.install()
    if _files != [item.path]:
        _files[:] = [item.path]
        gc.collect()
        gc.freeze()
    state.now.small.clear()
    _own_compiler[:] = item.iter_markers("llvm")


@pytest.fixture
def monkeypatch(monkeypatch):
    """Changes of modules that are seen through stand-ins for them, too, meanwhile and no longer.

    A stand-in (`codegen.lazily.later`) keeps the value of each name that it was asked for: of before the test, and then
    that of the test.
    """
    _forget_names()
    yield monkeypatch
    monkeypatch.undo()
    _forget_names()


_stand_ins = {}  # for modules, by the modules that there are


def _forget_names():
    """Have all stand-ins for modules look their names up anew."""
    modules = dict(sys.modules)
    key = tuple(map(id, modules.values()))
    if key not in _stand_ins:
        kind = type(later("codegen.lazily"))
        ours = [m for name, m in modules.items() if name.partition(".")[0] in ("autodiff", "codegen")]
        _stand_ins.clear()
        _stand_ins[key] = [x for m in ours for x in vars(m).values() if type(x) is kind]
    for found in _stand_ins[key]:
        home = vars(found)["_module"]
        vars(found).clear()
        vars(found)["_module"] = home


@pytest.fixture
def modes_as_before():
    """Whatever a test sets, the next one finds the modes as they were."""
    import autodiff as ad

    was = ad.config.fast_math, ad.config.deterministic
    yield
    ad.config.fast_math, ad.config.deterministic = was


@pytest.fixture
def fast(modes_as_before):
    """Fast math, for this test."""
    import autodiff as ad

    ad.config.fast_math = True


@pytest.fixture
def cold():
    """The test begins with empty caches."""
    import autodiff as ad

    ad.clear_cache()


@pytest.fixture
def nothing_to_explain():
    """`ad.explain()` says nothing of what was done before the test, nor before a call of this."""
    from autodiff.tape import misses

    misses.forget()
    return misses.forget


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """A folder of this run of the tests, the same for all workers."""
    root = tmp_path_factory.getbasetemp()
    return root.parent if "PYTEST_XDIST_WORKER" in os.environ else root


#: The folder of objects, in that of this run of the tests.
OBJECTS = "objects_by_text"


def pytest_sessionfinish(session):
    """Tens of thousands of objects are of no use to another run."""
    if not hasattr(session.config, "workerinput"):
        shutil.rmtree(session.config._tmp_path_factory.getbasetemp() / OBJECTS, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def compiled_once(shared_folder):
    """LLVM compiles each text once in a run, on any worker: another test that comes to it links the same object.

    Not where a test has a disk cache of its own, looks at LLVM, or is marked `llvm`.
    """
    from codegen.runtime import engine, objects

    folder = shared_folder / OBJECTS
    folder.mkdir(exist_ok=True)
    made, usual = objects.new_code, (engine.object_of, engine._object_of, engine._compiler)

    def made_once(keys, text, disk, imports, own=()):
        if disk or _own_compiler or usual != (engine.object_of, engine._object_of, engine._compiler):
            return made(keys, text, disk, imports, own)
        file = folder / objects.key_of(text)
        try:
            code = file.read_bytes()
        except FileNotFoundError:
            code, _ = engine.object_of(text)
            beside = file.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
            beside.write_bytes(code)
            beside.replace(file)
        linked = objects.linked(text, code, engine.exported_names(text), imports)
        objects.share(linked, own)
        return linked

    objects.new_code = made_once
    yield
    objects.new_code = made


@pytest.fixture(scope="session")
def sharing(shared_folder):
    """The environment of a program that takes what other programs of this run compiled, on any worker.

    What records and calls in machine code takes a second to compile: for programs that are not about compiling.
    """
    return {**os.environ, "AUTODIFF_CACHE": "1", "AUTODIFF_CACHE_DIR": str(shared_folder / "machine_code")}


@pytest.fixture
def rng():
    """The same stream of random numbers for every test."""
    return np.random.default_rng(0)


@pytest.fixture
def golden(request):
    """`golden(text)` compares with tests/golden/<test file>/<test name>.txt.

    A second call in one test compares with <test name>.2.txt, and so on.  Run pytest with
    --update-golden to write the files; read them before they are accepted.
    """
    name = re.sub(r"[^\w.-]+", "_", request.node.name).strip("_")
    folder = GOLDENS / request.path.stem
    update = request.config.getoption("--update-golden")
    calls = 0

    def compare(text) -> None:
        nonlocal calls
        calls += 1
        file = folder / (f"{name}.txt" if calls == 1 else f"{name}.{calls}.txt")
        text = str(text).rstrip("\n") + "\n"
        if update:
            folder.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            return
        if not file.exists():
            pytest.fail(f"no golden {file.relative_to(GOLDENS.parent)}: run pytest with --update-golden, then read it")
        assert text == file.read_text(encoding="utf-8"), f"differs from {file.relative_to(GOLDENS.parent)}"

    return compare
