"""What is imported is put aside, and a process ends as if it were not."""

import gc
import itertools
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

from codegen import aside
from codegen.garbage import Lasting, Paused

#: Other Pythons that pyenv has here: the module needs nothing but Python.
OTHERS = sorted(Path("~/.pyenv/versions").expanduser().glob("3.1[123].*/bin/python"))


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    """Rings of a test alone, and a thread alone whatever ran before."""
    monkeypatch.setattr(aside, "_rings", [])
    monkeypatch.setattr(aside, "_is_alone", lambda: True)
    was_on = gc.isenabled()
    yield
    aside.give_back()
    (gc.enable if was_on else gc.disable)()


class Lost:
    """Part of a cycle."""

    def __init__(self):
        self.me = self


def is_tracked_by_the_collector(found):
    return any(found is other for other in gc.get_objects())


def test_what_is_put_aside_is_not_looked_at_and_all_else_is():
    before = [[]]
    with Lasting():
        inside = [Lost() for _ in range(100)]
    after = [[]]
    assert [is_tracked_by_the_collector(o) for o in (before, inside, inside[0], after)] == [True, False, False, True]
    gone, kept = weakref.ref(inside[3]), weakref.ref(inside[4])
    inside[3].me = None
    inside[3] = None
    assert gone() is None  # what no cycle holds goes as ever
    inside[4] = None
    gc.collect()
    assert kept() is not None
    aside.give_back()
    gc.collect()
    assert kept() is None
    assert is_tracked_by_the_collector(inside)


def test_pieces_inside_of_pieces_and_one_after_the_other_are_each_a_ring():
    with Lasting():
        outer = [Lost()]
        with Lasting():
            inner = [Lost()]
        outer.append(Lost())
    with Lasting():
        later = [Lost()]
    assert len(aside._rings) == 3
    gone = [weakref.ref(o) for o in (*outer, *inner, *later)]
    del outer, inner, later
    aside.give_back()
    gc.collect()
    assert all(o() is None for o in gone)


@pytest.mark.parametrize("kind", ["collection", "young collection", "freezing", "collector on", "exception", "thread"])
def test_nothing_is_put_aside_where_the_list_may_be_another(kind, monkeypatch):
    try:
        with Lasting():
            made = [Lost()]
            if kind == "collection":
                gc.collect()
            elif kind == "young collection":
                gc.collect(0)
            elif kind == "freezing":
                gc.freeze()
            elif kind == "collector on":
                gc.enable()
            elif kind == "thread":
                monkeypatch.setattr(aside, "_is_alone", lambda: False)
            else:
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    gc.unfreeze()
    assert not aside._rings
    assert is_tracked_by_the_collector(made)


def test_a_thread_of_somebody_else_is_seen_and_one_that_compiles_is_not(monkeypatch):
    monkeypatch.undo()
    if not aside._is_alone():
        pytest.skip("another thread runs already")
    for name, alone in (("somebody's", False), (aside.OURS, True)):
        end = threading.Event()
        thread = threading.Thread(target=end.wait, name=name)
        thread.start()
        try:
            assert aside._is_alone() == alone
        finally:
            end.set()
            thread.join()


def test_whatever_goes_of_a_ring_leaves_the_rest_whole():
    for gone in itertools.product([False, True], repeat=5):
        with Lasting():
            made = [Lost() for _ in range(5)]
        for i, goes in enumerate(gone):
            if goes:
                made[i].me = None
                made[i] = None
        rest = [weakref.ref(o) for o in made if o is not None]
        del made
        aside.give_back()
        gc.collect()
        assert all(o() is None for o in rest)


def test_a_pause_alone_puts_nothing_aside():
    with Paused():
        made = [Lost()]
    assert not aside._rings
    assert is_tracked_by_the_collector(made)


#: A script that ends with a line that was not written yet, and an object that says when it goes, in a cycle with it.
SCRIPT = """
import sys
import {library}
class Last:
    def __del__(self, say=sys.stderr.write): say("it went\\n")
last = Last()
lines = open(sys.argv[1], "w")
lines.write("a line")
def holds(): return last, lines
{program}
"""

#: What C and machine code hold (the table of forks, the recorder) holds what these add, to the last: Python forgets it.
HELD = {"a class as a tree", "a recorded rule"}

RULE = """import autodiff as ad
@ad.function
def square(x): ...
@square.forward(ad.Tensor)
def _(ctx, x):
    ctx.save_for_backward(x=x)
    return x * x
@square.backward(ad.Tensor)
def _(ctx, y_bar): return {"x": y_bar * 2.0 * ctx.saved_variables.x}
x = ad.tensor([1.0, 2.0], requires_grad=True)
for _ in range(4): ad.sum(square(x)).backward()
"""

PROGRAMS = {
    "nothing": "",
    "a gradient": "import autodiff as ad; ad.value_and_grad(lambda x: ad.sum(ad.sin(x) * x))(ad.pi)",
    "a tensor": "import autodiff as ad; x = ad.tensor(2.0, requires_grad=True); (x * x).backward()",
    "a function for jit": "import autodiff as ad; f = ad.jit(lambda x: x * x); f(2.0), f(3.0)",
    "a loop": "import autodiff as ad; ad.fori_loop(0, 3, lambda i, x: x * 2.0, ad.tensor(1.0)).item()",
    "a class as a tree": "import autodiff as ad; ad.tree.register(Last, lambda t: ((), t), lambda t, _: t)",
    "a recorded rule": RULE,
    "a method": "import autodiff as ad\\n@ad.exp.method\\ndef _(x: str): return holds",
    "a thread": "import threading; threading.Thread(target=holds).start()",
}


@pytest.mark.parametrize("library", ["autodiff", "autodiff after a thread"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_script_holds_goes_when_the_process_ends(name, library, tmp_path):
    program = PROGRAMS[name].replace("\\n", "\n")
    if library == "autodiff":
        script = SCRIPT.format(library=library, program=program)
    else:  # nothing can be put aside then
        program += "\nfrom codegen import aside; assert not aside._rings; end.set()"
        thread = "threading; end = threading.Event(); threading.Thread(target=end.wait).start(); import autodiff"
        script = SCRIPT.format(library=thread, program=program)
    run = [sys.executable, "-c", script, str(tmp_path / "lines")]
    done = subprocess.run(run, check=True, capture_output=True, text=True, env={**os.environ, "AUTODIFF_CACHE": "0"})
    assert done.stderr == ("" if name in HELD else "it went\n")
    assert (tmp_path / "lines").read_text() == "a line"


ALONE = """
import gc, sys, weakref
sys.path.insert(0, {folder!r})
from codegen import aside
class Lost:
    def __init__(self): self.me = self
gc.disable()
begun = aside.begin()
made = [Lost() for _ in range(1000)]
assert begun is not None and aside.put_aside(begun)
gc.enable()
assert not any(made is o for o in gc.get_objects())
gone = weakref.ref(made[7])
del made[::2], made[3]
gc.collect()
assert gone() is not None
if {back}:
    aside.give_back()
    gc.collect()
    assert gone() is None and any(made is o for o in gc.get_objects())
class Last:
    def __del__(self, say=sys.stdout.write): say("it went")
made[5].last, made[5].main, made[6].last = Last(), Lost, 0
"""


@pytest.mark.parametrize("back", [True, False])
@pytest.mark.parametrize("python", [sys.executable, *map(str, OTHERS)])
def test_every_python_that_is_known_keeps_its_lists_so(python, back):
    program = ALONE.format(folder=str(Path(aside.__file__).parents[1]), back=back)
    done = subprocess.run([python, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("it went", "", 0)
