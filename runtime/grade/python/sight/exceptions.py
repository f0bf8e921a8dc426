"""Detects tests that pass although one of their assertions failed or their function raised an exception."""

import inspect
import os
import sys
import unittest

from .bytecode import instructions
from .context import Observer
from .values import places

# A test whose code contains one of these names may expect an assertion to fail.
CATCHING = frozenset(
    ("AssertionError", "Exception", "BaseException", "failureException", "raises", "suppress")
    + ("assertRaises", "assertRaisesRegex", "assertRaisesRegexp", "subTest", "subtests")
)
# Parts of the names of functions and context managers that catch exceptions.
CATCHERS = ("raise", "catch", "suppress", "except", "ignor", "fail", "warn", "expect")
# Exceptions that end a loop.
ENDINGS = (StopIteration, StopAsyncIteration, GeneratorExit)
ASYNCHRONOUS = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
SWALLOWED = 4  # The tool id for `sys.monitoring`, which is not one of the predefined ids.


class SwallowedExceptions(Observer):
    """A failed assertion ends its test. Code under test can prevent that with a context manager or a caller that
    swallows the exception, or by running the assertion in a thread."""

    def __init__(self, context):
        super().__init__(context)
        self.monitoring = None

    def watch_assertions(self, answer, ask):
        """Makes pytest and unittest report each failed assertion."""
        rewrite = sys.modules.get("_pytest.assertion.rewrite")
        library = os.path.dirname(unittest.__file__) + os.sep
        frame_of = sys._getframe

        def failing(frame):
            while frame is not None and frame.f_code.co_filename.startswith(library):
                frame = frame.f_back
            self._handle_failing(frame)

        def stopped(frame):
            if not frame.f_code.co_filename.startswith(library):
                self._run.has_failed_assertion = True

        answer("failing", failing)
        answer("stopped", stopped)

        def seen(original):
            def seen(*given, **named):
                ask("failing", frame_of(1))
                return original(*given, **named)

            return seen

        # pytest explains failed comparisons with `_format_explanation`, and unittest with `_formatMessage`.
        if hasattr(rewrite, "_format_explanation"):
            rewrite._format_explanation = seen(rewrite._format_explanation)
        if hasattr(unittest.TestCase, "_formatMessage"):
            unittest.TestCase._formatMessage = seen(unittest.TestCase._formatMessage)

        stop = getattr(unittest.case, "_ShouldStop", None)
        if stop is not None:
            # If any code raises `_ShouldStop`, unittest ends the test without a failure.
            def raised(error, *given):
                ask("stopped", frame_of(1))

            unittest.case._ShouldStop = type("_ShouldStop", (stop,), {"__init__": raised})

    def _handle_failing(self, frame):
        if self._run.canaries is not None and self._run.canaries.current is not None:
            return  # A canary must fail, and the check below would read a file.
        asserting = frame
        while frame is not None:
            code = frame.f_code
            # Only the tests' own files may catch their exceptions.
            if code.co_filename in self._paths.watch and not CATCHING.isdisjoint(self._sources.names_in(code)):
                return
            frame = frame.f_back
        if asserting is not None and asserting.f_code.co_filename in self._paths.watch:
            self._run.has_failed_assertion = True

    def after_call(self, item, raised):
        """Reports a test that passed although one of its assertions failed or it raised an exception."""
        if raised or self._run.canaries.current is not None:
            return
        if self._run.has_failed_assertion:
            self._reports.report("swallowed", item.nodeid, [""])
        elif self._run.has_raised:
            self._reports.report("caught", item.nodeid, [""])

    def watch_exceptions(self, answer, ask):
        """Detects exceptions in a test's own function, which also end the test if the test cannot catch them. Python
        3.12 and later."""
        monitoring = getattr(sys, "monitoring", None)
        if monitoring is None or monitoring.get_tool(SWALLOWED) is not None:
            return
        files, knows = frozenset(self._paths.watch), {}

        def raised(code, offset, error):
            if code.co_filename in files:
                ask("raised", code, error)

        def safely(code, error):
            try:
                if code is self._run.running_code:
                    look(code, error)
            except Exception as failure:
                self._reports.failed("checking an exception of a test", failure)

        answer("raised", safely)

        def look(code, error):
            kind = type(error)
            if id(code) not in knows:
                knows[id(code)] = code, self._catches(code)
            # Ignore other exceptions, which stop a test from outside, unless the code under test defines them.
            if issubclass(kind, ENDINGS):
                return
            if not knows[id(code)][1] and (issubclass(kind, Exception) or self._paths.is_graded(places(kind))):
                self._run.has_raised = True

        monitoring.use_tool_id(SWALLOWED, "proctor")
        monitoring.register_callback(SWALLOWED, monitoring.events.RAISE, raised)
        monitoring.set_events(SWALLOWED, monitoring.events.RAISE)
        self.monitoring = monitoring

    def _catches(self, code):
        """Whether a test's code can catch its exceptions, with an `except` clause or a function that catches them."""
        names = self._sources.names_in(code)
        lowered = [name.lower() for name in names]
        if any(part in name for name in lowered for part in CATCHERS) or not CATCHING.isdisjoint(names):
            return True
        if code.co_flags & ASYNCHRONOUS:
            return True
        lines = [operation for operation, _ in instructions(code)]
        bare = ("PUSH_EXC_INFO", "POP_TOP")
        return bool({"CHECK_EXC_MATCH", "CHECK_EG_MATCH"}.intersection(lines)) or bare in zip(lines, lines[1:])
