"""Skips that pytest folds into one line."""
import pytest


@pytest.mark.skipif(True, reason="same - place")
@pytest.mark.parametrize("number", range(3))
def test_folded(number):
    pass


@pytest.mark.parametrize("number", range(2))
def test_own(number):
    pytest.skip(f"C:\\path:{number}: odd")


def test_no_reason():
    pytest.skip()


class TestAll:
    @pytest.fixture(autouse=True)
    def never(self):
        pytest.skip("in set-up")

    def test_one(self):
        pass


def test_runs():
    pass
