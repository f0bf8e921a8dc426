"""Test ids that log parsers truncate, join or swap."""
import pytest

NASTY = [
    "plain", "with space", "two  spaces", "a - b", "a-b", "[inner]", "[open", "close]", "", " ",
    "/usr/lib/python", "//double", "/glob*/x", "x::y", "PASSED", "FAILED", "ends with PASSED",
    "é", "日本", "tab\there", "new\nline", "\x1b[31mred\x1b[0m", "%50", "a/b/c.py", "'quoted'",
    "MouseButton.LEFT", "x" * 60,
]


@pytest.mark.parametrize("value", NASTY)
def test_value(value):
    assert "FAIL" not in value


@pytest.mark.parametrize("value", ["a - b", "c d", "[x", "/tmp/one"])
def test_failing(value):
    assert value == "never - equal"


@pytest.mark.parametrize("left,right", [(1, 2), (3, 3)], ids=["one two", "three - three"])
class TestPairs:
    def test_equal(self, left, right):
        assert left == right


@pytest.mark.parametrize("value", ["skip me", "skip - me"])
def test_skipping(value):
    pytest.skip(f"reason of {value}: x")


@pytest.mark.parametrize("value", [pytest.param(1, id="x y", marks=pytest.mark.xfail(reason="r - s"))])
def test_xfailing(value):
    assert value == 2
