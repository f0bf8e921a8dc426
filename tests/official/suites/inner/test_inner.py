"""Tests that run pytest themselves, so the output of the inner pytest is in the outer log."""


def test_runs_a_session(pytester):
    pytester.makepyfile("def test_in(): pass\ndef test_out(): assert 0, 'a - b'\n")
    result = pytester.inline_run("-rA")
    result.assertoutcome(passed=1, failed=1)


def test_runs_and_fails(pytester):
    pytester.makepyfile("import pytest\n@pytest.mark.skip\ndef test_in(): pass\ndef test_b(): 1/0\n")
    result = pytester.inline_run("-rA", "-v")
    result.assertoutcome(passed=5)


def test_after():
    pass
