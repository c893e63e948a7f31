"""The native recorder from inside: when it is in front, what it remembers and counts."""

import contextlib
import copy
import gc
import sys
import weakref

import numpy as np
import pytest
from tape_objects import use

import autodiff as ad
from autodiff.ops import recorder
from autodiff.tape.node import RichNode
from autodiff.tape.record import state


def leaf(n=5, dtype=ad.float64, requires_grad=True):
    return ad.tensor(np.arange(1, n + 1), dtype=dtype, requires_grad=requires_grad)


def described(t):
    """Everything about a handle's node, its inputs told by what they are."""
    node = t.node
    inputs = [(i.kind, type(i), i.value if isinstance(i.value, (int, float)) else i.number) for i in node.inputs]
    return type(t), t.masked, type(node), node.kind, node.value, inputs


PROGRAMS = {
    "product": lambda a, b: a * b,
    "square": lambda a, b: a * a,
    "difference": lambda a, b: a - b,
    "quotient": lambda a, b: a / b,
    "number right": lambda a, b: a * 2.5,
    "number left": lambda a, b: 2.5 - a,
    "int right": lambda a, b: a + 3,
    "int left": lambda a, b: 3 / a,
    "negative": lambda a, b: -a,
    "absolute": lambda a, b: abs(a),
    "exp": lambda a, b: ad.exp(a),
    "maximum": lambda a, b: ad.maximum(a, b),
    "maximum with a number": lambda a, b: ad.maximum(a, 2.0),
    "function": lambda a, b: ad.add(a, b),
    "keywords": lambda a, b: ad.add(x1=a, x2=b),
    "sum over an axis": lambda a, b: ad.sum(a, 0),
    "sum over axes": lambda a, b: ad.sum(a[None], 1) + ad.sum(a[None], 0)[0] + ad.sum(a[None], axis=-1, keepdims=True),
    "sum": lambda a, b: ad.sum(a),
    "method sum": lambda a, b: a.sum(),
    "mean": lambda a, b: a.mean(),
    "softmax": lambda a, b: ad.softmax(a),
    "product of vectors": lambda a, b: a @ b,
    "power": lambda a, b: a**2,
    "comparison": lambda a, b: a < b,
    "array": lambda a, b: a * np.ones(5),
    "array left": lambda a, b: np.ones(5) * a,
    "NumPy scalar": lambda a, b: a * np.float64(2.0),
}


@pytest.mark.parametrize("dtypes", [(ad.float64, ad.float64), (ad.float32, ad.float64), (ad.int64, ad.float64)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_native_and_python_record_the_same(name, dtypes, native):
    a, b = (leaf(dtype=d, requires_grad=d is not ad.int64) for d in dtypes)
    run = PROGRAMS[name]
    recorded = [run(a, b) for _ in range(4)]
    recorder.uninstall()
    expected = run(a, b)
    recorder.install()
    recorded.append(run(a, b))
    for y in recorded:
        mine, theirs = described(y), described(expected)
        assert mine[:4] == theirs[:4]
        assert [i[0] for i in mine[5]] == [i[0] for i in theirs[5]]
        assert y.shape == expected.shape and y.requires_grad == expected.requires_grad
        np.testing.assert_array_equal(y.detach().numpy(), expected.detach().numpy())


def test_dropped_small_results_are_not_remembered_for_ever(way):
    a = leaf()
    for _ in range(3000):
        a * a
    assert len(state.now.small) < 600


def test_what_runs_while_an_earlier_operand_is_evaluated_may_change_all(native):
    """The operand's handle names another value by then: that one is recorded."""
    x, other = leaf(100), leaf(100, requires_grad=False)
    for _ in range(4):
        _ = other * 2.0 + x
    old = other * 3.0
    ad.sum(leaf(3)).backward()
    evaluate = recorder.force
    ran = []

    def force(node):
        evaluate(node)
        ran.append(node)
        old.node = other.node

    use(recorder._installed.recorder, force=force)
    try:
        y = old * x
    finally:
        use(recorder._installed.recorder)
    assert ran and y.node.inputs[0] is other.node


def test_updates_that_are_pending_are_noted_once():
    """A parameter that each backward finds pending is updated ten thousand times."""
    parameters = [leaf(100) for _ in range(3)]
    for _ in range(600):
        ad.sum(parameters[0] * parameters[1] + parameters[2]).backward()
        with ad.no_grad():
            for p in parameters:
                p -= 1e-6 * p.grad
                p.grad = None
    assert len(state.now.updated) <= 300
    for p in parameters:
        assert np.isfinite(p.detach().numpy()).all()


def test_a_look_is_counted(way):
    """Rules that look at values are found out by it."""
    now, t, n = state.now, leaf(requires_grad=False), ad.tensor(3)
    for read, looks in ((t.numpy, 1), (n.item, 0), (lambda: float(n), 0), (lambda: np.asarray(t), 1)):
        asked, looked = now.asked, now.float_asks
        read()
        assert now.asked > asked
        assert now.float_asks - looked == looks


def test_references_are_counted_right(way):
    x, t, s = leaf(100), leaf(100, requires_grad=False), ad.tensor(2.0)
    ad.sum(x * x).backward()
    g = x.grad

    def all_of_it():
        t.numpy(), np.asarray(t), s.item(), float(s), t.detach(), x.detach().numpy(), x.grad
        x.grad = None
        x.grad = g
        with contextlib.suppress(ad.GradientError):
            x.numpy()

    for _ in range(10):
        all_of_it()
    gc.collect()
    kept = [x, t, s, g, x.node, t.node, x.node.value, t.node.value, x.node.leaf, t.node.kind, None, True, state.now]
    before = [sys.getrefcount(k) for k in kept]
    for _ in range(500):
        all_of_it()
    gc.collect()
    after = [sys.getrefcount(k) for k in kept]
    assert max(abs(a - b) for a, b in zip(before, after, strict=True)) < 50


def test_what_is_in_front_has_the_documentation_of_what_is_behind(native):
    front = {name: vars(ad.Tensor)[name].__doc__ for name in ("numpy", "item", "detach", "grad")}
    recorder.uninstall()
    behind = {name: vars(ad.Tensor)[name].__doc__ for name in front}
    recorder.install()
    assert front == behind and all(front.values())
    assert copy.copy(ad.tensor(1.0)).item() == 1.0


def values(*shape, seed=0):
    return np.random.default_rng(seed).uniform(1.0, 2.0, shape)


def test_small_results_that_are_alive_are_noted(native):
    x = ad.tensor(values(3))
    kept = [x * k for k in (2.0, 3.0, 4.0)]
    z = (x + 5.0) * (x + 6.0) * (x + 7.0)
    alive = [t for r in state.now.small if (t := r()) is not None]
    assert [t for t in alive if any(t is k for k in kept) or t is z] == [*kept, z]


def test_nodes_of_updates_are_used_again_as_new_ones(native):
    w = ad.tensor(values(3), requires_grad=True)
    told, refs = [], []
    for k in range(50):
        (w * w).sum().backward()
        with ad.no_grad():
            w -= 0.125 * w.grad
        node = w.node
        assert type(node) is RichNode and gc.is_tracked(node) and weakref.getweakrefcount(node) == 0
        rest = (node.value, node.retained, node.call, node.hooks, node.line, node.body, node.flow, node.slot)
        assert rest == (None,) * 8 and len(node.inputs) == 1
        refs.append(weakref.ref(node, lambda _, k=k: told.append(k)))
        del node
        w.grad = None
        w.detach().numpy()
        assert refs[-1]() is w.node
    del w
    gc.collect()
    assert told == list(range(50))
