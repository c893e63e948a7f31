"""Examples are programs that a user would write.  Each runs by itself, without a warning, and ends in its asserts."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = {file.stem: file for file in (ROOT / "examples").glob("[!_]*.py")}
DRAWN = sorted(name for name, file in EXAMPLES.items() if "def draw(" in file.read_text(encoding="utf-8"))
GALLERY = ROOT / "docs" / "gallery"

#: What each of them must have said.
SAYS = {
    "convolution": ["held-out accuracy", "graphs compiled: 2"],
    "data_parallel": ["a step takes", "a worker was killed: the same bits"],
    "digits": ["held-out accuracy", "graphs compiled", "by hand in NumPy"],
    "exp2": ["derivative 3: [1.         1.64872127 2.71828183]"],
    "flight": ["lands at 10.000000 m", "the derivative by differences"],
    "gaussian_process": ["graphs compiled: 1", "two deviations"],
    "heat": ["as many adjoint ones", "correlation of the found conductivity"],
    "hmc": ["R-hat", "posterior means", "probability of damage at 31 °F"],
    "host_rule": ["steps of Newton's method", "evaluations: 8"],
    "huber": ["graphs compiled for four widths: 1"],
    "in_jax": ["three starts at once"],
    "in_torch": ["second derivatives by torch.func"],
    "interval": ["matmul(x1: Interval", "trained on boxes"],
    "linear": ["second order, largest error"],
    "mul_constant": ["gradient: f64[] 2.0", "1,000 constants, further compiles: 0"],
    "newton": ["graphs compiled: 2"],
    "ode_fit": ["Newton-CG", "graphs compiled: 2"],
    "orbit": ["misfit, in units of the noise", "after a year"],
    "read_the_ir": ["---- tape", "---- mlir", "---- asm"],
    "sampling": ["price, delta, vega simulated", "posterior means"],
    "structured": ["Diagonal"],
    "train": ["later: 0"],
    "transformer": ["the dog that worried the cat"],
    "units": ["force:", "kg m s^-2"],
    "vmap": ["private descent: loss", "256 gradients: a loop", "(256, 2, 2)"],
}
#: Examples for a library that need not be there, and what they say then.
PEERS = {"in_jax": "jax", "in_torch": "torch"}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_runs_and_its_asserts_hold(name, tmp_path, sharing):
    environment = {**sharing, "PYTHONPATH": str(ROOT)}
    del environment["AUTODIFF_PATIENCE"]  # as users have it
    command = [sys.executable, "-W", "error", EXAMPLES[name]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    is_there = name not in PEERS or importlib.util.find_spec(PEERS[name])
    says = SAYS[name] if is_there else [f"pip install 'autodiff-native[{PEERS[name]}]'"]
    assert [said for said in says if said not in done.stdout] == [], done.stdout


def test_every_example_is_known_to_this_test():
    assert set(SAYS) == set(EXAMPLES)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_every_example_is_in_the_gallery(name):
    pages = [page.read_text(encoding="utf-8") for page in GALLERY.glob("*.md")]
    assert any(f"{{literalinclude}} ../../examples/{name}.py" in page for page in pages)
    assert name not in DRAWN or f"]({name}.png)" in (GALLERY / f"{name}.md").read_text(encoding="utf-8")


def test_the_pictures_of_the_gallery_are_those_that_are_drawn_and_small():
    pictures = {file.stem: file.read_bytes() for file in GALLERY.glob("*.png")}
    assert sorted(pictures) == DRAWN
    assert not [name for name, data in pictures.items() if data[:4] != b"\x89PNG" or len(data) > 60_000]


def program(*lines):
    """A run of some lines of Python, in the folder of the examples."""
    command = [sys.executable, "-c", "\n".join(lines)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT / "examples")


def test_without_matplotlib_an_example_says_what_to_install_before_it_works():
    done = program(
        "import sys",
        "sys.modules['matplotlib'] = None",
        "sys.argv[1:] = ['--plot', 'picture.png']",
        "from _plot import run",
        "def main(): print('worked')",
        "run(main, lambda figure, results: None)",
    )
    assert done.returncode == 1 and done.stdout == ""
    assert "pip install matplotlib" in done.stderr and "autodiff-native[viz]" in done.stderr


def test_flags_reach_the_example_that_takes_them():
    lines = ["import sys", "from _plot import run", "def main(long=False): print('long:', long)"]
    assert program(*lines, "run(main)").stdout == "long: False\n"
    assert program(*lines, "sys.argv[1:] = ['--long']", "run(main)").stdout == "long: True\n"
    assert program("import sys", "from _plot import run", "sys.argv[1:] = ['--long']", "run(lambda: 0)").returncode == 2


def test_an_example_draws_its_picture(tmp_path, sharing):
    pytest.importorskip("matplotlib")
    environment = {**sharing, "PYTHONPATH": str(ROOT), "MPLCONFIGDIR": str(tmp_path)}
    command = [sys.executable, EXAMPLES["flight"], "--plot", tmp_path / "flight.png"]
    subprocess.run(command, check=True, capture_output=True, timeout=300, env=environment)
    assert (tmp_path / "flight.png").read_bytes().startswith(b"\x89PNG")


