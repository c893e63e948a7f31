"""Python's instructions, where the library reads them: each version of Python has its own."""

import dis

import pytest

import autodiff as ad
from autodiff.custom import reads
from autodiff.dispatch.declaration import has_body

#: The instructions that name something and read neither a global nor an attribute of an object.
OTHERS = {
    "DELETE_ATTR", "DELETE_GLOBAL", "DELETE_NAME", "IMPORT_FROM", "IMPORT_NAME", "STORE_ATTR", "STORE_GLOBAL",
    "STORE_NAME",
}  # fmt: skip
#: Names that the compiler uses for instructions before it writes them down.
PSEUDO = {"LOAD_SUPER_METHOD", "LOAD_ZERO_SUPER_ATTR", "LOAD_ZERO_SUPER_METHOD"}


def empty_bodies():
    free = other = None

    def dots(x): ...

    def passes(x):
        pass

    def described(x):
        """Words."""

    def described_dots(x, *rest, k=1, **more):
        """Words."""
        ...

    def all_of_them(x):
        """Words."""
        pass
        ...
        return None

    def with_a_cell(x):
        nonlocal free
        ...

    def with_two(x):
        nonlocal free, other

    return [dots, passes, described, described_dots, all_of_them, with_a_cell, with_two]


def bodies():
    free = 1

    def gives_dots(x):
        return ...

    def gives_zero(x):
        return 0

    def gives_no(x):
        return False

    def gives_words(x):
        """Words."""
        return ""

    def gives_it(x):
        return x

    def raises(x):
        raise NotImplementedError

    def asserts(x):
        assert x

    def looks(x):
        if x:
            ...

    def reads_a_cell(x):
        free  # noqa: B018  a read

    def calls(x):
        print()

    def yields(x):
        yield

    async def waits(x): ...

    def imports(x):
        import os  # noqa: F401  an import

    return [gives_dots, gives_zero, gives_no, gives_words, gives_it, raises, asserts, looks, reads_a_cell, calls,
            yields, waits, imports]  # fmt: skip


@pytest.mark.parametrize("body", empty_bodies(), ids=lambda f: f.__name__)
def test_an_empty_body_is_no_method(body):
    assert not has_body(body)
    with pytest.raises(ad.DispatchError, match="it has none at all"):
        ad.function(body)(1.0)


@pytest.mark.parametrize("body", bodies(), ids=lambda f: f.__name__)
def test_a_body_that_does_something_is_a_method(body):
    assert has_body(body)


def test_each_instruction_that_names_something_is_known():
    names = {dis.opname[i] for i in dis.hasname}
    known = reads._GLOBAL_READS | reads._ATTRIBUTE_READS | OTHERS | PSEUDO
    assert {n for n in names if not n.startswith("INSTRUMENTED_")} <= known


def test_globals_and_attributes_are_found_under_their_names():
    class Base:
        def scale(self):
            return Base

    class Derived(Base):
        def scale(self):
            return super().scale(), ad.exp, ad.linalg.inv

    code = Derived.scale.__code__
    assert {("global", "ad", "exp"), ("global", "ad", "linalg", "inv")} <= {*reads.facts_of(code).reads}
    assert "scale" in reads.facts_of(code).attributes
