"""The costs of a program's start: only what it uses is imported, and nothing is compiled."""

import ast
import subprocess
import sys
from operator import attrgetter

import pytest

import autodiff as ad

#: Not needed before somebody asks for it by name.
LATER = (
    "autodiff.cli", "autodiff.control", "autodiff.custom.call", "autodiff.dispatch.introspection",
    "autodiff.inspection", "autodiff.ops.linalg", "autodiff.ops.recorder",
    "autodiff.structured", "autodiff.testing", "autodiff.transforms.batch", "autodiff.transforms.forward",
    "autodiff.transforms.second_order", "codegen.families", "codegen.ir.text", "codegen.kernel.mlir",
    "codegen.passes.nests", "codegen.runtime.host_steps",
    "codegen.runtime.loops",
    "codegen.runtime.products", "codegen.runtime.stages", "codegen.runtime.shared_blocks",
)  # fmt: skip
#: What costs milliseconds, and stands in for something that does not.
HEAVY = (
    "_hashlib", "dis", "html", "importlib.resources", "llvmlite.binding", "llvmlite.ir", "logging", "numpy.ma",
    "opt_einsum", "pathlib", "rich", "scipy", "string", "tempfile", "typer", "xdsl", "zipfile",
)  # fmt: skip

PRINT = "import sys; print(sorted(sys.modules))"


def modules_after(program: str) -> set[str]:
    """The modules that are imported when a new process has run this."""
    run = [sys.executable, "-c", f"{program}\n{PRINT}"]
    return set(ast.literal_eval(subprocess.run(run, check=True, capture_output=True, text=True).stdout))


@pytest.fixture(scope="module")
def before():
    return modules_after("import numpy")


def those_of(found, names):
    return [module for module in sorted(found) if module.startswith(tuple(f"{n}." for n in names)) or module in names]


def test_importing_the_library_imports_nothing_that_most_programs_never_use(before):
    found = modules_after("import autodiff") - before
    assert not those_of(found, LATER)
    assert not those_of(found, HEAVY)


def test_a_first_gradient_imports_no_more_of_it(before):
    found = modules_after("import autodiff as ad\nad.grad(lambda x: ad.sum(ad.sin(x) * x))(ad.pi)") - before
    found -= modules_after("import llvmlite.binding")  # there is no code on disk
    assert not those_of(found, LATER)
    assert not those_of(found, HEAVY)


def test_what_is_imported_later_is_there_by_name_and_listed():
    program = (
        "import autodiff as ad\n"
        "assert {'Diagonal', 'scan', 'inspect', 'check_gradients', 'linalg'} <= set(dir(ad))\n"
        "from autodiff import Diagonal\n"
        "assert ad.control.scan is ad.scan\n"
        "from autodiff import *\n"
        "assert Symmetric is ad.Symmetric and cond is ad.cond\n"
    )
    assert "autodiff.structured" in modules_after(program)


def test_a_name_that_is_nowhere_is_an_error_that_names_it():
    with pytest.raises(AttributeError, match="module 'autodiff' has no attribute 'Diagnoal'"):
        attrgetter("Diagnoal")(ad)


@pytest.mark.parametrize(
    "use",
    [
        "assert 'Diagonal' in str(ad.methods(ad.matmul))",
        "assert not ad.ambiguities()",
        "class Mine(ad.AbstractTensor): pass\nassert 'shape' in dir(Mine)",
        "@ad.matmul.method(ad.Matrix, int)\ndef _(x1, x2): return x1",
    ],
)
def test_methods_that_come_late_are_there_for_who_lists_or_adds_methods(use):
    assert "autodiff.structured" in modules_after(f"import autodiff as ad\n{use}")


@pytest.mark.parametrize(
    "use, others", [("scan", ("autodiff.structured", "autodiff.ops.linalg")), ("Diagonal", ("autodiff.control",))]
)
def test_what_comes_late_brings_nothing_else_with_it(use, others):
    assert not those_of(modules_after(f"import autodiff as ad\nad.{use}"), others)


#: Large enough to be shared among threads.
FIRST = """
import autodiff as ad, numpy as np
from codegen.runtime import native, threads
x = np.linspace(-2.0, 3.0, 60_000)
def f(x, i):
    return ad.sum(ad.exp(-x * x) * ad.sin(x)) + ad.sum(x[i])
g = ad.value_and_grad(ad.jit(f)) if {jitted} else ad.value_and_grad(f)
i = np.array([3, 5])
first = g(x, i)
assert not native.is_made() and not threads.is_made()
native_calls, calls = 0, 0
while native_calls < 3:
    native_calls += native.is_made() and threads.is_made()
    calls += 1
    assert calls < 50_000
    again = g(x, i)
    assert first[0] == again[0] and np.array_equal(first[1], again[1])
"""


@pytest.mark.parametrize("jitted", [False, True])
def test_the_first_call_makes_no_launcher_and_has_the_bits_of_those_after_it(jitted):
    assert "codegen.runtime.native" in modules_after(FIRST.format(jitted=jitted))


def test_a_first_loop_makes_no_launcher_either():
    program = (
        "import autodiff as ad, numpy as np\n"
        "from codegen.runtime import native\n"
        "x = np.linspace(0.0, 1.0, 50)\n"
        "f = ad.jit(ad.value_and_grad(lambda x: ad.scan(lambda c, a: (c * 0.5 + ad.sin(a), c), x[0], x)[0]))\n"
        "first = f(x)\n"
        "assert not native.is_made()\n"
        "again = f(x)\n"
        "native.native()\n"
        "last = f(x), f(x)\n"
        "assert all(first[0] == g[0] and np.array_equal(first[1], g[1]) for g in (again, *last))\n"
        "g = ad.jit(lambda x: ad.scan(lambda c, a: (c * 0.5 + ad.cos(a), c), x[0], x)[0])\n"
        "assert g(x) == g(x)\n"
    )
    assert "codegen.runtime.loops" in modules_after(program)


LOOPS_OF_PRODUCTS = {
    "a loop": "ad.fori_loop(0, 20, lambda i, c: ad.tanh(c @ w), x)",
    "a loop that counts when it runs": "ad.while_loop(lambda c: ad.sum(c * c) > 0.1, lambda c: ad.tanh(c @ w), x)",
    "a branch": "ad.cond(ad.sum(x) > 0, lambda c: ad.tanh(c @ w), lambda c: c @ w @ w, x)",
}


@pytest.mark.parametrize("result", LOOPS_OF_PRODUCTS.values(), ids=LOOPS_OF_PRODUCTS)
def test_a_first_loop_of_products_makes_no_launcher_and_has_the_bits_of_later_ones(result):
    program = (
        "import autodiff as ad, numpy as np\n"
        "from codegen.runtime import native\n"
        "rng = np.random.default_rng(1)\n"
        "x, w = rng.normal(size=(32, 24)), rng.normal(size=(24, 24), scale=0.1)\n"
        f"f = ad.jit(ad.value_and_grad(lambda x, w: ad.sum({result} ** 2), argnums=(0, 1)))\n"
        "first = f(x, w)\n"
        "assert not native.is_made()\n"
        "again = f(x, w)\n"
        "native.native()\n"
        "for later in (again, f(x, w), f(x, w)):\n"
        "    assert first[0] == later[0] and all(np.array_equal(a, b) for a, b in zip(first[1], later[1]))\n"
        "ad.clear_cache()\n"
        f"g = ad.value_and_grad(lambda x, w: ad.sum({result} ** 2), argnums=(0, 1))\n"
        "assert np.array_equal(g(x, w)[1][1], first[1][1])\n"
    )
    assert "codegen.runtime.loops" in modules_after(program)


@pytest.mark.parametrize("of_tensors", [False, True])
def test_the_second_call_makes_the_launcher_and_has_the_bits_of_the_first(of_tensors):
    program = (
        "import autodiff as ad, numpy as np\n"
        "from codegen.runtime import native\n"
        f"x = {'ad.tensor' if of_tensors else ''}(np.linspace(0.0, 1.0, 7))\n"
        "f = ad.jit(lambda x: ad.exp(x) * x)\n"
        "first = np.asarray(f(x))\n"
        "assert not native.is_made() and not f.traced.native_calls\n"
        "again = np.asarray(f(x))\n"
        "assert native.is_made() and f.traced.native_calls\n"
        "assert np.array_equal(first, again) and np.array_equal(first, f(x))\n"
    )
    assert "codegen.runtime.launcher" in modules_after(program)


def test_a_first_large_product_makes_no_launcher():
    program = (
        "import autodiff as ad, numpy as np\n"
        "from codegen.runtime import native\n"
        "x = np.ones((700, 700))\n"
        "assert ad.jit(lambda x: ad.sum(x @ x))(x) == 700.0**3\n"
        "assert not native.is_made()\n"
    )
    assert "codegen.runtime.launcher" in modules_after(program)


def test_an_index_outside_is_found_at_the_first_call_too():
    program = (
        "import autodiff as ad, numpy as np\n"
        "from codegen.runtime import native\n"
        "try: ad.grad(lambda x, i: ad.sum(x[i + 2]))(np.ones(3), np.array([1]))\n"
        "except IndexError as error: assert 'when a value is computed' in str(error)\n"
        "else: raise AssertionError\n"
        "assert not native.is_made()\n"
    )
    assert "autodiff" in modules_after(program)


def test_ctrl_c_while_something_is_imported_leaves_it_whole():
    program = (
        "import autodiff as ad, signal, threading\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "timer = threading.Timer(0.003, signal.raise_signal, (signal.SIGINT,))\n"
        "try:\n"
        "    timer.start()\n"
        "    while True: ad.scan, ad.Diagonal\n"
        "except KeyboardInterrupt: pass\n"
        "assert ad.scan.__module__ == 'autodiff.control.loops' and ad.Diagonal.__module__.startswith('autodiff')\n"
    )
    assert "autodiff.structured" in modules_after(program)


@pytest.mark.parametrize("switch", ["enable", "disable"])
@pytest.mark.parametrize("broken", ["", "import sys; sys.modules['autodiff.jit'] = None"])
def test_importing_leaves_the_collector_of_cycles_as_it_was_even_if_it_fails(switch, broken):
    program = f"""
import gc
gc.{switch}()
before = gc.get_threshold()
{broken}
failed = False
try:
    import autodiff
except ImportError:
    failed = True
assert failed == {bool(broken)}
assert gc.isenabled() == {switch == "enable"}
assert gc.get_threshold() == before
"""
    subprocess.run([sys.executable, "-c", program], check=True)
