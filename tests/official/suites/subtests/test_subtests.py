"""Subtests of unittest, and of pytest if its version supports them."""
import unittest

import pytest


class Case(unittest.TestCase):
    def test_parts(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertNotEqual(number, 1)

    def test_named(self):
        for name in ["a - b", "c d"]:
            with self.subTest(name):
                self.assertEqual(name, "x")

    def test_all_pass(self):
        for number in range(2):
            with self.subTest(number=number):
                pass

    def test_skips_one(self):
        with self.subTest("skipped"):
            self.skipTest("not - now")


def test_fixture(request):
    try:
        subtests = request.getfixturevalue("subtests")
    except pytest.FixtureLookupError:
        pytest.skip("no subtests here")
    for number in range(3):
        with subtests.test("part - of", number=number):
            assert number != 2
