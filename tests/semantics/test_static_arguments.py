"""Objects that `jit` is called with: never frozen in silence.

The law: after an object that was passed has changed, the next call either sees the change or the object was refused.
Objects that the user names static are the exception: they count by identity or by their own hash, and are not kept.
"""

import dataclasses
import enum
import functools
import gc
import weakref

import numpy as np
import pytest

import autodiff as ad

X = np.array([1.0, 2.0, 3.0])


class Model:
    """A user's class as they come: attributes, no hash, no registration."""

    def __init__(self, k=2.0):
        self.k = k

    def __call__(self, x):
        return ad.sum(x) * self.k

    def loss(self, x):
        return ad.sum(x) * self.k

    @ad.jit
    def compiled(self, x):
        return ad.sum(x) * self.k


@dataclasses.dataclass
class Record:
    k: float

    @ad.jit
    def compiled(self, x):
        return ad.sum(x) * self.k


@dataclasses.dataclass(frozen=True)
class Frozen:
    k: float


class Registered(Model):
    pass


ad.tree.register(Registered, lambda m: ((m.k,), None), lambda _, parts: Registered(parts[0]))


class Hashed(Model):
    """Compared and hashed by value, and not immutable."""

    def __hash__(self):
        return hash(self.k)

    def __eq__(self, other):
        return type(other) is type(self) and self.k == other.k


class Guarded(Hashed):
    """The same, immutable as `attrs` and `pydantic` do it."""

    def __setattr__(self, name, value):
        if hasattr(self, name):
            raise AttributeError(name)
        super().__setattr__(name, value)


class Mode(enum.Enum):
    double = 2.0
    triple = 3.0


class FakeTensor:
    """As a tensor of another library: hashed by identity by a hash of its own, and an array to NumPy."""

    def __init__(self, data):
        self.data = data

    def __hash__(self):
        return id(self)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.data)


def scaled(m, x):
    return ad.sum(x) * m.k


# ---------------------------------------------------------------- seen or refused


@pytest.mark.parametrize("make", [Record, Registered, Hashed], ids=lambda c: c.__name__)
@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: [m], lambda m: {"a": (m, 1.0)}], ids=["", "list", "dict"])
def test_a_change_of_an_object_that_is_taken_is_seen(make, wrap):
    f = ad.jit(lambda p, x: scaled(p[0] if type(p) is list else p["a"][0] if type(p) is dict else p, x))
    m = make(2.0)
    for k in (2.0, 5.0, 2.0, 7.0):
        m.k = k
        for _ in range(4):  # Python, its caller, machine code
            assert f(wrap(m), X) == 6.0 * k


def test_a_change_of_self_is_seen():
    m = Record(2.0)
    for k in (2.0, 5.0, np.float64(3.0), 7.0):
        m.k = k
        for _ in range(4):
            assert m.compiled(X) == 6.0 * k


@pytest.mark.parametrize("transform", [lambda f: f, ad.grad, ad.value_and_grad, ad.vmap], ids=["", "g", "vg", "vmap"])
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda m: lambda x: m.compiled(x), "self of compiled"),
        (lambda m: lambda x: ad.jit(scaled)(m, x), "m of scaled"),
        (lambda m: lambda x: ad.jit(scaled)(x=x, m=m), "m of scaled"),
        (lambda m: lambda x: ad.jit(lambda p, x: scaled(p["m"][0], x))({"m": [m]}, x), r"p\['m'\]\[0\] of <lambda>"),
    ],
    ids=["method", "argument", "keyword", "nested"],
)
def test_an_object_that_could_change_unseen_is_refused_with_the_ways_out(call, name, transform):
    given = X if transform is ad.vmap else 1.0
    with pytest.raises(ad.DispatchError, match=rf"jit: argument {name} is an object of Model, ") as error:
        transform(call(Model()))(given)
    for way in ("called at test_static_arguments.py", "ad.tree.register", "dataclass", "static_argnames", "close over"):
        assert way in str(error.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (Model().loss, "is the method loss of an object of Model, .*\n.*\n  pass the object, and call its method"),
        (Model(), "is an object of Model"),
        (np.random.default_rng(0), "is an object of Generator, .*\n.*\n  name the parameter in static_argnames"),
        ({1, 2}, "is a static set, which cannot be hashed"),
        (bytearray(b"x"), "is a static bytearray, which cannot be hashed"),
    ],
    ids=["method", "callable", "generator", "set", "bytearray"],
)
def test_other_things_that_may_change_are_refused(given, told):
    for _ in range(3):
        with pytest.raises(ad.DispatchError, match=f"jit: argument f of <lambda> {told}"):
            ad.jit(lambda f, x: x)(given, 1.0)


def test_an_array_of_another_library_is_an_argument_like_any_array():
    f = ad.jit(lambda x: 2.0 * x)
    for k in (1.0, 3.0, 1.0):
        np.testing.assert_array_equal(f(FakeTensor(k * X)), 2.0 * k * X)


def test_an_array_is_never_static():
    for array in (X, FakeTensor(X)):
        with pytest.raises(ad.DispatchError, match="jit: argument f of <lambda> is a"):
            ad.jit(lambda f, x: x, static_argnums=0)(array, 1.0)


# ---------------------------------------------------------------- taken as they are

SAME = [
    Mode.double, Guarded(2.0), "text", None, ..., 3 + 0j, b"x", range(3), Model, np.float32, np.dtype("f4"), np.sin,
    ad.sin, len, functools.partial(ad.power, 2.0), ad.jit(ad.sin), object(), frozenset((1, Mode.double)), Mode, scaled,
    "x".join, Mode.double.__class__.__call__, Guarded(1.0).loss, np.add.reduce,
]  # fmt: skip


@pytest.mark.parametrize("given", SAME, ids=lambda g: type(g).__name__)
@pytest.mark.parametrize("static", [(), "p"], ids=["", "static"])
def test_what_cannot_change_is_an_argument_and_traced_once(given, static):
    traces = []

    @functools.partial(ad.jit, static_argnames=static)
    def f(p, x):
        traces.append(p)
        return x * 2.0

    for _ in range(5):
        assert f(given, 3.0) == 6.0
    assert len(traces) == 1


def test_equal_objects_with_a_hash_by_value_share_a_trace():
    traces = []

    @ad.jit
    def f(m, x):
        traces.append(m)
        return scaled(m, x)

    for k in (1.0, 2.0):
        for _ in range(3):
            assert f(Guarded(k), X) == 6.0 * k
            assert f(Hashed(k), X) == 6.0 * k
    assert len(traces) == 4


# ---------------------------------------------------------------- named static


@pytest.mark.parametrize("tensors", [False, True])
def test_an_object_named_static_counts_by_identity(tensors):
    f = ad.jit(scaled, static_argnames="m")
    x = ad.tensor(X) if tensors else X
    a, b = Model(2.0), Model(3.0)
    for _ in range(4):
        assert f(a, x) == 12.0 and f(m=b, x=x) == 18.0
    a.k = 100.0
    assert f(a, x) == 12.0  # frozen, as was said


def test_a_static_function_that_counts_by_identity_is_not_kept_alive_by_known_calls():
    def made(numbers):
        return lambda x: x * numbers[0]

    applied = ad.jit(lambda x, g: g(x), static_argnums=1)
    gone = []
    for i in range(3):
        g = made([i])
        gone.append(weakref.ref(g))
        for _ in range(4):
            assert applied(np.ones(2), g).tolist() == [i, i]
        del g
    applied(np.ones(2), made([5]))
    gc.collect()
    assert [r for r in gone if r() is not None] == []


def test_a_static_argument_is_not_kept_alive_and_takes_its_trace_along():
    held = np.zeros(3)
    f = ad.jit(lambda m, x: ad.sum(x * m.w) * m.k, static_argnums=0)
    gone = []
    for i in range(300):
        m = Model(float(i))
        m.w = held + 1.0
        for _ in range(4):
            assert f(m, X) == 6.0 * i
        gone += [weakref.ref(m), weakref.ref(m.w)]
        del m
    with pytest.raises(AttributeError):
        f(None, X)  # what is left of the last one goes at the next call
    gc.collect()
    assert [r for r in gone if r() is not None] == []
    assert len(f.traced.entries) == len(f.traced.tried) == 0


@pytest.mark.parametrize("kind", [tuple, frozenset])
def test_static_values_differ_however_deep_they_lie(kind):
    def nested(value):
        for _ in range(20):
            value = kind([value])
        return value

    def number(value):
        while isinstance(value, kind):
            (value,) = value
        return value

    f = ad.jit(lambda k, x: x * number(k), static_argnums=0)
    for value in (1, 2, 3, 1):
        assert f(nested(value), 2.0) == 2.0 * value


@pytest.mark.parametrize("holds", [lambda k: [k], lambda k: {0: k}, np.array, lambda k: ((((k,),),),)])
@pytest.mark.parametrize("depth", [0, 9])
def test_static_functions_differ_by_what_they_close_over(holds, depth):
    def closing(value):
        held = holds([value])
        found = lambda: held  # noqa: E731
        for _ in range(depth):
            found = (lambda inner: lambda: inner())(found)
        return found

    def number(value):
        while isinstance(value, (tuple, list, dict)):
            value = value[0]
        return float(np.ravel(value)[0])

    f = ad.jit(lambda g, x: x * number(g()))
    functions = [closing(float(k)) for k in range(3)]
    for _ in range(3):
        assert [f(g, 2.0) for g in functions] == [0.0, 2.0, 4.0]


@pytest.mark.parametrize("given", [ad.ones(2), np.ones(2), (ad.ones(2),)])
def test_a_static_array_is_refused(given):
    with pytest.raises(ad.DispatchError, match="is an array, which is never static"):
        ad.jit(lambda k, x: x, static_argnums=0)(given, X)


def test_a_static_argument_without_weak_references_is_taken():
    class Slotted:
        __slots__ = ("k",)

    m = Slotted()
    m.k = 2.0
    f = ad.jit(scaled, static_argnames="m")
    for _ in range(4):
        assert f(m, X) == 12.0


def test_a_static_object_with_a_hash_of_its_own_counts_by_it():
    f = ad.jit(scaled, static_argnames="m")
    m = Hashed(2.0)
    for k in (2.0, 5.0, 2.0):
        m.k = k
        for _ in range(4):
            assert f(m, X) == 6.0 * k
    for _ in range(4):
        assert f(Frozen(4.0), X) == 24.0
