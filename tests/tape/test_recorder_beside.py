"""The recorder's machine code is made when a program repeats, and put in front between two operations: where it is on
disk, after the first backward."""

import os
import subprocess
import sys

import pytest
from natively import is_native

pytestmark = pytest.mark.skipif(not is_native(), reason="no native launcher here")

#: Results of a step are the same whatever records it; `until_installed` goes on until machine code does.
START = """
import os, threading
import numpy as np
import autodiff as ad
from autodiff.ops import recorder
from autodiff.tape.machine import WHEN_REPEATED

x = np.linspace(-1.0, 1.0, 5)

def step(k):
    w = ad.tensor(x, requires_grad=True)
    loss = ad.sum(ad.sin(w) * k + w * w)
    value = float(loss)
    loss.backward()
    assert np.allclose(value, np.sum(np.sin(x) * k + x * x), rtol=1e-14)
    assert np.allclose(w.grad.numpy(), np.cos(x) * k + 2 * x, rtol=1e-14)

def begin():
    for k in range(2):
        step(k)

def record_until_installed():
    k = 0
    while not recorder.is_installed():
        step(k := k + 1)
    for _ in range(5):
        step(k := k + 1)

def until_installed():
    record_until_installed()
    assert not WHEN_REPEATED
"""


def run(program, environment=None):
    command = [sys.executable, "-c", START + program]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


def test_what_repeats_is_recorded_natively_once_that_is_there_and_right_all_along():
    run("begin(); until_installed()")


def test_sizes_that_never_come_again_are_recorded_natively_too():
    run("""
ad.config.patience = 8
w = ad.tensor(np.ones(4), requires_grad=True)
for n in range(20, 80):
    ad.sum(ad.tanh(ad.tensor(np.ones((n, 4))) @ w) ** 2).backward()
assert np.isclose(w.grad.numpy()[0], sum(range(20, 80)) * 2 * np.tanh(4) * (1 - np.tanh(4) ** 2))
assert recorder.is_installed()
""")


def test_threads_that_record_meanwhile_get_right_results_and_one_recorder():
    run("""
sets = []
put_in_front = recorder._put_in_front
recorder._put_in_front = lambda made: (sets.append(made), put_in_front(made))
threads = [threading.Thread(target=record_until_installed) for _ in range(3)]
for thread in threads: thread.start()
record_until_installed()
for thread in threads: thread.join()
until_installed()
assert len(sets) == 1
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_makes_it_itself_or_has_it():
    run("""
begin()
child = os.fork()
until_installed()
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
""")


def test_a_program_of_a_few_steps_does_not_make_it():
    run("""
ad.config.patience = 8
for k in range(2): step(k)
assert WHEN_REPEATED and recorder._installed.recorder is None and not recorder.is_installed()
""")


def test_a_process_may_end_before_it_is_made():
    assert run("begin(); print('done')") == "done\n"


def test_an_interrupt_while_it_is_put_in_front_leaves_python_in_front_and_it_is_tried_again():
    run("""
from autodiff.ops.recorder import Front
methods, came = Front._methods, []
def interrupted(front):
    if not came:
        came.append(1)
        raise KeyboardInterrupt
    return methods(front)
Front._methods = interrupted
operators = {name: vars(ad.AbstractTensor)[name] for name in ("__add__", "__rmul__", "__neg__", "__lt__")}
try:
    until_installed()
except KeyboardInterrupt:
    assert not recorder.is_installed()
    assert all(vars(ad.AbstractTensor)[name] is python for name, python in operators.items())
else:
    raise AssertionError('it was not interrupted')
until_installed()
assert all(vars(ad.AbstractTensor)[name] is not python for name, python in operators.items())
""")


def test_who_takes_it_away_or_asks_for_it_is_not_overruled():
    run("""
recorder.uninstall()
for k in range(20): step(k)
assert not recorder.is_installed()
recorder.install()
assert recorder.is_installed()
until_installed()
""")


def test_long_recordings_have_it_after_a_few_asks():
    run("""
a, b = ad.tensor(x, requires_grad=True), ad.tensor(x)
for asks in range(40):
    for _ in range(1000):
        y = a * b
    assert np.array_equal(y.detach().numpy(), x * x)
    if recorder.is_installed(): break
assert recorder.is_installed() and asks <= 4
""")


@pytest.fixture(scope="module")
def kept(sharing):
    """The environment of a process that finds the library's own machine code on disk."""
    subprocess.run([sys.executable, "-c", "from autodiff.ops import recorder; recorder.install()"], check=True,
                   env=sharing)  # fmt: skip
    return sharing


def test_code_on_disk_records_what_comes_after_the_first_backward_and_no_source_of_it_is_imported(kept):
    run(
        """
import sys
ad.config.patience = 8
assert not recorder.is_installed()
step(0)
assert recorder.is_installed() and not WHEN_REPEATED
y = ad.sin(ad.tensor(x)) * 2.0
for k in range(5): step(k)
assert np.array_equal(y.numpy(), np.sin(x) * 2.0)
assert not [m for m in sys.modules if m.startswith(("codegen.native", "codegen.runtime.recorder_"))]
""",
        kept,
    )


def test_a_backward_in_eager_mode_does_not_have_it_put_in_front(kept):
    run("ad.config.eager = True\nstep(0)\nassert not recorder.is_installed()", kept)


def test_first_backwards_of_several_threads_have_one_recorder(kept):
    run(
        """
sets = []
put_in_front = recorder._put_in_front
recorder._put_in_front = lambda made: (sets.append(made), put_in_front(made))
threads = [threading.Thread(target=step, args=(k,)) for k in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
until_installed()
assert len(sets) == 1
""",
        kept,
    )


def test_a_slot_that_the_struct_of_its_class_lacks_is_an_error_that_names_it():
    run("""
said = []
for name in ("Recording", "Leaf", "Node"):
    cls = getattr(recorder, name)
    methods = {word: thing for word, thing in vars(cls).items() if word not in cls.__slots__}
    changed = type(name, cls.__bases__, {**methods, "__slots__": (*cls.__slots__, "fresh")})
    setattr(recorder, name, changed)
    try:
        recorder.install()
    except TypeError as error:
        said.append(str(error))
    setattr(recorder, name, cls)
assert said == [
    "Recording has inside at 96, its struct, which lacks ['updated', 'fresh'], at 88",
    "Leaf has grad at 32, its struct, which lacks ['__weakref__', 'fresh'], at 24",
    "a Node has 8 words, its struct 7, or other weak references",
], said
until_installed()
""")
