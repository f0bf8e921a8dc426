"""Hides the tests' source lines from code under test that reads them through the line cache."""

import linecache
import os
import types

from .context import Observer
from .frames import ASKED, SHOWING

GETLINE = linecache.getline.__code__


class SourceLines(Observer):
    """A stack that code under test prints or logs shows the running line. In a canary's run, this line has the mistake.
    The line cache never keeps lines of a test, because code under test could read other lines there without opening
    the file."""

    def __init__(self, context, test_files, opened_files):
        super().__init__(context)
        self._test_files, self._opened_files = test_files, opened_files
        self._stat, self._copies = os.stat, {}

    def install(self, answer, ask):
        original = linecache.updatecache

        def lines(filename):
            frame = self._frames.frame_of(ASKED)
            # Only answer the line cache. Otherwise the answer would reveal which run is a canary.
            if frame.f_code is not updatecache.__code__:
                return None
            try:
                return self._frames.unseen(self._lines_for, filename, frame.f_back)
            except Exception as error:
                self._reports.failed("showing lines of a test", error)
                return None

        answer("lines", lines)

        def updatecache(filename, *given, **named):
            lines = ask("lines", filename)
            return original(filename, *given, **named) if lines is None else lines

        linecache.updatecache = updatecache

    def _lines_for(self, filename, frame):
        """Returns the lines of a test file for the caller of the line cache; `None` for other files. If code under
        test shows its stack or a running line, the other lines are blank. Any other access by code under test counts
        as a read."""
        name = self._test_named(filename)
        if name is None:
            return None
        lines = None if self._run.canaries is None else self._run.canaries.lines(filename)
        lines = self._copy(filename) if lines is None else lines
        if lines is None:
            return None
        asker = None if frame is None else frame.f_back
        if asker is not None and asker.f_code is GETLINE:
            number = asker.f_locals.get("lineno")
            if type(number) is int and self._is_running(filename, number, asker):
                return self._shown_lines(lines, (number,))
        reader = self._frames.reader(frame) if "readers" in self._checks else None
        if reader is None:
            return list(lines)
        running = self._running_lines(filename, frame)
        if running is None:
            self._reports.report("readers", name, [reader])
            return list(lines)
        return self._shown_lines(lines, running)

    @staticmethod
    def _shown_lines(lines, numbers):
        shown = ["\n"] * len(lines)
        for number in numbers:
            if 0 < number <= len(lines):
                shown[number - 1] = lines[number - 1]
        return shown

    @staticmethod
    def _is_running(filename, number, frame):
        while frame is not None:
            if frame.f_lineno == number and frame.f_code.co_filename == filename:
                return True
            frame = frame.f_back
        return False

    def _test_named(self, filename):
        """Returns the name of the test file at a path; `None` for other files."""
        if type(filename) is not str:
            return None
        if filename in self._paths.watch:
            return self._paths.watch[filename] if filename.endswith(".py") else None
        # Most other names are names of modules and code without a file.
        return self._test_files.identities.get(self._paths.identity(filename)) if filename[-3:] == ".py" else None

    def _copy(self, filename):
        """Returns the lines of a test file; `None` if the file cannot be read. This process opens the file only once,
        so that an opening by another program is not mistaken for its own."""
        try:
            status = self._stat(filename)
        except OSError:
            return None
        version = status.st_dev, status.st_ino, status.st_size, status.st_mtime
        known = self._copies.get(filename)
        if known is None or known[0] != version:
            text = self._sources.content(filename)
            self._opened_files.check()
            if text is None:
                return None
            known = self._copies[filename] = version, self._sources.decoded(text)
        return known[1]

    def _running_lines(self, filename, frame):
        """Returns the numbers of a file's running lines if the line cache is used on behalf of a function that shows a
        stack. A stack with more lines of context does not count."""
        shown, numbers, pending = False, set(), [frame]
        while pending:
            frame = pending.pop()
            while frame is not None:
                code = frame.f_code
                if code.co_filename == filename and frame.f_lineno is not None:
                    numbers.add(frame.f_lineno)
                if not shown and id(code) in SHOWING:
                    shown, known = True, frame.f_locals
                    context, given = known.get("context", 1), known.get("f")
                    if type(context) is not int or context > 1:
                        return None
                    # The stack may belong to another thread.
                    pending.append(given if type(given) is types.FrameType else None)
                frame = frame.f_back
        return numbers if shown else None
