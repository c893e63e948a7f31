"""Programs on disk: the next process runs the same, and makes nothing."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import autodiff.ops.linalg  # noqa: F401  it declares solve, and with it come the others
from codegen import compiler
from codegen.ir import OPS, Aval, Graph, Node, evaluate, input_node, parse
from codegen.lowering import Call
from codegen.runtime import kept, machine
from codegen.runtime.disk import DiskCache
from codegen.runtime.kernels import KernelTable

TEXT = """f(x: f64[30,40], w: f64[40,20], b: f64[20]) {
  h = matmul(x, w)
  b2 = broadcast_to(b, shape=(30, 20))
  s = add(h, b2)
  t = tanh(s)
  y = sum(t, axis=(0, 1))
  c = constant(value=0.5, dtype="f64")
  z = mul(y, c)
  return z, t
}"""
ARRAYS = [np.linspace(-1.0, 1.0, 1200).reshape(30, 40), np.linspace(-0.3, 0.2, 800).reshape(40, 20), np.ones(20)]


@pytest.fixture
def new_process(tmp_path, monkeypatch):
    """Forgets all that is compiled, as a new process does; gives the table of kernels."""

    def forget():
        kernels = KernelTable(256, lambda: DiskCache(tmp_path / "objects"))
        monkeypatch.setattr(compiler, "_kernels", kernels)
        monkeypatch.setattr(compiler, "store", compiler.Store())
        return kernels

    return forget


@pytest.fixture
def planned(monkeypatch):
    """The graphs that are planned."""
    found, make = [], compiler.make_program
    monkeypatch.setattr(compiler, "make_program", lambda graph: found.append(graph) or make(graph))
    return found


def run(text=TEXT, arrays=ARRAYS):
    return compiler.compile_graph(parse(text)).call(*arrays)


def assert_close(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def same(found, wanted):
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_a_program_is_planned_once_and_has_the_same_bits_and_figures_afterwards(new_process, planned):
    new_process()
    first, plan = run(), compiler.compile_graph(parse(TEXT)).plan
    assert_close(first, evaluate(parse(TEXT), *ARRAYS))
    assert len(planned) == 1
    kernels = new_process()
    again = [run() for _ in range(3)]
    assert all(same(first, found) for found in again)
    assert len(planned) == 1 and kernels.compiled_modules == 0 and kernels.disk_objects == 1
    executable = compiler.compile_graph(parse(TEXT))
    for figure in ("offsets", "workspace_bytes", "is_long"):
        assert getattr(executable.plan, figure) == getattr(plan, figure)
    assert [step.slots for step in executable.plan.steps] == [step.slots for step in plan.steps]
    assert repr(executable) == "<Executable f(f64[30,40], f64[40,20], f64[20]) -> (f64[], f64[30,20])>"


def test_large_loops_are_shared_among_threads_as_before(new_process, planned):
    text = "f(x: f64[200000]) {\n  s = sin(x)\n  e = exp(s)\n  y = sum(e, axis=(0,))\n  return y, e\n}"
    x = [np.linspace(-3.0, 3.0, 200_000)]
    new_process()
    first = [run(text, x) for _ in range(2)][-1]
    new_process()
    assert all(same(first, run(text, x)) for _ in range(3)) and len(planned) == 1


PROCESS = """
import sys
import numpy as np, autodiff as ad
from codegen.runtime import llvm
def f(w, b, x): return ad.mean(ad.tanh(x @ w + b) ** 2)
given = [np.linspace(-1, 1, 600).reshape(20, 30), np.ones(30), np.linspace(-2, 2, 1000).reshape(50, 20)]
value, (gradient, *_) = ad.value_and_grad(f, argnums=(0, 1))(*given)
print(value.tobytes().hex(), hash(gradient.tobytes()))
print(sorted(m for m in sys.modules if m.startswith(("codegen.passes", "codegen.emit.llvm", "codegen.families"))))
print(llvm.is_loaded())
"""


def test_another_process_imports_no_passes_and_loads_no_llvm(tmp_path):
    environment = os.environ | {"AUTODIFF_CACHE": "1", "AUTODIFF_CACHE_DIR": str(tmp_path), "PYTHONHASHSEED": "0"}
    said = [
        subprocess.run(
            [sys.executable, "-c", PROCESS], env=environment, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        for _ in range(2)
    ]
    assert said[0][0] == said[1][0]
    assert (said[0][2], said[1][2]) == ("True", str(not machine.identity()))
    assert "codegen.passes" in said[0][1] and said[1][1] == "[]"


def test_what_may_refuse_its_numbers_is_planned_each_time(new_process, planned):
    text = "f(a: f64[4,4], b: f64[4,1]) {\n  x = solve(a, b)\n  y = exp(x)\n  return y\n}"
    for _ in range(2):
        new_process()
        assert_close(run(text, [2 * np.eye(4), np.ones((4, 1))]), [np.full((4, 1), np.exp(0.5))])
        with pytest.raises(np.linalg.LinAlgError):
            run(text, [np.zeros((4, 4)), np.ones((4, 1))])
    assert len(planned) == 2


def flipped(data):
    return data[:-3] + bytes([data[-3] ^ 16]) + data[-2:]


@pytest.mark.parametrize("damage", [lambda d: b"", lambda d: d[:-1], flipped, lambda d: d + b"\0", None])
def test_whatever_file_is_damaged_or_gone_results_are_right_and_it_is_made_again(
    new_process, planned, tmp_path, damage, caplog
):
    new_process()
    first = run()
    files = sorted((tmp_path / "objects").iterdir())
    for file in files:
        whole = file.read_bytes()
        file.unlink()
        if damage:
            file.write_bytes(damage(whole))
            file.chmod(0o600)
        new_process()
        assert same(first, run())
        planned.clear()
        new_process()
        assert same(first, run()) and not planned


def test_a_folder_that_cannot_be_used_changes_nothing(planned, monkeypatch, tmp_path, caplog):
    (tmp_path / "objects").write_text("no folder")
    for _ in range(2):
        monkeypatch.setattr(compiler, "_kernels", KernelTable(256, lambda: DiskCache(tmp_path / "objects")))
        monkeypatch.setattr(compiler, "store", compiler.Store())
        assert_close(run(), evaluate(parse(TEXT), *ARRAYS))
    assert len(planned) == 2


def test_processes_may_write_at_once(new_process, tmp_path, planned):
    new_process()
    first = run()
    cache = DiskCache(tmp_path / "objects")
    key = kept.key_of(parse(TEXT))
    content = cache.load(key).object_bytes
    threads = [threading.Thread(target=lambda: cache.store([key], content, ())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        new_process()
        assert same(first, run())
    for thread in threads:
        thread.join()
    assert len(planned) == 1


def key(text):
    return kept.key_of(parse(text))


def test_a_key_tells_graphs_apart_and_not_their_names():
    renamed = TEXT.replace("h = ", "name = ").replace("add(h,", "add(name,")
    assert key(TEXT) == key(renamed) == key(TEXT.replace("f(", "g(")) is not None
    others = [
        TEXT.replace("tanh", "sin"), TEXT.replace("value=0.5", "value=-0.0"), TEXT.replace("value=0.5", "value=0.0"),
        TEXT.replace("value=0.5", "value=0.25"), TEXT.replace("f64", "f32"), TEXT.replace("return z, t", "return t, z"),
        TEXT.replace("add(h, b2)", "add(b2, h)"), TEXT.replace("30", "31"),
    ]  # fmt: skip
    assert len({key(text) for text in (TEXT, *others)}) == len(others) + 1


@pytest.mark.parametrize("what", ["source", "numpy", "llvm"])
def test_another_version_has_other_keys(monkeypatch, what):
    before = key(TEXT)
    if what == "source":
        monkeypatch.setattr(kept, "package_identity", lambda name: f"another {name}")
    elif what == "numpy":
        monkeypatch.setattr(np, "__version__", "0.1")
    else:
        monkeypatch.setattr(kept.engine, "target_key", lambda: ("another",))
    assert key(TEXT) not in (before, None)


def test_what_says_too_little_of_itself_is_not_kept(monkeypatch):
    graph = parse(TEXT)
    monkeypatch.setattr(kept, "package_identity", lambda name: None)
    assert kept.key_of(graph) is None
    monkeypatch.undo()
    monkeypatch.setitem(OPS, "tanh", OPS["sin"])  # the graph's tanh is not the one of that name
    assert kept.key_of(graph) is None
    monkeypatch.undo()
    monkeypatch.setenv("AUTODIFF_VERIFY", "1")
    assert kept.key_of(graph) is None
    monkeypatch.undo()
    assert kept.key_of(graph) is not None
    called = next(op for op in OPS.values() if isinstance(op.lower, Call))  # by NumPy
    x = input_node(aval := Aval((3, 3), np.float64))
    assert kept.key_of(Graph((x,), (y := Node(called, (x,), (), aval),), (y,))) is None


def test_a_package_is_known_by_its_files(tmp_path, monkeypatch):
    package = tmp_path / "a_package"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "inner" / "one.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(machine, "_began_ns", machine._began_ns + 10**15)
    __import__("a_package")
    found = [machine.package_identity("a_package")]
    (package / "__pycache__").mkdir(exist_ok=True)
    (package / "__pycache__" / "one.pyc").write_text("x")
    machine.package_identity.cache_clear()
    assert machine.package_identity("a_package") == found[0]
    for change in (
        lambda: (package / "inner" / "one.py").write_text("x = 2\n"), lambda: (package / "two.py").write_text(""),
        lambda: (package / "inner" / "one.py").rename(package / "inner" / "three.py"),
    ):  # fmt: skip
        change()
        machine.package_identity.cache_clear()
        found.append(machine.package_identity("a_package"))
    assert len(set(found)) == 4 and None not in found
    monkeypatch.setattr(machine, "_began_ns", 0)  # all of it has changed since then
    machine.package_identity.cache_clear()
    assert machine.package_identity("a_package") is None
    assert machine.package_identity("no_such_package") is None
    monkeypatch.undo()
    machine.package_identity.cache_clear()
