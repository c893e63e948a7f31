"""Cases of products: matmul and its relatives, einsum, diagonals, norms."""

import numpy as np

import autodiff as ad

from .cases import between, case, cases

NUMERIC = ("f64", "f32", "i64", "i32")
ALL = (*NUMERIC, "bool")
PRODUCTS = (
    ("[3,4]", "[4,2]"), ("[4]", "[4]"), ("[3,4]", "[4]"), ("[4]", "[4,2]"), ("[2,3,4]", "[4,2]"),
    ("[2,3,4]", "[2,4,2]"), ("[5,1,3,4]", "[2,4,2]"), ("[2,3,4]", "[4]"), ("[4]", "[2,4,3]"), ("[3,0]", "[0,2]"),
    ("[0,3]", "[3,2]"), ("[1,1]", "[1,1]"), ("[3,4]", "[2,4,2]"),
)  # fmt: skip
EINSUMS = {
    "ij,jk->ik": ("[2,3]", "[3,4]"), "ij,jk": ("[2,3]", "[3,4]"), "ij,kj->ki": ("[2,3]", "[4,3]"),
    "i,i->": ("[5]", "[5]"), "i,j->ij": ("[2]", "[3]"), "i,j->ji": ("[2]", "[3]"), "ii->i": ("[3,3]",),
    "ii": ("[3,3]",), "ij->": ("[2,3]",), "ij->j": ("[2,3]",), "ij->ji": ("[2,3]",), "ba": ("[2,3]",),
    "bij,bjk->bik": ("[2,3,4]", "[2,4,5]"), "bij,bij->b": ("[2,3,4]", "[2,3,4]"), "ij,ij->ij": ("[2,3]", "[2,3]"),
    "...ij,...jk->...ik": ("[2,3,4]", "[4,5]"), "...ii->...": ("[2,3,3]",), "...i,...i": ("[2,1,3]", "[4,3]"),
    "i...,i...->...": ("[3,2]", "[3,2]"), "ij,jk,kl->il": ("[2,3]", "[3,4]", "[4,2]"),
    "i,i,i->i": ("[3]", "[3]", "[3]"),
    "iij,jk->ik": ("[3,3,2]", "[2,4]"), "ij,jk->k": ("[2,3]", "[3,4]"), "ab,cd->abcd": ("[2,3]", "[2,2]"),
    "iii->i": ("[3,3,3]",), "ij,jk->ik ": ("[2,1]", "[3,4]"), ",i->i": ("[]", "[3]"), "->": ("[]",),
    "bhqd,bhkd->bhqk": ("[2,2,3,4]", "[2,2,5,4]"), "i,ij,j->": ("[2]", "[2,3]", "[3]"), "ijij->": ("[2,3,2,3]",),
    "ij,jk->ki": ("[0,3]", "[3,4]"),
}  # fmt: skip


def _einsum(subscripts, shapes):
    return cases(
        f"einsum {subscripts}",
        lambda *xs: ad.einsum(subscripts, *xs),
        lambda *xs: np.asarray(np.einsum(subscripts, *xs)),
        dtypes=("f64", "f32", "i64"),
        shapes=(shapes,),
        ulps=16,
    )


def _norm(name, shape, draws=None, **keywords):
    return case(
        f"norm-{name}",
        lambda x: ad.norm(x, **keywords),
        lambda x: np.asarray(np.linalg.norm(x, **keywords)),
        [f"f64{shape}"],
        draws,
        ulps=16,
    )


CASES = [
    *cases("matmul", lambda a, b: a @ b, lambda a, b: np.asarray(a @ b), dtypes=ALL, shapes=PRODUCTS, ulps=16),
    *cases("matmul-by-name", ad.matmul, lambda a, b: np.asarray(np.matmul(a, b)), shapes=PRODUCTS[:3], ulps=16),
    case("matmul-mixed", lambda a, b: a @ b, lambda a, b: a @ b, ["f32[2,3]", "i32[3,2]"]),
    case("matmul-itself", lambda a: a @ a.T, lambda a: a @ a.T, ["f64[3,4]"], ulps=16),
    case("matmul-large", lambda a, b: a @ b, lambda a, b: a @ b, ["f64[65,33]", "f64[33,70]"], ulps=64),
    *cases("dot", lambda a, b: ad.dot(a, b), lambda a, b: np.asarray(np.dot(a, b)), dtypes=("f64", "f32", "bool"),
           ulps=16, shapes=(("[]", "[3]"), ("[3]", "[3]"), ("[2,3]", "[3,4]"), ("[2,3]", "[2,3,4]"))),
    *cases("inner", lambda a, b: ad.inner(a, b), lambda a, b: np.asarray(np.inner(a, b)), dtypes=("f64", "f32", "bool"),
           shapes=(("[]", "[3]"), ("[3]", "[3]"), ("[2,3]", "[4,3]")), ulps=16),
    *cases("outer", lambda a, b: ad.outer(a, b), lambda a, b: np.outer(a, b), dtypes=("f64", "f32", "i32", "bool"),
           shapes=(("[2]", "[3]"), ("[]", "[2,2]"), ("[0]", "[3]"))),
    *cases("tensordot", lambda a, b: ad.tensordot(a, b), lambda a, b: np.asarray(np.tensordot(a, b)), ulps=16,
           dtypes=("f64", "f32", "i64"), shapes=(("[2,3,4]", "[3,4,2]"), ("[2,3]", "[2,3]"))),
    case("tensordot-0", lambda a, b: ad.tensordot(a, b, 0), lambda a, b: np.tensordot(a, b, 0), ["f64[2]", "f64[3]"]),
    case("tensordot-pairs", lambda a, b: ad.tensordot(a, b, ((0, 2), (1, 0))),
         lambda a, b: np.tensordot(a, b, ((0, 2), (1, 0))), ["f64[2,3,4]", "f64[4,2,3]"], ulps=16),
    case("tensordot-one", lambda a, b: ad.tensordot(a, b, (-1, 0)), lambda a, b: np.tensordot(a, b, (-1, 0)),
         ["f64[2,3]", "f64[3,2]"], ulps=16),
    *[c for subscripts, shapes in EINSUMS.items() for c in _einsum(subscripts, shapes)],
    *cases("trace", ad.trace, lambda x: np.asarray(np.trace(x)), dtypes=ALL,
           shapes=("[3,3]", "[2,4]", "[3,2,2]", "[0,2]")),
    case("trace-offset", lambda x: ad.trace(x, 1, 1, 2), lambda x: np.trace(x, 1, 1, 2), ["f64[2,3,4]"]),
    *cases("diag", ad.diag, np.diag, dtypes=("f64", "f32", "bool"), shapes=("[3]", "[3,4]", "[0]", "[1]")),
    *[case(f"diag{k}", lambda x, k=k: ad.diag(x, k), lambda x, k=k: np.diag(x, k), [f"f64{s}"])
      for k in (-4, -1, 2) for s in ("[3]", "[3,4]")],
    *[case(f"diagonal{k}", lambda x, k=k: ad.diagonal(x, k, 2, 0), lambda x, k=k: np.diagonal(x, k, 2, 0),
           ["f64[2,3,4]"]) for k in (-2, 0, 1)],
    _norm("all", "[2,3]"),
    _norm("axis", "[2,3]", axis=1),
    _norm("kept", "[2,3]", axis=0, keepdims=True),
    _norm("pair", "[2,3,4]", axis=(0, 2)),
    _norm("1", "[2,3]", ord=1, axis=1),
    _norm("3", "[5]", ord=3),
    _norm("2.5", "[5]", ord=2.5, draws=between(0.5, 2)),
    _norm("0d", "[1]", ord=2),
    *[_norm(f"matrix-{ord}", "[3,4]", ord=ord) for ord in (1, -1, np.inf, -np.inf, 2, -2, "nuc")],
    *[_norm(f"matrices-{ord}", "[2,3,4]", ord=ord, axis=(2, 0), keepdims=kept)
      for ord, kept in ((1, True), (-np.inf, False), (2, True), ("nuc", False))],
    case("norm-of-integers", ad.norm, lambda x: np.asarray(np.linalg.norm(x)), ["i32[4]"]),
    case("norm-inf", lambda x: ad.norm(x, np.inf), lambda x: np.asarray(np.linalg.norm(x, np.inf)), ["f64[5]"]),
]  # fmt: skip
