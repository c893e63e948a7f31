"""Functions of NumPy and packages that compare, show or write values read a tensor that requires grad."""

import io
import types

import numpy as np
import pytest

import autodiff as ad

X = [0.5, 2.0]


def leaf():
    return ad.tensor(X, requires_grad=True)


def computed():
    return leaf() * 1.0


READ = {
    "allclose": lambda x: np.allclose(x, X),
    "allclose, second": lambda x: np.allclose(X, x),
    "array_equiv": lambda x: np.array_equiv(x, X),
    "array2string": lambda x: np.array2string(x) == "[0.5 2. ]",
    "array_repr": lambda x: np.array_repr(x) == "array([0.5, 2. ])",
    "array_str": lambda x: np.array_str(x) == "[0.5 2. ]",
    "shares_memory": lambda x: not np.shares_memory(x, np.ones(2)),
    "assert_allclose": lambda x: np.testing.assert_allclose(x, X) is None,
    "assert_array_equal": lambda x: np.testing.assert_array_equal(x, X) is None,
    "assert_array_almost_equal": lambda x: np.testing.assert_array_almost_equal(X, x) is None,
    "approx": lambda x: x.tolist() == pytest.approx(X),
}


@pytest.mark.parametrize("make", [leaf, computed])
@pytest.mark.parametrize("name", READ)
def test_values_are_read(name, make):
    assert READ[name](make())


@pytest.mark.parametrize("make", [leaf, computed])
@pytest.mark.parametrize("write", ["save", "savez", "savez_compressed", "savetxt"])
def test_values_are_written(write, make):
    file = io.StringIO() if write == "savetxt" else io.BytesIO()
    getattr(np, write)(file, make())
    file.seek(0)
    found = np.loadtxt(file) if write == "savetxt" else np.load(file)
    np.testing.assert_array_equal(found["arr_0"] if write.startswith("savez") else found, X)


def test_a_comparison_that_fails_says_so():
    with pytest.raises(AssertionError, match="Mismatched elements: 1 / 2"):
        np.testing.assert_allclose(leaf(), [0.5, 3.0])
    assert not np.allclose(leaf(), [0.5, 3.0])


@pytest.mark.parametrize("package", ["matplotlib.axes", "seaborn", "mpl_toolkits.mplot3d", "IPython.core"])
def test_packages_that_show_values_get_them(package):
    plot = types.ModuleType(package)
    exec("import numpy as np\ndef plot(x): return np.asarray(x)", plot.__dict__)
    np.testing.assert_array_equal(plot.plot(computed()), X)


def test_the_users_own_line_does_not():
    with pytest.raises(ad.GradientError, match=r"(?s)np\.asarray of a f64\[2\].*test_readers\.py"):
        np.asarray(computed())


@pytest.mark.parametrize("read", [np.allclose, np.array_equiv])
def test_in_a_trace_there_is_no_value_to_read(read):
    with pytest.raises(ad.ConcretizationError, match=r"(?s)reads values.*test_readers\.py.*ad\.allclose"):
        ad.jit(lambda x: read(x, X))(np.array(X))


def test_what_is_read_in_a_forward_decides_for_that_value_only():
    @ad.function
    def f(x): ...

    @f.forward(ad.Tensor, host=True)
    def _(ctx, x):
        return x * (2.0 if np.allclose(x, X) else 3.0)

    assert float(f(ad.tensor(X))[0]) == 1.0
    assert float(f(ad.tensor([1.0, 2.0]))[0]) == 3.0


@pytest.mark.smoke
def test_copies():
    x = leaf()
    for y in (x.copy(), np.copy(x)):
        assert y is not x
        assert y.requires_grad
        y[0] = 9.0
        assert x.tolist() == X
    ad.sum(x.copy() ** 2).backward()
    np.testing.assert_array_equal(x.grad, [1.0, 4.0])


def test_attributes_of_arrays():
    t = ad.ones((2, 3), dtype=ad.float32)
    assert (t.itemsize, t.nbytes, t.device, t.strides) == (4, 24, "cpu", (12, 4))
    assert ad.ones(()).strides == np.ones(()).strides and ad.ones((0, 3)).strides == (24, 8)
    assert t.to_device("cpu") is t
    with pytest.raises(ValueError, match="no device 'cuda'"):
        t.to_device("cuda")
    assert ad.tensor([1 + 2j]).conjugate().tolist() == [1 - 2j]


# ---------------------------------------------------------------- notebooks


def test_a_notebook_shows_tensors():
    assert leaf()._repr_html_() == "<div><code>f64[2], requires grad</code><pre>[0.5 2. ]</pre></div>"
    assert ad.tensor(2.0)._repr_html_() == "<div><code>f64[] 2.0</code></div>"
    assert "<pre>[]</pre>" in ad.ones((0,))._repr_html_()
    assert "[[1. 1.]\n [1. 1.]]" in ad.ones((2, 2))._repr_html_()


def test_a_notebook_shows_functions_with_their_methods():
    @ad.function
    def scaled(x):
        """x < y & z."""

    @scaled.method(ad.Vector)
    def _(x):
        return x

    page = scaled._repr_html_()
    assert "scaled: generic function of 1 method" in page
    assert "x &lt; y &amp; z." in page
    assert "scaled(x: Tensor[..., 1])" in page


def test_saved_variables_are_like_named_tuples():
    seen = []

    @ad.function
    def scaled(x, factor): ...

    @scaled.forward(ad.Tensor, ad.Number)
    def _(ctx, x, factor):
        ctx.save_for_backward(x=x, factor=factor)
        return x * factor

    @scaled.backward(ad.Tensor, ad.Number)
    def _(ctx, y_bar):
        saved, needs = ctx.saved_variables, ctx.needs_input_grad
        seen.append((saved._fields, list(saved._asdict()), needs._fields, needs._asdict()))
        return {"x": y_bar * saved.factor}

    ad.grad(lambda x: ad.sum(scaled(x, 2.0)))(np.ones(3))
    assert seen[0] == (("x", "factor"), ["x", "factor"], ("x", "factor"), {"x": True, "factor": False})
