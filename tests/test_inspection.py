"""`ad.inspect` in Python: the same stages as on the command line, as text, as a drawing, in a notebook."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import autodiff as ad
from codegen.ir import parse


def loss(w, x):
    return ad.mean(ad.tanh(x @ w) ** 2)


def inspected(**options):
    return ad.inspect(loss, "f64[4]", "f64[10,4]", **options)


class Pieces(HTMLParser):
    """The elements of a page; closing tags have to match."""

    def __init__(self, page):
        super().__init__()
        self.open, self.text, self.summaries = [], "", []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if self.open and self.open[-1] == "summary":
            self.summaries.append(data)


def test_the_drawing_has_a_box_for_each_node_and_an_arrow_for_each_operand():
    for backward in (False, True):
        stages = inspected(backward=backward)
        graph = parse(stages.graph)
        drawn = stages.dot
        assert len(re.findall("shape = box", drawn)) == len(graph.nodes)
        assert len(re.findall("shape = ellipse", drawn)) == len(graph.inputs)
        assert drawn.count(" -> ") == sum(len(n.inputs) for n in graph.nodes)
        assert drawn.count("bold") == len(set(graph.outputs))
        assert drawn.count("{") == drawn.count("}") and drawn.count('"') % 2 == 0


def test_results_are_bold_in_a_drawing_and_the_backward_half_is_dashed():
    drawn = inspected(backward=True).dot
    halves = [n.half for n in inspected(backward=True).graph.nodes]
    assert drawn.count("dashed") == sum(half in ("backward", "seed") for half in halves)
    assert drawn.count('style = "bold,dashed"') == 1 and "dashed" not in inspected().dot


def test_the_drawing_reads_well(golden):
    golden(inspected().dot)


def test_every_stage_as_a_piece_of_a_page():
    stages = inspected()
    page = Pieces(stages.html)
    assert page.open == [] and page.summaries == list(ad.inspection.STAGES)
    for name in ad.inspection.STAGES:
        assert stages.stage(name) in page.text


def test_a_notebook_shows_the_explorer_and_the_first_stages_as_text():
    """A viewer of notebooks without scripts, or without frames, shows the text."""
    stages = inspected()
    page = Pieces(stages._repr_html_())
    assert page.open == [] and page.summaries == ["loss"]
    assert str(stages) in page.text and "<iframe" in stages._repr_html_()


@pytest.mark.smoke
def test_every_stage_is_text_and_the_same_each_time():
    first, second = inspected(backward=True), inspected(backward=True)
    for name in ad.inspection.STAGES:
        assert isinstance(first.stage(name), str) and first.stage(name) == second.stage(name) != ""
    with pytest.raises(ad.Error, match="no stage 'tap'"):
        first.stage("tap")


def test_the_graph_of_an_inspection_reads_back():
    for backward in (False, True):
        seen = inspected(backward=backward)
        assert parse(seen.graph).key == seen.stages.recorded.key


def test_a_recorded_tensor_is_inspected_without_computing_it():
    x = ad.tensor(np.ones(3), requires_grad=True)
    y = ad.sum(ad.exp(x))
    before = ad.cache_info()
    assert "a = exp(x)" in ad.inspect(y).tape
    assert ad.cache_info() == before
    y.backward()
    np.testing.assert_allclose(x.grad, np.e)


def test_an_order_in_machine_code_is_no_host_call():
    seen = ad.inspect(lambda x: ad.argsort(2 * x), "f64[5]")
    assert "order argsort(" in str(seen.fused) and "host" not in str(seen.fused)
    rows = dict(line.rsplit(maxsplit=1) for line in str(seen.stats).splitlines() if line.startswith(("orders", "host")))
    assert rows == {"orders": "1", "host calls": "0"}


def test_the_graph_of_a_function_is_the_one_that_jit_compiles():
    def f(x):
        return ad.sum(x[1:] * x[:-1]) * 0.5

    known = ad.jit(f)
    known(np.ones(5))
    (entry,) = known.traced.entries.values()
    assert str(ad.inspect(f, "f64[5]").graph) == str(ad.inspect(known, "f64[5]").graph) == str(entry.graph)
    assert "slice(x, a, axes" in str(entry.graph)
