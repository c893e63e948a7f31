"""Functions of this library in PyTorch, of any order and under its transformations, and PyTorch's functions in it."""

import tracemalloc

import numpy as np
import pytest

import autodiff as ad

torch = pytest.importorskip("torch")
# PyTorch's own, of its first use of forward mode.
#: Of PyTorch's own functions, which say so of each other.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore:.torch.jit.script. is deprecated:{kind}")
    for kind in ("FutureWarning", "DeprecationWarning")
]

#: One program for both, with the shapes of its arguments: `x` is `ad` or `torch`.
PROGRAMS = {
    "rosenbrock": (lambda x, a: x.sum(100.0 * (a[1:] - a[:-1] ** 2) ** 2 + (1 - a[:-1]) ** 2), [(5,)]),
    "layer": (lambda x, a, w: x.tanh(a @ w), [(3, 2), (2, 4)]),
    "two results": (lambda x, a, b: (x.sin(a) * b, x.sum(x.exp(b) * a)), [(3,), ()]),
    "dict": (lambda x, a: {"y": x.cos(a) ** 2, "z": (a.T, a.sum())}, [(2, 3)]),
    "one number": (lambda x, a: x.exp(a) * a, [()]),
    "linear": (lambda x, a, b: 3.0 * a + b, [(3,), (3,)]),
}
CASES = pytest.mark.parametrize("name", PROGRAMS)


def both(name):
    """The wrapped function, PyTorch's, and arguments."""
    rng = np.random.default_rng(0)
    program, shapes = PROGRAMS[name]
    arguments = [torch.from_numpy(np.asarray(rng.normal(size=shape))) for shape in shapes]
    return ad.interop.torch.wrap(lambda *a: program(ad, *a)), lambda *a: program(torch, *a), arguments


def same(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)


def flat(f):
    """f with a tuple for its result, as PyTorch's checks want it."""
    return lambda *a: tuple(torch.utils._pytree.tree_leaves(f(*a)))


@CASES
def test_gradcheck_and_gradgradcheck_pass(name):
    f, _, arguments = both(name)
    leaves = [a.requires_grad_() for a in arguments]
    assert torch.autograd.gradcheck(flat(f), leaves, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(flat(f), leaves, check_fwd_over_rev=True)


def scalar(f):
    return lambda *a: sum([x.sin().sum() for x in torch.utils._pytree.tree_leaves(f(*a))])


func = torch.func
ROUTES = {
    "call": lambda f, a: f(*a),
    "jacrev": lambda f, a: func.jacrev(f)(*a),
    "jacfwd": lambda f, a: func.jacfwd(f)(*a),
    "vmap": lambda f, a: torch.vmap(f)(*[torch.stack([x, 2 * x], 0) for x in a]),
    "vmap of another axis": lambda f, a: torch.vmap(f, in_dims=(-1, *[None] * (len(a) - 1)))(
        torch.stack([a[0], 2 * a[0]], -1), *a[1:]
    ),
    "vmap of vmap": lambda f, a: torch.vmap(torch.vmap(f))(*[torch.stack([x, 2 * x]).repeat(2, *[1] * (x.ndim + 1))
                                                            .reshape(2, 2, *x.shape) for x in a]),
    "grad": lambda f, a: func.grad(scalar(f))(*a),
    "vmap of grad": lambda f, a: torch.vmap(func.grad(scalar(f)))(*[torch.stack([x, 2 * x]) for x in a]),
    "grad of vmap": lambda f, a: func.grad(scalar(torch.vmap(f)))(*[torch.stack([x, 2 * x]) for x in a]),
    "hessian": lambda f, a: func.hessian(scalar(f))(*a),
    "reverse over reverse": lambda f, a: func.jacrev(func.jacrev(f))(*a),
    "reverse over forward": lambda f, a: func.jacrev(func.jacfwd(f))(*a),
    "forward over forward": lambda f, a: func.jacfwd(func.jacfwd(f))(*a),
    "jvp": lambda f, a: func.jvp(f, tuple(a), tuple([x + 1 for x in a])),
    "third order": lambda f, a: func.grad(lambda *b: func.hessian(scalar(f))(*b).sum())(*a),
    "functional.hessian": lambda f, a: torch.autograd.functional.hessian(scalar(f), tuple(a)),
}


@CASES
@pytest.mark.parametrize("route", ROUTES)
def test_transformations_of_pytorch_are_those_of_its_own_functions(name, route):
    f, wanted, arguments = both(name)
    same(ROUTES[route](f, arguments), ROUTES[route](wanted, arguments))


@CASES
def test_a_second_backward_and_narrower_ones_are_right(name):
    f, wanted, arguments = both(name)
    found = []
    for g in (f, wanted):
        leaves = [a.clone().requires_grad_() for a in arguments]
        y = scalar(g)(*leaves)
        once = torch.autograd.grad(y, leaves[0], retain_graph=True)[0]
        y.backward(retain_graph=True)
        first = [x.grad.clone() for x in leaves]
        y.backward()
        found.append((once, first, [x.grad for x in leaves]))
    same(*found)


#: Functions whose result is no number, with the number of values that their backward finds computed.
HEAVY = {
    "elementwise": (lambda a, w: ad.tanh(a) * w, 0),
    "product": (lambda a, w: a @ w, 0),
    "layer": (lambda a, w: ad.tanh(a @ w), 1),
    "layers": (lambda a, w: ad.tanh(ad.tanh(a @ w) @ w), 2),
    "softmax": (lambda a, w: ad.exp(a) / ad.sum(ad.exp(a @ w), axis=1, keepdims=True), 2),
    "inverse": (lambda a, w: ad.linalg.inv(a @ a.T + 9.0 * ad.eye(3)) @ w, 1),
    "an inverse itself": (lambda a, w: ad.linalg.inv(a * w), 1),
    "cholesky": (lambda a, w: (ad.linalg.cholesky(a @ a.T + 9.0 * ad.eye(3)), {"w": w * w}), 1),
    "eigenvalues": (lambda a, w: ad.linalg.eigh(a @ a.T + w + w.T).eigenvalues, None),
    "counts beside it": (lambda a, w: (ad.argmax(a @ w, axis=0), ad.exp(a @ w)), 1),
    "scan": (lambda a, w: ad.scan(lambda h, _: (ad.tanh(h @ w), h[0]), a, length=3), None),
    "checkpoint": (lambda a, w: ad.checkpoint(lambda a: ad.tanh(a @ w))(a), None),
    "custom": (lambda a, w: halved(ad.tanh(a @ w)) @ w, None),
}


@ad.function
def halved(x): ...


@halved.forward(ad.Tensor)
def _(ctx, x):
    return x / 2.0


@halved.backward(ad.Tensor)
def _(ctx, x_bar):
    return x_bar / 2.0


@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("name", HEAVY)
def test_a_backward_with_what_forward_computed_is_the_backward_that_computes_it(name, wanted):
    program, count = HEAVY[name]
    f, rng = ad.interop.torch.wrap(program), np.random.default_rng(0)
    leaves = [torch.from_numpy(rng.normal(size=(3, 3))).requires_grad_(w) for w in wanted]
    moving = [x for x in leaves if x.requires_grad]

    def called():
        results = [y for y in torch.utils._pytree.tree_leaves(f(*leaves)) if y.requires_grad]
        return results, [torch.cos(y.detach()) for y in results]

    def gradients(xs, **options):
        results, bars = called()
        return torch.autograd.grad(results, xs, bars, allow_unused=True, materialize_grads=True, **options)

    same(gradients(moving), gradients(moving, create_graph=True))
    for i, x in enumerate(moving):
        same(gradients([x]), gradients(moving)[i : i + 1])
    results, bars = called()
    first = torch.autograd.grad(results, moving, bars, retain_graph=True, allow_unused=True, materialize_grads=True)
    same(torch.autograd.grad(results, moving, bars, allow_unused=True, materialize_grads=True), first)
    if count is not None and all(wanted):
        kept = called()[0][0].grad_fn.kept
        assert len(kept) == count, [x.shape for x in kept]


def test_a_result_may_be_changed_in_place_before_its_backward():
    a = torch.ones(3, 3, dtype=torch.float64, requires_grad=True)
    y = ad.interop.torch.wrap(lambda a: ad.linalg.inv(a + 3.0 * ad.eye(3)))(a)
    expected = torch.autograd.grad(y, a, torch.ones_like(y), retain_graph=True)
    y.mul_(2.0)
    same(torch.autograd.grad(y, a, torch.ones_like(y) / 2), expected)


def test_a_scalar_and_its_gradient_are_one_program_of_the_first_call():
    calls = []

    def f(x):
        calls.append(x)
        return ad.sum(x * x)

    wrapped, x = ad.interop.torch.wrap(f), torch.ones(3, requires_grad=True)
    for _ in range(3):
        x.grad = None
        (2 * wrapped(x)).backward()
    assert len(calls) == 1
    same(x.grad, torch.full((3,), 4.0))
    with torch.no_grad():
        assert wrapped(x).item() == 3.0


def test_gradients_of_two_backwards_share_no_memory():
    f = ad.interop.torch.wrap(lambda x: ad.sum(x * x))
    x = torch.ones(3, requires_grad=True)
    y = f(x)
    a, = torch.autograd.grad(y, x, retain_graph=True)
    b, = torch.autograd.grad(y, x)
    a.mul_(0)
    same(b, torch.full((3,), 2.0))


def test_tensors_are_read_where_they_lie():
    total, x = ad.interop.torch.wrap(ad.sum), torch.ones(100_000, dtype=torch.float64)
    for _ in range(3):
        same(total(x), x.sum())
    tracemalloc.start()
    try:
        total(x)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < x.nbytes / 2  # NumPy tells of a copy


def test_complex_numbers():
    z = torch.tensor([1.0 + 2.0j, -0.5j], dtype=torch.complex128, requires_grad=True)
    for f in (lambda z: z * ad.conj(z) * z, lambda z: ad.real(z * z) * 3.0):
        wrapped = ad.interop.torch.wrap(f)
        assert torch.autograd.gradcheck(wrapped, z) and torch.autograd.gradgradcheck(wrapped, z)
        same(wrapped(z.conj()), wrapped(z.conj().resolve_conj()))


def test_nestings_numbers_and_results_without_derivative():
    f = ad.interop.torch.wrap(lambda p, k, n=2: {"y": p["w"] * p["b"] * k, "i": ad.argmax(p["w"]), "n": n})
    p = {"w": torch.tensor([1.0, 5.0], requires_grad=True), "b": torch.tensor(2.0, requires_grad=True)}
    r = f(p, 3.0, n=4)
    assert r["i"].item() == 1 and not r["i"].requires_grad and r["n"].item() == 4
    r["y"].sum().backward()
    same(p["w"].grad, torch.tensor([6.0, 6.0]))
    same(p["b"].grad, torch.tensor(18.0))


# PyTorch's own, at every break of a graph.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_compile_leaves_its_graph_for_the_call():
    f = ad.interop.torch.wrap(lambda x: ad.sum(x * x))
    compiled = torch.compile(lambda x: 2 * f(torch.sin(x)), backend="eager")
    for n in (3, 4):
        x = torch.full((n,), 0.5, dtype=torch.float64, requires_grad=True)
        compiled(x).backward()
        same(x.grad, 4 * torch.sin(x.detach()) * torch.cos(x.detach()))


def test_a_module_trains():
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.zeros(2))
            self.f = ad.interop.torch.wrap(lambda x, w: x @ w)

        def forward(self, x):
            return self.f(x, self.w)

    layer, x = Layer(), torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.3)
    for _ in range(200):
        optimizer.zero_grad()
        ((layer(x) - torch.tensor([1.0, 2.0, 3.0])) ** 2).mean().backward()
        optimizer.step()
    torch.testing.assert_close(layer.w.detach(), torch.tensor([1.0, 2.0]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: torch.ones(2, dtype=torch.bfloat16), ad.DTypeError, r"bfloat16.*test_torch\.py.*t\.double\(\)"),
        (lambda: torch.ones(2, dtype=torch.float16), ad.DTypeError, r"float16.*t\.float\(\)"),
        (lambda: torch.ones(2, device="meta"), ad.DispatchError, r"on meta.*t\.cpu\(\)"),
        (lambda: torch.ones(2, 2).to_sparse(), ad.DispatchError, r"sparse_coo.*t\.to_dense\(\)"),
        (lambda: ad.ones(2), ad.DispatchError, r"a tensor of ad, f64\[2\].*from_dlpack"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_way_out(make, error, says):
    with pytest.raises(error, match=f"(?s){says}"):
        ad.interop.torch.wrap(lambda x: x * x)(make())


def test_other_misuse_is_refused():
    with pytest.raises(ad.DispatchError, match=r"takes a function, got 3"):
        ad.interop.torch.wrap(3)
    with pytest.raises(ad.DispatchError, match=r"(?s)returned 'a' \(str\).*arrays and numbers"):
        ad.interop.torch.wrap(lambda x: "a")(torch.ones(2))
    with pytest.raises(ad.DispatchError, match=r"(?s)returned None, which is no array.*arrays and numbers"):
        ad.interop.torch.from_torch(lambda x: (x, None))(np.ones(2))
    f = ad.interop.torch.wrap(lambda x: ad.sum(x * x))
    with pytest.raises(ad.DispatchError, match=r"older vmap.*\n.*\n.*torch\.func"):
        torch.autograd.functional.hessian(f, torch.ones(2), vectorize=True)


# ---------------------------------------------------------------- PyTorch's functions here


def test_functions_of_pytorch_have_derivatives_of_any_reverse_order():
    sine = ad.interop.torch.from_torch(torch.sin)
    for order, wanted in enumerate([np.sin, np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x), np.sin]):
        f = sine
        for _ in range(order):
            f = ad.grad(f)
        for g in (f, ad.jit(f), lambda x, f=f: ad.vmap(f)(np.full(2, x))[1]):
            np.testing.assert_allclose(g(0.5), wanted(0.5), rtol=1e-12)


def test_modules_and_nestings_of_pytorch_are_checked():
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(2, 3, dtype=torch.float64), torch.nn.Tanh(), torch.nn.Linear(3, 1, dtype=torch.float64)
    )
    g = ad.interop.torch.from_torch(network)
    ad.check_gradients(lambda x: g(x) ** 2, np.ones((3, 2)))
    u = ad.interop.torch.from_torch(lambda p: {"y": torch.sin(p["a"]) * p["b"].exp(), "n": p["a"].argmax()})
    p = {"a": np.array([0.1, 0.2]), "b": np.array(0.3)}
    assert u(p)["n"] == 1
    ad.check_gradients(lambda p: u(p)["y"], p)
    x = ad.tensor(p["a"], requires_grad=True)
    ad.sum(u({"a": x, "b": p["b"]})["y"]).backward()
    np.testing.assert_allclose(x.grad, np.cos(p["a"]) * np.exp(0.3))


def test_what_pytorch_holds_is_not_shared():
    buffer = torch.zeros(2, dtype=torch.float64)
    f = ad.interop.torch.from_torch(lambda x: buffer)
    y = f(np.ones(2))
    recorded = f(ad.tensor(np.ones(2), requires_grad=True))
    buffer.add_(1.0)
    np.testing.assert_array_equal(y, [0.0, 0.0])
    np.testing.assert_array_equal(recorded.detach().numpy(), [0.0, 0.0])


def test_parameters_are_arguments_by_functional_call():
    layer = torch.nn.Linear(2, 1, dtype=torch.float64)
    f = ad.interop.torch.from_torch(lambda p, x: torch.func.functional_call(layer, p, (x,)))
    p = {name: value.detach().numpy() for name, value in layer.named_parameters()}
    g = ad.grad(lambda p: ad.sum(f(p, np.ones((3, 2)))))(p)
    np.testing.assert_allclose(g["weight"], [[3.0, 3.0]])
    np.testing.assert_allclose(g["bias"], [3.0])


def test_there_and_back():
    f = ad.interop.torch.from_torch(ad.interop.torch.wrap(lambda x: ad.sum(ad.sin(x) ** 2)))
    x = np.array([0.3, 0.4])
    np.testing.assert_allclose(ad.hessian(f)(x), np.diag(2 * np.cos(2 * x)), rtol=1e-12)


# ---------------------------------------------------------------- arrays


def test_arrays_go_both_ways_by_dlpack():
    t = torch.tensor([1.0, 2.0], dtype=torch.float64)
    for take in (ad.from_dlpack, ad.asarray, ad.tensor):
        found = take(t)
        t.add_(1.0)
        t.sub_(1.0)
        np.testing.assert_array_equal(found.numpy(), [1.0, 2.0])
    same(torch.from_dlpack(ad.ones(2) * 3.0), torch.full((2,), 3.0, dtype=torch.float64))
    a = np.arange(6.0).reshape(2, 3)
    same(torch.from_dlpack(ad.asarray(a).T), torch.from_numpy(a.T))
    with pytest.raises(ad.DispatchError, match="requires grad"):
        ad.asarray(t.clone().requires_grad_())
