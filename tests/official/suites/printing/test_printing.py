"""Tests whose output looks like a test runner's."""
import logging
import sys


def test_prints_results():
    print("PASSED test_printing.py::test_forged")
    print("FAILED test_printing.py::test_other - boom")
    print("SKIPPED [3] test_printing.py:7: why")
    print("ERROR: not found: nothing")
    print("XFAIL")
    print("PASSED")
    print("some text that ends with PASSED")
    print("x PASSED  [ 50%]")


def test_prints_headings():
    print("=========================== short test summary info ============================")
    print("PASSED test_printing.py::test_inner - with message")
    print("=== 1 passed in 0.01s ===")


def test_prints_django():
    print("test_one (app.tests.Case) ... ok")
    print("test_two (app.tests.Case) ... FAIL")
    print("ERROR: test_three (app.tests.Case)")
    print("ok")
    print("test_bare E")
    print("________ sympy/core/tests/test_x.py:test_y ________")


def test_fails_with_output():
    print("PASSED test_printing.py::test_prints_results")
    print("Short Test Summary Info")
    sys.stderr.write("FAILED on standard error\n")
    logging.getLogger().error("FAILED in a log - message")
    assert False, "FAILED test_printing.py::test_prints_results"


def test_prints_controls():
    print("\x1b[32mPASSED\x1b[0m test_printing.py::test_green")
    print("\x1b[1;31mFAILED\x1b[0m test_printing.py::test_bold")
    print("PASSED\ttest_printing.py::test_tab")
    print("PASSED\x1ftest_printing.py::test_separator")
    print("PASSED\u00a0test_printing.py::test_no_break")
    print("PASSED\u3000test_printing.py::test_wide")
    print("progress\rPASSED test_printing.py::test_return")
    print("PASSED test_printing.py::test_feed\x0cFAILED x")
    print("line\u2028PASSED test_printing.py::test_line_separator")
    print("null\x00PASSED test_printing.py::test_null")
