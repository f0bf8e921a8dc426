"""Starts pytest under the recorder. The grader writes this file into the sandbox.

Everything it needs (key, arguments, wanted ids) comes over standard input, so nothing secret is on
disk or in the environment. It takes the results pipe and loads pytest and the standard library
before the work directory is on the import path. Runs on Python 3.6 and later.
"""


def start():
    import fcntl
    import importlib
    import importlib.util
    import json
    import os
    import pkgutil
    import sys

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    order = json.loads(sys.stdin.buffer.readline().decode("ascii"))

    # High, so that code that guesses 3 finds nothing; close-on-exec, so that no program inherits it.
    pipe = fcntl.fcntl(3, fcntl.F_DUPFD_CLOEXEC, 64)
    os.close(3)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda close=os.close: close(pipe))

    lender = None
    if order["lent"]:
        spec = importlib.util.spec_from_file_location(order["module"] + "l", here + "/lend.py")
        lending = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(lending)
        lender = lending.lend(order.pop("lent"))

    import _pytest
    import pytest

    for module in pkgutil.iter_modules(_pytest.__path__):
        try:
            importlib.import_module("_pytest." + module.name)
        except ImportError:
            pass  # An optional module whose own dependency is absent.
    if lender is not None:
        lending.take_back(lender)

    spec = importlib.util.spec_from_file_location(order["module"], here + "/recorder.py")
    recorder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recorder)
    emit = recorder.channel(pipe, bytes.fromhex(order.pop("key")))
    spec = importlib.util.spec_from_file_location(order["module"] + "c", here + "/canaries.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    canaries = module.Canaries(emit, order["canaries"], order["canary_seconds"])

    # From here on the process looks as `python -m pytest` makes it.
    main = importlib.util.find_spec("pytest.__main__") or importlib.util.find_spec("pytest")
    sys.modules["__main__"].__spec__ = main
    sys.modules["__main__"].__file__ = main.origin
    if order["cwd_on_path"] and not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, os.getcwd())
    arguments = list(order["arguments"])
    for name in order["files"]:
        if os.path.exists(name):
            arguments.append(name)
        else:
            emit({"t": "collect", "id": name, "outcome": "failed", "why": "no such file"})
    sys.argv = [main.origin] + arguments

    origin = None
    if order["submitted"] is not None:
        if order["submitted"]["import_root"] is not None:
            # Last, so that it stands in for nothing that is there.
            sys.path.append(order["submitted"]["import_root"])
        if order["submitted"]["guard"]:
            name = order["module"] + "o"
            spec = importlib.util.spec_from_file_location(name, here + "/origin.py")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            origin = module.Origin(emit, order["submitted"])
            origin.install()

    plugin = recorder.Recorder(emit, order, origin, canaries)
    leave, flush = os._exit, (sys.stdout, sys.stderr)
    try:
        code = int(pytest.main(arguments, plugins=[plugin]))
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    plugin.end(code)
    for stream in flush:
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
    # No interpreter shutdown: an exit handler of the graded code could only change the status.
    leave(code)


if __name__ == "__main__":
    start()
