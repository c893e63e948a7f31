"""Profiles: phases, kernels, lines and rules of known programs; nothing left behind, nothing changed."""

import json
import threading

import numpy as np
import pytest
from command_line import autodiff
from work_done import is_watched, work

import autodiff as ad

RNG = np.random.default_rng(0)


def dense(w, v, x, y):
    h = ad.tanh(x @ w)
    return ad.mean((h @ v - y) ** 2)


ARGS = [RNG.normal(size=s) for s in ((5, 4), 4, (30, 5), 30)]


@ad.function
def hosted(x): ...


@hosted.forward(ad.Tensor, host=True)
def _(ctx, x):
    return np.sin(x)


@hosted.backward(ad.Tensor, host=True)
def _(ctx, g):
    return g


#: Programs of every kind of step, each a function and its arguments.
PROGRAMS = {
    "dense": (dense, ARGS),
    "a shared loop": (lambda x: ad.sum(ad.sin(x) * x), [RNG.normal(size=300_000)]),
    "a shared product": (lambda a: ad.sum(ad.tanh(a @ a)), [RNG.normal(size=(170, 170))]),
    "scan": (lambda x: ad.sum(ad.scan(lambda c, a: (ad.sin(c + a), c), 0.5, x)[1]), [RNG.normal(size=20)]),
    "a loop of products": (
        lambda x: ad.sum(ad.fori_loop(0, 3, lambda i, c: ad.tanh(c @ c), x)), [RNG.normal(size=(9, 9))]),
    "sort": (lambda x: ad.sum(ad.sort(x) * x), [RNG.normal(size=50)]),
    "sort of a long row": (lambda x: ad.sum(ad.sort(x) * x), [RNG.normal(size=100_000)]),
    "solve": (lambda a: ad.sum(ad.linalg.solve(a @ a.T + ad.eye(9), a)), [RNG.normal(size=(9, 9))]),
    "eigh": (lambda a: ad.sum(ad.linalg.eigh(a @ a.T)[0] ** 2), [RNG.normal(size=(9, 9))]),
    "fft": (lambda x: ad.sum(abs(ad.fft.fft(x)) ** 2), [RNG.normal(size=12)]),
    "a host function": (lambda x: ad.sum(hosted(x) * x), [RNG.normal(size=9)]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_profiled_programs_have_the_bits_of_others_and_a_time_for_every_step(name):
    f, args = PROGRAMS[name]
    step = ad.jit(ad.value_and_grad(f))
    before = ad.tree.leaves(step(*args))
    with ad.profile() as p:
        for _ in range(3):
            inside = ad.tree.leaves(step(*args))
    after = ad.tree.leaves(step(*args))
    for a, b, c in zip(before, inside, after, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)
    assert p.kernels and all(k.calls == 3 and k.seconds > 0 for k in p.kernels)
    assert sum([k.share for k in p.kernels]) == pytest.approx(1)
    assert sum([k.seconds for k in p.kernels]) == pytest.approx(p.phases["running"])
    assert sum(p.lines.values()) == pytest.approx(p.phases["running"])
    assert sum(p.phases.values()) == pytest.approx(p.seconds)


def test_kernels_lines_and_rules_are_named():
    step = ad.jit(ad.value_and_grad(dense, (0, 1)))
    with ad.profile() as p:
        step(*ARGS)
    products = [k for k in p.kernels if k.kind == "gemm"]
    assert {k.half for k in products} == {"forward", "backward"}
    first = dense.__code__.co_firstlineno
    assert {f"test_profile.py:{first + 1}, in dense", f"test_profile.py:{first + 2}, in dense"} == set(p.lines)
    assert any("matmul" in rule for rule in p.rules) and any("tanh" in rule for rule in p.rules)
    product = next(k for k in products if k.name == "gemm 30x4x5")
    assert (product.operations, product.bytes) == (2 * 30 * 4 * 5, 8 * (30 * 5 + 5 * 4 + 30 * 4))
    for k in p.kernels:
        assert (k.of_limit is None) == (k.gflops is None) == (k.seconds < 1e-6 * k.calls)
        assert k.gflops is None or k.gflops == pytest.approx(k.operations * k.calls / k.seconds / 1e9)
    assert p.phases["tracing"] > 0 and p.phases["rules"] > 0 and p.phases["passes"] > 0
    text = str(p)
    assert "gemm 30x4x5, forward" in text and "GB/s from memory" in text and "lines" in text and "rules" in text


def test_recorded_programs_are_profiled_and_those_that_numpy_evaluates(monkeypatch):
    monkeypatch.setattr(ad.config, "patience", 8)
    x = ad.tensor(RNG.normal(size=200), requires_grad=True)
    with ad.profile() as p:
        for _ in range(6):
            ad.sum(ad.sin(x) * x).backward()
    assert p.phases["NumPy"] > 0
    assert sum([k.calls for k in p.kernels]) >= 1
    assert "test_profile.py" in next(iter(p.lines))


def test_what_is_compiled_in_a_profile_is_neither_kept_nor_known_after_it():
    f = ad.jit(lambda x: ad.sum(ad.cos(x) * 3.25))
    f(np.ones(7))
    with ad.profile():
        compiles = work().compiles
        f(np.ones(7))
        assert work().compiles == compiles + 1
    f(np.ones(7))
    assert work().compiles == compiles + 2


def test_calls_of_other_threads_count():
    f = ad.jit(lambda x: ad.sum(ad.sin(x)))
    with ad.profile() as p:
        threads = [threading.Thread(target=f, args=(np.ones(100),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum([k.calls for k in p.kernels]) == 3
    assert p.others["running"] > 0 and p.phases["running"] == 0


def test_a_trace_is_in_chromes_format(tmp_path):
    with ad.profile() as p:
        ad.jit(ad.value_and_grad(dense))(*ARGS)
    p.save_trace(tmp_path / "trace.json")
    data = json.loads((tmp_path / "trace.json").read_text())
    events = [e for e in data["traceEvents"] if e["ph"] == "X"]
    assert {e["cat"] for e in events} >= {"tracing", "passes", "running", "Python"}
    whole = next(e for e in events if e["name"] == "profile")
    for e in events:  # viewers nest what lies within
        assert e["ts"] >= -1 and e["ts"] + e["dur"] <= whole["dur"] + 1000


def test_a_roofline_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    with ad.profile() as p:
        ad.jit(ad.value_and_grad(dense))(*[np.tile(a, (20, *[1] * (a.ndim - 1))) if a.size > 20 else a for a in ARGS])
    p.save_roofline(tmp_path / "roof.png")
    assert (tmp_path / "roof.png").read_bytes()[:4] == b"\x89PNG"


def test_misuse_is_told(tmp_path, monkeypatch):
    p = ad.profile()
    with pytest.raises(ad.Error, match=r"with ad\.profile"):
        print(p.kernels)
    with p:
        assert repr(p) == "<Profile: not complete>"
        with pytest.raises(ad.Error, match="after the block"):
            print(p.phases)
        with pytest.raises(ad.Error, match="do not nest"), ad.profile():
            pass
        ad.jit(lambda x: x * 2)(np.ones(3))
    with pytest.raises(ad.Error, match="one of its own"), p:
        pass
    with pytest.raises(ad.Error, match="cannot write"):
        p.save_trace(tmp_path / "none" / "trace.json")
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(ad.Error, match=r"pip install autodiff\[viz\]"):
        p.save_roofline(tmp_path / "roof.png")


SCRIPT = """
import sys
import numpy as np
import autodiff as ad

step = ad.jit(ad.value_and_grad(lambda x: ad.sum(ad.sin(x) * x)))
for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 3):
    step(np.ones(50))
print("done")
"""


def run(*words):
    return autodiff("profile", *words)


#: The phases that the time of a script is divided into.
PHASES = {"tracing", "rules", "passes", "writing LLVM", "LLVM", "linking", "NumPy", "running", "Python"}


def test_the_command_runs_a_script(tmp_path):
    file = tmp_path / "train.py"
    file.write_text(SCRIPT)
    found = run(str(file), "5", "--trace", str(tmp_path / "t.json"))
    assert found.exit_code == 0, found.output
    assert "running" in found.stdout and "train.py:6" in found.stdout and "done" not in found.stdout
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    data = json.loads(run(str(file), "--json").stdout)
    assert data["kernels"][0]["calls"] == 3 and set(data["phases"]) == PHASES


@pytest.mark.parametrize(
    "words, code, said",
    [
        (["nowhere.py"], 1, "there is no file nowhere.py"),
        (["{}", "--trace", "none/t.json"], 2, "there is no folder none"),
        (["{}", "--top", "0"], 2, "--top"),
        (["{}", "a"], 1, "train.py:7"),
        ([], 2, "file"),
    ],
)
def test_a_wrong_command_is_told(words, code, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    found = run(*[word.format("train.py") for word in words])
    assert found.exit_code == code and said in found.output, found.output
    assert not is_watched()
