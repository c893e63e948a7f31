"""An ask raises the errors of what is asked for: a small live result, computed along, has its own when it is asked."""

import numpy as np
import pytest

import autodiff as ad

SINGULAR, REGULAR = np.zeros((2, 2)), np.eye(2)
FAILING = {
    "solve": lambda m: ad.linalg.solve(ad.tensor(m), ad.ones(2)),
    "cholesky": lambda m: ad.linalg.cholesky(ad.tensor(m)).sum(),
    "index": lambda m: ad.tensor([1.0, 2.0])[ad.tensor(m).sum().astype(ad.int64) * -3 + 5],
}
ERRORS = (np.linalg.LinAlgError, IndexError)


def asked(x):
    return x.numpy()


def number(x):
    return x.sum().item()


def gradient(x):
    (x * x).sum().backward()
    return x.grad.numpy()


def gradient_of(x):
    return ad.grad((x * x).sum(), [x])[0].numpy()


def hooked(x):
    x.register_hook(lambda g: g * 1.0)
    return gradient(x)


@pytest.mark.parametrize("way", [asked, number, gradient, gradient_of, hooked])
@pytest.mark.parametrize("make", FAILING.values(), ids=FAILING)
@pytest.mark.parametrize("patience", [0, 8])
def test_an_ask_raises_no_error_of_a_result_that_nobody_asked_for(way, make, patience, monkeypatch):
    monkeypatch.setattr(ad.config, "patience", patience)
    for k in range(12):
        is_regular = k % 3 == 1
        held = make(REGULAR if is_regular else SINGULAR)
        x = ad.tensor([1.0, 2.0 + k], requires_grad=way not in (asked, number))
        y = x * 2.0 if way in (asked, number) else x
        np.testing.assert_array_equal(way(y), {asked: [2, 4 + 2 * k], number: 6 + 2 * k}.get(way, [2, 4 + 2 * k]))
        for _ in range(2):  # its own ask raises it, each time
            if is_regular:
                held.numpy()
                continue
            with pytest.raises(ERRORS, match=r"asked at test_errors_of_others\.py"):
                held.numpy()


def test_an_update_of_one_leaf_raises_no_error_of_another():
    for _ in range(3):
        good, bad = (ad.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
        with ad.no_grad():
            good -= 0.5
            bad -= ad.linalg.solve(ad.tensor(SINGULAR), ad.ones(2))
        ad.tensor(1.0).item()
        (good * 2.0).sum().backward()
        np.testing.assert_array_equal(good.detach().numpy(), [0.5, 1.5])
        with pytest.raises(np.linalg.LinAlgError):
            bad.detach().numpy()
