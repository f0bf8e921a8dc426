"""A test that fails at first and passes when it is rerun, and two tests with stable results."""
import pytest

SEEN = []


@pytest.mark.flaky(reruns=2)
def test_flaky():
    SEEN.append(1)
    assert len(SEEN) > 1


def test_never():
    assert len(SEEN) > 100


def test_always():
    pass
