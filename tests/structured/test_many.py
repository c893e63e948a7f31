"""The law of `vmap` over structured types: it maps over their leaves, and runs the methods written for one example.

What a program gives for many is what it gives for each, stacked leaf by leaf.
"""

from typing import ClassVar

import numpy as np
import pytest
from differential.random_programs import eager

import autodiff as ad

from .kinds import KINDS, PROGRAMS, N, X, Y, cases
from .test_laws import array, close, held_by, weighted

CASES = list(cases())
each = pytest.mark.parametrize(("kind", "program"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
EXAMPLES = 3


def one_by_one(kind):
    return [kind.make(held_by(kind, seed)) for seed in range(EXAMPLES)]


def many(kind):
    return ad.vmap(kind.make)(ad.tensor(np.stack([held_by(kind, seed) for seed in range(EXAMPLES)])))


def assert_stacked(found, singles, tolerance=1e-12):
    """The leaves of `found` are those of the single results, along a new axis 0, in the same containers."""
    structures = {ad.tree.flatten(x)[1] for x in (found, *singles)}
    assert len(structures) == 1, structures
    for leaf, *parts in zip(ad.tree.leaves(found), *map(ad.tree.leaves, singles), strict=True):
        close(array(leaf), np.stack([array(p) for p in parts]), tolerance)


@each
def test_many_are_each_of_them_stacked(kind, program):
    with eager():
        assert_stacked(ad.vmap(program)(many(kind)), [program(a) for a in one_by_one(kind)], 1e-11)


@each
def test_gradients_of_many_are_those_of_each(kind, program):
    def slope(a):
        return ad.grad(lambda a: weighted(program(a)))(a)

    with eager():
        singles = [slope(a) for a in one_by_one(kind)]
        assert_stacked(ad.vmap(slope)(many(kind)), singles, 1e-10)
        of_all = ad.grad(lambda batch: ad.sum(ad.vmap(lambda a: weighted(program(a)))(batch)))
        assert_stacked(of_all(many(kind)), singles, 1e-10)


LOSS = {
    "loss": PROGRAMS["loss"],
    "a @ a @ vector": lambda a: ad.dense(a @ a) @ X[:, 0],
    "2.5 * a": PROGRAMS["2.5 * a"],
    "a.T": PROGRAMS["a.T"],
}


@pytest.mark.parametrize("label", LOSS)
@pytest.mark.parametrize("name", KINDS)
def test_compiled_nested_closed_over_and_scanned(name, label):
    kind, program = KINDS[name], LOSS[label]
    singles, batch = one_by_one(kind), many(kind)
    with eager():
        expected = [program(a) for a in singles]
        crossed = [[array(ad.dense(a.T) @ ad.dense(b) @ X[:, 0]) for b in singles] for a in singles]
    assert_stacked(ad.jit(ad.vmap(program))(batch), expected, 1e-11)
    assert_stacked(ad.vmap(ad.jit(program))(batch), expected, 1e-11)
    assert_stacked(ad.vmap(lambda _, a=singles[0]: program(a))(ad.ones(EXAMPLES)), [expected[0]] * EXAMPLES, 1e-11)
    _, scanned = ad.scan(lambda c, a: (c, program(a)), ad.tensor(0.0), batch)
    assert_stacked(scanned, expected, 1e-11)
    pairs = ad.tree.map(lambda *leaves: ad.stack(leaves), batch, batch)
    assert_stacked(ad.vmap(ad.vmap(program))(pairs), [ad.vmap(program)(batch)] * 2, 1e-11)
    product = ad.vmap(lambda a: ad.vmap(lambda b: ad.dense(a.T) @ ad.dense(b) @ X[:, 0])(batch))(batch)
    close(array(product), np.array(crossed), 1e-11)


@pytest.mark.parametrize("name", KINDS)
def test_many_and_what_all_share(name):
    kind = KINDS[name]
    a, batch = kind.make(held_by(kind, 5)), many(kind)
    with eager():
        found = ad.vmap(lambda a, b, x: a @ (b @ x), (None, 0, 1))(a, batch, X)
        assert_stacked(found, [a @ (b @ X[:, k]) for k, b in enumerate(one_by_one(kind))], 1e-11)
        moved = ad.tree.map(lambda t: ad.moveaxis(t, 0, -1), batch)
        assert_stacked(ad.vmap(lambda b: b @ X, -1)(moved), [b @ X for b in one_by_one(kind)], 1e-11)
        out = ad.vmap(lambda b: (b, a), out_axes=(-1, None))(batch)
        for ours, theirs in zip(ad.tree.leaves(out), ad.tree.leaves((moved, a)), strict=True):
            close(array(ours), array(theirs))


@each
def test_outside_of_vmap_many_are_never_taken_for_one(kind, program):
    """Many at once do each for itself what one of them can do, or it is an error that names the type."""
    batch = many(kind)
    with eager():
        try:
            found = program(batch)
            leaves = [array(x) for x in ad.tree.leaves(found)]
        except ad.Error as error:
            assert type(batch).__name__ in str(error)
            return
        assert_stacked(found, [program(a) for a in one_by_one(kind)], 1e-11)
        assert leaves


def test_selecting_types():
    indices = np.array([[2, 0, 3, 1], [0, 1, 2, 3]])
    for make in (lambda i: ad.OneHot(i, N), ad.Permutation):
        batch, singles = ad.vmap(make)(ad.tensor(indices)), [make(i) for i in indices]
        assert type(batch) is type(singles[0])
        assert_stacked(ad.vmap(lambda p: p @ Y)(batch), [p @ Y for p in singles])
        assert_stacked(ad.vmap(lambda p: Y @ p)(batch), [Y @ p for p in singles])
        assert_stacked(ad.vmap(ad.dense)(batch), [ad.dense(p) for p in singles])
    inverses = ad.vmap(lambda p: p.T)(ad.vmap(ad.Permutation)(ad.tensor(indices)))
    assert_stacked(inverses, [ad.Permutation(i).T for i in indices])
    with pytest.raises(ad.ShapeError, match="Permutation holds i64"):
        _ = inverses @ Y


def test_one_value_is_no_batch_and_the_error_names_its_type():
    for make in (lambda: ad.Diagonal([1.0, 2.0]), lambda: ad.Symmetric(np.eye(2)), lambda: ad.Permutation([1, 0])):
        x = make()
        name = type(x).__name__
        with pytest.raises(ad.ShapeError, match=rf"(?s){name} holds .*, where one {name} holds .*in_axes=None shares"):
            ad.vmap(f)(x)
    for x in (ad.UniformScaling(2.0, 3), ad.Fill(2.0, (3,))):
        with pytest.raises(ad.ShapeError, match=r"vmap of f: m\[0\], f64\[\], has no axis to take examples from"):
            ad.vmap(f)(x)


def f(m):
    return m @ np.ones(2)


def test_from_plain_code_the_leaves_are_arrays():
    found = ad.vmap(lambda d: (ad.Diagonal(d), d))(X)
    assert type(found[0]) is ad.Diagonal and type(found[0].diagonal) is np.ndarray
    np.testing.assert_array_equal(found[0].diagonal, X)


# ---------------------------------------------------------------- types of users


class Hundredfold(ad.AbstractTensor[..., 2]):
    """A matrix whose products are a hundred times too large: nobody but its methods would know."""

    calls: ClassVar[list[str]] = []

    def __init__(self, w, scale):
        self.w, self.scale = ad.asarray(w), ad.asarray(scale)
        assert self.w.ndim == 2 and not self.scale.ndim

    def counted(self, name):
        Hundredfold.calls.append(name)
        return 100.0 * self.scale


def _restored(_, held):
    made = object.__new__(Hundredfold)
    made.w, made.scale = held
    return made


ad.tree.register(Hundredfold, lambda x: ([x.w, x.scale], None), _restored)


@ad.dense.method(Hundredfold)
def _(x):
    return x.counted("dense") * x.w


@ad.matmul.method(Hundredfold, ad.Tensor)
def _(x1, x2):
    return x1.counted("matmul") * (x1.w @ x2)


@ad.add.method(Hundredfold, Hundredfold)
def _(x1, x2):
    return Hundredfold(x1.w + x2.w, x1.counted("add") * x2.scale)


@ad.exp.method(Hundredfold)
def _(x):
    return Hundredfold(ad.exp(x.w), x.scale)


@ad.function
def energy(a, x): ...


@energy.forward(Hundredfold, ad.Vector)
def _(ctx, a, x):
    ctx.save_for_backward(a=a, x=x)
    return (x * (a.w @ x)).sum() * a.counted("forward")


@energy.backward(Hundredfold, ad.Vector)
def _(ctx, g):
    a, x = ctx.saved_variables
    factor = g * a.counted("backward")
    return {"a": Hundredfold(factor * ad.outer(x, x), factor * 0.0 + 7.0), "x": factor * ((a.w + a.w.T) @ x)}


W = np.random.default_rng(3).normal(size=(4, N, N))
C = np.arange(1.0, 5.0)
V = np.random.default_rng(4).normal(size=(4, N))

#: Programs of a user's value and a vector, and how often its methods are run for all examples.
USERS = {
    "matmul": (lambda a, v: a @ v, ["matmul"]),
    "sum of a product": (lambda a, v: ad.sum(a @ v), ["matmul"]),
    "twice": (lambda a, v: a @ (a @ v), ["matmul"] * 2),
    "written out": (lambda a, v: v @ a, ["dense"]),
    "a result of its type": (lambda a, v: {"e": ad.exp(a), "both": a + a}, ["add"]),
    "a rule": (lambda a, v: energy(a, v), ["forward"]),
    "a gradient": (lambda a, v: ad.grad(energy, (0, 1))(a, v), ["forward", "backward"]),
    "a gradient of its method": (lambda a, v: ad.grad(lambda a: ad.sum(a @ v) ** 2)(a), ["matmul"]),
}


@pytest.mark.parametrize("label", USERS)
def test_the_methods_of_a_users_type_run_for_one_example(label):
    program, calls = USERS[label]
    batch = ad.vmap(lambda w, c: Hundredfold(w, c))(ad.tensor(W), ad.tensor(C))
    assert type(batch) is Hundredfold and batch.w.shape == W.shape
    singles = [Hundredfold(w, c) for w, c in zip(W, C, strict=True)]
    expected = [program(a, ad.tensor(v)) for a, v in zip(singles, V, strict=True)]
    shared = [program(singles[0], ad.tensor(v)) for v in V]
    Hundredfold.calls.clear()
    found = ad.vmap(program)(batch, V)
    assert Hundredfold.calls == calls
    assert_stacked(found, expected)
    Hundredfold.calls.clear()
    found = ad.vmap(program, (None, 0))(singles[0], V)
    assert Hundredfold.calls == calls
    assert_stacked(found, shared)
    assert_stacked(ad.vmap(lambda v: program(singles[0], v))(ad.tensor(V)), shared)
    assert_stacked(ad.jit(ad.vmap(program))(batch, V), expected)
    pair = ad.tree.map(lambda t: ad.stack([t, t]), batch)
    assert_stacked(ad.vmap(ad.vmap(program), (0, None))(pair, V), [found_of(program, batch)] * 2)


def found_of(program, batch):
    return ad.vmap(program)(batch, V)


def test_the_gradient_of_many_of_a_users_type_has_its_type():
    batch = ad.vmap(lambda w, c: Hundredfold(w, c))(ad.tensor(W), ad.tensor(C))
    g = ad.grad(lambda b: ad.sum(ad.vmap(energy)(b, V)))(batch)
    each_one = [ad.grad(energy)(Hundredfold(w, c), ad.tensor(v)) for w, c, v in zip(W, C, V, strict=True)]
    assert_stacked(g, each_one)


class Checked(ad.AbstractTensor[..., 1]):
    """A type whose leaves are checked whenever it is made."""

    def __init__(self, a):
        if np.ndim(a) != 1:
            raise ValueError("only a vector will do")
        self.a = a


class Unregistered(ad.AbstractTensor[..., 1]):
    def __init__(self, a):
        self.a = ad.asarray(a)


ad.tree.register(Checked, lambda x: ([x.a], None), lambda _, held: Checked(*held))
ad.dense.method(Checked)(lambda x: x.a)
ad.dense.method(Unregistered)(lambda x: x.a)


def made_checked(x):
    return Checked(x)


def test_where_it_cannot_be_the_error_names_the_type():
    def f(x):
        return ad.sum(x)

    with pytest.raises(ad.ShapeError, match=r"an example of vmap of f: Checked does not take its leaves, f64\[\]"):
        ad.vmap(f)(Checked(ad.ones(3)))
    with pytest.raises(ad.ShapeError, match=r"(?s)result of vmap of made_checked: Checked does.*a vector will do"):
        ad.vmap(made_checked)(ad.ones((2, 3)))
    with pytest.raises(ad.DispatchError, match="vmap of f: an argument is of the structured type Unregistered, which"):
        ad.vmap(f)(Unregistered(ad.ones(3)))
    with pytest.raises(ad.DispatchError, match="a result is of the structured type Unregistered, which"):
        ad.vmap(lambda x: Unregistered(x))(ad.ones((2, 3)))
    shared = ad.vmap(lambda u, x: ad.sum(u * x), (None, 0))(Unregistered(ad.ones(3)), ad.ones((2, 3)))
    np.testing.assert_array_equal(shared.numpy(), [3.0, 3.0])
