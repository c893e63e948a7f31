"""Results with histories of their own, or that share one, are gone through one after the other."""

import numpy as np
import pytest

import autodiff as ad

pytestmark = pytest.mark.usefixtures("at_the_first_time")


def losses_of(count):
    """Losses of leaves of their own, recorded in turns."""
    leaves = [ad.tensor(np.full(5, float(k)), requires_grad=True) for k in range(count)]
    doubled = [x * 2 for x in leaves]
    return leaves, [ad.sum(y * x) for x, y in zip(leaves, doubled, strict=True)]


@pytest.mark.parametrize("count", [8, 24, 40])
def test_results_with_histories_of_their_own_are_gone_through_one_after_the_other(count, taken_apart):
    for _ in range(3):
        leaves, losses = losses_of(count)
        for k, (x, loss) in enumerate(zip(leaves, losses, strict=True)):
            loss.backward()
            np.testing.assert_allclose(x.grad, np.full(5, 4.0 * k))
            assert all(x.grad is None for x in leaves[k + 1 :])
    assert taken_apart or count < 24


def test_of_a_history_that_results_share_a_part_is_given_up_once(taken_apart):
    x = ad.tensor(np.linspace(0.1, 0.5, 5), requires_grad=True)
    states, beside = [x], []
    for _ in range(24):
        beside.append(ad.sum(ad.cos(states[-1]) * 2))
        states.append(ad.sin(states[-1]) * 1.1)
    w = ad.tensor(np.ones(5), requires_grad=True)
    alone = [ad.sum(ad.cos(w * k) * 2) for k in range(24)]
    ad.sum(states[-1]).backward()
    assert taken_apart and x.grad is not None and w.grad is None
    alone[3].backward()
    np.testing.assert_allclose(w.grad, -6 * np.sin(3 * np.ones(5)))
    with pytest.raises(ad.GradientError, match="second backward"):
        beside[-1].backward()
    beside[0].backward()  # no node is the root's but the leaf
