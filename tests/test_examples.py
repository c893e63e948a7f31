"""Examples are programs that a user would write.  Each runs by itself, without a warning, and ends in its asserts."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

#: What each of them must have said.
SAYS = {
    "digits": ["held-out accuracy", "graphs compiled", "by hand in NumPy"],
    "exp2": ["derivative 3: [1.         1.64872127 2.71828183]"],
    "host_rule": ["steps of Newton's method", "graphs compiled: 1"],
    "huber": ["graphs compiled for four widths: 1"],
    "linear": ["second order, largest error"],
    "mul_constant": ["gradient: f64[] 2.0", "1,000 constants, further compiles: 0"],
    "newton": ["graphs compiled: 2"],
    "ode_fit": ["Newton-CG", "graphs compiled: 2"],
    "read_the_ir": ["---- tape", "---- mlir", "---- asm"],
    "sampling": ["price, delta, vega simulated", "posterior means"],
    "structured": ["Diagonal"],
    "train": ["later: 0"],
    "units": ["force:", "kg m s^-2"],
    "vmap": ["private descent: loss", "256 gradients: a loop", "(256, 2, 2)"],
}


@pytest.mark.parametrize("name", sorted(f.stem for f in (ROOT / "examples").glob("*.py")))
def test_an_example_runs_and_its_asserts_hold(name, tmp_path, sharing):
    environment = {**sharing, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", ROOT / "examples" / f"{name}.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert [said for said in SAYS[name] if said not in done.stdout] == [], done.stdout


def test_every_example_is_known_to_this_test():
    assert set(SAYS) == {f.stem for f in (ROOT / "examples").glob("*.py")}


def test_the_demo_reports_what_it_saw():
    from autodiff.demo import run

    report = run(quiet=True)
    assert report["accuracy"] > 0.95
    assert report["compiles"] <= 6 < report["hits"]
    assert set(report["step_s"]) == {"recorded", "jit", "numpy"}
