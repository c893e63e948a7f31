"""The number of threads that workers get by default, and the limits that other libraries set."""

import math
import os
import subprocess
import sys

import pytest

import autodiff as ad
from codegen.runtime import machine, threads

CAN_PIN = hasattr(os, "sched_setaffinity") and len(os.sched_getaffinity(0)) > 1


@pytest.fixture
def afresh(monkeypatch):
    """The environment and the quota are looked up again, and the program has set no number."""
    monkeypatch.setattr(threads, "_count", None)
    for name in ("AUTODIFF_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    yield monkeypatch
    threads._surroundings.cache_clear()


def number(afresh, quota=math.inf, usable=8, **environment):
    """The default number of threads in such an environment."""
    threads._surroundings.cache_clear()
    afresh.setattr(machine, "quota", lambda: quota)
    afresh.setattr(machine, "usable_processors", lambda: usable)
    for name, value in environment.items():
        afresh.setenv(name, value)
    return threads.threads()


@pytest.mark.parametrize(
    "environment,quota,expected",
    [
        ({}, math.inf, 8),
        ({}, 3, 3),
        ({}, 12, 8),
        ({"OMP_NUM_THREADS": "2"}, math.inf, 2),
        ({"OMP_NUM_THREADS": " 2,4"}, math.inf, 2),
        ({"OMP_NUM_THREADS": "12"}, math.inf, 12),
        ({"OMP_NUM_THREADS": "12"}, 3, 3),
        ({"OMP_NUM_THREADS": "1000"}, math.inf, 256),
        ({"OMP_NUM_THREADS": ""}, math.inf, 8),
        ({"OMP_NUM_THREADS": "0"}, math.inf, 8),
        ({"OMP_NUM_THREADS": "many"}, 3, 3),
        ({"AUTODIFF_THREADS": "5"}, 3, 5),
        ({"AUTODIFF_THREADS": "5", "OMP_NUM_THREADS": "2"}, math.inf, 5),
        ({"AUTODIFF_THREADS": "", "OMP_NUM_THREADS": "2"}, math.inf, 2),
    ],
)
def test_the_number_is_ours_else_that_of_openmp_else_the_processors_within_the_quota(
    afresh, environment, quota, expected
):
    assert number(afresh, quota, **environment) == expected


def test_the_default_follows_the_affinity_until_a_program_sets_a_number(afresh):
    assert [number(afresh, usable=n) for n in (8, 1, 4)] == [8, 1, 4]
    afresh.setattr(threads, "_count", 3)
    assert number(afresh, usable=1) == 3


def cgroups(folder, lines, files):
    """A quota, from cgroups that a system without them may not have."""
    listing = folder / "cgroup"
    listing.write_text("".join(f"{line}\n" for line in lines))
    for name, text in files.items():
        (folder / "mounts" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "mounts" / name).write_text(f"{text}\n")
    return machine.quota(str(listing), str(folder / "mounts"))


@pytest.mark.parametrize(
    "lines,files,expected",
    [
        (["0::/"], {"cpu.max": "200000 100000"}, 2),
        (["0::/"], {"cpu.max": "150000 100000"}, 2),
        (["0::/"], {"cpu.max": "20000 100000"}, 1),
        (["0::/"], {"cpu.max": "max 100000"}, math.inf),
        (["0::/"], {}, math.inf),
        (["0::/"], {"cpu.max": "nonsense"}, math.inf),
        (["0::/pod/box"], {"pod/box/cpu.max": "max 100000", "pod/cpu.max": "300000 100000"}, 3),
        (["0::/pod/box"], {"pod/box/cpu.max": "100000 100000", "pod/cpu.max": "300000 100000"}, 1),
        (["0::/not/seen/from/here"], {"cpu.max": "400000 100000"}, 4),
        (["0::/a:b"], {"a:b/cpu.max": "400000 100000"}, 4),
        (["0::/"], {"unified/cpu.max": "400000 100000"}, 4),
        (["3:cpu:/"], {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, math.inf),
        (["3:cpu:/"], {"cpu/cpu.cfs_quota_us": "250000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        (
            ["4:memory:/m", "3:cpu,cpuacct:/box", "0::/"],
            {"cpu,cpuacct/box/cpu.cfs_quota_us": "50000", "cpu,cpuacct/box/cpu.cfs_period_us": "50000"},
            1,
        ),
        (["3:cpuset:/"], {"cpu/cpu.cfs_quota_us": "250000", "cpu/cpu.cfs_period_us": "100000"}, math.inf),
    ],
)
def test_the_quota_of_cgroups_of_both_versions(tmp_path, lines, files, expected):
    assert cgroups(tmp_path, lines, files) == expected


def test_a_system_without_cgroups_has_no_quota(tmp_path):
    assert machine.quota(str(tmp_path / "none"), str(tmp_path)) == math.inf


def printed(program, folder=None, **environment):
    path = os.pathsep.join(filter(None, [str(folder or ""), *sys.path]))
    kept = {name: value for name, value in os.environ.items() if name not in ("AUTODIFF_THREADS", "OMP_NUM_THREADS")}
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, env=kept | {"PYTHONPATH": path} | environment, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.split()


PINNED = """
import os, time
import numpy as np
import autodiff as ad
from codegen.runtime import threads
f = ad.jit(lambda x: ad.sin(x) * x)
x = np.ones(1_000_003)
every = os.sched_getaffinity(0)
os.sched_setaffinity(0, {min(every)})
first = np.asarray(f(x)).tobytes()
for _ in range(20):
    assert np.asarray(f(x)).tobytes() == first
print(ad.config.threads, threads.started())
os.sched_setaffinity(0, every)
end = time.monotonic() + 30
while not threads.started() and time.monotonic() < end:
    assert np.asarray(f(x)).tobytes() == first
print(ad.config.threads == len(every), threads.started() > 0)
"""


@pytest.mark.skipif(not CAN_PIN, reason="needs two processors, and a system that gives fewer to a thread")
def test_loops_follow_the_affinity_of_their_caller():
    assert printed(PINNED) == ["1", "0", "True", "True"]


def test_the_number_of_openmp_is_taken_in_a_new_process():
    assert printed("import autodiff as ad; print(ad.config.threads)", OMP_NUM_THREADS="1") == ["1"]


#: As much of `threadpoolctl` as a controller meets.
STAND_IN = """
class LibController: pass
registered = []
def register(controller): registered.append(controller)
"""
LIMITED = """
print([c.user_api for c in threadpoolctl.registered])
controller = threadpoolctl.registered[0]()
before = controller.get_num_threads()
controller.set_num_threads(1)
print(ad.config.threads)
controller.set_num_threads(1000)
print(ad.config.threads)
controller.set_num_threads(before)
print(ad.config.threads == before)
"""


@pytest.mark.parametrize("order", ["autodiff as ad, threadpoolctl", "threadpoolctl, autodiff as ad"])
def test_a_library_that_limits_threads_knows_ours_whichever_comes_first(tmp_path, order):
    (tmp_path / "threadpoolctl.py").write_text(STAND_IN)
    assert printed(f"import {order}\n{LIMITED}", tmp_path) == ["['autodiff']", "1", "256", "True"]


def test_an_old_one_that_takes_no_others_is_left_alone(tmp_path):
    (tmp_path / "threadpoolctl.py").write_text("")
    assert printed("import autodiff, threadpoolctl; print(threadpoolctl.__name__)", tmp_path) == ["threadpoolctl"]


REAL = """
import autodiff as ad, threadpoolctl
before = ad.config.threads
print([i["num_threads"] == before for i in threadpoolctl.threadpool_info() if i["user_api"] == "autodiff"])
with threadpoolctl.threadpool_limits(1):
    print(ad.config.threads)
with threadpoolctl.threadpool_limits({"autodiff": 3, "blas": 1}):
    print(ad.config.threads)
with threadpoolctl.threadpool_limits(1, user_api="blas"):
    print(ad.config.threads == before)
print(ad.config.threads == before)
"""


def test_threadpoolctl_lists_and_limits_us():
    pytest.importorskip("threadpoolctl")
    assert printed(REAL) == ["[True]", "1", "3", "True", "True"]


@pytest.mark.parametrize(
    "made,held",
    [
        (lambda: ad.tensor(1.0), 8),
        (lambda: ad.ones(1000), 8000),
        (lambda: ad.ones((10, 100), dtype=ad.float32) * 2, 4000),
        (lambda: ad.ones(1000, dtype=ad.complex128), 16000),
        (lambda: ad.ones(0), 0),
        (lambda: ad.Diagonal(ad.ones(1000)), 8000),
        (lambda: ad.Symmetric(ad.ones((30, 30))), 7200),
    ],
)
def test_the_size_of_a_tensor_counts_its_bytes(made, held):
    assert 0 <= sys.getsizeof(made()) - held < 200
