"""A type that the library has never heard of takes part by methods alone."""

import numpy as np

import autodiff as ad

from .kinds import energy_with_a_dense_rule

N = 3
D = [2.0, 3.0, 4.0]
X = np.arange(6.0).reshape(3, 2)


class LowRank(ad.AbstractTensor[..., 2]):
    """u vᵀ, from outside of the library."""

    def __init__(self, u, v):
        self.u, self.v = ad.asarray(u), ad.asarray(v)


ad.tree.register(LowRank, lambda x: ([x.u, x.v], None), lambda _, held: _low_rank(*held))


def _low_rank(u, v):
    made = object.__new__(LowRank)
    made.u, made.v = u, v
    return made


@ad.dense.method(LowRank)
def _(x):
    return ad.outer(x.u, x.v)


@ad.matmul.method(LowRank, ad.Matrix)
def _(x1, x2):
    return ad.outer(x1.u, x1.v @ x2)


def test_a_users_type_takes_part_by_methods_alone():
    a = LowRank(D, np.ones(N))
    assert (a.shape, a.dtype) == ((N, N), np.float64)
    np.testing.assert_array_equal(a @ X, np.outer(D, np.ones(N)) @ X)
    np.testing.assert_array_equal(ad.exp(a), np.exp(np.outer(D, np.ones(N))))
    np.testing.assert_array_equal(np.asarray(a), np.outer(D, np.ones(N)))


def test_the_gradient_of_a_users_type_has_its_type_and_is_the_projection():
    a = LowRank(D, np.ones(N))
    for f in (lambda a: ((a @ X) ** 2).sum(), lambda a: ad.exp(a * 0.1).sum()):
        g, dense = ad.grad(f)(a), ad.grad(f)(ad.dense(a))
        assert type(g) is LowRank
        projected = ad.project(dense, a)
        np.testing.assert_allclose(g.u, projected.u)
        np.testing.assert_allclose(g.v, dense.T @ np.array(D))


def test_a_users_type_has_grad_and_requires_grad():
    a = LowRank(D, np.ones(N)).requires_grad_()
    (a @ X).sum().backward()
    np.testing.assert_array_equal(a.grad.u, np.full(N, X.sum()))


def test_a_users_attribute_goes_before_the_librarys():
    class Shaped(ad.AbstractTensor):
        def __init__(self):
            self.shape = "mine"

    assert Shaped().shape == "mine"


def test_a_dense_gradient_from_a_rule_is_projected_to_a_users_type_too():
    energy, a = energy_with_a_dense_rule(), LowRank(D, np.ones(N)).requires_grad_()
    energy(a, ad.tensor(D)).backward()
    np.testing.assert_allclose(a.grad.u, np.outer(D, D) @ np.ones(N))
