"""Describes an interpreter before any patch is applied. The interpreter starts as for the tests, with the same
variables and flags, so that it has the same import path. Runs on Python 3.6 and later."""

import sys

# Remove the entry that `-c` adds and entries in the work directory, which could replace the standard library.
start = [entry for entry in sys.path if entry != ""]
early = sorted(sys.modules)

import os

root = os.path.realpath(os.getcwd())


def is_inside(path):
    return path == root or path.startswith(root + os.sep)


def is_graded(entry):
    """Whether a patch can write to an entry. An interpreter inside the work directory is not part of the
    patched tree."""
    real = os.path.realpath(entry)
    prefixes = {os.path.realpath(p) for p in (sys.prefix, sys.exec_prefix, sys.base_prefix)}
    own = any(p != root and is_inside(p) and (real + os.sep).startswith(p + os.sep) for p in prefixes)
    return is_inside(real) and not own


sys.path[:] = [entry for entry in start if not is_graded(entry)]

import json
import pkgutil


def entry_points():
    try:
        from importlib import metadata
    except ImportError:
        import pkg_resources

        for point in pkg_resources.iter_entry_points("pytest11"):
            yield point.name, point.module_name
        return
    for distribution in metadata.distributions():
        for point in distribution.entry_points:
            if point.group == "pytest11":
                yield point.name, point.value.split(":")[0]


def standard_library():
    names = set(sys.builtin_module_names) | set(getattr(sys, "stdlib_module_names", ()))
    names.update(module.name for module in pkgutil.iter_modules([os.path.dirname(os.__file__)]))
    return sorted(names)


def provided():
    """Returns every top-level name that can be imported from outside the work directory."""
    names = set()
    for folder in sys.path:
        try:
            found = os.listdir(folder)
        except OSError:
            continue  # The entry is an archive or does not exist.
        for name in found:
            stem, dot, ending = name.partition(".")
            is_module = ending.rpartition(".")[2] in ("py", "so", "pyd")
            if stem.isidentifier() and (is_module if dot else os.path.isdir(folder + "/" + name)):
                names.add(stem)
    names.discard("__pycache__")
    return sorted(names)


def pytest_version():
    try:
        import pytest
    except ImportError:
        return None
    return pytest.__version__


def loaded():
    """Returns the modules of the work directory that the interpreter loads at startup."""
    files = [(key, getattr(sys.modules[key], "__file__", None) or "") for key in early]
    return [key for key, file in files if file and is_graded(file)]


names = provided()
version = pytest_version()
apart = version is not None
if not apart:
    # Pytest itself, or a module that it needs, is in the work directory.
    sys.path[:] = start
    version = pytest_version()
sys.path[:] = start
variable = os.environ.get("PYTHONPATH", "").split(os.pathsep)
json.dump(
    {
        "python": sys.version.split()[0],
        "pytest": version,
        "apart": apart,
        "prefixes": sorted({sys.prefix, sys.exec_prefix}),
        "root": root,
        "path": start,
        "graded": [os.path.realpath(entry) for entry in start if is_graded(entry)],
        "outside": [os.path.realpath(entry) for entry in start if not is_graded(entry)],
        "pythonpath": os.pathsep.join(entry for entry in variable if entry and not is_graded(entry)),
        "loaded": loaded(),
        "plugins": sorted(set(entry_points())),
        "provided": names,
        "standard_library": standard_library(),
    },
    sys.stdout,
)
