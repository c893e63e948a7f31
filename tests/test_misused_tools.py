"""Tools that a program is looked at with, misused: every error has the user's line and says what to write instead."""

import numpy as np
import pytest

import autodiff as ad


def loss(x):
    return ad.sum(ad.sin(x))


@pytest.fixture(scope="module")
def tools():
    with ad.profile() as profile:
        loss(np.ones(3))
    return ad.inspect(loss, "f64[3]"), profile


#: (the call, words of the message)
MISUSES = {
    "a function to profile": (lambda s, p, path: ad.profile(loss), "takes no arguments, got .*with ad.profile"),
    "a number to profile": (lambda s, p, path: ad.profile(3), "takes no arguments, got 3"),
    "a name to profile": (lambda s, p, path: ad.profile(time=3), "takes no arguments, got time=3"),
    "a function to explain": (lambda s, p, path: ad.explain(loss), r"print\(ad.explain"),
    "rows as text": (lambda s, p, path: p.text("a"), "number of rows is 1 or more, not 'a'"),
    "no rows": (lambda s, p, path: p.text(0), "number of rows is 1 or more, not 0"),
    "a trace to a number": (lambda s, p, path: p.save_trace(3), "path is a file to write, not 3"),
    "a trace to a folder": (lambda s, p, path: p.save_trace(path), "cannot write"),
    "a roofline to a number": (lambda s, p, path: p.save_roofline(3), "path is a file to write, not 3"),
    "a page to a number": (lambda s, p, path: s.save_html(3), "path is a file to write, not 3"),
    "a page to a folder": (lambda s, p, path: s.save_html(path), "cannot write"),
    "a page nowhere": (lambda s, p, path: s.save_html(path / "no" / "x.html"), "cannot write"),
    "a stage by number": (lambda s, p, path: s.stage(3), "no stage 3: there are tape, graph"),
    "a stage by another name": (lambda s, p, path: s.stage("foo"), "no stage 'foo': there are tape, graph"),
    "a difference to nothing": (lambda s, p, path: s.diff("graph", 3), "no stage 3"),
    "a step by name": (lambda s, p, path: s.of_step("graph", "a"), "there is no kernel 'a'"),
    "another step": (lambda s, p, path: s.of_step("graph", 7), "1 step, number 0: there is no kernel 7"),
    "a step of no stage": (lambda s, p, path: s.of_step("foo", 0), "no stage 'foo': look at graph"),
    "a step of a pass": (lambda s, p, path: s.of_step("passes", 0), "'passes' says nothing of single steps"),
    "argnums as text": (lambda s, p, path: ad.inspect(loss, "f64[3]", backward=True, argnums="x"), "argnums='x'"),
    "a tensor with arguments": (lambda s, p, path: ad.inspect(ad.ones(3), 3), "a recorded tensor is looked at"),
    "a tensor's gradient": (lambda s, p, path: ad.inspect(ad.ones(3), backward=True), "give the function"),
    "an export to a number": (lambda s, p, path: ad.export(loss, "f64[3]", out=3), "out is a folder's path, not 3"),
    "too many compiles": (lambda s, p, path: ad.max_compiles("a").__enter__(), "number of graphs, from 0 on, not 'a'"),
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_the_error_has_the_users_line(misuse, tools, tmp_path):
    call, words = MISUSES[misuse]
    with pytest.raises((ad.Error, ValueError), match=rf"(?s){words}") as caught:
        call(*tools, tmp_path)
    assert f"test_misused_tools.py:{call.__code__.co_firstlineno}" in str(caught.value)
