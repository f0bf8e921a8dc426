"""Failures with messages that could confuse log parsers, and a warning."""
import warnings

import pytest


def test_many_lines():
    raise AssertionError("first\nFAILED test_messages.py::test_passes - second\nPASSED third")


def test_ends_with_status():
    raise RuntimeError("it had PASSED")


def test_long():
    raise RuntimeError("x" * 500)


def test_empty():
    raise RuntimeError()


def test_warns():
    warnings.warn("FAILED in a warning - really")


def test_passes():
    pass


@pytest.fixture
def needs():
    raise OSError("[Errno 2] No such file - or folder: 'a b'")


def test_error(needs):
    pass


def test_exits():
    raise SystemExit(3)
