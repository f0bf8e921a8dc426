"""Nested classes, unittest cases, doctests.

>>> 1 + 1
2
"""
import unittest


class TestOuter:
    def test_one(self):
        """A docstring."""

    class TestInner:
        def test_two(self):
            assert [1, 2] == [1, 3]


class Case(unittest.TestCase):
    def test_three(self):
        """A docstring ... ok"""

    @unittest.expectedFailure
    def test_four(self):
        self.fail("as expected")

    @unittest.expectedFailure
    def test_five(self):
        pass

    @unittest.skip("whole - skip")
    def test_six(self):
        pass


def double(x):
    """
    >>> double(2)
    5
    """
    return 2 * x
