"""The public names are a contract: each is there, and takes what it is promised to take."""

import inspect

import numpy as np
import pytest

import autodiff as ad

#: Of each function the parameters that it is promised to have, in this order, under these names.
PROMISED = {
    "tensor": "data dtype requires_grad", "asarray": "data dtype copy", "dense": "x", "project": "g like",
    "unbroadcast": "g like", "methods": "f", "coverage": "f", "which": "f", "which_backward": "f",
    "ambiguities": "", "no_grad": "", "enable_grad": "", "is_grad_enabled": "", "detect_anomaly": "",
    "grad": "y xs grad_outputs create_graph allow_unused",
    "value_and_grad": "f argnums has_aux", "vjp": "f", "jvp": "f primals tangents",
    "jacobian": "f argnums mode", "hessian": "f argnums", "hvp": "f primals tangents", "vmap": "f in_axes out_axes",
    "checkpoint": "f", "stop_gradient": "t", "backward": "tensors grad_tensors retain_graph create_graph inputs",
    "jit": "f static_argnums static_argnames", "inspect": "f", "explain": "", "cache_info": "", "clear_cache": "",
    "max_compiles": "n", "check_gradients": "f", "function": "",
    "cond": "", "while_loop": "", "fori_loop": "", "scan": "",
}  # fmt: skip
OF_METHODS = {
    "requires_grad_": "flag", "register_hook": "fn", "register_post_accumulate_grad_hook": "fn",
    "backward": "gradient retain_graph create_graph inputs", "numpy": "", "item": "", "detach": "", "retain_grad": "",
}  # fmt: skip
OF_TENSORS = (
    "shape", "dtype", "ndim", "size", "T", "mT", "grad", "requires_grad", "is_leaf", "numpy", "item", "detach",
    "backward", "requires_grad_", "register_hook", "register_post_accumulate_grad_hook", "retain_grad", "grad_fn",
    "__dlpack__",
)  # fmt: skip


@pytest.mark.parametrize("name", PROMISED)
def test_functions_take_what_is_promised(name):
    found = inspect.signature(getattr(ad, name))
    promised = PROMISED[name].split()
    assert list(found.parameters)[: len(promised)] == promised
    kinds = {found.parameters[p].kind for p in promised}
    assert kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY}


DTYPES = {
    "bool": np.dtype(bool), "i32": np.dtype(np.int32), "i64": np.dtype(np.int64), "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64), "c64": np.dtype(np.complex64), "c128": np.dtype(np.complex128),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Converting")  # NumPy 2.0 to 2.3, of np.dtype("int64") == np.integer
@pytest.mark.parametrize("name", DTYPES)
def test_a_dtype_names_a_type_of_tensors_however_it_is_written(name):
    dtype = DTYPES[name]
    assert ad.Tensor[dtype] is ad.Tensor[dtype.type] is ad.Tensor[dtype.name]
    assert ad.Tensor[dtype] is not ad.Tensor[np.integer] and ad.Tensor[dtype] is not ad.Tensor[np.floating]


def test_tensors_types_errors_and_settings_are_there():
    t = ad.tensor(np.ones((2, 3)), requires_grad=True)
    assert all(hasattr(t, name) for name in OF_TENSORS)
    for name, promised in OF_METHODS.items():
        assert list(inspect.signature(getattr(t, name)).parameters) == promised.split(), name
    for name in ("AbstractTensor", "Tensor", "Scalar", "Vector", "Matrix", "Number", "Diagonal", "Symmetric",
                 "LowerTriangular", "UpperTriangular"):
        assert isinstance(getattr(ad, name), type) or name == "Number", name
    assert ad.Diagonal(np.ones(2)).diagonal.shape == (2,)
    assert all(callable(getattr(ad.tree, name)) for name in ("map", "leaves", "flatten", "unflatten", "register"))
    assert issubclass(ad.AmbiguityError, ad.DispatchError) and issubclass(ad.Error, Exception)
    for name in ("ShapeError", "DTypeError", "GradientError", "ConcretizationError", "DispatchError"):
        assert issubclass(getattr(ad, name), ad.Error), name
    assert {"eager", "threads", "patience", "fast_math", "deterministic"} <= set(dir(ad.config))
    assert ad.cache_info()._fields == ("hits", "misses", "compiles", "entries", "bytes")


def test_static_arguments_are_given_by_position_or_by_name():
    for f in (ad.jit(lambda x, n: x * n, (1,)), ad.jit(lambda x, n: x * n, (), ("n",)),
              ad.jit(static_argnums=1)(lambda x, n: x * n)):
        assert f(np.ones(2), 3).tolist() == [3, 3]


def a_pair():
    """A generic function with a rule, declared as the design writes it."""

    @ad.function
    def doubled(x, y=None): ...

    @doubled.forward(ad.Vector, ad.Vector | None)
    def forward(ctx, x, y=None):
        return x * 2

    @forward.backward
    def _(ctx, g):
        return g * 2, None

    return doubled, forward


def test_the_gradient_of_a_function_is_asked_for_by_place_and_by_name():
    def f(x, y):
        return (x**2).sum() * y, "aux"

    x = np.array([1.0, 2.0])
    for g in (ad.grad(f, 0, True), ad.grad(f, argnums=0, has_aux=True), ad.grad(f=f, argnums=0, has_aux=True)):
        found, aux = g(x, 3.0)
        assert found.tolist() == [6, 12] and aux == "aux"
    (gx, gy), _ = ad.grad(f, (0, 1), True)(x, 3.0)
    assert gx.tolist() == [6, 12] and gy == 5
    assert ad.grad(lambda x: (x**2).sum())(x).tolist() == [2, 4]
    for both in (ad.value_and_grad(f, 0, True), ad.value_and_grad(f=f, argnums=0, has_aux=True)):
        (value, aux), found = both(x, 3.0)
        assert (value, aux, found.tolist()) == (15, "aux", [6, 12])


def test_the_gradients_of_tensors_are_asked_for_by_place_and_by_name():
    x, z = (ad.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    assert ad.grad((x**3).sum(), x, None, False, False).tolist() == [3, 12]
    found = ad.grad(y=(x**3).sum(), xs={"a": [x], "z": z}, grad_outputs=None, create_graph=False, allow_unused=True)
    assert found["a"][0].tolist() == [3, 12] and found["z"] is None
    slope = ad.grad(x**3, [x], ad.tensor([1.0, 10.0]), True, True)[0]
    assert slope.tolist() == [3, 120] and slope.requires_grad
    assert ad.grad(slope.sum(), x).tolist() == [6, 120]


def test_what_belongs_to_tensors_cannot_be_asked_of_a_function():
    for mistaken in (lambda: ad.grad(np.sum, 0, None, True), lambda: ad.grad(np.sum, retain_graph=True), ad.grad,
                     lambda: ad.grad(np.sum, grad_outputs=ad.tensor(1.0)), lambda: ad.grad(np.sum, f=np.sum)):
        with pytest.raises(ad.DispatchError, match=r"grad: .*\n  called at test_contract.py:\d+"):
            mistaken()


def test_rules_are_asked_about_by_values_and_by_types():
    doubled, forward = a_pair()
    x = ad.tensor([1.0, 2.0])
    for found in (ad.which(doubled, x), ad.which(doubled, x=x), ad.which(doubled, ad.Vector),
                  ad.which(doubled, ad.Tensor[ad.float64, 1], type(None))):
        assert found.method is forward
    assert ad.which_backward(doubled, x).method.kind == "backward" == ad.which_backward(doubled, ad.Vector).method.kind
    assert ad.methods(f=doubled) == [forward] == ad.methods(doubled)
    assert ad.coverage(f=doubled) == [] == ad.coverage(doubled)
    assert doubled.invoke((ad.Vector, type(None)), x).tolist() == [2, 4]

    @doubled.method(ad.Matrix)
    def program(x, y=None):
        return x * 3

    assert doubled(ad.ones((1, 1))).item() == 3
    program.delete()
    with pytest.raises(ad.DispatchError):
        doubled(ad.ones((1, 1)))

    @doubled.jvp(ad.Vector, ad.Vector | None)
    def _(ctx, dx, dy):
        return dx * 2

    value, slope = ad.jvp(doubled, (np.ones(2),), (np.array([1.0, 3.0]),))
    assert value.tolist() == [2, 2] and slope.tolist() == [2, 6]


def test_projections_of_gradients_are_asked_for_by_place_and_by_name():
    d, full = ad.Diagonal(np.array([1.0, 2.0])), np.arange(4.0).reshape(2, 2)
    for found in (ad.project(full, d), ad.project(g=full, like=d)):
        assert type(found).__name__ == "Diagonal" and found.diagonal.tolist() == [0, 3]
    for found in (ad.unbroadcast(full, np.zeros(2)), ad.unbroadcast(g=full, like=np.zeros(2))):
        assert found.tolist() == [2, 4]
    t = ad.tensor([1.0, 2.0], requires_grad=True)
    assert not ad.stop_gradient(t).requires_grad and not ad.stop_gradient(t=t).requires_grad
    assert ad.dense(x=d).tolist() == [[1, 0], [0, 2]]


def test_a_user_writes_a_projection_with_the_promised_names():
    class Doubled(ad.AbstractTensor):
        pass

    @ad.project.method(object, Doubled)
    def mine(g, like):
        return "mine"

    assert ad.project(np.ones(2), object.__new__(Doubled)) == "mine"
    mine.delete()


def test_hooks_are_given_by_place_and_by_name():
    t = ad.tensor([1.0, 2.0], requires_grad=True)
    seen = []
    handles = [t.register_hook(fn=lambda g: g * 2), t.register_hook(lambda g: g + 1),
               t.register_post_accumulate_grad_hook(fn=lambda p: seen.append(p is t)),
               t.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))]
    (t * t).sum().backward()
    assert t.grad.tolist() == [5, 9] and seen == [True, [5, 9]]
    for handle in handles:
        handle.remove()
    t.grad = None
    (t * t).sum().backward()
    assert t.grad.tolist() == [2, 4] and len(seen) == 2
    assert t.detach().requires_grad_(flag=True).requires_grad and not t.detach().requires_grad_(False).requires_grad


def test_requires_grad_is_set_as_in_pytorch():
    t = ad.tensor([1.0, 2.0])
    before = t * 3
    t.requires_grad = True
    assert t.requires_grad and t.is_leaf and not before.requires_grad
    y = (t * t).sum()
    y.backward()
    assert t.grad.tolist() == [2, 4]
    y.requires_grad = True  # it does
    with pytest.raises(ad.GradientError, match=r"only from a leaf\n  called at .*test_contract.*\n  use t.detach"):
        y.requires_grad = False
    t.requires_grad = False
    assert not t.requires_grad and not (t * t).requires_grad and t.grad is None
    for values in ([1, 2], [True, False]):
        with pytest.raises(ad.DTypeError, match="cannot require gradients"):
            ad.tensor(values).requires_grad = True
    for flag in (1, "yes", None):
        with pytest.raises(TypeError, match="True or False"):
            t.requires_grad = flag
    assert not t.requires_grad


def test_backward_takes_its_arguments_by_place_and_by_name():
    a, b = (ad.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    one = ad.tensor([1.0, 10.0])
    y = a * b
    y.backward(one, True, False, [a])
    y.backward(gradient=one, retain_graph=True, create_graph=False, inputs=a)
    ad.backward(y, one, True, False, [a])
    ad.backward(tensors=[y], grad_tensors=[one], retain_graph=False, create_graph=False, inputs=(a,))
    assert a.grad.tolist() == [4, 80] and b.grad is None


def test_the_rest_is_called_as_it_is_written():
    x = np.array([1.0, 2.0])

    def f(x):
        return (x**2).sum()

    out, pullback = ad.vjp(f, x)
    assert out == 5 and pullback(1.0)[0].tolist() == [2, 4]
    assert ad.jvp(f, (x,), (x,)) == (5, 10) == ad.jvp(f=f, primals=(x,), tangents=(x,))
    assert ad.hvp(f, (x,), (x,)).tolist() == [2, 4] == ad.hvp(f=f, primals=(x,), tangents=(x,)).tolist()
    assert ad.hessian(f, 0)(x).tolist() == [[2, 0], [0, 2]] == ad.hessian(f=f, argnums=0)(x).tolist()
    for mode in ("auto", "forward", "reverse"):
        assert ad.jacobian(lambda x: x * x, 0, mode)(x).tolist() == [[2, 0], [0, 4]]
    assert ad.vmap(f, 1, 0)(np.ones((2, 3))).tolist() == [2, 2, 2]
    assert ad.vmap(f=lambda x: x * 2, in_axes=0, out_axes=1)(np.ones((3, 2))).shape == (2, 3)
    assert ad.grad(ad.checkpoint(f=f))(x).tolist() == [2, 4]
    ad.check_gradients(f, x, order=2)
    with ad.max_compiles(n=10), ad.enable_grad(), ad.detect_anomaly():
        assert ad.is_grad_enabled()
    hits, misses, compiles, entries, size = ad.cache_info()
    assert hits + misses == ad.cache_info().records and min(compiles, entries, size) >= 0
    assert isinstance(str(ad.explain()), str)


def test_an_inspection_has_every_stage():
    def f(x):
        return ad.sum(ad.sin(x))

    found = ad.inspect(f, np.ones(3))
    for stage in ("tape", "graph", "fused", "mlir", "llvm", "llvm_optimized", "asm", "stats", "html", "dot"):
        assert len(str(getattr(found, stage))) > 20, stage
    assert "sin" in str(found) and "sin" in str(ad.inspect(ad.sin(ad.ones(3))).tape)
