"""One test of every outcome."""
import pytest


def test_passes():
    pass


def test_fails():
    assert 1 == 2


def test_fails_with_a_dash():
    raise ValueError("left - right - PASSED")


@pytest.fixture
def broken():
    raise RuntimeError("set-up - broken")


def test_set_up_errors(broken):
    pass


@pytest.fixture
def late():
    yield
    raise RuntimeError("tear-down")


def test_tear_down_errors(late):
    pass


@pytest.mark.skip(reason="not today: [1] a - b")
def test_skipped():
    pass


@pytest.mark.xfail(reason="known - bug")
def test_expected_failure():
    assert False


@pytest.mark.xfail(reason="repaired - since")
def test_unexpected_pass():
    pass


@pytest.mark.xfail(strict=True, reason="strictly")
def test_strict_unexpected_pass():
    pass


def test_skips_itself():
    pytest.skip("on a whim")
