"""Receives the interpreter's audit events: files that are opened, programs that start, frames that are read."""

import os
import sys
import types

from .context import Observer
from .test_files import path_at, plain

# Audit events for accessing frames and objects, and the name that code uses for each.
SEARCHED = {
    "sys._getframe": "_getframe",
    "sys._current_frames": "_current_frames",
    "gc.get_objects": "get_objects",
    "gc.get_referrers": "get_referrers",
    "gc.get_referents": "get_referents",
    "tb_frame": "tb_frame",
    "gi_frame": "gi_frame",
    "cr_frame": "cr_frame",
    "ag_frame": "ag_frame",
    "f_code": "f_code",
    "__code__": "__code__",
}
SEARCHING = frozenset(name for name in SEARCHED if "." in name) | {"object.__getattr__"}
# Audit events for starting programs.
STARTING = frozenset(("subprocess.Popen", "os.system", "os.posix_spawn", "os.exec"))
# Audit events for giving a file a further or a new name.
MOVING = ("os.link", "os.symlink", "os.rename")
# Audit events for listing a folder.
LISTING = ("os.listdir", "os.scandir")
# Modes of `open` that change a file.
WRITING = frozenset("wax+")
WATCHED = frozenset(("open", "os.chdir", "os.putenv", "sys.setprofile") + MOVING + LISTING) | STARTING | SEARCHING


def device_of_processes():
    try:
        return os.stat("/proc").st_dev
    except OSError:
        return None


class Audit(Observer):
    """Detects code that reads tests, from Python 3.8 on: in this process, in processes that it forked, and in
    programs that get a test's name."""

    def __init__(self, context, test_files, data_files, opened_files, programs, introspection, locations):
        super().__init__(context)
        self._test_files, self._data_files, self._opened_files = test_files, data_files, opened_files
        self._programs, self._introspection, self._locations = programs, introspection, locations
        self._real, self._processes = os.path.realpath, device_of_processes()

    def install(self):
        frame_of, limit, limit_to = self._frames.frame_of, sys.getrecursionlimit, sys.setrecursionlimit
        function, is_hidden = types.FunctionType, self._frames.hide_accesses()
        unseen, introspection = self._frames.unseen, self._introspection

        def hook(event, arguments):
            if event not in WATCHED:
                return
            # Return early: nine out of ten events are of this kind.
            if event == "object.__getattr__" and arguments[1] not in SEARCHED:
                return
            if event == "os.putenv":
                self._programs.check_variable(plain(arguments[0]), plain(arguments[1]), frame_of(1))
                return
            if event == "sys.setprofile":
                if self._run.session is None:
                    introspection.check_profiler(frame_of(1))
                return
            if event in SEARCHING:
                name = arguments[1] if event == "object.__getattr__" else event
                if name == "__code__" and not (type(arguments[0]) is function and arguments[0].__name__[:4] == "test"):
                    return
                if not is_hidden():
                    # `frame_of` also raises such an event.
                    if name == "__code__":
                        unseen(lambda: introspection.check_code_access(arguments[0], frame_of(3)))
                    else:
                        unseen(lambda: introspection.check_frame_access(SEARCHED[name], frame_of(3)))
                return
            try:
                try:
                    self._handle(event, arguments)
                except RecursionError:
                    # Code that has used up the recursion limit must not disable the check.
                    was = limit()
                    limit_to(was + 200)
                    try:
                        self._handle(event, arguments)
                    finally:
                        limit_to(was)
            except Exception as error:  # Continue, because an exception here would change the test's behavior.
                self._reports.failed("checking reads on " + event, error)

        sys.addaudithook(hook)

    def _handle(self, event, arguments):
        """Handles an event. The frame that raised the event is two frames up, because the hook's frame is in between."""
        frame_of, unseen = self._frames.frame_of, self._frames.unseen
        if event == "os.chdir":
            self._locations.is_moved = unseen(self._frames.is_of_graded, frame_of(2))
            return
        if event == "open" or event in MOVING:
            tests = self._opened_tests(event, arguments)
        elif event in STARTING:
            tests = self._tests_of_program(event, arguments, frame_of(2))
        else:
            unseen(self._introspection.check_listing, self._test_files.folder_at(arguments[0]), frame_of(2))
            return
        for name in tests:
            reader = name and unseen(self._frames.reader, frame_of(2))
            if reader:
                self._reports.report("readers", name, [reader])

    def _opened_tests(self, event, arguments):
        """Handles a file that is opened, or that gets a further or a new name. Returns the tests that it contains."""
        files, path = self._test_files, arguments[0] if type(arguments[0]) is int else plain(arguments[0])
        found = None if path is None else files.identity(path)
        is_open = event == "open"
        if is_open and self._locations.is_moved:
            self._locations.check_relative_path(path, files.identity)
        tests = [files.test_at(path, found, is_open and arguments[1] is None)]
        # Opening a compiled test does not open its source.
        if is_open and not (type(path) is str and path.endswith(".pyc")):
            self._opened_files.record(tests[0])
        if files.data and tests[0] is None:
            mode = arguments[1] if is_open else None
            if type(mode) is not str or WRITING.isdisjoint(mode):
                name = files.data.get(found if path is not None else files.identity(path_at(arguments[0])))
                if name is not None:
                    self._frames.unseen(self._data_files.record_read, name, self._frames.frame_of(3))
        is_of_process = is_open and found is not None and found[0] == self._processes and type(path) is str
        if is_of_process and self._real(path).endswith("/mem"):
            # The memory contains everything that the tests expect.
            tests.append("the memory of a process")
        return tests

    def _tests_of_program(self, event, arguments, frame):
        """Handles a program that starts. Returns the tests that its arguments identify."""
        # Files that were opened before this point were not opened by the new program.
        self._opened_files.check()
        files, folder = self._test_files, plain(arguments[2]) if event == "subprocess.Popen" else None
        tests = list(files.named_by(arguments[:2], folder or "."))
        if self._frames.unseen(self._frames.is_of_test, frame):
            is_there = files.is_inside_test_folder(folder)
            self._programs.record(any(tests) or is_there or files.are_run_by(arguments[:2]))
        return tests
