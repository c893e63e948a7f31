"""The explorer: one page with all stages side by side, tried in a real browser without a window."""

import base64
import gzip
import html
import json
import pickle
import re
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from browser import browser, needs_browser
from command_line import autodiff

import autodiff as ad
from autodiff import explorer

FILES = Path(explorer.__file__).parent


def net(w, x, layers=2):
    h = x
    for _ in range(layers):
        a = ad.tanh(h @ w)
        b = ad.sin(a) * h + 0.5
        h = (b - ad.mean(b, axis=0)) / (1.0 + ad.exp(-a))
    return ad.mean(h * h)


def loop(w, x):
    return ad.sum(ad.scan(lambda h, row: (ad.tanh(h @ w + row), None), x[0], x)[0])


def inspected(f=net, *avals, **options):
    return ad.inspect(f, *(avals or ("f64[8,8]", "f64[16,8]")), backward=True, **options)


#: JavaScript: the rows of a pane by its number that are marked, as they stand in the document.
MARKED = "return [...document.querySelectorAll('.pane')].map(p => p.querySelectorAll('.row.sel, .row.kernel').length)"
OFFLINE = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
LAYOUTS = "+(document.querySelector('.graph').dataset.layouts || 0)"
BOXES = "+document.querySelector('.note').textContent.split(' ')[0]"
SELECTED = "return [...document.querySelectorAll('#graph .box.sel text')].map(t => t.textContent)"


@pytest.fixture(scope="module")
def chromium():
    """One browser for all tests: to start it takes as long as a test."""
    with browser(1700, 950) as page:
        yield page


@pytest.fixture
def opened(chromium, tmp_path):
    """A function that opens a page, from a file, with the network off; its console stays empty."""
    page = chromium
    page.messages.clear()
    page.console()
    page.messages.clear()

    def open_page(text):
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8")
        page.command("Network.enable")
        page.command("Network.emulateNetworkConditions", **OFFLINE)
        page.open(path)
        page.wait(f"document.body.dataset.ready && {LAYOUTS}")
        return page

    yield open_page
    page.command("Network.emulateNetworkConditions", **OFFLINE | {"offline": False})
    assert page.console() == []


def click_row(page, pane, text):
    """Click the row of a pane that has this text, with the mouse."""
    x, y = page.run(
        "const pane = [...document.querySelectorAll('.pane')][arguments[0]];"
        "const row = [...pane.querySelectorAll('.row')].find(r => r.textContent.includes(arguments[1]));"
        "const box = row.getBoundingClientRect(); return [box.x + 70, box.y + 8]",
        pane, text,
    )  # fmt: skip
    page.click(x, y)


@needs_browser
def test_a_line_of_the_source_is_marked_in_every_pane(opened):
    page = opened(explorer.page(inspected().data))
    assert page.run(MARKED) == [0] * 6
    click_row(page, 0, "ad.sin(a)")
    source, kernels, _, *texts = page.run(MARKED)
    assert source == 1 and kernels >= 2 and all(count > 5 for count in texts)
    assert any("sin" in name for name in page.run(SELECTED))
    assert "test_explorer.py" in page.run("return document.getElementById('details').textContent")
    # Of the code it is the instructions that are for this line, not all of their kernel.
    texts = page.run(
        "return [...document.querySelectorAll('.pane')].slice(3).map(p => p.querySelectorAll('.row.sel').length)"
    )
    assert all(0 < some < whole for some, whole in zip(texts, page.run(MARKED)[3:], strict=True))
    # The other way: an instruction leads to its value, its kernel and its line of the program.
    page.run("[...document.querySelectorAll('.pane')][5].querySelector('.row.sel').click()")
    source, kernels, _, *texts = page.run(MARKED)
    assert source == 1 and kernels >= 1 and all(texts)
    assert "test_explorer.py" in page.run("return document.getElementById('details').textContent")
    page.press("Escape")
    assert page.run(MARKED) == [0] * 6


@needs_browser
def test_what_is_selected_is_scrolled_to(opened):
    page = opened(explorer.page(inspected(lambda w, x: net(w, x, layers=8)).data))
    last = "[...document.querySelectorAll('.table .row')].filter(r => r.children[1].textContent[0] === 'k').pop()"
    page.run(f"{last}.click()")
    tops = page.run("return [...document.querySelectorAll('.code')].map(e => e.scrollTop)")
    assert all(top > 100 for top in tops[-2:])
    assert all(page.run(MARKED)[3:])


@needs_browser
def test_a_kernel_is_opened_and_walked_by_keyboard(opened):
    page = opened(explorer.page(inspected().data))
    names = page.run("return [...document.querySelectorAll('.table .row')].map(r => r.children[1].textContent)")
    number = next(k for k, name in enumerate(names) if "_sin_" in name)
    for _ in range(number + 1):
        page.press("n")
    page.press("3")  # the third pane is the graph
    assert page.run("return document.activeElement.id") == "graph"
    closed = page.run("return document.querySelectorAll('#graph .box').length")
    layouts = page.run(f"return {LAYOUTS}")
    page.press("Enter")
    page.wait(f"{LAYOUTS} > {layouts}")
    assert page.run("return document.querySelectorAll('#graph .box.open').length") == 1
    assert page.run("return document.querySelectorAll('#graph .box').length") > closed
    page.press("ArrowDown")
    assert len(page.run(SELECTED)) <= 2 and " = " in page.run(SELECTED)[-1]
    assert page.run("return document.querySelectorAll('#graph .box.current').length") == 1
    layouts = page.run(f"return {LAYOUTS}")
    page.press("Enter")
    page.wait(f"{LAYOUTS} > {layouts}")
    assert page.run("return document.querySelectorAll('#graph .box.open').length") == 0
    assert page.run("return document.activeElement.id") == "graph"


@needs_browser
def test_search_finds_values_kernels_source_and_texts(opened):
    page = opened(explorer.page(inspected().data))
    page.press("/", *"exp")
    kinds = page.run("return [...document.querySelectorAll('#found b')].map(b => b.textContent)")
    assert {"kernel", "value", "source", "MLIR", "Assembly"} <= {*kinds}
    for _ in range(kinds.index("source")):
        page.press("ArrowDown")
    page.press("Enter")
    assert page.run(MARKED)[0] == 1
    page.press("Escape", "/", *"no such thing")
    assert page.run("return document.getElementById('found').textContent") == "nothing found"


@needs_browser
def test_the_table_shows_times_where_they_were_measured_and_sorts_by_any_head(opened, tmp_path):
    heads = "return [...document.querySelectorAll('.heads button')].map(b => b.textContent)"
    names = "return [...document.querySelectorAll('.table .row')].map(r => r.children[1].textContent)"
    page = opened(explorer.page(inspected().data))
    assert page.run(heads) == ["step", "name", "half", "moves", "computes", "values"]
    as_run = page.run(names)
    page.run("[...document.querySelectorAll('.heads button')].find(b => b.textContent === 'name').click()")
    assert page.run(names) == sorted(as_run) != as_run
    inspected().save_html(tmp_path / "timed.html", time=True)
    page = opened((tmp_path / "timed.html").read_text(encoding="utf-8"))
    assert {"time", "GB/s", "GFLOP/s"} <= {*page.run(heads)}
    times = page.run("return [...document.querySelectorAll('.table .row')].map(r => r.children[3].textContent)")
    assert all(re.fullmatch(r"[\d.]+ (µs|ms)", time) for time in times)


@needs_browser
def test_an_input_leads_to_the_steps_that_read_it(opened):
    page = opened(explorer.page(inspected().data))
    page.run(
        "const box = [...document.querySelectorAll('#graph .box')].find(b => /^x +f64/.test(b.textContent));"
        "box.dispatchEvent(new MouseEvent('click'))"
    )
    source, kernels = page.run(MARKED)[:2]
    assert source == 1 and kernels >= 1 and any(text.startswith("x ") for text in page.run(SELECTED))


@needs_browser
def test_light_and_dark_and_as_the_system(opened):
    back = "return getComputedStyle(document.body).backgroundColor"
    page = opened(explorer.page(inspected().data))
    page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    page.wait("document.documentElement.dataset.theme === 'dark'")
    dark = page.run(back)
    page.press("t")
    assert page.run("return document.documentElement.dataset.theme") == "light"
    page.command("Emulation.setEmulatedMedia", features=[])
    assert sum(map(int, re.findall(r"\d+", page.run(back)))) > 600 > sum(map(int, re.findall(r"\d+", dark)))


@needs_browser
def test_forward_and_backward_are_told_apart(opened):
    page = opened(explorer.page(inspected().data))
    halves = page.run("return [...document.querySelectorAll('.table .half')].map(e => e.textContent)")
    assert {"forward", "backward"} <= {*halves}
    lines = page.run(
        "return ['forward', 'backward'].map(half => {"
        " const r = document.querySelector(`#graph .box.step.${half} > rect`);"
        " const s = getComputedStyle(r); return [s.fill, s.strokeDasharray]; })"
    )
    assert lines[0][0] != lines[1][0] and lines[0][1] == "none" != lines[1][1]


@needs_browser
def test_a_loop_opens_to_the_steps_of_its_body(opened):
    page = opened(explorer.page(inspected(loop, "f64[4,4]", "f64[9,4]").data))
    place = page.run(
        "const box = [...document.querySelectorAll('#graph .box')].find(b => b.textContent.includes('loop of'));"
        "const r = box.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]"
    )
    layouts, before = page.run(f"return [{LAYOUTS}, {BOXES}]")
    page.click(*place, times=2)
    page.wait(f"{LAYOUTS} > {layouts}")
    assert page.run(f"return {BOXES}") >= before + 4  # two kernels, the state, an element of the rows


@needs_browser
def test_a_large_kernel_shows_what_is_near_the_selection(opened):
    def chain(x):
        for k in range(200):
            x = ad.sin(x) * (1.0 + k)
        return x

    page = opened(explorer.page(ad.inspect(chain, "f64[1000]").data))
    page.press("n", "3")
    layouts = page.run(f"return {LAYOUTS}")
    page.press("Enter")
    page.wait(f"{LAYOUTS} > {layouts}")
    assert (
        20 < page.run(f"return {BOXES}") < 100
        and page.run("return document.querySelectorAll('#graph .box.more').length") <= 1
    )
    layouts = page.run(f"return {LAYOUTS}")
    page.press("/", *"= sin", "ArrowDown", "ArrowDown", "ArrowDown", "Enter")  # a value far from the last one
    page.wait(f"{LAYOUTS} > {layouts}")
    assert any(" = sin" in text for text in page.run(SELECTED))


@pytest.mark.parametrize(
    "policy",
    ["default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'",
     "script-src 'unsafe-inline' blob:; worker-src blob:; style-src 'unsafe-inline'"],
    ids=["no workers", "no WebAssembly"],
)  # fmt: skip
@needs_browser
def test_a_list_takes_the_place_of_the_drawing_where_it_is_forbidden(policy, chromium):
    text = explorer.page(inspected().data).encode()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Security-Policy", policy)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = chromium
        page.open(f"http://127.0.0.1:{server.server_port}/")
        page.wait(f"document.body.dataset.ready && {LAYOUTS}")
        assert page.run("return document.querySelector('.note').textContent").startswith("A list")
        click_row(page, 0, "ad.sin(a)")
        assert page.run("return document.querySelectorAll('#graph .row.sel').length") >= 1
        rows = page.run("return document.querySelectorAll('#graph .row').length")
        kernel = "[...document.querySelectorAll('#graph .row')].find(r => r.textContent.includes('_sin_'))"
        page.run(f"{kernel}.click(); document.getElementById('graph').focus()")
        page.press("Enter")
        page.wait(f"document.querySelectorAll('#graph .row').length > {rows}")
        server.shutdown()


@needs_browser
def test_a_notebook_shows_the_page_in_a_frame(chromium, tmp_path):
    text = f"<!doctype html><title>notebook</title><body>{inspected()._repr_html_()}"
    (tmp_path / "notebook.html").write_text(text, encoding="utf-8")
    page = chromium
    page.open(tmp_path / "notebook.html")
    page.wait("document.querySelector('iframe').srcdoc.includes('layout-worker')")
    page._ask("POST", "/frame", id=page._ask("POST", "/element", using="css selector", value="iframe"))
    page.wait(f"document.body.dataset.ready && {LAYOUTS}")
    assert page.run("return document.querySelectorAll('#graph .box').length") > 5


@needs_browser
@pytest.mark.slow
def test_two_thousand_values_do_not_stall(opened):
    text = explorer.page(inspected(lambda w, x: net(w, x, layers=70)).data)
    page = opened(text)
    assert "values" in page.run("return document.getElementById('summary').textContent")
    values = int(page.run("return document.getElementById('summary').textContent").split()[0])
    assert values > 1900
    act = (
        "const start = performance.now(); {};"
        "return new Promise(done => requestAnimationFrame(() => setTimeout(() => done(performance.now() - start))))"
    )
    took = {
        "ready": int(page.run("return document.body.dataset.ready")),
        "kernel": page.run(act.format("document.querySelectorAll('.table .row')[5].click()")),
        "line": page.run(act.format("document.querySelectorAll('.code .row')[4].click()")),
    }
    print(took)
    assert took["ready"] < 5000 and took["kernel"] < 500 and took["line"] < 500
    assert page.run("return document.querySelectorAll('*').length") < 3000  # what is not in view is not there


# ---------------------------------------------------------------- without a browser


def test_a_page_refers_to_nothing_else():
    text = explorer.page(inspected().data)
    ours = text
    for name in ("graphviz.js", "d3.js"):
        ours = ours.replace((FILES / "vendored" / name).read_text(encoding="utf-8"), "")
    assert not re.findall(r"""(?:src|href|url|import|fetch)\s*[=(]\s*["']?(?:https?:)?//""", ours)
    assert re.findall(r"https?://[^\s\"'`]+", ours) == ["http://www.w3.org/2000/svg"]
    assert not re.findall(r"\b(?:fetch|XMLHttpRequest|importScripts|WebSocket|localStorage)\b", ours)


def test_a_page_is_the_same_each_time_and_shows_names_as_text():
    def f(x):
        return ad.sum(x * 2.0)  # </script><script>alert(1)</script>

    f.__name__ = "f"
    first, second = (explorer.page({**ad.inspect(f, "f64[3]").data, "name": "</title><b>"}) for _ in range(2))
    assert first == second
    assert "<title>&lt;/title&gt;&lt;b&gt;</title>" in first and "alert(1)" not in first


def test_no_script_ends_its_element():
    for path in FILES.rglob("*.js"):
        assert not re.search(r"</script|<!--", path.read_text(encoding="utf-8"), re.IGNORECASE), path.name


def test_every_script_is_part_of_the_page():
    assert {path.stem for path in FILES.glob("*.js")} == {*explorer.SCRIPTS, "layout_worker"}


def test_libraries_stand_with_their_licences():
    licenses = {path.name: path.read_text(encoding="utf-8") for path in (FILES / "vendored" / "licenses").iterdir()}
    assert "Eclipse Public License - v 2.0" in licenses["graphviz-EPL-2.0.txt"]
    assert {"d3-ISC.txt", "d3-ease-BSD-3-Clause.txt", "expat-MIT.txt", "fzstd-MIT.txt"} <= licenses.keys()
    page = explorer.page(inspected().data)
    assert "Eclipse Public License 2.0" in page and "Copyright 2010-2026 Mike Bostock" in page


def test_save_html_writes_the_page_with_times_if_asked(tmp_path):
    seen = ad.inspect(net, np.full((8, 8), 0.1), np.ones((16, 8)), backward=True)
    seen.save_html(tmp_path / "plain.html")
    assert (tmp_path / "plain.html").read_text(encoding="utf-8") == explorer.page(seen.data)
    seen.save_html(tmp_path / "timed.html", time=True)
    packed = re.search(r'id="data">([^<]+)<', (tmp_path / "timed.html").read_text(encoding="utf-8"))
    steps = json.loads(gzip.decompress(base64.b64decode(packed[1])))["program"]["steps"]
    assert all(0 <= step["time"] < 1 for step in steps) and sum(step["time"] for step in steps) > 0


def test_a_frame_holds_the_whole_page():
    page = explorer.page(inspected().data)
    srcdoc = re.search(r'srcdoc="([^"]*)"', explorer.frame(page))
    assert srcdoc and html.unescape(srcdoc[1]) == page


# ---------------------------------------------------------------- command line

PROGRAM = """
import autodiff as ad

def loss(w, x):
    return ad.sum(ad.tanh(x @ w) ** 2)
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    return f"{tmp_path / 'program.py'}:loss"


def run(*arguments):
    return autodiff("inspect", *arguments)


AVALS = ["--args", "f64[4], f64[8,4]", "--pass", "backward"]


def test_the_command_line_writes_the_page(program, tmp_path):
    done = run(program, *AVALS, "--html", tmp_path / "out.html")
    assert done.exit_code == 0 and done.stdout == "" and "wrote" in done.stderr
    plain = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "<title>loss_gradient</title>" in plain
    assert run(program, *AVALS, "--html", tmp_path / "out.html", "--time").exit_code == 0
    assert (tmp_path / "out.html").read_text(encoding="utf-8") != plain


def test_the_command_line_prints_the_graph_for_graphviz(program):
    drawn = run(program, *AVALS, "--dot").stdout
    assert drawn.startswith('digraph "loss_gradient" {') and drawn.rstrip().endswith("}") and "dashed" in drawn


def test_an_svg_is_drawn_by_the_program_dot(program, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run(program, *AVALS, "--svg", tmp_path / "out.svg")
    assert done.exit_code == 1 and "`dot`, which is not installed" in done.stderr and "--html" in done.stderr
    (tmp_path / "dot").write_text("#!/bin/sh\n[ $1 = -Tsvg ] && /bin/cat\n")  # draws by giving back what it got
    (tmp_path / "dot").chmod(0o755)
    assert run(program, *AVALS, "--svg", tmp_path / "out.svg").exit_code == 0
    assert (tmp_path / "out.svg").read_text(encoding="utf-8").startswith("digraph")
    (tmp_path / "dot").write_text("#!/bin/sh\n/bin/cat > /dev/null; echo no good >&2; exit 3\n")
    assert "`dot` failed: no good" in run(program, *AVALS, "--svg", tmp_path / "out.svg").stderr


@pytest.mark.skipif(not shutil.which("dot"), reason="Graphviz is not installed")
def test_graphviz_draws_the_graph(program, tmp_path):
    assert run(program, *AVALS, "--svg", tmp_path / "out.svg").exit_code == 0
    assert "<svg" in (tmp_path / "out.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "arguments, words",
    [(["--time"], "--time is for --html"),
     (["--html", "no/such/folder/out.html"], "cannot write no/such/folder/out.html: No such file")],
)  # fmt: skip
def test_misuse_is_told(program, arguments, words):
    done = run(program, *AVALS, *arguments)
    assert done.exit_code in (1, 2) and words in done.stderr


def test_a_graph_that_a_script_compiled_has_a_page(program, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(PROGRAM + "\nad.jit(ad.grad(loss))(ad.ones(4), ad.ones((8, 4)))\n")
    assert run(script, "--graph", 0, "--html", tmp_path / "out.html", "--time", "--dot").stdout.startswith("digraph")
    assert "LLVM" in (tmp_path / "out.html").read_text(encoding="utf-8")


def test_what_cannot_run_on_random_numbers_says_what_to_give(tmp_path):
    def f(a):
        return ad.sum(ad.linalg.cholesky(a))

    with pytest.raises(ad.Error, match="give arrays in place of types"):
        ad.inspect(f, "f64[3,3]").save_html(tmp_path / "out.html", time=True)
    ad.inspect(f, np.eye(3)).save_html(tmp_path / "out.html", time=True)


def test_a_page_cannot_be_made_of_what_a_pickle_kept(tmp_path):
    sent = pickle.loads(pickle.dumps(inspected()))
    with pytest.raises(ad.Error, match="came out of a pickle"):
        sent.save_html(tmp_path / "out.html")
    assert sent._repr_html_() == sent.html
