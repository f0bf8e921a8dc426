"""Describes an interpreter before any patch is laid. Run isolated (`python -I`), Python 3.6 and later."""

import json
import os
import pkgutil
import sys


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


def pytest_version():
    try:
        import pytest
    except ImportError:
        return None
    return pytest.__version__


json.dump(
    {
        "python": sys.version.split()[0],
        "pytest": pytest_version(),
        "prefixes": sorted({sys.prefix, sys.exec_prefix}),
        "path": sys.path,
        "plugins": sorted(set(entry_points())),
        "standard_library": standard_library(),
    },
    sys.stdout,
)
