"""The worker threads' code as plain Python: each block is done once, whoever takes it; and in a build with checks."""

import ctypes
import os
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

from codegen.native import Translation, local, u32, u64
from codegen.runtime import engine, shared_blocks, worker_threads
from codegen.runtime.plan_words import KernelCallWords
from codegen.runtime.shared_blocks import open_job
from codegen.runtime.worker_threads import cut, job, new_generation, progress, section_begin, take_blocks, workers


@pytest.fixture
def plain(monkeypatch):
    """Stand-ins for what only machine code has, and a system in which nothing has happened."""
    stand_ins = {shared_blocks.control: lambda: 5, worker_threads.adopt: lambda control: None}
    for routine, stand_in in stand_ins.items():
        assert routine.tree  # its source is read while its own function says where that is
        monkeypatch.setattr(routine, "plain", stand_in)
    for memory in (workers, cut, job, progress, worker_threads.generation):
        memory.__dict__.clear()
    worker_threads.tickets.items[:] = [None] * len(worker_threads.tickets.items)


def step_of(function, extents, blocks, chunk, total):
    """A step of three extents."""
    step = KernelCallWords()
    step.function, step.extents, step.extent_count = function, extents, 3
    step.blocks, step.chunk, step.total = blocks, chunk, total
    return step


@pytest.mark.parametrize("blocks, threads", [(1, 1), (2, 2), (7, 3), (64, 4), (5, 9)])
def test_each_block_is_done_once_by_one_of_the_threads(plain, blocks, threads):
    done = []

    def function(pointers, extents):
        done.append((int(extents[0]), int(extents[1]), int(extents[2])))
        return u32(extents[1] == 3)

    extents = local(u64, 1)
    extents[0] = 11
    job.step = step_of(function, extents, blocks, 3, 3 * blocks - 1)
    for _ in range(3):
        done.clear()
        present = open_job(blocks, threads)
        others = [threading.Thread(target=take_blocks, args=(present, k)) for k in range(1, threads)]
        for other in others:
            other.start()
        take_blocks(present, 0)
        for other in others:
            other.join()
        assert sorted(done) == [(11, 3 * b, min(3 * b + 3, 3 * blocks - 1)) for b in range(blocks)]
        assert progress.finished == blocks and progress.status == (blocks > 1) and job.control == 5
        assert new_generation(0, present) == 0


def test_sections_cover_all_blocks():
    for sections in range(1, 9):
        for blocks in range(sections, 40):
            begins = [section_begin(s, sections, blocks) for s in range(sections + 1)]
            assert begins[0] == 0 and begins[-1] == blocks and begins == sorted(begins)


def test_alone_they_give_the_worst_status_in_plain_python_and_machine_code(plain):
    code = engine.compile(shared_blocks.text(Translation(checks=True)))
    kind = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64))
    run = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p)(code.address("run_blocks"))
    extents = np.array([0, 0, 0], np.uint64)
    found = []
    for call in (run, shared_blocks.run_blocks):
        seen = []

        def function(pointers, own, seen=seen):
            seen.append((int(own[1]), int(own[2])))
            return (7 * own[1]) % 5

        if call is run:
            callback = kind(function)
            words = ctypes.cast(callback, ctypes.c_void_p).value, 0, 0, extents.ctypes.data, 0, 3, 10, 4, 37
            step = (ctypes.c_int64 * len(words))(*words)
        else:
            step = step_of(lambda pointers, own, f=function: u32(f(pointers, own)), local(u64, 3), 10, 4, 37)
        found.append((int(call(step, None)), seen))
    assert found[0] == found[1] and found[0][0] == 4


def test_programs_are_shared_in_a_build_with_checks(tmp_path):
    script = (
        "import numpy as np, autodiff as ad\n"
        "from codegen.runtime import threads\n"
        "f = ad.jit(lambda x: ad.sum(ad.sin(x) * x))\n"
        "x = np.linspace(0, 1, 400_003)\n"
        "first = f(x).item()\n"
        "for _ in range(2000):\n"
        "    assert f(x).item() == first\n"
        "    if threads.is_made() and threads.started():\n"
        "        break\n"
        "else:\n"
        "    raise SystemExit('never shared')\n"
        "print(abs(first - (np.sin(x) * x).sum()) < 1e-6)\n"
    )
    environment = os.environ | {
        "AUTODIFF_NATIVE_CHECKS": "1", "AUTODIFF_THREADS": "2", "AUTODIFF_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.parametrize("system, processor", [("linux", "aarch64"), ("darwin", "aarch64"), ("win32", "x86_64")])
def test_the_text_is_made_for_other_systems(system, processor):
    """In a process that believes to run there; LLVM reads the text for this one."""
    script = (
        "import sys\n"
        "from codegen import modes\n"
        "from codegen.runtime import engine\n"
        f"sys.platform, modes.processor = {system!r}, lambda: {processor!r}\n"
        "from codegen.native import Translation\n"
        "from codegen.runtime import shared_blocks\n"
        "text = shared_blocks.text(Translation())\n"
        "print('pthread' in text, 'sched_getaffinity' in text, 'aarch64.hint' in text)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    expected = {"linux": "True True True", "darwin": "True False True", "win32": "False False False"}[system]
    assert (done.stdout.strip(), done.stderr) == (expected, "")


def test_what_the_room_exports_is_all_that_it_exports():
    text = shared_blocks.text(Translation())
    exported = re.findall(r"^define (?!internal).*@(\w+)", text, re.MULTILINE)
    assert exported == ["run_blocks", "set_threads", "started_threads"]
