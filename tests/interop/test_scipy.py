"""SciPy's functions on tensors: those of `scipy.special`, and with SCIPY_ARRAY_API=1 those for any array library."""

import json
import subprocess
import sys

import numpy as np
import pytest
import scipy.special

import autodiff as ad
from autodiff.ops.protocols import _RENAMED

UFUNCS = sorted(n for n in dir(scipy.special) if isinstance(getattr(scipy.special, n), np.ufunc))
#: Numbers that every function of ours takes.
POINTS = {"logit": (0.3,), "erfinv": (0.3,), "log_ndtr": (-1.5,)}
OURS = sorted({*ad.special.__all__, *ad.ops.__all__, *ad.ops.LATER})


def _ours(name):
    name = _RENAMED.get(name, name)
    return getattr(ad.special, name, None) if name in ad.special.__all__ else getattr(ad, name, None)


@pytest.mark.parametrize("name", UFUNCS)
def test_each_function_of_scipy_special_records_or_says_what_there_is(name):
    theirs = getattr(scipy.special, name)
    point = POINTS.get(name, (0.7, 1.3, 0.4, 0.6, 0.5, 0.2, 0.1, 0.9)[: theirs.nin])
    xs = [ad.tensor(np.full(2, p), requires_grad=True) for p in point]
    ours = _ours(name) if _RENAMED.get(name, name) in OURS else None
    if ours is None:
        told = rf"(?s)scipy\.special\.{theirs.__name__} has no counterpart.*test_scipy\.py.*ad\.special has .*expit"
        with pytest.raises(ad.GradientError, match=told):
            theirs(*xs)
        with pytest.raises(ad.ConcretizationError, match=told):
            ad.jit(lambda *xs: theirs(*xs))(*map(np.float64, point))
        return
    y = theirs(*xs)
    assert isinstance(y, ad.Tensor)
    np.testing.assert_allclose(y.detach(), theirs(*[x.detach().numpy() for x in xs]), rtol=1e-12)
    found = ad.grad(lambda *xs: ad.sum(theirs(*xs)), argnums=tuple(range(len(xs))))(*point)
    wanted = ad.grad(lambda *xs: ad.sum(ours(*xs)), argnums=tuple(range(len(xs))))(*point)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "keywords", [{"where": [True, True], "out": np.ones(2)}, {"dtype": np.float32}, {"out": np.zeros(2)}]
)
def test_keywords_of_universal_functions_are_refused_by_scipys_name(keywords):
    with pytest.raises(ad.GradientError, match=rf"scipy\.special\.expit with {'= and '.join(keywords)}=.*lost"):
        scipy.special.expit(ad.tensor([0.5, 1.0], requires_grad=True), **keywords)
    values = scipy.special.expit(ad.tensor([0.5, 1.0]), **keywords)  # no gradient is lost: SciPy computes
    assert type(values) is np.ndarray


def test_where_no_gradient_is_lost_scipy_computes():
    found = scipy.special.j0(ad.tensor([0.5, 1.0]))
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, scipy.special.j0([0.5, 1.0]))


@pytest.mark.parametrize("name", ["logsumexp", "softmax", "log_softmax", "multigammaln", "factorial"])
def test_other_functions_of_scipy_special_never_lose_a_gradient(name):
    """Without SCIPY_ARRAY_API they ask for arrays: the error names the user's line."""
    more = (2,) if name == "multigammaln" else ()
    with pytest.raises(ad.GradientError, match=r"(?s)np\.asarray.*test_scipy\.py"):
        getattr(scipy.special, name)(ad.tensor([1.5, 2.5], requires_grad=True), *more)


#: Calls of SciPy's functions for any array library, with a vector of positive numbers.
CALLS = [
    "special.logsumexp(x)", "special.softmax(x)", "special.log_softmax(x)", "special.multigammaln(x+1,2)",
    "special.expit(x)", "special.gammaln(x)", "special.xlogy(x,x)", "special.rel_entr(x,x*x)", "stats.zscore(x)",
    "stats.gzscore(x)", "stats.zmap(x,x*x)", "stats.variation(x)", "stats.gmean(x)", "stats.hmean(x)",
    "stats.pmean(x,2)", "stats.sem(x)", "stats.skew(x)", "stats.kurtosis(x)", "stats.moment(x,2)", "stats.entropy(x)",
    "stats.circmean(x)", "stats.tmean(x)", "stats.trim_mean(x,0.1)", "stats.iqr(x)", "stats.describe(x).variance",
    "integrate.trapezoid(x)", "integrate.cumulative_trapezoid(x)", "integrate.cumulative_simpson(x)", "fft.fft(x)",
    "fft.rfft(x)", "fft.hfft(x)", "fft.ihfft(x)", "fft.fftn(x)", "fft.fftshift(x)", "signal.hilbert(x)",
    "signal.fftconvolve(x,x)", "optimize.rosen(x)", "optimize.rosen_der(x)", "linalg.block_diag(x,x)",
]  # fmt: skip

PROGRAM = """
import json, sys
import numpy as np
import autodiff as ad
from scipy import fft, integrate, linalg, optimize, signal, special, stats

def number(y):
    y = ad.abs(y) if y.dtype.kind == "c" else y
    return ad.sum(ad.sin(y))

told = {}
start = np.array([0.6, 1.1, 2.3, 0.4])
for call in json.loads(sys.argv[1]):
    f = eval(f"lambda x: {call}")
    try:
        y = f(ad.tensor(start, requires_grad=True))
        assert isinstance(y, ad.Tensor) and y.requires_grad, "no tensor with a history"
        np.testing.assert_allclose(y.detach(), f(start), rtol=1e-10, atol=1e-12)
        ad.check_gradients(lambda x: number(f(x)), start, order=1)
        told[call] = "right"
    except Exception as error:
        told[call] = f"{type(error).__name__}: {error}"
print(json.dumps(told))
"""


def test_scipys_functions_for_any_array_library_run_on_tensors(sharing):
    given = {**sharing, "SCIPY_ARRAY_API": "1"}
    del given["AUTODIFF_PATIENCE"]  # as users have it
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(CALLS)], capture_output=True, text=True, env=given, check=True
    )
    told = json.loads(run.stdout)
    assert set(told) == set(CALLS)
    assert {call: said for call, said in told.items() if said != "right"} == {}
