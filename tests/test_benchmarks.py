"""Benchmarks are programs, not timed tests: each row's programs are built and agree, and the tables are drawn."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import autodiff as ad

FOLDER = Path(__file__).parent.parent / "benchmarks"

#: A case of each row that computes, and what makes its inputs small.
SMALL = [
    ("tiny", "n = 8 f64", None), ("call", "n = 8 f64", None), ("many_arrays", "n = 8 f64", None),
    ("chain", "n = 1,000 f64", None), ("chain", "n = 1,000 f32", None),
    ("black_scholes", "1e6 f64", lambda *a: [x[:500].copy() for x in a]),
    ("rows_of_a_matrix", "row logsumexp", lambda *a: [x[:8].copy() for x in a]),
    ("rows_of_a_matrix", "row softmax", lambda *a: [x[:8].copy() for x in a]),
    ("logistic", "f32", None), ("mlp", "2-16-16-1, batch 32, f64", None),
    ("mlp", "784-256-128-10, batch 128, f32", None),
    ("recorded", "n = 100 f64", None), ("recording", "products, n = 100 f64", None),
    ("recording", "slices and sums, 128 x 20 f64", None),
    ("custom_chain", "n = 10 f64", None), ("custom_chain", "n = 1,000 f64", None),
    ("recurrent", "f32", lambda w, u, b, xs, flushes: (w, u, b, xs[:5], flushes)),
    ("recurrent", "f32, subnormal numbers flushed", lambda w, u, b, xs, flushes: (w, u, b, xs[:5], flushes)),
    ("epoch", "1,000 rows f64", lambda x, y, w: (x[:80], y[:80], w)),
    ("steps", "f64", None),
    ("structured", "f64", lambda d, x: (d[:20], x[:20, :5].copy())),
    ("episodes", "n = 64 f64", None), ("policies", "4-16-2 f64", None), ("policies", "32-64-8 f64", None),
    ("rollouts", "asked at each step f64", None), ("rollouts", "never asked f64", None),
    ("stencil", "slices, border of zeros", lambda u, y, how: (u[:20, :30].copy(), y[:20, :30].copy(), how)),
    ("stencil", "roll, periodic", lambda u, y, how: (u[:20, :30].copy(), y[:20, :30].copy(), how)),
    ("embedding", "f64", None), ("attention", "f32", None), ("layer_norm", "f32", None),
    ("convolution", "f32", lambda x, w, b, y: (x[:2].copy(), w, b, y[:2].copy())),
    ("mixture", "f64", lambda x, *rest: (x[:50].copy(), *rest)), ("pairs", "f64", None),
    ("shifted", "Rosenbrock, n = 1,000", None), ("shifted", "filter of 16, n = 20,000", None),
    ("shifted", "a term for each of 60 rows of 1,000", lambda x, pitch: (x[:4], pitch[:4])),
    ("gaussian_process", "f64", lambda x, y, *rest: (x[:20].copy(), y[:20].copy(), *rest)),
    ("spectral", "1 signal of 1,000, f64", lambda x, window, weight: (x[:31], window[:31], weight[:16])),
    ("spectral", "200 signals of 512, f32", lambda x, window, weight: (x[:3, :64], window[:64], weight[:33])),
    ("ordering", "10,000 rows of 32, f32", lambda x: (x[:20].copy(),)),
    ("updates", "momentum, 20 arrays of 10", lambda is_adam, arrays, target: (is_adam, arrays[:3], target)),
    ("updates", "Adam, 100 arrays of 10", lambda is_adam, arrays, target: (is_adam, arrays[:3], target)),
    ("second_order", "recorded, n = 100 f64", None), ("second_order", "jit, n = 100 f64", None),
    ("hooked", "n = 100 f64", None), ("batches", "vmap of grad, 100 examples of 20 f64", None),
    ("batches", "hessian, n = 20 f64", None),
    ("growing", "a layer of 16 f64", lambda x, y, w, v: (x[:5], y[:5], w, v)),
]  # fmt: skip


@pytest.fixture
def bench(monkeypatch):
    """Import a file of benchmarks/."""
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    return importlib.import_module


@pytest.fixture
def as_measured():
    """Graphs that do not repeat are evaluated, as they are where times are measured; other tests compile all."""
    before, ad.config.patience = ad.config.patience, 8
    yield
    ad.config.patience = before


def programs(bench, row, case, small):
    """The programs of a row that can run here with nothing but what tests need: peer -> program."""
    module, generic, absent = bench(f"rows.{row}"), bench("peers").GENERIC, bench("absence").Absent
    arrays = module.inputs(case)
    arrays = small(*arrays) if small else arrays
    found = {}
    for peer in ("ours", "numpy", "c", "plain_c", "dense"):
        own = getattr(module, peer, None)
        try:
            if own:
                found[peer] = own(*arrays)
            elif peer in generic and hasattr(module, "program"):
                found[peer] = generic[peer](module.program, module.ARGNUMS, arrays)
        except absent:  # no gcc, no header files
            assert peer in ("c", "plain_c")
    return found


@pytest.mark.parametrize(("row", "case", "small"), SMALL)
def test_the_programs_of_a_row_agree(bench, as_measured, row, case, small):
    leaves = bench("worker").leaves
    found = {peer: leaves(program()) for peer, program in programs(bench, row, case, small).items()}
    expected = found.pop("numpy")
    assert "ours" in found
    tolerance = 1e-4 if "f32" in case or row == "rows_of_a_matrix" else 1e-10
    for got in found.values():
        assert len(got) == len(expected)
        for g, e in zip(got, expected, strict=True):
            np.testing.assert_allclose(g, e, rtol=tolerance, atol=tolerance)


#: Rows that are asked for, as they are made small above; of floats those that take doubles, too.
ASKED = ("chain", "black_scholes", "rows_of_a_matrix", "logistic", "mlp", "custom_chain", "many_arrays", "recurrent")


@pytest.mark.parametrize(("row", "case", "small"), [one for one in SMALL if one[0] in ASKED])
def test_the_gradients_of_asked_rows_are_those_of_differences(bench, monkeypatch, row, case, small):
    module, found = bench(f"rows.{row}"), []
    arrays = module.inputs(case)
    arrays = small(*arrays) if small else arrays
    if row != "recurrent":  # whose carry is of floats
        arrays = [a.astype(np.float64) if a.dtype == np.float32 else a for a in arrays]
    value_and_grad = ad.value_and_grad

    def kept(f, argnums):
        found.append((f, argnums))
        return value_and_grad(f, argnums)

    monkeypatch.setattr(ad, "value_and_grad", kept)
    own = getattr(module, "ours", None)
    (own(*arrays) if own else bench("peers").ours(module.program, module.ARGNUMS, arrays))()
    ((f, argnums),) = found

    def of_those(*given):
        places = dict(zip(argnums, given, strict=True))
        return f(*[places.get(j, a) for j, a in enumerate(arrays) if a is not True and a is not False])

    ad.check_gradients(of_those, *[arrays[j] for j in argnums])


def test_the_same_programs_run_a_second_time(bench):
    for row, case in (("epoch", "1,000 rows f64"), ("episodes", "n = 64 f64")):
        module, leaves = bench(f"rows.{row}"), bench("worker").leaves
        ours, by_hand = module.ours(*module.inputs(case)), module.numpy(*module.inputs(case))
        for _ in range(2):
            got, expected = leaves(ours()), leaves(by_hand())
        for g, e in zip(got, expected, strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-9, atol=1e-12)


def test_every_row_says_what_it_is_and_what_is_asked_of_it(bench):
    targets_of, is_target = bench("targets").targets_of, bench("targets").Target
    for row in bench("run").rows():
        module = bench(f"rows.{row}")
        assert module.TITLE and module.CASES and module.__doc__
        assert "ours" in bench("run").peers_of(row)
        for case in module.CASES:
            assert all(isinstance(t, is_target) for t in targets_of(module, case))


# ---------------------------------------------------------------- C


def test_the_c_programs_use_vector_functions(bench):
    kernel, limits = bench("c_kernel"), bench("c_limits")
    source, like = limits.LIMITS["chain"]
    head = "#include <math.h>\ntypedef double real;\n#define F(name) name\n"
    try:
        _, library = kernel.build(head + source, 1, like)
    except bench("absence").Absent as absent:
        assert any(word in str(absent) for word in ("gcc", "Python.h"))  # it says what is missing
        return
    used = {name.rpartition("_")[2] for name in kernel.vector_functions(library)}
    assert {"exp", "sin", "cos", "tanh", "log1p"} <= used


def test_a_c_program_refuses_what_it_cannot_read(bench):
    kernel = bench("c_kernel")
    try:
        call, _ = kernel.build("double run(long n, const double *a, double *g) { return n; }", 1, (0,), vectors=False)
    except bench("absence").Absent as absent:
        assert any(word in str(absent) for word in ("gcc", "Python.h"))
        return
    assert call(np.zeros(3))[0] == 3.0
    for wrong in (np.zeros((4, 4))[:, 1], [1.0]):
        with pytest.raises(TypeError, match="no contiguous array"):
            call(wrong)
    with pytest.raises(TypeError, match="1 arrays are needed"):
        call()


def test_c_that_does_not_compile_says_why(bench):
    absent = bench("absence").Absent
    with pytest.raises(absent, match=r"gcc|Python\.h"):
        bench("c_kernel").build("double run(long n { }", 1, (0,))


# ---------------------------------------------------------------- rows that count


def test_a_graph_that_is_dropped_and_a_call_leave_nothing(bench):
    flat = bench("rows.flat")
    assert set(flat._grown(flat._new_graphs(), 6, 3)()) == {""}
    assert flat._grown(flat._calls(), 20, 10)()[""] < 20
    assert all(callable(flat.ours(case)) for case in flat.CASES)


def test_an_epoch_compiles_once_more_for_its_shorter_last_batch(bench):
    found = bench("rows.shapes")._epoch()
    assert found["graphs"] <= 1 and found["LLVM runs"] <= 1


def test_batch_sizes_above_the_small_ones_share_their_kernels(bench, monkeypatch):
    shapes = bench("rows.shapes")
    monkeypatch.setattr(shapes, "SIZES", 44)
    found = shapes._batch_sizes()
    assert found["graphs"] == 44
    assert found["LLVM runs for more than 32 rows"] <= 3


def test_memory_is_counted_besides_the_inputs(bench):
    (found,) = bench("measure").count("memory", "chain, n = 10,000,000 f64", ["ours", "limit"], {"": "MB"}, threads=1)
    if "limit" in found.values and "ours" in found.values:
        assert 0.9 < found.values["ours"] / found.values["limit"] < 3
    else:
        assert "clear_refs" in found.absent["ours"]


def test_new_functions_are_new_each_time(bench):
    row = bench("rows.compile_time")
    import autodiff as ad

    program = row.ours(5, np.linspace(0.1, 1.0, 10))
    before = ad.cache_info().compiles
    program(), program()
    assert ad.cache_info().compiles == before + 2


def test_a_process_is_started_up_to_its_first_gradient(bench):
    start = bench("rows.start")
    for case in start.CASES:
        if case.endswith("nothing kept"):
            start.ours(*start.inputs(case))()  # raises if the process fails


def test_dispatch_is_measured_on_a_method_that_is_chosen(bench):
    row = bench("rows.dispatch")
    for peer in (row.ours, row.multipledispatch, row.functools, row.limit):
        assert peer(np.ones(3))() == 0.0


# ---------------------------------------------------------------- measuring and telling


def test_peers_take_turns_and_one_that_is_missing_is_left_out(bench):
    peers = ["ours", "numpy", "autograd"]
    found = bench("measure").measure("tiny", "n = 8 f64", peers, threads=1, rounds=1, seconds=0.01, loaded=1)
    assert {"ours", "numpy"} <= set(found.values)
    assert set(found.loaded) == set(found.values)
    assert found.error["ours"] < 1e-14
    assert "autograd" in found.values or "not installed" in found.absent["autograd"]
    report, targets = bench("report"), bench("targets")
    row = report.Row("tiny", found, [targets.faster(1e9, "numpy"), targets.at_most(1e9), targets.within(2, "c")])
    text = report.text([row])
    ((work, ratios),) = bench("plot").read(text)
    assert work == "tiny, n = 8 f64" and ratios["numpy"] > 0
    assert "**not met** |" in text and "| met |" in text and "| not measured |" in text
    assert "## Under load" in text and "## Largest error" in text
    (told,) = json.loads(report.as_json("here", [row]))["rows"]
    assert told["title"] == "tiny" and told["work"] == "n = 8 f64" and told["values"] == found.values
    assert [t["met"] for t in told["targets"]] == [False, True, None]
    assert bench("plot").draw([(work, ratios)]).endswith("</svg>\n")


def test_errors_are_of_several_draws_that_are_the_same_for_all_and_leave_the_inputs(bench):
    draws, leaves = bench("draws"), bench("worker").leaves
    given = np.array([0.5, -2.25, 0.0]), np.array([1.0, 0.0, 1.0]), np.array([1, 2, 3])
    before = [a.copy() for a in given]

    def drawn(program):
        return [x for (x,) in draws.results(program, program(), 1e-6, list(given), leaves)]

    room = np.empty((3, 3))  # a result may lie where the one before lay
    one, other = drawn(lambda: np.stack(given)), drawn(lambda: np.stack(given, out=room))
    assert len(one) == draws.MOST and len({x.tobytes() for x in one}) == draws.MOST
    for x, y in zip(one, other, strict=True):
        np.testing.assert_array_equal(x, y)
        np.testing.assert_allclose(x[0], before[0], rtol=10 * draws.WIDTH)
        np.testing.assert_array_equal(x[1:], before[1:])  # labels and counts stay
    for x, y in zip(given, before, strict=True):
        np.testing.assert_array_equal(x, y)
    long = np.zeros(draws.NUMBERS)
    assert len(draws.results(lambda: long, long, 1e-6, list(given), leaves)) == 1
    assert len(draws.results(lambda: 1.0, 1.0, draws.LONGEST_S, list(given), leaves)) == 1
    assert len(draws.results(lambda: 1.0, 1.0, 1e-6, [given[2]], leaves)) == 1  # nothing to draw


@pytest.mark.parametrize(
    ("larger", "draws", "factor", "met"),
    [
        (59, 99, 2.0, True),  # tossed coins do that
        (60, 99, 2.0, False),
        (99, 99, 1.01, True),  # the same digit
        (25, 25, 2.0, False),
        (9, 9, 2.0, False),
        (5, 8, 2.0, False),  # few draws: the medians alone
        (4, 9, 2.0, True),
        (0, 1, 1.0, True),
        (1, 1, 2.0, False),
    ],
)
def test_an_error_is_worse_where_luck_does_not_explain_it(bench, larger, draws, factor, met):
    found, targets = bench("measure").Found("case"), bench("targets")
    found.errors = {"ours": [factor * 1e-15] * larger + [0.5e-15] * (draws - larger), "jax": [1e-15] * draws}
    asked = targets.AsExact("jax")
    assert asked.is_met(found) is met
    said = f"larger in {larger}, smaller in {draws - larger} of {draws} draws"
    assert (said in asked.measured_text(found)) is (draws >= 9)
    assert targets.AsExact("torch").is_met(found) is None


def test_draws_that_do_not_differ_say_nothing(bench):
    found, targets = bench("measure").Found("case"), bench("targets")
    found.errors = {"ours": [1.0] * 40 + [2.0] * 61, "jax": [1.0] * 61 + [2.0] * 40}
    assert targets.AsExact("jax").is_met(found) is False
    assert targets.AsExact("jax").measured_text(found) == "2e+00, 1e+00; larger in 21, smaller in 0 of 101 draws"


def test_the_reference_of_a_row_reads_each_draw(bench):
    found = bench("measure").measure("pairs", "f64", ["ours", "reference"], threads=1, rounds=1, seconds=1e-4)
    assert found.error["ours"] < 1e-14


def test_a_peer_that_fails_is_left_out_and_ours_is_not(bench, tmp_path, monkeypatch):
    worker = bench("worker")
    monkeypatch.setitem(worker.GENERIC, "jax", lambda *given: 1 / 0)
    said = []
    monkeypatch.setattr(worker, "say", lambda **what: said.append(what))
    worker.main("tiny", "n = 8 f64", "jax", str(tmp_path / "result.npz"))
    assert said == [{"absent": "failed: ZeroDivisionError: division by zero"}]
    monkeypatch.setitem(worker.GENERIC, "ours", lambda *given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        worker.main("tiny", "n = 8 f64", "ours", str(tmp_path / "result.npz"))


def test_what_is_counted_has_a_line_for_each_figure(bench):
    figures = {"graphs": "", "LLVM runs": ""}
    found = bench("measure").count("shapes", "epoch of X[i:i+32] after two steps", ["ours", "jax"], figures, threads=1)
    assert [f.work.rpartition(", ")[2] for f in found] == ["graphs", "LLVM runs"]
    assert all("ours" in f.values and "jax" in f.absent for f in found)
    report, targets_of = bench("report"), bench("targets").targets_of
    text = report.text([report.Row("compiled", f, targets_of(bench("rows.shapes"), f.work)) for f in found])
    assert "## What is not time" in text and "| ours ≤ 1 |" in text and "## Left out\n\n- jax: " in text


def test_targets_say_what_is_asked_and_whether_it_is_met(bench):
    targets, found = bench("targets"), bench("measure").Found("", values={"ours": 2.0, "jax": 30.0, "c": 1.0})
    assert targets.faster(15, "jax").is_met(found) and not targets.faster(16, "jax").is_met(found)
    assert targets.within(2, "c").is_met(found) and not targets.within(1.5, "c").is_met(found)
    assert targets.at_most(2).is_met(found) and not targets.at_most(1.9).is_met(found)
    assert targets.faster(2, "torch").is_met(found) is None
    assert [t.measured_text(found) for t in (targets.faster(15, "jax"), targets.within(1.5, "c"))] == ["15 x", "2 x"]


def test_the_full_benchmarks_count_what_is_asked(bench):
    program = "from rows import flat, shapes; print(flat.CASES, shapes.CASES)"
    environment = {**os.environ, "AUTODIFF_BENCH_FULL": "1", "PYTHONPATH": str(FOLDER)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    for words in ("5,000 graphs", "10,000,000 calls", "10,000 batch sizes"):
        assert words in done.stdout


# ---------------------------------------------------------------- mechanisms

SWITCHES = [
    "native launcher", "output pool", "native answers", "templates", "native recorder", "updates in machine code",
    "recordings in parts", "known sizes", "patience", "disk cache",
    "threads", "fusion of any kind", "several results in one kernel", "row-local chains",
    "reductions in a shared sweep", "parts added up by themselves", "parts stored where they go",
    "small products as loops", "in-place storage",
    "run-time extents", "vector math", "explicit vectors", "native transforms", "native orders",
    "blocks of elements",
]  # fmt: skip


def test_every_mechanism_has_a_switch_and_work_to_show_it(bench):
    assert [*bench("switches").SWITCHES] == SWITCHES
    assert {*bench("mechanisms").WORK} == {*SWITCHES}
    for works in bench("mechanisms").WORK.values():
        assert all(row in bench("run").rows() for row, _ in works)


#: Beside one process of NumPy's, which all of them are compared with.
FOUR = [SWITCHES[k : k + 4] for k in range(0, len(SWITCHES), 4)]


@pytest.mark.parametrize("names", FOUR, ids=", ".join)
def test_without_a_mechanism_results_are_the_same(bench, names):
    without = [f"ours without {name}" for name in names]
    found = bench("measure").measure("logistic", "f32", [*without, "numpy"], threads=1, rounds=1, seconds=1e-4)
    assert not found.absent
    assert {*without} <= {*found.error}
    assert {name: error for name, error in found.error.items() if not error < 1e-5} == {}


def test_a_mechanism_is_told_with_and_without(bench):
    (found,) = bench("mechanisms").compared("native launcher", "call", "", 1, 1)
    line = bench("mechanisms").line("native launcher", "call", found)
    assert line.startswith("| native launcher | jit call, three arrays, n = 8 f64 | ") and line.endswith(" x |")


def test_a_program_that_gets_faster_is_timed_as_it_is_in_the_end(bench):
    calls = []

    def program():
        calls.append(1)

    assert bench("worker").timed(program, 1e-3, once=10.0) < 1e-3  # not one call, as what was known would say
    assert len(calls) > 2


def test_two_checkouts_take_turns_and_the_noise_stands_beside(bench):
    line = bench("against").compared("tiny", "n = 8 f64", FOLDER.parent, 1, 1)
    form = r" *\d+\.\d\d  ± +\d+\.\d%   (slower|faster|as before) +n = 8 f64   [\d.,]+ µs before"
    assert re.fullmatch(form, line), line


@pytest.mark.parametrize(
    ("folder", "row", "message"),
    [("tests", "tiny", "is no checkout"), ("", "none", "no row 'none' in both"), ("", "shapes", "what is no time")],
)
def test_what_cannot_be_compared_is_told(bench, monkeypatch, capsys, folder, row, message):
    monkeypatch.setattr(sys, "argv", ["against.py", str(FOLDER.parent / folder), row])
    with pytest.raises(SystemExit):
        bench("against").main()
    assert message in capsys.readouterr().err
