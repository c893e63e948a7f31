"""What tests of the semantics share."""

import pytest

import autodiff as ad


@pytest.fixture
def cold():
    """The test begins with empty caches."""
    ad.clear_cache()
