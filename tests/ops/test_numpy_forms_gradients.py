"""NumPy's further parameters are differentiated, dispatched and traced like what they are made of."""

import inspect

import numpy as np
import pytest

import autodiff as ad

R = np.random.default_rng(11).normal(size=(3, 4))
S = np.random.default_rng(12).normal(size=(3, 3))
W = np.array([1.0, 3.0, 2.0])
M = R > -0.3
ROWS = M[:, :1] | M
HOLES = np.where(R > 1.0, np.nan, R)

#: Functions of one to three arrays: a name, its arrays, and a call of it.
SLOPES = {
    "sum of some": (lambda x, i: ad.sum(x, 1, where=M, initial=i), (R, np.array(2.0))),
    "product of some": (lambda x, i: ad.prod(x, 0, where=M, initial=i), (R, np.array(2.0))),
    "largest of some": (lambda x, i: ad.max(x, 1, where=M, initial=i), (R, np.array(0.1))),
    "smallest of some": (lambda x, i: ad.min(x, initial=i, keepdims=True), (R, np.array(0.1))),
    "largest that is not nan": (lambda x: ad.nanmax(x, 0, where=M, initial=-0.5), (HOLES,)),
    "mean of some": (lambda x: ad.mean(x, 1, where=ROWS), (R,)),
    "nanmean of some": (lambda x: ad.nanmean(x, 0, where=ROWS[:, :1]), (HOLES,)),
    "variance of some": (lambda x: ad.var(x, 0, where=ROWS | (R > -1)), (R,)),
    "variance around": (lambda x, m: ad.var(x, 1, mean=m, ddof=1), (R, R.mean(1, keepdims=True))),
    "spread of some": (lambda x: ad.nanstd(x, where=M, ddof=1), (HOLES,)),
    "column-major": (lambda x: ad.reshape(x, (2, -1), order="F"), (R,)),
    "ravel": (lambda x: ad.ravel(x, "F") ** 2, (R,)),
    "lines": (lambda a, b: ad.linspace(a, b, 4, axis=1, retstep=True), (W, S)),
    "powers": (lambda a, b: ad.geomspace(a, b, 4, axis=-1), (W, W + 1)),
    "bases": (lambda a, b: ad.logspace(a, b, 3, axis=1, base=2.0), (W, W + 1)),
    "average": (lambda x, w: ad.average(x, 0, w, returned=True), (R, W)),
    "covariance": (lambda x, w: ad.cov(x.T, aweights=w, ddof=0), (R, W)),
    "covariance of counts": (lambda x, w: ad.cov(x, fweights=[1, 2, 1, 3], aweights=w), (R, np.arange(1.0, 5.0))),
    "quantile": (lambda x: ad.quantile(x, [0.2, 0.7], 0, weights=W, method="inverted_cdf"), (R,)),
    "cross": (lambda a, b: ad.cross(a, b, 0, 1, 0), (R[:, :3], S)),
    "matmul": (lambda a, b: ad.matmul(a, b, axes=[(1, 0), (0, 1), (1, 0)]), (R, R)),
    "vecdot": (lambda a, b: ad.vecdot(a, b, axis=0, keepdims=True), (R, R + 1)),
    "matvec": (lambda a, b: ad.matvec(a, b, axes=[(1, 0), 0, 0]), (R, R[:, 0])),
    "einsum": (lambda a, b: ad.einsum(a, [0, 1], b, [0, 2], [2, 1]), (R, S)),
    "pad by tensors": (lambda x, v: ad.pad(x, 2, constant_values=v), (R, np.array([1.0, 2.0]))),
    "ramp": (lambda x: ad.pad(x, (1, 3), "linear_ramp", end_values=(2.0, 1.0)), (R,)),
    "odd": (lambda x: ad.pad(x, (2, 1), "reflect", reflect_type="odd"), (R,)),
    "odd, edges twice": (lambda x: ad.pad(x, (2, 5), "symmetric", reflect_type="odd"), (R,)),
    "mean of the border": (lambda x: ad.pad(x, 2, "mean", stat_length=2), (R,)),
    "triangle": (lambda a: ad.linalg.eigvalsh(a, UPLO="U"), (S,)),
    "upper": (lambda a: ad.linalg.cholesky(a @ a.T + ad.eye(3), upper=True), (S,)),
    "hermitian": (lambda a: ad.linalg.pinv(a @ a.T, hermitian=True), (S,)),
    "grid": (lambda a, b: [x * x for x in ad.meshgrid(a, b, sparse=True)], (W, R[0])),
    "widened": (lambda x: ad.sin(x, dtype=complex) * ad.astype(x, complex, casting="safe"), (R,)),
    "list": (lambda x: ad.mean([x, 2 * x, x * x], axis=0), (R,)),
}


@pytest.mark.parametrize("name", SLOPES)
def test_gradients_flow_through_further_parameters(name):
    f, arrays = SLOPES[name]
    ad.check_gradients(f, *arrays, order=2)


@pytest.mark.parametrize("name", SLOPES)
def test_further_parameters_are_traced_and_mapped(name):
    f, arrays = SLOPES[name]
    wanted = ad.tree.leaves(f(*map(ad.tensor, arrays)))
    of_two = ad.vmap(f)(*[np.stack([x, x]) for x in arrays])
    for found in (ad.jit(f)(*arrays), ad.tree.map(lambda y: y[1], of_two)):
        for one, other in zip(ad.tree.leaves(found), wanted, strict=True):
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-12, atol=1e-14)


def test_elements_left_out_have_a_gradient_of_exactly_zero_and_ties_share_evenly():
    x = np.array([2.0, np.nan, 2.0])
    mask = np.array([True, False, True])
    np.testing.assert_array_equal(ad.grad(lambda x: ad.sum(x, where=mask))(x), [1, 0, 1])
    assert [g.tolist() for g in ad.grad(lambda x, i: ad.max(x, where=mask, initial=i), (0, 1))(x, np.array(2.0))] == (
        [[1 / 3, 0.0, 1 / 3], 1 / 3])  # fmt: skip


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 0, 3)])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_reductions_of_some_elements_are_numpys_for_every_dtype_and_shape(dtype, shape):
    rng = np.random.default_rng(3)
    x, mask = np.asarray(rng.integers(0, 4, shape)).astype(dtype), np.asarray(rng.integers(0, 2, shape) > 0)
    for name in ("sum", "prod", "any", "all", "max", "min", "mean", "var", "std", "nansum", "nanmax", "nanmean"):
        more = {} if name in ("any", "all", "mean", "var", "std", "nanmean") else {"initial": 1}
        if dtype == "complex128" and name in ("max", "min", "nanmax"):
            continue
        for axis in (None, *range(len(shape))):
            wanted = getattr(np, name)(x, axis, where=mask, **more)
            found = getattr(ad, name)(ad.tensor(x), axis, where=mask, **more)
            assert found.dtype == wanted.dtype and found.shape == wanted.shape, name
            np.testing.assert_allclose(found, wanted, rtol=1e-6, err_msg=name)


# ---------------------------------------------------------------- dispatch


class Doubled(ad.AbstractTensor[..., 1]):
    """A vector that stands for twice its elements."""

    def __init__(self, half):
        self.half = half

    @property
    def dtype(self):
        return self.half.dtype


@ad.dense.method(Doubled)
def _(x):
    return x.half * 2


@ad.sum.method(Doubled, object)
def _(x, axis=None, *, dtype=None, keepdims=False):
    return ad.sum(x.half, axis, dtype=dtype, keepdims=keepdims) * 2000


@ad.exp.method(Doubled)
def _(x):
    return x.half * 100


def test_methods_of_users_are_for_the_declared_parameters_however_these_are_called():
    x = Doubled(ad.tensor([1.0, 2.0]))
    for call in (ad.sum(a=x), ad.sum(x, None, None, None), np.sum(x, out=None), x.sum(out=None)):
        assert call.item() == ad.sum(x).item() == 6000
    assert ad.sum(x, initial=1.0).item() == 6001  # a sum, and one more
    assert ad.sum(x, where=[True, False]).item() == 2  # of what `where` makes, which has no method
    assert ad.exp(x, out=None).tolist() == ad.exp(x, where=True).tolist() == [100, 200]
    assert str(ad.which(ad.sum, a=x, out=None)) == str(ad.which(ad.sum, x)) == str(ad.which(ad.sum, x, initial=1.0))
    with pytest.raises(ad.DispatchError, match="parameters of this method are not those of the declaration"):
        ad.sum.method(Doubled)(lambda x, axis=None, *, dtype=None, keepdims=False, initial=None: x)


def test_users_see_all_parameters_and_methods_those_that_are_declared():
    assert str(inspect.signature(ad.exp)) == "(x, *, dtype=None, casting='same_kind')"
    assert str(inspect.signature(ad.sum)) == "(x, axis=None, *, dtype=None, keepdims=False, initial=None, where=True)"
    assert ad.sum.declaration.keywords == {"dtype": None, "keepdims": False}
    assert ad.exp.declaration.fixed == ("x",) and not ad.exp.declaration.keywords


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda t: ad.sum(t, axes=0), "unexpected keyword argument 'axes'\n(.*\n)*  did you mean axis="),
        (lambda t: ad.sum(a=t, initail=1), "unexpected keyword argument 'initail'\n(.*\n)*  did you mean initial="),
        (lambda t: ad.sum(t, a=t), "multiple values for x"),
        (lambda t: ad.sum(t, 0, None, None, False, 0, True, 1), "too many positional arguments"),
        (lambda t: ad.sum(t, out=np.ones(())), "out= is not taken\n.*\n  a tensor is a value"),
        (lambda t: ad.exp(t, where=[True, False]), r"where= is not taken\n.*\n  .*ad\.where\(mask"),
        (lambda t: ad.sort(t, order="F"), "order= is not taken\n.*\n  a tensor has no layout, and no fields"),
        (lambda t: ad.sort(t, kind="bogo"), "kind= is not taken"),
        (lambda t: ad.nan_to_num(t, 7.0), "copy= is not taken"),
        (lambda t: ad.zeros(2, like=np.ones(2)), "like= is not taken"),
        (lambda t: ad.asarray(t, device="cuda"), "device= is not taken"),
        (lambda t: ad.matmul(t, t, axis=0), "axis= is not taken"),
        (lambda t: ad.exp(t, dtype=int), "does not compute in int64: the rule 'same_kind' does not convert float64"),
        (lambda t: ad.equal(t, t, dtype=float), "its results are bool"),
        (lambda t: ad.stack([t, t], dtype=int), "the rule 'same_kind' does not convert float64 to int64"),
        (lambda t: ad.sum(t, where=[1, 0]), "where is a mask of bool"),
        (lambda t: ad.nanmean(t, dtype=int), "nanmean: int64 has no nan"),
        (lambda t: t.sum(where=t > 1, axes=0), "did you mean axis="),
    ],
)
def test_wrong_use_is_a_type_error_that_says_what_to_do(call, says):
    with pytest.raises(TypeError, match=says) as refused:
        call(ad.tensor([1.0, 2.0]))
    assert "called at test_numpy_forms_gradients.py:" in str(refused.value)


def test_what_has_no_value_is_a_value_error():
    t = ad.tensor([1.0, 2.0])
    for wrong in (
        lambda: ad.max(t, where=t > 1), lambda: ad.sum(t, where=[True, False, True]), lambda: ad.where(True, t),
        lambda: ad.sum(t, initial=[1.0, 2.0]), lambda: ad.reshape(t, 2, order="X"),
        lambda: ad.quantile(t, 0.5, weights=[1.0, 1.0]),
        lambda: ad.linalg.eigh(ad.eye(2), UPLO="X"), lambda: ad.pad(t, 1, "mean", constant_values=1.0),
        lambda: ad.matmul(ad.eye(2), t, axes=[0, 0, 0]), lambda: ad.cov(t, aweights=[1.0]),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"called at test_numpy_forms_gradients\.py:"):
            wrong()


def test_calls_that_are_recorded_natively_stay_what_they_are():
    """A loop that repeats is recorded in machine code; further parameters go by Python, beside it."""
    x = np.array([1.0, 2.0, 3.0])
    for i in range(40):
        t = ad.tensor(x, requires_grad=True)
        y = ad.sum(t * 2) + ad.sum(a=t) + ad.sum(t, initial=float(i)) + t.sum(where=x > 1.5)
        y += ad.exp(t, dtype=np.float32).sum()
        y.backward()
        np.testing.assert_allclose(y.detach(), 12 + 6 + 6 + i + 5 + np.exp(x).sum(), rtol=1e-6)
        np.testing.assert_allclose(t.grad, 2 + 1 + 1 + (x > 1.5) + np.exp(x), rtol=1e-6)


def test_older_numpys_tell_no_parameters_of_universal_functions():
    form = type(ad.exp.form)(ad.exp)
    form.theirs, form.takes_dtype = dict.update, True  # nobody knows its parameters either
    assert form.read((), {"x": 1.0, "out": None, "dtype": None}) == ((), {"x": 1.0, "dtype": None})
    assert form.read((1.0,), {"out": np.ones(1)}).name == "out"


def test_what_a_pad_leaves_empty_is_any_number_and_the_rest_is_the_array():
    x = np.arange(6.0).reshape(2, 3)
    for pad in (ad.pad, np.pad):
        padded = pad(ad.tensor(x), 2, "empty")
        assert padded.shape == (6, 7)
        np.testing.assert_array_equal(padded[2:4, 2:5], x)
    np.testing.assert_array_equal(ad.grad(lambda x: ad.sum(ad.pad(x, 2, "empty")[2:4, 2:5] ** 2))(x), 2 * x)
