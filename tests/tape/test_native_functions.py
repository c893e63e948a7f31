"""Functions of many names, statics and results are recorded natively as Python records them."""

import numpy as np
import pytest
from spied import calls_of_python

import autodiff as ad

X = np.random.default_rng(0).uniform(0.5, 1.5, (3, 4))
S = X @ X.T + np.eye(3)
INTS = ad.tensor(np.arange(12).reshape(3, 4) % 3)
COMPLEX = ad.tensor(X[::-1] + 1j)
SINGLES = ad.tensor(X.astype(np.float32))

#: Calls of x: f64[3,4] and a symmetric s: f64[3,3].  Each makes its static arguments anew.
CALLS = {
    "an array of bools": lambda x, s: x * (X > 1.0),
    "an array of ints": lambda x, s: x - INTS.numpy(),
    "a NumPy int": lambda x, s: x * np.int64(3) + np.int64(1),
    "a bound": lambda x, s: ad.clip(x, 0.75),
    "complex number": lambda x, s: ad.abs(1j * x + (2 + 1j)) * 2,
    "complex powers": lambda x, s: ad.real((x * COMPLEX) ** 2),
    "ints and floats": lambda x, s: x * (INTS * 0.5 + 1) / (INTS + 2.5),
    "ints and ints": lambda x, s: ad.where((INTS + 1) % 2 == 1, x, 2),
    "numbers on both sides": lambda x, s: ad.where(x > 1.0, 0.5, 2.5) * x,
    "powers": lambda x, s: x**-1.5 + x**1 + x**2.7,
    "append": lambda x, s: ad.append(x, s, 1),
    "array_equal": lambda x, s: ad.array_equal(x, x),
    "array_split": lambda x, s: ad.array_split(x, [1, 3], axis=1),
    "angle": lambda x, s: ad.angle(x),
    "atleast_3d": lambda x, s: ad.atleast_3d(x),
    "average": lambda x, s: ad.average(x, axis=0),
    "cholesky": lambda x, s: ad.linalg.cholesky(s),
    "column_stack": lambda x, s: ad.column_stack([x, s]),
    "corrcoef": lambda x, s: ad.corrcoef(x),
    "count_nonzero": lambda x, s: ad.count_nonzero(x, axis=(0, 1)),
    "cov": lambda x, s: ad.cov(x, ddof=0),
    "cross": lambda x, s: ad.cross(s, s[::-1]),
    "cumulative_sum": lambda x, s: ad.cumulative_sum(x, axis=1, include_initial=True),
    "det": lambda x, s: ad.linalg.det(s),
    "digamma": lambda x, s: ad.special.digamma(x),
    "dstack": lambda x, s: ad.dstack([x, x]),
    "diagflat": lambda x, s: ad.diagflat(x),
    "ediff1d": lambda x, s: ad.ediff1d(x),
    "eigh": lambda x, s: ad.linalg.eigh(s),
    "eigvalsh": lambda x, s: ad.linalg.eigvalsh(s),
    "elu": lambda x, s: ad.elu(x - 1.0, 0.3),
    "fft": lambda x, s: ad.fft.fft(x, axis=0),
    "fftn": lambda x, s: ad.fft.fftn(x, axes=[0, 1]),
    "fftshift": lambda x, s: ad.fft.fftshift(x),
    "flipud": lambda x, s: ad.flipud(x),
    "float_power": lambda x, s: ad.float_power(x, x),
    "fold_in": lambda x, s: ad.random.fold_in(INTS[0, :2].astype(ad.int32), 3),
    "fmax": lambda x, s: ad.fmax(x, x[::-1]),
    "frexp": lambda x, s: ad.frexp(x)[0],
    "full_like": lambda x, s: ad.full_like(x, 2.0),
    "hstack": lambda x, s: ad.hstack([x, s]),
    "greater": lambda x, s: x > INTS,
    "inv": lambda x, s: ad.linalg.inv(s),
    "isclose": lambda x, s: ad.isclose(x, x),
    "isin": lambda x, s: ad.isin(x, x),
    "kron": lambda x, s: ad.kron(s, s),
    "leaky_relu": lambda x, s: ad.leaky_relu(x - 1.0, 0.3),
    "logical_and": lambda x, s: ad.logical_and(x, x),
    "lstsq": lambda x, s: ad.linalg.lstsq(s, x)[0],
    "matrix_norm": lambda x, s: ad.linalg.matrix_norm(x),
    "matrix_power": lambda x, s: ad.linalg.matrix_power(s, 3),
    "matrix_rank": lambda x, s: ad.linalg.matrix_rank(s),
    "matvec": lambda x, s: ad.matvec(s, x[:, 0]),
    "modf": lambda x, s: ad.modf(x),
    "multi_dot": lambda x, s: ad.linalg.multi_dot([s, s, x]),
    "multigammaln": lambda x, s: ad.special.multigammaln(x + 2.0, 3),
    "nan_to_num": lambda x, s: ad.nan_to_num(x),
    "nanstd": lambda x, s: ad.nanstd(x, axis=1),
    "pad": lambda x, s: ad.pad(x, ((1, 0), (0, len("ab")))),
    "pinv": lambda x, s: ad.linalg.pinv(x),
    "polyval": lambda x, s: ad.polyval(x[:, 0], s),
    "ptp": lambda x, s: ad.ptp(x, axis=0),
    "qr": lambda x, s: ad.linalg.qr(s),
    "quantile": lambda x, s: ad.quantile(x, [0.25, 0.5], axis=1),
    "reshape": lambda x, s: ad.reshape(x, [4, 3]),
    "rfft": lambda x, s: ad.fft.rfft(x),
    "rot90": lambda x, s: ad.rot90(x),
    "round": lambda x, s: ad.round(x, 1),
    "searchsorted": lambda x, s: ad.searchsorted(ad.sort(x[0]), x),
    "slogdet": lambda x, s: ad.linalg.slogdet(s),
    "solve": lambda x, s: ad.linalg.solve(s, x),
    "solve_triangular": lambda x, s: ad.linalg.solve_triangular(s, x, lower=True),
    "split": lambda x, s: ad.split(x, 2, axis=1),
    "svd": lambda x, s: ad.linalg.svd(x, full_matrices=False),
    "svdvals": lambda x, s: ad.linalg.svdvals(x),
    "tensor of another dtype": lambda x, s: SINGLES / x,
    "tensordot": lambda x, s: ad.tensordot(s, x, axes=([1], [0])),
    "trapezoid": lambda x, s: ad.trapezoid(x, dx=0.5),
    "uniform": lambda x, s: ad.random.uniform(ad.astype(x[0, :2] * 9.0, ad.int32), (2, 2)),
    "unstack": lambda x, s: ad.unstack(x, axis=1),
    "unwrap": lambda x, s: ad.unwrap(x * 3.0),
    "vander": lambda x, s: ad.vander(x[0], 3),
    "vdot": lambda x, s: ad.vdot(x, x),
    "vecdot": lambda x, s: ad.vecdot(x, x),
    "vecmat": lambda x, s: ad.vecmat(x[:, 0], s),
    "vector_norm": lambda x, s: ad.linalg.vector_norm(x, axis=0),
    "vstack": lambda x, s: ad.vstack((x, x)),
}


def loss_of(found):
    """A number that depends on all results."""
    parts = found if isinstance(found, (tuple, list)) else [found]
    tracked = [ad.sum(ad.real(p * ad.conj(p)) * 0.5 + ad.real(p)) for p in parts if p.dtype.kind in "fc"]
    return sum(tracked, ad.tensor(0.0)), list(parts)


@pytest.mark.parametrize("name", CALLS)
def test_no_python_runs_and_results_and_gradients_are_those_of_a_trace(name, native):
    call = CALLS[name]
    values = ad.jit(lambda x, s: loss_of(call(x, s))[1])(X, S)
    gradients = ad.jit(ad.grad(lambda x, s: loss_of(call(x, s))[0], argnums=(0, 1)))(X, S)
    for _ in range(5):
        x, s = ad.tensor(X, requires_grad=True), ad.tensor(S, requires_grad=True)
        called, found = calls_of_python(lambda x=x, s=s: call(x, s))
        loss, parts = loss_of(found)
        for ours, expected in zip(parts, values, strict=True):
            assert ours.dtype == expected.dtype
            np.testing.assert_allclose(ours.detach(), expected, rtol=1e-9, atol=1e-11)
        if loss.requires_grad:
            loss.backward()
        for t, expected in zip((x, s), gradients, strict=True):
            np.testing.assert_allclose(0.0 * t.detach() if t.grad is None else t.grad, expected, rtol=1e-9, atol=1e-11)
    assert called == ["<lambda>"]


def test_each_of_several_results_lives_by_itself(native):
    x = ad.tensor(X, requires_grad=True)
    for _ in range(5):
        parts = ad.split(x, 4, axis=1)
        assert type(parts) is list
        last = parts.pop() * 2.0
        del parts
        last.sum().backward()
        np.testing.assert_array_equal(x.grad, [[0.0, 0.0, 0.0, 2.0]] * 3)
        x.grad = None
        a, b = ad.split(x, [1], axis=0)
        a += 1.0  # in place: neither x nor b changes
        np.testing.assert_array_equal(a.detach(), X[:1] + 1.0)
        np.testing.assert_array_equal(b.detach(), X[1:])
    values, vectors = ad.linalg.eigh(ad.tensor(S))
    assert ad.linalg.eigh(ad.tensor(S)).eigenvalues.shape == values.shape and vectors.shape == (3, 3)


def test_a_method_registered_later_serves_at_once(native):
    x = ad.tensor(X)
    for _ in range(4):
        assert len(ad.split(x, 2, axis=1)) == 2
    whole = ad.split.method(ad.Tensor, int)(lambda x, indices_or_sections, axis=0: [x] * indices_or_sections)
    try:
        assert [part.shape for part in ad.split(x, 2, axis=1)] == [(3, 4)] * 2
    finally:
        whole.delete()
    assert [part.shape for part in ad.split(x, 2, axis=1)] == [(3, 2)] * 2


MASKS = {"elements": X > 1.0, "rows": np.array([True, False, True]), "none": np.zeros((3, 4), bool)}


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_selects_by_what_machine_code_has_for_index_arrays(name, native):
    mask = MASKS[name]
    for _ in range(6):
        x = ad.tensor(X, requires_grad=True)
        called, y = calls_of_python(lambda x=x: x[mask])
        np.testing.assert_array_equal(y.detach(), X[mask])
        (y * y).sum().backward()
        expected = np.zeros_like(X)
        expected[mask] = 2.0 * X[mask]
        np.testing.assert_array_equal(x.grad, expected)
        is_selected = np.broadcast_to(mask if mask.ndim == 2 else mask[:, None], X.shape)
        x = ad.tensor(np.where(is_selected, X, 0.0), requires_grad=True)
        ad.log(x)[mask].sum().backward()  # what the mask leaves out gets exactly zero, not 0 / 0
        np.testing.assert_allclose(x.grad, np.where(is_selected, 1.0 / X, 0.0), rtol=1e-15)
    assert "getitem" not in called and "_places" not in called
    with pytest.raises(IndexError, match="does not fit"):
        x[mask[:2]]
    with pytest.raises(ad.ConcretizationError):
        ad.jit(lambda x, m: x[m])(X, mask)
    np.testing.assert_array_equal(ad.jit(lambda x: x[mask])(X), X[mask])


def test_a_mask_is_an_array_for_a_method_of_the_users(native):
    x, mask = ad.tensor(X), MASKS["rows"]
    for _ in range(4):
        assert x[mask].shape == (2, 4)
    own = ad.ops.getitem.method(ad.Tensor, np.ndarray)(lambda x, key: -x)
    try:
        np.testing.assert_array_equal(x[mask], -X)
    finally:
        own.delete()
    assert x[mask].shape == (2, 4)
