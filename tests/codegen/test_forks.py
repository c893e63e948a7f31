"""A process may fork while one of its threads compiles."""

import os
import subprocess
import sys
import threading

import pytest

from codegen import forks

FORKING = """
import os, signal, threading, time
import numpy as np
{RUN}
def work():
    n = 1
    while not done.is_set():
        n += 1
        run(n)
        compiler.clear()

done = threading.Event()
worker = threading.Thread(target=work)
worker.start()
for number in range(6):
    time.sleep(0.005 * number)
    pid = os.fork()
    if not pid:
        signal.alarm(30)
        run(1000)
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
done.set()
worker.join()
"""

#: Both run a program for vectors of so many elements.
GRAPH = """
import autodiff.ops
from codegen import compiler
from codegen.ir import parse

def run(n):
    call = compiler.compile_graph(parse(f"f(x: f64[{n}]) {{ a = sin(x)  b = exp(a)  return b }}")).call
    assert (call(np.zeros(n))[0] == 1).all()
"""
FUNCTION = """
import autodiff as ad
from codegen import compiler

f = ad.jit(ad.grad(lambda x: ad.sum(ad.exp(ad.sin(x)))))

def run(n):
    assert (f(np.zeros(n)) == 1).all()
"""
RECORDED = """
import autodiff as ad
from codegen import compiler

def run(n):
    x = ad.tensor(np.zeros(n), requires_grad=True)
    y = ad.exp(ad.sin(x))
    for _ in range(n % 5):
        y = y * 1.0 + np.zeros(n)
    ad.sum(y).backward()
    assert (np.asarray(x.grad) == 1).all()
"""
#: A thread is in the middle of a trace, and of the lock of this function, for as long as the child lives.
TRACING = """
import os, signal, threading
import numpy as np
import autodiff as ad
from autodiff.mode import MODE

def f(x):
    if threading.current_thread() is not threading.main_thread():
        entered.set()
        leave.wait()
    return ad.sum(ad.exp(ad.sin(x)))

entered, leave = threading.Event(), threading.Event()
jitted = ad.jit(ad.grad(f))
tracing = threading.Thread(target=jitted, args=(np.zeros(3),))
tracing.start()
entered.wait()
assert not MODE.get().careful
pid = os.fork()
if not pid:
    signal.alarm(30)
    assert not MODE.get().careful
    assert (jitted(np.zeros(3)) == 1).all()
    x = ad.tensor(np.zeros(3), requires_grad=True)
    f(x).backward()
    assert (np.asarray(x.grad) == 1).all()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
leave.set()
tracing.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize(
    "script",
    [*(FORKING.replace("{RUN}", program) for program in (GRAPH, FUNCTION, RECORDED)), TRACING],
    ids=["graph", "function", "recorded", "tracing"],
)
def test_a_child_forked_while_another_thread_compiles_can_compile(script):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=120,
        env=os.environ | {"AUTODIFF_CACHE": "0", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_lock_held_over_forks_is_the_lock_itself():
    lock = threading.Lock()
    assert forks.held_over_fork(lock) is lock and not lock.locked()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_while_another_thread_imports_can_import(tmp_path):
    (tmp_path / "slow_to_come.py").write_text("import time\nentered.set()\ntime.sleep(0.3)\nHERE = 1\n".replace(
        "import time\n", "import time\nfrom __main__ import entered\n"))
    script = """
import os, signal, threading
import codegen.forks

entered = threading.Event()
importing = threading.Thread(target=lambda: __import__("slow_to_come"))
importing.start()
entered.wait()
pid = os.fork()
if not pid:
    signal.alarm(20)
    import slow_to_come
    os._exit(slow_to_come.HERE + 6)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
importing.join()
"""
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=60,
        env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_waits_for_locks_in_whatever_order_others_take_them():
    script = """
import os, signal, threading, time
from codegen.forks import held_over_fork

signal.alarm(40)
locks = [held_over_fork(threading.Lock()) for _ in range(2)]
done = False

def work(first, second):
    while not done:
        with locks[first]:
            time.sleep(0.001)
            with locks[second]:
                time.sleep(0.001)

for order in ((0, 1), (1, 0)):
    done = False
    worker = threading.Thread(target=work, args=order)
    worker.start()
    for _ in range(10):
        pid = os.fork()
        if not pid:
            os._exit(7 if not any(lock.locked() for lock in locks) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    done = True
    worker.join()
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=60,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
