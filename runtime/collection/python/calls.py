"""Trace the calls between a project's functions in each test. The collector writes this file into a sandbox.

A call is recorded as a pair of code objects: the called function, and the nearest frame below it on the stack that
belongs to the project. Frames of the standard library and third-party packages in between are skipped. Tracing uses
`sys.monitoring` if available (Python 3.12 and later), and otherwise the profiler. Code objects are identified by file,
first line and name. The collector maps them to the objects that it scanned.

For the first calls of each function, the types of arguments and return values are recorded, too. Values never are.
"""

import json
import os
import sys
import threading

# Number of calls to each function, per process, for which types are recorded.
NOTED = 12
# Flag in `co_flags` that marks generators. A generator's caller does not receive its return value.
GENERATOR = 0x20


class Calls:
    def __init__(self, root, emit, file):
        self.root = os.path.realpath(root) + os.sep
        self.emit, self.file = emit, file
        # `noted`: for how many more calls types are recorded, by the code object's identity.
        self.noted, self.types, self.names = {}, set(), {}
        # `known`: each code object's number, by its identity. None for code outside the project.
        self.known, self.numbers, self.fresh = {}, {}, []
        self.edges, self.test, self.children = set(), None, None
        # Calls that are made during a test because it imports a module.
        self.imports = set()
        self.process = os.getpid()

    # Starts and ends of tests. Calls before the first test and between tests are attributed to imports and collection.

    def begin(self, test):
        self.flush()
        self.test = test
        if self.children is not None:
            os.environ["PROCTOR_CALLS_TEST"] = test

    def end(self):
        self.flush()
        self.test = None
        os.environ.pop("PROCTOR_CALLS_TEST", None)

    def flush(self):
        # Replace each set in one step, because other threads may add to it concurrently.
        edges, self.edges = self.edges, set()
        imports, self.imports = self.imports, set()
        fresh, self.fresh = self.fresh, []
        types, self.types = self.types, set()
        for test, told, seen in ((None, imports, ()), (self.test, edges, types)):
            if told or fresh or seen:
                self.emit({"t": "calls", "file": self.file, "process": self.process, "test": test,
                           "code": fresh, "edges": sorted(told), "types": sorted(seen)})
                fresh = []

    def finish(self):
        self.uninstall()
        self.flush()
        for name in sorted(os.listdir(self.children)) if self.children else ():
            try:
                with open(os.path.join(self.children, name), encoding="ascii") as lines:
                    for line in lines:
                        self.emit(json.loads(line))
            except (OSError, ValueError):
                pass  # The child was killed while writing.

    # Child processes of tests.

    def follow_children(self, here):
        """Set up the environment so that interpreters started by tests are traced, and write to separate files."""
        import tempfile

        self.children = tempfile.mkdtemp(prefix="calls-")
        os.environ["PROCTOR_CALLS"] = json.dumps([self.root, self.children, self.file])
        path = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = here + "/child" + (os.pathsep + path if path else "")
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forked)

    def forked(self):
        """Reset the state in a forked child. The child writes its calls to a separate file."""
        if self.children is None:
            return
        self.process, self.edges, self.imports, self.fresh = os.getpid(), set(), set(), []
        self.known, self.numbers = {}, {}
        self.noted, self.types = {}, set()
        self.emit = to_file(self.children)
        try:
            from multiprocessing import util

            util.register_after_fork(self, lambda calls: util.Finalize(calls, calls.flush, exitpriority=1))
        except ImportError:
            pass

    # Events that the interpreter reports.

    def install(self):
        monitoring = getattr(sys, "monitoring", None)
        if monitoring is not None and monitoring.get_tool(monitoring.PROFILER_ID) is None:
            tool, events = monitoring.PROFILER_ID, monitoring.events
            monitoring.use_tool_id(tool, "proctor")
            monitoring.register_callback(tool, events.PY_START, self.started)
            monitoring.register_callback(tool, events.PY_RETURN, self.ended)
            monitoring.set_events(tool, events.PY_START | events.PY_RETURN)
        else:
            threading.setprofile(self.profiled)
            sys.setprofile(self.profiled)

    def uninstall(self):
        monitoring = getattr(sys, "monitoring", None)
        if monitoring is not None and monitoring.get_tool(monitoring.PROFILER_ID) == "proctor":
            monitoring.set_events(monitoring.PROFILER_ID, 0)
            monitoring.free_tool_id(monitoring.PROFILER_ID)
        else:
            threading.setprofile(None)
            sys.setprofile(None)

    def started(self, code, offset):
        number = self.number(code)
        if number is None:
            return sys.monitoring.DISABLE
        frame = sys._getframe(1)
        self.add(number, frame)
        if self.noted.get(id(code), NOTED):
            self.note_arguments(number, frame)

    def ended(self, code, offset, value):
        if not self.noted.get(id(code)):
            return sys.monitoring.DISABLE
        self.note_return(code, value)

    def profiled(self, frame, event, argument):
        if event == "call":
            number = self.number(frame.f_code)
            if number is not None:
                self.add(number, frame)
                if self.noted.get(id(frame.f_code), NOTED):
                    self.note_arguments(number, frame)
        elif event == "return" and self.noted.get(id(frame.f_code)):
            # The profiler also reports "return" if an exception leaves the function or a generator suspends.
            code = frame.f_code
            if code.co_code[frame.f_lasti] == RETURN:
                self.note_return(code, argument)

    # Types of arguments and return values.

    def note_arguments(self, number, frame):
        code = frame.f_code
        self.noted[id(code)] = self.noted.get(id(code), NOTED) - 1
        count = code.co_argcount + code.co_kwonlyargcount
        values = frame.f_locals
        for name in code.co_varnames[:count]:
            if name in values:
                self.note(number, name, values[name])

    def note_return(self, code, value):
        if not code.co_flags & GENERATOR:
            self.note(self.known[id(code)][0], "", value)

    def note(self, number, name, value):
        kind = type(value)
        try:
            said = self.names[kind]
        except KeyError:
            said = self.names[kind] = self.said(kind)
        if said:
            self.types.add((number, name, said))

    def said(self, kind):
        """Return a type's public name. A type that is defined in tests is reported as its base class."""
        for one in kind.__mro__:
            module, name = getattr(one, "__module__", None), one.__qualname__
            if not isinstance(module, str) or module.startswith("unittest.mock") or one is object:
                return None
            file = getattr(sys.modules.get(module), "__file__", None) or ""
            path = os.path.realpath(file) if file else ""
            parts = path[len(self.root):].split(os.sep) if path.startswith(self.root) else []
            of_tests = any(part in ("tests", "test", "testing", "conftest.py") for part in parts)
            if parts and (parts[-1].startswith("test_") or parts[-1].endswith("_test.py")):
                of_tests = True
            if of_tests or "<locals>" in name or module == "__main__":
                continue
            if module == "builtins":
                return "None" if name == "NoneType" else name
            return ("io" if module == "_io" else module) + "." + name
        return None

    def add(self, number, frame):
        # -1 means that no frame below belongs to the project: a test, a fixture or a new thread made the call.
        caller, below = -1, frame.f_back
        while below is not None:
            found = self.number(below.f_code)
            if found is not None:
                caller = found
                break
            below = below.f_back
        edge = (caller, number)
        if edge not in self.edges:
            # Before the first test, all calls are attributed to imports anyway.
            (self.imports if self.test and imports(frame) else self.edges).add(edge)

    def number(self, code):
        # Look up code objects by identity: comparing them compares their content but not their file. `known` keeps them
        # alive, so that identities stay unique.
        try:
            return self.known[id(code)][0]
        except KeyError:
            pass
        number, file = None, code.co_filename
        path = os.path.normpath(os.path.join(self.root, file))
        if file.endswith(".py") and not path.startswith(self.root):
            path = os.path.realpath(path)
        if path.startswith(self.root) and file.endswith(".py"):
            # Code objects at the same location share a number, even if their code is compiled several times.
            key = (path[len(self.root):], code.co_firstlineno, code.co_name)
            number = self.numbers.get(key)
            if number is None:
                number = self.numbers[key] = len(self.numbers)
                self.fresh.append([number, key[0], key[1], key[2]])
        self.known[id(code)] = (number, code)
        return number


def return_code():
    """Return the opcode that returns a value. Only used with the profiler, before Python 3.12."""
    import opcode

    return opcode.opmap.get("RETURN_VALUE")


RETURN = return_code()


def imports(frame):
    """Whether a module is being imported further down the stack, as opposed to running as the main program."""
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            # Doctests and templates also run code named `<module>`, but not from a file.
            name, file = map(frame.f_globals.get, ("__name__", "__file__"))
            if file == frame.f_code.co_filename and name not in ("__main__", "<run_path>", None):
                return True
        frame = frame.f_back
    return False


def to_file(folder):
    def emit(record):
        with open(os.path.join(folder, "%d.jsonl" % os.getpid()), "a", encoding="ascii") as out:
            out.write(json.dumps(record) + "\n")

    return emit


def child():
    """Start tracing in an interpreter that a test started."""
    import atexit

    root, folder, file = json.loads(os.environ["PROCTOR_CALLS"])
    calls = Calls(root, to_file(folder), file)
    calls.test = os.environ.get("PROCTOR_CALLS_TEST")
    calls.install()
    atexit.register(lambda: (calls.uninstall(), calls.flush()))
