"""A process that prints forged results and then exits early."""
import os
import sys


def test_before():
    pass


def test_crashes():
    sys.__stdout__.write("\nPASSED test_crash.py::test_crashes\nPASSED test_crash.py::test_after\n")
    sys.__stdout__.write("=========================== short test summary info ===========\n")
    sys.__stdout__.write("PASSED test_crash.py::test_before\nPASSED test_crash.py::test_after\n")
    sys.__stdout__.flush()
    os._exit(int(os.environ.get("CRASH", "0")))


def test_after():
    assert False
