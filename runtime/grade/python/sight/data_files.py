"""Observes who reads the tests' data files."""

import types

from .context import Observer
from .test_files import PATH_TEXT, PURE_PATH


class DataFiles(Observer):
    """Data files that a test compares with, rather than passes on."""

    def __init__(self, context, test_files):
        super().__init__(context)
        self._test_files = test_files
        # Data files that the tests read, and data files that code under test read on its own.
        self._read_by_tests, self._taken = set(), {}

    def record_read(self, name, frame):
        """Handles reads of the tests' data files. A file contains expectations if a test reads it and does not pass it
        to the code under test."""
        asker = self._frames.asker(frame)
        if asker is None:
            if self._frames.is_read_by_test(frame):
                self._read_by_tests.add(name)
        elif not self._is_handed_over(name, frame):
            self._taken[name] = asker
        if name in self._taken and name in self._read_by_tests:
            self._reports.report("readers", name, [self._taken[name]])

    def _is_handed_over(self, name, frame):
        """Whether a test passed a file, its name or its folder to the code under test that it calls."""
        identity, entered = self._test_files.identity, None
        while frame is not None and not self._paths.is_code_of_tests(frame.f_code.co_filename):
            if self._paths.is_code_under_test(frame.f_code.co_filename):
                entered = frame
            frame = frame.f_back
        if frame is None or entered is None:
            return True  # It is not known whether a test called this code.
        whole, base = self._paths.work + name, name.rpartition("/")[2]
        values = list(entered.f_locals.values())[:50]
        for depth in range(3):
            inside = []
            for value in values:
                if isinstance(value, (str, bytes, PURE_PATH)):
                    given = PATH_TEXT(value) if isinstance(value, PURE_PATH) else value
                    given = given.decode("utf-8", "replace") if isinstance(given, bytes) else str.__str__(given)
                    folder = self._paths.work + given if given[:1] != "/" else given
                    is_above = whole.startswith(folder.rstrip("/") + "/")
                    if given.rpartition("/")[2] == base or is_above or identity(given) == identity(whole):
                        return True
                elif type(value) in (list, tuple, dict):
                    inside.extend(list(value)[:50])
                    inside.extend(list(value.values())[:50] if type(value) is dict else ())
                elif not isinstance(value, (type, types.ModuleType, types.FunctionType)):
                    try:
                        inside.extend(list(object.__getattribute__(value, "__dict__").values())[:50])
                    except (AttributeError, TypeError):
                        pass
            values = inside
        return False
