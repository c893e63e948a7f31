"""Nothing that takes a size crashes, wraps around or asks for gigabytes, whatever number it is given."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import autodiff as ad
from codegen.ir import Aval
from codegen.passes.storage import place_buffers
from codegen.runtime.memory import words

from . import huge_sizes

PROGRAM = Path(huge_sizes.__file__)
FEW = (2**62, 2**63, -(2**61))
MANY = (2**60, 2**63 - 1, 2**64 + 1, -1, -(2**63), -(2**63) - 1)
#: Values of so many elements fit 64 bits: whoever needs one in memory is refused, but a gradient may go through all of
#: them, one after the other, and that takes years.
ALLOWED = (2**33, 2**40, 2**56, 2**58)


def endings(route, numbers, environment):
    """The end of each call, and True if the process came to its own."""
    environment = environment | {"PYTHONPATH": os.pathsep.join([str(Path(ad.__file__).parents[1]), *sys.path])}
    done = subprocess.run(
        [sys.executable, PROGRAM, route, *map(str, numbers)], env=environment, capture_output=True, text=True
    )
    assert not done.returncode and done.stdout.endswith("all\n"), done.stdout[-200:] + done.stderr[-2000:]
    return done.stdout.splitlines()[:-1]


def check(route, numbers, environment):
    found = endings(route, numbers, environment)
    assert len(found) == len(numbers) * (len(huge_sizes.SIZES) + len(huge_sizes.PLACES))
    assert [line for line in found if "UNEXPECTED" in line] == []


@pytest.mark.parametrize("route", ["recorded", "compiled"])
def test_a_size_near_the_end_of_64_bits_is_refused(route, sharing):
    check(route, FEW, sharing)


@pytest.mark.slow
@pytest.mark.parametrize("route", huge_sizes.ROUTES)
def test_every_large_or_negative_size_is_refused_on_every_route(route, sharing):
    check(route, FEW + MANY, sharing)


@pytest.mark.slow
@pytest.mark.parametrize("route", ["recorded", "compiled"])
def test_a_size_for_which_there_is_no_memory_is_refused(route, sharing):
    check(route, ALLOWED, sharing)


@pytest.mark.parametrize("name", ["tile", "repeat", "kron", "segment_sum", "cumsum", "sort", "add_at", "scan"])
def test_the_message_has_the_shape_and_the_line(name):
    with pytest.raises(MemoryError, match=r"f64\[.*\] would take \d+ bytes.*\n  called at (test_)?huge_sizes.py"):
        ad.jit(lambda x: huge_sizes.SIZES[name](x, 2**62))(np.arange(1.0, 5.0))


@pytest.mark.parametrize("name", [name for name in huge_sizes.SIZES if "fft" in name and "freq" not in name])
def test_a_transform_is_refused_before_its_tables_are_made(name):
    ending = huge_sizes.ending(huge_sizes.compiled, huge_sizes.SIZES[name], 2**56)
    assert ending.startswith("MemoryError: no memory for")


@pytest.mark.parametrize("patience", [0, 8])
@pytest.mark.parametrize("route", ["recorded", "compiled", "eager"])
@pytest.mark.parametrize("name", ["tile", "repeats", "one repeat", "cumsum", "sort", "scan", "pad wrap", "fftfreq"])
def test_a_lack_of_memory_says_how_many_bytes_and_where(name, route, patience, monkeypatch):
    monkeypatch.setattr(ad.config, "patience", patience)
    monkeypatch.setattr(ad.config, "eager", route == "eager")
    run = huge_sizes.ROUTES["recorded" if route == "eager" else route]
    for _ in range(2):  # met, known
        with pytest.raises(MemoryError, match=huge_sizes.SAYS_WHAT):
            run(lambda x: huge_sizes.SIZES[name](x, 2**56), np.arange(1.0, 5.0))


def test_an_aval_holds_no_more_bytes_than_64_bits_count():
    assert Aval((2**60 - 1,), np.float64).nbytes == 2**63 - 8
    assert Aval((2**62, 0), np.bool_).size == 0
    for shape, dtype in [((2**60,), "f8"), ((2**63,), "?"), ((2**32, 2**32), "?"), ((2**62, 2**62, 0), "?")]:
        with pytest.raises(MemoryError, match="would take"):
            Aval(shape, dtype)


def test_temporaries_that_are_too_large_together_are_refused():
    class Ends:
        name, inputs, outputs = "f", (), ()

    half = {k: Aval((2**62,), np.bool_) for k in "ab"}
    with pytest.raises(MemoryError, match="bytes of temporaries"):
        place_buffers(Ends, half, ["ab"])
    assert place_buffers(Ends, half, ["a", "b"])[2] == 2**62, "one after the other they share a place"


def test_no_number_wraps_on_its_way_to_machine_code():
    assert words([-(2**63), 0, 2**63 - 1])[:] == [-(2**63), 0, 2**63 - 1]
    for number in (2**63, 2**64, -(2**63) - 1):
        with pytest.raises(MemoryError, match="does not fit"):
            words([1, number])
