"""Things that people make arrive in other processes: by its name, or by value where cloudpickle sends it."""

import decimal
import os
import pickle
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

import cloudpickle
import numpy as np
import pytest

import autodiff as ad
from autodiff import sending

HERE = Path(__file__).parent
X = np.array([1.0, 2.0])


def test_everything_of_a_script_arrives_in_a_fresh_process(tmp_path, sharing):
    file = str(tmp_path / "sent.pickle")
    for script in ("sent_things.py", "received.py"):
        command = [sys.executable, HERE / script, file]
        told = subprocess.run(command, capture_output=True, text=True, timeout=300, env=sharing)
        assert not told.returncode, told.stderr
    assert told.stdout.splitlines() == ["42 things"], told.stdout


@ad.jit
def doubled(x):
    return x * 2.0


@ad.function
def halved(x): ...


@halved.method(ad.Tensor)
def _(x):
    return x / 2.0


@ad.function
def halved_by_rule(x): ...


@halved_by_rule.forward(ad.Tensor)
def _(ctx, x):
    return x / 2.0


@halved_by_rule.backward(ad.Tensor)
def _(ctx, x_bar):
    return x_bar / 2.0


@pytest.mark.parametrize("send", [pickle.dumps, cloudpickle.dumps], ids=["pickle", "cloudpickle"])
@pytest.mark.parametrize(
    "thing",
    [doubled, halved, ad.sum, ad.linalg.det, ad.special.erf, ad.random.normal, ad.Matrix, ad.Tensor[ad.float32, 2]],
    ids=["jit", "function", "sum", "det", "erf", "normal", "Matrix", "Tensor[float32, 2]"],
)
def test_what_a_module_has_goes_by_its_name(thing, send):
    data = send(thing)
    assert pickle.loads(data) is thing and len(data) < 120


NOTEBOOK = """
import autodiff as ad
import numpy as np

factor = 2.0
data = np.arange(3.0)

@ad.jit
def f(x):
    return ad.sum(x * data) * factor

@ad.function
def g(x): ...

@g.method(ad.Tensor)
def _(x):
    return x * 2.0

class Length(ad.AbstractTensor):
    shape, dtype = (), ad.float64
    def __init__(self, metres):
        self.metres = metres

@ad.cos.method(Length)
def _(x):
    return x.metres * 10.0
"""


@pytest.fixture
def cell():
    """A namespace as that of a notebook: a module that is nowhere found."""
    module = ModuleType("cell_of_a_notebook")
    exec(NOTEBOOK, module.__dict__)
    return module


def arrived(x):
    """x as another process gets it: nothing here knows the keys that travel."""
    data = cloudpickle.dumps(x)
    before, sending.keys._sent = sending.keys._sent, {}
    try:
        return pickle.loads(data)
    finally:
        sending.keys._sent = before


@pytest.mark.smoke
def test_what_comes_back_is_the_very_same(cell):
    for x in (cell.f, cell.g):
        assert pickle.loads(cloudpickle.dumps(x)) is x


def test_a_jit_function_that_arrives_again_is_the_same_and_is_traced_once(cell):
    first, second = arrived(cell.f), arrived(cell.f)
    assert first is second and first is not cell.f
    traced = first.traced
    assert first(np.ones(3)) == 6.0 and arrived(cell.f)(np.ones(3)) == 6.0 and first.traced is traced
    assert len(traced.entries) == 1


READING = """
import autodiff as ad

class Scale:
    def __init__(self):
        self.factor = 3.0
    def __call__(self, x):
        return x * self.factor

@ad.jit
def inner(x):
    return ad.sin(x)

outer = ad.function(lambda x: x * 2.0)
scale = Scale()

@ad.jit
def f(x):
    return READS(x)
"""


@pytest.mark.parametrize("reads", ["scale", "Scale()", "scale.__call__", "inner", "outer"])
def test_what_a_function_reads_may_be_defined_beside_it(reads, tmp_path):
    module = ModuleType("__main__")
    exec(READING.replace("READS", reads), module.__dict__)
    (tmp_path / "sent").write_bytes(pickle.dumps([cloudpickle.dumps(module.f) for _ in range(3)]))
    ran = subprocess.run([sys.executable, "-c", """
import pickle, sys
found = []
for data in pickle.load(open(sys.argv[1], "rb")):
    f = pickle.loads(data)
    f(1.0)
    found.append(f.traced)
print([len(t.entries) for t in found], len(set(found)))
""", str(tmp_path / "sent")], capture_output=True, text=True, check=True)
    assert ran.stdout == "[1, 1, 1] 1\n"


@pytest.mark.parametrize("change", ["number", "array in place", "function"])
def test_a_jit_function_that_reads_something_else_by_now_is_traced_anew(cell, change):
    first = arrived(cell.f)
    assert first(np.ones(3)) == 6.0
    if change == "number":
        cell.factor = 5.0
    elif change == "array in place":
        cell.data[1] = 2.5
    else:
        exec("factor = (lambda: 2.0)() * 2.5", cell.__dict__)
    again = arrived(cell.f)
    assert again is first and again(np.ones(3)) == (9.0 if change == "array in place" else 15.0)


def test_methods_that_are_added_later_arrive(cell):
    first = arrived(cell.g)
    assert first(ad.tensor(X)).tolist() == [2.0, 4.0]
    choices = first.changes
    assert arrived(cell.g) is first and first.changes == choices  # nothing was registered again

    later = "@g.method({})\ndef _(x):\n    return {}\n"
    exec(later.format("str", "x.upper()") + later.format("ad.Tensor", "x * 3.0"), cell.__dict__)
    assert arrived(cell.g) is first and first("a") == "A" and first(ad.tensor(X)).tolist() == [3.0, 6.0]


def test_methods_of_a_class_arrive_once(cell):
    code = (
        "import pickle, sys\n"
        "first, second = [pickle.loads(open(sys.argv[1], 'rb').read())[0] for _ in range(2)]\n"
        "import autodiff as ad\n"
        "print(ad.cos(first(2.0)), first is second, sum('Length' in str(m) for m in ad.methods(ad.cos)))"
    )
    told = received(code, [cell.Length])
    assert told == "20.0 True 1\n"


def received(code, x):
    """The output of a fresh process that runs the code on the pickle of x."""
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
        file.write(cloudpickle.dumps(x))
        file.flush()
        told = subprocess.run([sys.executable, "-c", code, file.name], capture_output=True, text=True, timeout=300)
    assert not told.returncode, told.stderr
    return told.stdout


def test_plain_pickle_says_how_to_send_what_has_no_name():
    for x in (ad.jit(lambda x: x), ad.function(_nameless)):
        with pytest.raises(pickle.PicklingError, match=r"found under no name(.|\n)*cloudpickle.dumps"):
            pickle.dumps(x)


def _nameless(x): ...


_nameless.__qualname__ = "nowhere"


def test_a_tensor_with_a_history_is_refused_and_a_leaf_loses_its_grad():
    w = ad.tensor(X, requires_grad=True)
    with pytest.raises(ad.GradientError, match="with history"):
        cloudpickle.dumps(w * 2.0)
    ad.sum(w * w).backward()
    assert pickle.loads(pickle.dumps(w)).grad is None


def test_the_size_of_a_tensor_counts_its_elements():
    assert sys.getsizeof(ad.ones(1000)) > 8000 and sys.getsizeof(ad.ones(1000, dtype=ad.float32)) < 5000


def test_classes_of_modules_are_left_alone():
    """Only what cloudpickle would send by value takes its methods along."""

    @halved.method(decimal.Decimal)
    def _(x):
        return x / 2

    assert "__autodiff_registered__" not in decimal.Decimal.__dict__ and halved(decimal.Decimal(4)) == 2


def test_the_second_process_finds_machine_code_on_disk(tmp_path):
    code = (
        "import autodiff as ad, numpy as np\n"
        "ad.jit(ad.value_and_grad(lambda x: ad.sum(ad.sin(x) * x)))(np.ones(5))\n"
        "print(ad.cache_info().loaded > 0)"
    )
    environment = os.environ | {"AUTODIFF_CACHE_DIR": str(tmp_path), "AUTODIFF_CACHE": "1"}
    for expected in ("False\n", "True\n"):
        told = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300
        )
        assert told.stdout == expected, told.stderr


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_a_tensor_with_history_is_refused_at_the_users_line(dumps):
    y = ad.tensor(X, requires_grad=True) * 2.0
    with pytest.raises(ad.GradientError, match=r"called at test_sending.py:\d+(.|\n)*worker process returns"):
        dumps(y)


def test_what_an_engine_pickles_by_itself_names_the_operation_and_no_line_of_the_engines():
    """The queue's own thread pickles arguments, a worker its results: nothing of the user's is on the stack then."""
    y = halved_by_rule(ad.tensor(X, requires_grad=True))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, pytest.raises(ad.GradientError) as caught:
        pool.submit(print, y).result()
    told = str(caught.value)
    assert "f64[2], made by halved_by_rule, recorded at test_sending.py:" in told, told
    assert "called at multiprocessing." in told and "outside of your program" in told, told
