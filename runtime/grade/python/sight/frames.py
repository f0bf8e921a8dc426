"""Reads the stack: which code caused an event."""

import inspect
import linecache
import os
import sys
import threading
import traceback
import types
import weakref

from .bytecode import inner
from .values import called

# Functions that show a stack and read the callers' source lines. They are bound here, before any graded code runs,
# and compared by identity, because any code can be compiled with their names.
SHOWING_CODE = [f.__code__ for f in (inspect.stack, traceback.format_stack, traceback.print_stack)]
SHOWING = frozenset(map(id, SHOWING_CODE))
LINES_CODE = [f.__code__ for f in (linecache.getlines, linecache.updatecache)]
LINES = frozenset(map(id, LINES_CODE))
FINALIZE = weakref.finalize.__call__.__code__
# Functions that open a file.
OPENERS = ("open", "open_code", "FileIO", "get_data", "system", "link", "symlink", "rename")
# Number of frames between the function that answers a question and the one that asks it (`asking.py`).
ASKED = 3 if hasattr(sys, "addaudithook") else 2


class Frames:
    """Walks from the frame of an event to the code that caused it."""

    def __init__(self, paths, reports, engine, own):
        """`own` contains the globals of this package's modules."""
        self._paths, self._reports, self._engine = paths, reports, engine
        self._own = {id(known): known for known in own}
        self.frame_of = sys._getframe
        # Calls a function that reads frames.
        self.unseen = called

    def hide_accesses(self):
        """From now on, `unseen` reads frames without reporting the access. Each frame access raises an event, and a
        stack has a hundred frames. Returns a function that tells whether the current thread is inside `unseen`."""
        looking, thread = set(), threading.get_ident

        def unseen(look, *arguments):
            me = thread()
            if me in looking:
                return look(*arguments)
            looking.add(me)
            try:
                return look(*arguments)
            finally:
                looking.discard(me)

        self.unseen = unseen
        return lambda: thread() in looking

    def reader(self, frame, shows=False):
        """Returns the file of the code under test that caused an event; `None` if other code caused it. Returns a
        description for code without a file and for a thread of unknown origin. With `shows`, a function that shows
        a stack does not count."""
        if frame is not None and id(frame.f_globals) in self._own:
            return None  # The check of a test whose assertion failed.
        paths, last, callee = self._paths, None, None
        lines = shown = nowhere = drawn = is_called = called_back = False
        while frame is not None:
            code, last, known = frame.f_code, frame, frame.f_globals
            file = code.co_filename
            own, library, is_graded, is_elsewhere, asks = paths.kinds.get(file) or paths.kind_of(file)
            # Identity is reliable, because the lists above keep these objects alive.
            lines = lines or id(code) in LINES
            shown = shown or (shows and lines and id(code) in SHOWING)
            from_file = dict.get(known, "__file__")
            own = own and (from_file == file or from_file is None)
            nowhere = nowhere or (own and from_file is None)
            # The nearest code outside of all libraries is the cause, unless it contains no such call.
            if not is_called and id(known) not in self._own:
                called_back = called_back or self._is_callback(code, known)
                is_called = own or asks
                if own or (is_called and file in self._engine.files):
                    called_back = called_back or not self._calls(code, callee, own)
                callee = code
            drawn = drawn or (dict.get(known, "__name__") == "hypothesis.core" and self.is_of_module(known))
            if type(from_file) is str:
                is_test, _, is_in_graded, _, _ = paths.kinds.get(from_file) or paths.kind_of(from_file)
                if is_in_graded and not is_test:
                    # The code runs in a graded module, whatever its file name says.
                    file, library, is_graded = from_file, "-packages" + os.sep in from_file, True
            if not own and not library and (is_graded or is_elsewhere):
                if shown:
                    return None  # A log entry with a stack.
                return paths.short(file)
            if file[:1] != "/" and not self.is_of_module(known):
                nowhere = True
            frame = frame.f_back
        if nowhere and not shown and not drawn:
            return "code without a file"
        if called_back:
            return "a callback"
        bottom = last is not None and dict.get(last.f_globals, "__name__")
        return "a thread" if bottom == "threading" else None

    def asker(self, frame):
        """Like `reader`, but ignores callbacks and threads, which may belong to pytest."""
        reader = self.reader(frame, True)
        return None if reader in ("a callback", "a thread") else reader

    def report_asker(self, what, frame):
        """Reports code under test that accesses a part of the tests."""
        asker = self.asker(frame)
        if asker is not None:
            self._reports.report("readers", what, [asker])

    def _is_callback(self, code, known):
        """Whether the interpreter or an event loop calls this code later, without the code that requested it on
        the stack."""
        if code is FINALIZE:
            return True
        name = dict.get(known, "__name__")
        return name == "asyncio.events" and code.co_name == "_run" and self.is_of_module(known)

    @staticmethod
    def _calls(code, callee, own):
        """Whether code can have called the given standard library function by name, or opens files itself."""
        if callee is None:
            return own or any(name in part.co_names for part in inner(code) for name in OPENERS)
        name, file = callee.co_name, callee.co_filename
        if file[:1] != "/" or "importlib" in file or (name[:2] == "__" and name[-2:] == "__"):
            return True
        return any(name in part.co_names for part in inner(code))

    def is_of_module(self, known):
        name = dict.get(known, "__name__")
        module = sys.modules.get(name) if type(name) is str else None
        return isinstance(module, types.ModuleType) and vars(module) is known

    def on_behalf_of(self, frame):
        """Returns the file of the code under test that called a function without a test in between. Code without a
        file also counts."""
        while frame is not None:
            file = frame.f_code.co_filename
            if file in self._paths.watch:
                return None
            if self._paths.is_code_under_test(file) or self._paths.is_elsewhere(file):
                return self._paths.short(file)
            if file[:1] != "/" and not file.startswith("<frozen ") and not self.is_of_module(frame.f_globals):
                return "code without a file"
            frame = frame.f_back
        return None

    def is_of_graded(self, frame):
        """Whether the nearest code outside the standard library is code under test."""
        while frame is not None:
            file = frame.f_code.co_filename
            if file[:1] == "/" and not self._paths.is_standard(file):
                return self._paths.is_code_under_test(file)
            frame = frame.f_back
        return False

    def is_of_test(self, frame):
        """Whether a test's own code causes an event, rather than code under test that the test calls."""
        return self.reader(frame) is None and self._is_below_test(frame)

    def _is_below_test(self, frame):
        while frame is not None:
            if frame.f_code.co_filename in self._paths.watch:
                return True
            frame = frame.f_back
        return False

    def is_read_by_test(self, frame):
        """Whether a test's own code reads a file, directly or through a library. Imports and tracebacks don't
        count."""
        while frame is not None:
            code = frame.f_code
            if code.co_filename[:1] != "/" or id(code) in LINES:
                return False
            if not self._paths.is_standard(code.co_filename) and "-packages" + os.sep not in code.co_filename:
                return self._paths.is_code_of_tests(code.co_filename)
            frame = frame.f_back
        return False
