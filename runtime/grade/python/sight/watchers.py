"""Detects code that observes or interrupts other code: tracers, profilers, signal handlers, threads."""

import gc
import os
import signal
import sys
import threading
import types

from .context import Observer
from .exceptions import SWALLOWED

# Timer signals: their handlers can run in the middle of any test.
TIMERS = tuple(
    getattr(signal, name) for name in ("SIGALRM", "SIGVTALRM", "SIGPROF") if hasattr(signal, name)
)


class Watchers(Observer):
    """Code that may run in the middle of a test."""

    def __init__(self, context, monitoring):
        """`monitoring` is `sys.monitoring` if the recorder itself uses it."""
        super().__init__(context)
        self._monitoring = monitoring
        self.get_profile, self._get_trace, self._callbacks = sys.getprofile, sys.gettrace, gc.callbacks
        self.set_profile = sys.setprofile
        self._get_signal, self._current_frames = signal.getsignal, sys._current_frames
        self._threads, self._this_thread = threading._active, threading.get_ident
        self._handlers = {number: signal.getsignal(number) for number in TIMERS}
        self._tool_of = getattr(getattr(sys, "monitoring", None), "get_tool", None)
        self._tools = [self._tool_of(number) for number in range(6)] if self._tool_of else []

    def check_tracers(self):
        for label, hook in (("sys.settrace", self._get_trace()), ("sys.setprofile", self.get_profile())):
            if hook is not None:
                self._report_watcher(label, self._engine.places(hook))
        for hook in list(self._callbacks):
            self._report_watcher("gc.callbacks", self._engine.places(hook))
        if self._monitoring is not None:
            if self._monitoring.get_events(SWALLOWED) != self._monitoring.events.RAISE:
                self._report_watcher("sys.monitoring", [""])

    def check(self):
        """Reports code under test that may run in the middle of a test."""
        self.check_tracers()
        for number, was in self._handlers.items():
            handler = self._get_signal(number)
            if handler is not was and callable(handler):
                self._report_watcher("a handler of signal %d" % number, self._engine.places(handler))
        for number, was in enumerate(self._tools):
            tool = self._tool_of(number)
            if tool != was and tool != "coverage.py":
                self._report_watcher("sys.monitoring", [""])
        if "watchers" in self._checks:
            for number, frame in list(self._current_frames().items()):
                if number != self._this_thread():
                    self._check_thread(number, frame)

    def _report_watcher(self, label, files):
        if "watchers" in self._checks:
            self._reports.report("patched", label, files)

    def _check_thread(self, number, frame):
        """Reports a thread that runs code under test and that `threading` does not know, or that refers to tests or
        frames."""
        is_known, holds, files = number in self._threads, False, []
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(self._paths.graded) and "-packages" + os.sep not in file:
                files.append(file)
                for value in list(frame.f_locals.values()):
                    kind = type(value)
                    holds = holds or kind is types.FrameType or self._engine.classes.get(id(kind)) is kind
                    if kind is types.ModuleType:
                        holds = holds or vars(value).get("__file__") in self._paths.watch
            elif file[:1] != "/" and not self._frames.is_of_module(frame.f_globals):
                files.append("")
            frame = frame.f_back
        if files and (holds or not is_known):
            self._reports.report("patched", "a thread that watches", files[:1])
