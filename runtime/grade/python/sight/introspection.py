"""Detects code under test that reads frames, compiled tests or the names of test files."""

import dis
import os

from .context import Observer

# The standard library's disassembler.
DISASSEMBLER = dis.__file__
# Standard library functions that return any attribute of an object.
GIVING = ("getmembers", "_getmembers", "getmembers_static", "get_field")


class Introspection(Observer):
    """Accesses that show code under test what a test expects, without reading a file."""

    def __init__(self, context, test_files):
        super().__init__(context)
        self._test_files = test_files
        self._naming = {}

    def check_frame_access(self, name, frame):
        """Reports code that accesses its callers' frames or other objects by a name that the code computes or reads
        from data. Screening finds code that contains the name."""
        try:
            file = frame.f_code.co_filename
            if self._paths.is_code_under_test(file):
                if not self._is_named(name, frame):
                    what = "frames through %s, a computed name" % name
                    self._reports.report("readers", what, [self._paths.short(file)])
            elif file[:1] != "/" and not file.startswith("<frozen "):
                self._reports.report("readers", "frames through %s" % name, ["code without a file"])
        except Exception as error:
            self._reports.failed("checking frame access by " + name, error)

    def check_code_access(self, function, frame):
        """Reports code under test that gets a test's compiled code, directly or through `dis`. Other functions of the
        standard library only use the code's parameters and flags."""
        try:
            if frame.f_globals is self._run.canary_globals:
                return
            asking, file = frame.f_code, function.__code__.co_filename
            if asking.co_filename in self._engine.files or file not in self._paths.watch:
                return
            is_standard = self._paths.is_standard(asking.co_filename) and asking.co_filename != DISASSEMBLER
            if is_standard and asking.co_name not in GIVING:
                return
            reader = self._frames.reader(frame)
            if reader:
                what = "%s, the code of %s" % (self._paths.watch[file], function.__name__)
                self._reports.report("readers", what, [reader])
        except Exception as error:
            self._reports.failed("checking access to the code of a test", error)

    def check_profiler(self, frame):
        """Reports a profiler that is active while test modules are loaded, because the profiler receives the modules'
        code with all expectations."""
        try:
            self._frames.report_asker("the code of modules that are loaded, by a profiler", frame)
        except Exception as error:
            self._reports.failed("checking a profiler", error)

    def check_listing(self, name, frame):
        """Reports code under test that lists a test folder, because listing reveals test files, modules and data whose
        names the code does not know."""
        if name is None or self._test_files.is_expanding or frame is None:
            return
        asking = frame.f_code.co_filename
        if not asking.startswith(self._paths.graded) or "-packages" + os.sep in asking:
            if "importlib" in asking or dict.get(frame.f_globals, "__name__") == "pkg_resources":
                return  # Finding a module or a distribution lists the whole import path.
        self._frames.report_asker("the names of files in %s" % name, frame)

    def _is_named(self, name, frame):
        """Whether the file that a piece of code claims contains this name. The result is cached for each code
        object."""
        code = frame.f_code
        known = self._naming.get((id(code), name))
        if known is None or known[0] is not code:
            # Code compiled from a string may claim the file. Screening reads only the content of the file.
            codes = self._sources.codes("", code.co_filename)
            known = code, any(name in part.co_names or name in part.co_consts for part in codes)
            self._naming[id(code), name] = known
        return known[1]
