"""Benchmarks are programs, not timed tests: each row's programs are built and agree, and the table is drawn."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"
SMALL = [
    ("tiny", "n = 8 f64"), ("many_arrays", "n = 8 f64"), ("chain", "n = 1,000 f64"), ("chain", "n = 1,000 f32"),
    ("logistic", "f32"), ("mlp", "2-16-16-1, batch 32, f64"), ("recorded", "n = 100 f64"),
    ("custom_chain", "n = 10 f64"),
]


@pytest.fixture
def bench(monkeypatch):
    """Import a file of benchmarks/."""
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    return importlib.import_module


@pytest.mark.parametrize(("row", "case"), SMALL)
def test_our_program_of_a_row_agrees_with_the_one_by_hand(bench, row, case):
    module, leaves = bench(f"rows.{row}"), bench("worker").leaves
    arrays = module.inputs(case)
    generic = bench("peers").GENERIC
    ours = module.ours(*arrays) if hasattr(module, "ours") else generic["ours"](module.program, module.ARGNUMS, arrays)
    tolerance = 1e-4 if arrays[0].dtype == np.float32 else 1e-10
    got, expected = leaves(ours()), leaves(module.numpy(*arrays)())
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_allclose(g, e, rtol=tolerance, atol=tolerance)


def test_every_row_says_what_it_is(bench):
    for row in bench("run").rows():
        module = bench(f"rows.{row}")
        assert module.TITLE and module.CASES and module.__doc__


def test_peers_take_turns_and_one_that_is_missing_is_left_out(bench):
    peers = ["ours", "numpy", "autograd"]
    found = bench("measure").measure("tiny", "n = 8 f64", peers, threads=1, rounds=1, seconds=0.01)
    assert {"ours", "numpy"} <= set(found.seconds)
    assert found.error["ours"] < 1e-14
    assert "autograd" in found.seconds or "not installed" in found.absent["autograd"]
    table = bench("run").table({"tiny": [found]})
    ((work, ratios),) = bench("plot").read(table)
    assert work == "tiny, n = 8 f64" and ratios["numpy"] > 0
    (row,) = json.loads(bench("run").as_json(1, {"tiny": [found]}))["rows"]
    assert row["title"] == "tiny" and row["work"] == "n = 8 f64" and row["seconds"] == found.seconds
    assert bench("plot").draw([(work, ratios)]).endswith("</svg>\n")
