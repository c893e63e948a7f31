"""Arrays of other libraries, given by `__array__` or by DLPack, as those of PyTorch, JAX and pandas are."""

import numpy as np
import pytest

import autodiff as ad


class Wrapped:
    """An array behind `__array__`, as a pandas Series is."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype) if copy or dtype else self.values


class Lent:
    """An array behind DLPack alone."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def __dlpack__(self, **keywords):
        return self.values.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()

    def __mul__(self, other):
        return NotImplemented  # it does not know tensors


class Refusing:
    """An array that cannot be read, as one in the memory of a GPU."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("the memory is not the CPU's")


KINDS = [Wrapped, Lent]


def loss(p, y):
    return ad.sum((p["w"] * y) ** 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("take", [ad.asarray, ad.tensor, lambda x: ad.add(x, 0.0), lambda x: ad.stack([x, x])[1]])
def test_tensors_are_made_of_them(kind, take):
    given = np.array([1.0, -2.0, 3.0])
    made = take(kind(given))
    assert isinstance(made, ad.Tensor)
    given[0] = 100.0
    np.testing.assert_array_equal(made.numpy(), [1.0, -2.0, 3.0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "transform",
    [
        lambda: ad.jit(loss),
        lambda: ad.grad(loss),
        lambda: ad.jit(ad.grad(loss)),
        lambda: ad.value_and_grad(loss, argnums=(0, 1)),
        lambda: ad.jacobian(loss),
        lambda: ad.hessian(loss, argnums=1),
        lambda: ad.vmap(loss),
        lambda: ad.vmap(ad.grad(loss)),
        lambda: lambda p, y: ad.jvp(loss, (p, y), (p, y)),
        lambda: lambda p, y: ad.vjp(loss, p, y)[1](1.0),
        lambda: ad.checkpoint(loss),
    ],
)
def test_transformed_functions_take_them_as_they_take_arrays(kind, transform):
    f, w, y = transform(), np.array([1.0, 2.0]), np.array([3.0, -1.0])
    wanted = ad.tree.leaves(f({"w": w}, y))
    for _ in range(3):  # traced, known, and called natively
        found = ad.tree.leaves(f({"w": kind(w)}, kind(y)))
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_a_jit_function_reads_the_values_of_each_call_and_shares_one_trace_with_arrays(kind):
    traced = []

    @ad.jit
    def f(x):
        traced.append(x)
        return 2.0 * x

    for i in range(5):
        np.testing.assert_array_equal(f(kind(np.full(3, float(i)))), np.full(3, 2.0 * i))
        np.testing.assert_array_equal(f(np.full(3, float(i))), np.full(3, 2.0 * i))
    assert len(traced) == 1


@pytest.mark.parametrize("take", [ad.asarray, ad.sum, ad.jit(lambda x: x), ad.grad(ad.sum), ad.vmap(lambda x: x)])
def test_one_that_cannot_be_read_is_named_with_its_own_reason(take):
    with pytest.raises(ad.DispatchError, match=r"(?s)Refusing.*the memory is not the CPU's.*test_other_arrays\.py"):
        take(Refusing())


def test_eager_mode_takes_them():
    ad.config.eager = True
    try:
        np.testing.assert_array_equal(ad.jit(lambda x: 2.0 * x)(Wrapped([1.0])), [2.0])
    finally:
        ad.config.eager = False


def test_text_is_refused_by_its_dtype():
    with pytest.raises(ad.DTypeError, match="dtype <U1"):
        ad.asarray(Wrapped(["a"]))


def test_a_class_with_the_method_is_no_array():
    with pytest.raises(ad.DispatchError, match="is a type, not a tensor"):
        ad.asarray(Wrapped)


@pytest.mark.smoke
def test_from_dlpack():
    np.testing.assert_array_equal(ad.from_dlpack(Lent([1.0, 2.0])).numpy(), [1.0, 2.0])
    t = ad.tensor([1.0], requires_grad=True)
    assert ad.from_dlpack(t) is t
    with pytest.raises(ad.DispatchError, match="no __dlpack__"):
        ad.from_dlpack(Wrapped([1.0]))
    with pytest.raises(ValueError, match="has to be copied"):
        ad.from_dlpack(Lent([1.0]), copy=False)
    with pytest.raises(ValueError, match="no device 'cuda'"):
        ad.from_dlpack(Lent([1.0]), device="cuda")


def test_asarray_with_a_copy_keeps_the_gradient():
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    y = ad.asarray(x, copy=True)
    assert y is not x
    ad.sum(y * y).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2.0, 4.0])


# ---------------------------------------------------------------- operators


class Column:
    """As a column of pandas: it leaves operators to what has a higher priority, and is an array to NumPy."""

    __pandas_priority__ = 3000

    def __init__(self, values):
        self.values = np.asarray(values)

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __mul__(self, other):
        if getattr(other, "__pandas_priority__", 0) > self.__pandas_priority__:
            return NotImplemented
        return Column(self.values * np.asarray(other))

    __rmul__ = __mul__


@pytest.mark.parametrize("kind", [Column, Lent])
@pytest.mark.parametrize("product", [lambda w, c: w * c, lambda w, c: c * w], ids=["left", "right"])
def test_in_an_operator_with_an_array_of_another_library_the_tensor_wins(kind, product):
    c = kind([1.0, 2.0])
    np.testing.assert_array_equal(ad.grad(lambda w: ad.sum(product(w, c)))(np.ones(2)), [1.0, 2.0])
    w = ad.tensor([1.0, 1.0], requires_grad=True)
    ad.sum(product(w, c)).backward()
    np.testing.assert_array_equal(w.grad, [1.0, 2.0])


def test_an_object_that_is_merely_readable_keeps_its_own_operator():
    class Quantity:
        def __array__(self, dtype=None, copy=None):
            return np.ones(2)

        def __rmul__(self, other):
            return "its own"

    assert ad.tensor([1.0, 2.0]) * Quantity() == "its own"
