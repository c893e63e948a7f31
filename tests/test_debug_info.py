"""`ad.config.debug_info`: gdb, objdump and perf find the user's lines in the kernels of a running process."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import autodiff as ad
from autodiff.frames import UserLine
from autodiff.mode import MODE
from autodiff.tape.record import state
from codegen import compiler
from codegen.emit import pieces
from codegen.modes import modes
from codegen.runtime import debugged

needs_ld = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("ld") is None or shutil.which("objdump") is None,
    reason="kernels have debug info on Linux, where binutils are installed",
)
needs_gdb = pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
needs_perf = pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")

X = np.linspace(0.1, 1.0, 1000)

PROGRAM = """\
import sys
import numpy as np
import autodiff as ad

def loss(w, x):
    h = ad.tanh(x * w)
    return ad.sum(
        h * ad.sin(h))

def doubled(x):
    return ad.fori_loop(0, 5, lambda i, y:
        ad.sin(y) * 1.5, x)

n, turns = int(sys.argv[1]), int(sys.argv[2])
w, x = np.linspace(0.5, 1.5, n), np.linspace(0.1, 1.0, n)
step = ad.jit(ad.value_and_grad(loss))
for _ in range(turns):
    value, gradient = step(w, x)
ad.jit(doubled)(x)

t = ad.tensor(w, requires_grad=True)
for _ in range(turns):
    y = ad.exp(
        -t * t)
    ad.sum(y).backward()
    t.grad = None
print(repr(value), repr(gradient.sum()))
"""


@pytest.fixture
def program(tmp_path, monkeypatch, sharing):
    """A program that runs kernels, its folder for temporary files, and the environment that turns debug info on."""
    (tmp_path / "files").mkdir()
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "files"))
    monkeypatch.setenv("AUTODIFF_DEBUG_INFO", "1")
    for name in ("AUTODIFF_CACHE", "AUTODIFF_CACHE_DIR"):
        monkeypatch.setenv(name, sharing[name])
    return tmp_path / "program.py"


@pytest.fixture
def told(tmp_path, monkeypatch):
    """Debug info in this process; gives the folder in which its kernels are."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ad.config.debug_info = True
    yield tmp_path
    ad.config.debug_info = False


def lines_in(folder, name):
    """The number of instructions that each line of a file has in the kernels below a folder, as objdump reads them."""
    counts = Counter()
    for library in sorted(Path(folder).rglob("*.so")):
        text = subprocess.run(["objdump", "-dl", library], capture_output=True, text=True, check=True).stdout
        at = None
        for line in text.splitlines():
            found = re.match(r"(\S+):(\d+)", line)
            if found:
                at = int(found[2]) if Path(found[1]).name == name else None
            elif at and re.match(r" +[0-9a-f]+:\t", line):
                counts[at] += 1
    return counts


def run(program, *arguments, **options):
    return subprocess.run(
        [sys.executable, program, *map(str, arguments)], capture_output=True, text=True, check=True, **options
    ).stdout


@needs_ld
def test_kernels_of_a_process_name_the_users_lines(program, tmp_path, monkeypatch):
    """Those of a jit function and its gradient, of a loop, and of recorded steps; the results are the same."""
    told = run(program, 1000, 12)
    lines = lines_in(tmp_path / "files", "program.py")
    for line in (6, 8, 12, 24, 25):
        assert lines[line] > 3, (line, lines)
    kept = {*(tmp_path / "files").rglob("*")}
    monkeypatch.setenv("AUTODIFF_DEBUG_INFO", "0")
    assert run(program, 1000, 12) == told
    assert {*(tmp_path / "files").rglob("*")} == kept, "nothing is written where it is off"


@needs_ld
def test_code_in_pieces_names_the_users_lines(told, monkeypatch):
    monkeypatch.setattr(pieces, "LONGEST", 60)
    monkeypatch.setattr(pieces, "PIECE", 20)

    def chain(x):
        for k in range(40):
            x = ad.sin(x * 1.1)
            x = x + ad.exp(-x * k)
        return x.sum()

    value = ad.jit(ad.value_and_grad(chain))(X)
    first = chain.__code__.co_firstlineno
    lines = lines_in(told, Path(__file__).name)
    assert lines[first + 2] > 100 and lines[first + 3] > 100, lines
    ad.config.debug_info = False
    for a, b in zip(value, ad.jit(ad.value_and_grad(chain))(X), strict=True):
        assert np.array_equal(a, b)


@needs_ld
def test_code_on_disk_without_debug_info_is_not_taken(program, tmp_path, monkeypatch):
    monkeypatch.setenv("AUTODIFF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("AUTODIFF_CACHE", "1")
    for flag in ("0", "1", "0", "1"):
        monkeypatch.setenv("AUTODIFF_DEBUG_INFO", flag)
        shutil.rmtree(tmp_path / "files")
        (tmp_path / "files").mkdir()
        run(program, 1000, 3)
        assert bool(lines_in(tmp_path / "files", "program.py")[6]) == (flag == "1")


@needs_ld
@needs_gdb
def test_gdb_stops_in_a_kernel_at_the_users_line(program):
    commands = ["set breakpoint pending on", "set debuginfod enabled off", "break program.py:8", "run", "bt 1"]
    given = [word for command in commands for word in ("-ex", command)]
    done = subprocess.run(
        ["gdb", "-q", "-batch", *given, "--args", sys.executable, str(program), "1000", "3"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    if "ptrace" in done.stderr:
        pytest.skip("gdb may not look into processes here")
    assert re.search(r"hit Breakpoint 1, k0_\w+\.\w+.* at \S*program\.py:8\n8\t        h \* ad\.sin\(h\)", done.stdout)
    assert re.search(r"#0 .*k0_\w+.* at \S*program\.py:8", done.stdout)


@pytest.mark.slow
@needs_ld
@needs_perf
def test_perf_gives_time_to_the_users_lines(program, tmp_path):
    data = str(tmp_path / "perf.data")
    command = ["perf", "record", "-q", "-N", "-e", "cpu-clock", "-o", data]
    recorded = subprocess.run([*command, sys.executable, str(program), "1000000", "60"], capture_output=True, text=True)
    if recorded.returncode:
        pytest.skip(f"perf records nothing here: {recorded.stderr.strip()}")
    told = ""
    for library in (tmp_path / "files").rglob("*.so"):  # lines of Python itself would take long
        annotate = ["perf", "annotate", "--stdio", "-l", "-i", data, "-d", library.name]
        told += subprocess.run(annotate, capture_output=True, text=True).stdout
    shares = {int(line): float(share) for share, line in re.findall(r"([\d.]+) +program\.py:(\d+)", told)}
    assert min(shares[6], shares[8], shares[23], shares[25]) > 5, (shares, told[:2000])


@needs_ld
def test_functions_of_one_shape_have_their_own_lines(told):
    def one(x):
        return ad.sin(x) * 3.0  # the first line

    def other(x):
        return ad.sin(x) * 3.0  # the second

    first = one.__code__.co_firstlineno + 1
    assert (ad.jit(one)(X) == ad.jit(other)(X)).all()
    lines = lines_in(told, "test_debug_info.py")
    assert lines[first] > 3 and lines[first] == lines[first + 3]


@needs_ld
def test_what_is_told_of_a_recording_holds_none_of_its_nodes(told):
    for _ in range(5):
        t = ad.tensor(X, requires_grad=True)
        ad.sum(ad.sin(t) * t).backward()
    places = state.now.lines.places.values()
    assert places and not [p for p in places if type(p) is tuple and isinstance(p[0], str)]


@needs_ld
def test_what_follows_an_error_in_a_rule_has_the_line_of_the_program(told):
    @ad.function
    def failing(x: ad.Tensor):
        return x * 1.0

    @failing.backward(ad.Tensor)
    def _(ctx, y_bar):
        raise ValueError("this rule fails")

    with pytest.raises(ValueError, match="this rule fails") as held:  # and the frames with it
        ad.sum(failing(ad.tensor(X, requires_grad=True))).backward()
    ad.sin(ad.tensor(X))
    (*_, (_, place)) = state.now.lines.places.items()
    assert type(place) is UserLine and place.line > held.traceback[0].lineno


def test_it_is_off_and_costs_nothing():
    assert not modes.debug_info and not ad.config.debug_info and not MODE.get().watching
    assert compiler.facts()["debug info"] == "off"


@needs_ld
def test_what_it_changes_goes_back(told):
    f = ad.jit(lambda x: ad.cos(x) + 1.0)
    values = [f(X)]
    ad.sum(ad.sin(ad.tensor(X, requires_grad=True))).backward()
    assert MODE.get().watching and not MODE.get().careful and lines_in(told, "test_debug_info.py")
    ad.config.debug_info = False
    kept = {*told.rglob("*.so")}
    assert not MODE.get().watching
    values.append(f(X))
    ad.sum(ad.sin(ad.tensor(X, requires_grad=True))).backward()
    assert state.now.lines is None
    assert (values[0] == values[1]).all() and {*told.rglob("*.so")} == kept
    assert "x: f64[3]" in str(ad.inspect(lambda x: x * x, "f64[3]").graph)


@pytest.mark.parametrize("flag", [2, "yes", None])
def test_another_flag_is_an_error(flag):
    with pytest.raises(ValueError, match=r"config\.debug_info is True or False, not"):
        ad.config.debug_info = flag
    assert not ad.config.debug_info


def test_without_a_linker_it_says_how_to_get_one(monkeypatch):
    monkeypatch.setattr(debugged, "_linker", lambda: None)
    with pytest.raises(ValueError, match="install binutils" if sys.platform == "linux" else "is there on Linux"):
        ad.config.debug_info = True
    assert not ad.config.debug_info
