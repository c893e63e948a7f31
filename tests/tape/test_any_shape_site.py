"""What one site records for operands of any shape: when it learns, what it refuses to, and when it is not asked."""

import numpy as np
import pytest

import autodiff as ad
from autodiff.ops import any_shape
from autodiff.ops.any_shape import AnyShape
from autodiff.tape import state
from autodiff.tape.node import data_node, leaf_kind, out_of
from autodiff.tensor import handle
from codegen.ir import Aval

RNG = np.random.default_rng(8)


@pytest.fixture(autouse=True)
def tried(monkeypatch):
    """A form is tried with its second shape, and with each after that."""
    monkeypatch.setattr(any_shape, "_TRIED", range(1, 100))


class Site:
    """A site whose body is a function of operands, and how often it was told to forget."""

    def __init__(self, f):
        self.f, self.known, self.forgotten = f, AnyShape(), 0

    def forget(self):
        self.forgotten += 1

    def learn(self, *xs, age=0, statics=()):
        """The body has recorded these."""
        self.known.learn(age, xs, statics, self.forget, lambda given: self.f(*given))

    def put(self, *xs, age=0, statics=()):
        """What is recorded for these without the body, or None."""
        found = self.known.put(age, xs, statics)
        return None if found is None else found[0]

    def agrees(self, *xs):
        """Whether these are recorded without the body, and as it does."""
        found = self.put(*xs)
        if found is None:
            return False
        np.testing.assert_array_equal(found.numpy(), self.f(*xs).numpy())
        return True


def rows(*shape, dtype="f8"):
    return ad.tensor(RNG.normal(size=shape).astype(dtype))


def taught(f, *more, k=5):
    site = Site(f)
    for n in (3, 4, 6):
        site.learn(rows(n, k), *more)
    return site


def test_other_rows_and_columns_are_known():
    site = taught(lambda x: ad.tanh(x) * x)
    assert site.agrees(rows(9, 5)) and site.agrees(rows(9, 6)) and site.agrees(rows(7, 7))
    assert site.put(rows(1, 5)) is None and site.put(rows(9, 0)) is None  # of those there was no sample


def test_an_extent_of_one_is_known_as_itself():
    site = taught(lambda x: x + x, k=1)
    assert site.agrees(rows(9, 1)) and site.put(rows(9, 2)) is None


def test_where_a_body_needs_the_very_number_of_columns_it_is_known_for_these():
    site = taught(lambda x: x * float(int(x.shape[1])))
    assert site.agrees(rows(9, 5)) and site.put(rows(9, 6)) is None


def test_what_a_body_does_at_one_size_without_a_comparison_is_found_by_the_samples():
    for odd in (3, 4):
        site = taught(lambda x, odd=odd: ad.tanh(x) if int(x.shape[0]) == odd else ad.exp(x))
        assert site.put(rows(9, 5)) is None
        site = taught(lambda x, odd=odd: x - x.mean() if int(x.shape[0]) == odd else x.mean() - x)
        assert site.put(rows(9, 5)) is None


def test_samples_that_differ_in_extents_of_one_are_no_samples_of_each_other():
    site = Site(lambda x: x.mean(axis=0))
    for shape in ((3, 1), (4, 5), (6, 1), (7, 5), (8, 1)):
        site.learn(rows(*shape))
    assert site.agrees(rows(9, 1))


def test_a_number_has_its_place():
    for f in (lambda x, c: x - c, lambda x, c: c - x, lambda x, c: c / (x * x)):
        site = taught(f, 2.5)
        assert site.agrees(rows(9, 5), 4.5)
        left = Site(lambda c, x, f=f: f(x, c))
        for n in (3, 4, 6):
            left.learn(2.5, rows(n, 5))
        assert left.agrees(4.5, rows(9, 5)) and left.agrees(3, rows(8, 5)) is False  # an int is another form


def test_several_numbers_and_numbers_of_other_classes_are_left_to_the_body():
    assert taught(lambda x, a, b: (x + a) * b, 2.5, 3.5).put(rows(9, 5), 2.5, 3.5) is None
    for number in (True, np.float64(2.5), 2.5j):
        assert taught(lambda x, c: x, number).put(rows(9, 5), number) is None


def test_what_may_be_an_index_is_left_to_the_body():
    site = Site(lambda x: x + x)
    for n in (3, 4, 6):
        site.learn(ad.tensor(np.arange(n)))
    assert site.put(ad.tensor(np.arange(9))) is None


def test_a_body_that_looks_at_a_value_or_gives_no_tensor_is_run_each_time():
    assert taught(lambda x: x * float(x.numpy()[0, 0])).put(rows(9, 5)) is None
    assert taught(lambda x: 2.5).put(rows(9, 5)) is None
    assert taught(lambda x: x).put(rows(9, 5)) is None

    def asks(x):
        state.now.asked += 1  # as whoever evaluates does
        return x + x

    assert taught(asks).put(rows(9, 5)) is None


def test_inside_of_bodies_and_rules_it_is_not_asked(monkeypatch):
    site, now = taught(lambda x, c: x * c, 2.5), state.now
    assert site.agrees(rows(9, 5), 1.5)
    for name, value in (("body", 1), ("literal", True)):
        with monkeypatch.context() as patch:
            patch.setattr(now, name, value)
            assert site.put(rows(9, 5), 1.5) is None
    assert site.agrees(rows(9, 5), 1.5)


def test_what_was_learnt_before_all_was_forgotten_is_gone():
    site = taught(ad.exp)
    assert site.put(rows(9, 5)) is not None
    site.learn(rows(8, 5), age=1)  # recorded before, told after
    assert site.put(rows(9, 5), age=1) is None and not site.known.programs
    assert site.put(rows(9, 5), age=0) is None


def test_a_body_that_was_run_before_all_was_forgotten_teaches_nothing():
    site = Site(ad.exp)
    assert site.put(rows(9, 5), age=1) is None
    site = taught(ad.exp)
    assert site.put(rows(9, 5), age=2) is None
    for n in (3, 4, 6):
        site.learn(rows(n, 5), age=1)
    assert not site.known._forms and site.put(rows(9, 5), age=2) is None


def test_operands_that_are_weak_or_are_masked_or_track_are_told_apart():
    site = taught(lambda x: x * x)
    assert site.agrees(rows(9, 5))
    assert site.put(ad.tensor(np.ones((9, 5)), requires_grad=True)) is None
    masked = rows(9, 5)
    masked.masked = True
    assert site.put(masked) is None
    site = Site(lambda x: x * x)
    for n in (3, 4, 6):
        out = out_of(Aval((n, 5), np.dtype("f8")), weak=True)
        weak = handle(data_node(leaf_kind(out), np.ones((n, 5))))
        site.learn(weak)
    assert not site.known._forms and site.put(weak) is None


def test_a_pending_operand_of_an_earlier_recording_is_left_to_the_body():
    site, x = taught(lambda x: x * x), rows(9, 5)
    old = ad.exp(x)
    assert site.put(old) is not None
    (x * 2.0).numpy()  # ends the recording
    assert old.node.value is not None or site.put(old) is None


def test_static_arguments_that_are_not_compared_teach_nothing():
    axis = [("axis", object())]
    site = Site(lambda x: x.mean(axis=0))
    for n in (3, 4, 6):
        site.learn(rows(n, 5), statics=axis)
    assert not site.known._forms and site.put(rows(9, 5), statics=axis) is None


def test_gradients_make_another_form_and_both_are_known():
    site = Site(lambda x: x * x)
    for n in (3, 4, 6):
        for tracks in (False, True):
            site.learn(ad.tensor(RNG.normal(size=(n, 5)), requires_grad=tracks))
    for tracks in (True, False):
        y = site.put(ad.tensor(np.ones((9, 5)), requires_grad=tracks))
        assert y is not None and y.requires_grad is tracks


def test_forms_and_programs_are_bounded(monkeypatch):
    monkeypatch.setattr(any_shape, "_FORMS", 4)
    site = Site(lambda x, c=0: x * x)
    for axis in range(20):
        for n in (3, 4):
            site.learn(rows(n, 5), statics=[("axis", axis)])
    assert len(site.known._forms) <= 4 and len(site.known.programs) <= 4
    site = Site(lambda x: x * x)
    for k in range(12):  # of each number of columns that is one, others
        shape = tuple([1 if k >> axis & 1 else 2 + axis for axis in range(4)])
        for n in (3, 4):
            site.learn(rows(n, *shape))
    assert max(map(len, site.known.programs.values())) <= any_shape._PROGRAMS


def test_who_relies_on_choices_is_told_when_one_changes():
    site = taught(lambda x: ad.subtract(x, ad.tanh(x)))
    assert site.agrees(rows(9, 5)) and not site.forgotten
    matrices = ad.Tensor[ad.float64, 2]
    method = ad.subtract.method(matrices, matrices)(lambda x1, x2: ad.add(x1, x2))
    method.delete()
    assert site.forgotten


def test_a_recording_of_many_nodes_is_left_to_the_body():
    def long(x):
        for _ in range(any_shape.MOST_NODES):
            x = ad.tanh(x)
        return x

    assert taught(long).put(rows(9, 5)) is None
    assert taught(lambda x: ad.tanh(ad.tanh(x))).put(rows(9, 5)) is not None


def test_a_comparison_of_extents_is_a_condition():
    site = Site(lambda x, y: x + y if x.shape[0] > y.shape[0] * 2 else x - y)
    for n in (7, 9, 12):
        site.learn(rows(n, 5), rows(n, 5))
    assert site.agrees(rows(20, 5), rows(20, 5))
    site = Site(lambda x: ad.exp(x) if x.shape[0] > 50 else ad.tanh(x))
    for n in (7, 9, 12):
        site.learn(rows(n, 5))
    assert site.put(rows(60, 5)) is None or site.agrees(rows(60, 5))
    assert site.put(rows(13, 5)) is None or site.agrees(rows(13, 5))
    site = Site(lambda x: ad.exp(x) if x.shape[0] == 9 else ad.tanh(x))
    for n in (7, 8, 12):
        site.learn(rows(n, 5))
    assert site.agrees(rows(13, 5)) and site.put(rows(9, 5)) is None
