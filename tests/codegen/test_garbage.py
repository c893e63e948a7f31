"""The collector is paused while a graph is planned, and goes on as it was."""

import gc
import weakref

import pytest

from codegen import aside, compiler
from codegen.garbage import Lasting, Paused
from codegen.ir.text import parse


@pytest.fixture(params=[True, False])
def was_on(request):
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


def test_a_pause_ends_as_it_began(was_on):
    with Paused():
        assert not gc.isenabled()
        with Paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled() == was_on


def test_a_pause_ends_as_it_began_after_an_exception(was_on):
    with pytest.raises(ZeroDivisionError), Paused():
        raise ZeroDivisionError
    assert gc.isenabled() == was_on


def test_planning_does_not_collect_and_leaves_the_collector_as_it_was(was_on, monkeypatch):
    seen = []
    make = compiler.make_program
    monkeypatch.setattr(compiler, "make_program", lambda graph: seen.append(gc.isenabled()) or make(graph))
    compiler.clear()
    compiler.compile_graph(parse("f(x: f64[9]) { a = exp(x)  b = sum(a, axis=(0,))  return b }"))
    assert seen == [False]
    assert gc.isenabled() == was_on


def test_what_lasts_is_old_at_once_and_is_collected_when_it_does_not_last(was_on, monkeypatch):
    monkeypatch.setattr(aside, "put_aside", lambda begun: False)
    with Lasting():
        made = [[] for _ in range(10)]
    assert gc.isenabled() == was_on
    assert gc.get_freeze_count() == 0
    assert any(made is found for found in gc.get_objects(generation=2))
    made[0].append(Lost(made))
    lost = weakref.ref(made[0][0])
    del made
    gc.collect()
    assert lost() is None


class Lost:
    """Part of a cycle."""

    def __init__(self, owner):
        self.owner = owner


def test_what_somebody_froze_stays_frozen(monkeypatch):
    monkeypatch.setattr(aside, "put_aside", lambda begun: False)
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        with Lasting():
            made = [[]]
        assert before // 2 < gc.get_freeze_count() <= before  # some of it was dropped since
        assert not any(made is found for found in gc.get_objects(generation=2))
    finally:
        gc.unfreeze()
