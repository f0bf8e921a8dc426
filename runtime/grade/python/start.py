"""Starts pytest under the recorder. The grader writes this file into the sandbox.

This script reads everything that it needs (key, arguments, wanted ids) from standard input, so no secret is on
disk or in the environment. It takes over the results pipe. It loads pytest and the standard library before any
folder that a patch can write to is on the import path. Such folders are the work directory, and the entries below
it that `PYTHONPATH` and `.pth` files add. Runs on Python 3.6 and later.

Standard input has two parts. The first part is a line with the length of the order, followed by the order. The
second part contains the canaries. They stay in the pipe until they are installed: no frame and no object contains
them while code under test is imported. They are encrypted, because code under test may read them from the pipe and
write them back. If the code does not write them back, the recorder reports them as missing.
"""


def prepare():
    """Does everything that must happen before any graded code runs. The values that it returns to the caller's
    frame, which graded code can reach, contain no secrets."""
    import gc
    import os
    import sys

    # The following code creates many objects but no garbage.
    gc.disable()
    here = os.path.dirname(os.path.abspath(__file__))
    path = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    early = sorted(sys.modules)
    # `probe.py` applies the same rule.
    root = os.path.realpath(os.getcwd())
    inside = lambda real: real == root or real.startswith(root + os.sep)
    prefixes = {os.path.realpath(p) for p in (sys.prefix, sys.exec_prefix, sys.base_prefix)}
    prefixes = tuple(p + os.sep for p in prefixes if p != root and inside(p))
    real = {entry: os.path.realpath(entry) for entry in path}
    sys.path[:] = [e for e in path if not inside(real[e]) or (real[e] + os.sep).startswith(prefixes)]

    import fcntl
    import hashlib
    import importlib
    import importlib.util
    import json
    import pkgutil

    def read(file, size, get=os.read):
        text = b""
        while len(text) < size:
            piece = get(file, size - len(text))
            if not piece:
                break
            text += piece
        return text

    line = b""
    while not line.endswith(b"\n"):
        line += os.read(0, 1) or b"\n"
    order = json.loads(read(0, int(line)).decode("ascii"))
    if not order["apart"]:
        sys.path[:] = path

    # Use a high descriptor, because code may try 3, and close-on-exec, so that no program inherits the descriptor.
    pipe = fcntl.fcntl(3, fcntl.F_DUPFD_CLOEXEC, 64)
    os.close(3)
    rest = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 64)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    held = [pipe, rest]

    def close_in_child(close=os.close):
        for file in held:
            close(file)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=close_in_child)

    digest, size = order.pop("canaries_sha256"), order.pop("canaries_bytes")
    secret = bytes.fromhex(order.pop("canaries_key"))
    status_of, new_digest, parse, close = os.fstat, hashlib.sha256, json.JSONDecoder().scan_once, os.close
    written_to = status_of(rest)

    def canaries_of():
        """Reads and returns the canaries from the pipe to which the grader wrote them. Can be called only once."""
        status = status_of(rest)
        if (status.st_dev, status.st_ino) != (written_to.st_dev, written_to.st_ino):
            raise ValueError("another file")
        text = read(rest, size)
        # The descriptor may soon belong to another file.
        held.remove(rest)
        close(rest)
        # The same cipher as in `session.rs`.
        blocks = range((size + 31) // 32)
        pad = b"".join([new_digest(secret + number.to_bytes(8, "little")).digest() for number in blocks])[:size]
        text = (int.from_bytes(text, "little") ^ int.from_bytes(pad, "little")).to_bytes(size, "little")
        if new_digest(text).hexdigest() != digest:
            raise ValueError("another text")
        return parse(text.decode("ascii"), 0)[0]

    lender = None
    if order["lent"]:
        spec = importlib.util.spec_from_file_location(order["module"] + "l", here + "/lend.py")
        lending = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(lending)
        lender = lending.lend(order.pop("lent"))

    import _pytest
    import pytest

    for module in pkgutil.walk_packages(_pytest.__path__, "_pytest.", lambda name: None):
        try:
            importlib.import_module(module.name)
        except Exception:
            pass  # An optional module: its dependency is missing, or the interpreter is too new for it.
    if lender is not None:
        lending.take_back(lender)

    def load(name, file):
        spec = importlib.util.spec_from_file_location(order["module"] + name, here + "/" + file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def load_package(name, folder):
        """Loads a package whose modules import each other. Relative imports find modules in `sys.modules`, so the
        package is there while it is loaded, and only then. Its name is random."""
        name = order["module"] + name
        spec = importlib.util.spec_from_file_location(
            name, folder + "/__init__.py", submodule_search_locations=[folder]
        )
        package = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(package)
        for key in [key for key in sys.modules if key == name or key.startswith(name + ".")]:
            del sys.modules[key]
        sys.path_importer_cache.pop(folder, None)
        return package

    answer, ask = load("a", "asking.py").desk(order["module"])
    recorder = load("", "recorder.py")
    emit, is_same = recorder.channel(pipe, bytes.fromhex(order.pop("key")))
    canaries = load("c", "canaries.py").Canaries(emit, canaries_of, order["canary_seconds"])
    openings = load("n", "openings.py").Openings()
    sight = load_package("s", here + "/sight").Sight(root, order, here, early, openings, answer, ask)

    # From here on, the process has the same state as after `python -m pytest`.
    sys.path[:] = order["path"]
    if order["pythonpath"] is not None:
        os.environ["PYTHONPATH"] = order["pythonpath"]
    # Before version 5.4, pytest is a single module, and `find_spec` cannot find its `__main__`.
    main = importlib.util.find_spec("pytest.__main__") if hasattr(pytest, "__path__") else None
    main = main or importlib.util.find_spec("pytest")
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
            # Append the folder, so that its modules do not shadow existing ones.
            sys.path.append(order["submitted"]["import_root"])
        if order["submitted"]["guard"]:
            origin = load("o", "origin.py").Origin(emit, order["submitted"])
            origin.install()
            sight.accept_import()

    plugin, end = recorder.plugin(emit, is_same, order, origin, canaries, sight, answer, ask)
    # No graded code has run so far. If this record is missing, the recorder itself failed.
    emit({"t": "start"})
    # Exclude the existing objects from garbage collections and from `gc.get_objects`.
    if hasattr(gc, "freeze"):
        gc.freeze()
    gc.enable()
    return pytest.main, arguments, plugin, end, os._exit, (sys.stdout, sys.stderr)


def start():
    main, arguments, plugin, end, leave, flush = prepare()
    try:
        code = int(main(arguments, plugins=[plugin]))
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    end(code)
    for stream in flush:
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
    # Skip the interpreter's shutdown, where an exit handler of the graded code could change the status.
    leave(code)


if __name__ == "__main__":
    start()
