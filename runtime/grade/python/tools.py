"""Reports which of the environment's files the test tool needs, before any patch is applied. Runs isolated
(`python -I`), on Python 3.6 and later.

`loaded`    files of the modules that are loaded after importing pytest and all of its own modules;
`declared`  files of pytest, of the environment's plugins, and of all distributions that they require.
"""

import importlib
import json
import os
import pkgutil
import re
import sys


def loaded():
    try:
        import _pytest
        import pytest
    except ImportError:
        return []
    for module in pkgutil.iter_modules(_pytest.__path__):
        try:
            importlib.import_module("_pytest." + module.name)
        except Exception:
            pass  # An optional module: its dependency is missing, or the interpreter is too new for it.
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return [file for file in files if isinstance(file, str)]


def spelled(name):
    return re.sub("[-_.]+", "-", name).lower()


def declared():
    try:
        from importlib import metadata
    except ImportError:
        return []  # Python is older than 3.8. `loaded` covers nearly as much.
    known = {}
    for distribution in metadata.distributions():
        known.setdefault(spelled(distribution.metadata["Name"] or ""), distribution)
    left = ["pytest"]
    for name, distribution in known.items():
        if any(point.group == "pytest11" for point in distribution.entry_points):
            left.append(name)
    seen = {}
    while left:
        name = left.pop()
        if name in seen or name not in known:
            continue
        seen[name] = known[name]
        for line in known[name].requires or []:
            wanted = re.match("[A-Za-z0-9._-]+", line)
            if wanted and "extra ==" not in line:
                left.append(spelled(wanted.group()))
    files = []
    for distribution in seen.values():
        for file in distribution.files or []:
            if str(file).endswith((".py", ".so")):
                files.append(str(distribution.locate_file(file)))
    return files


def plain(files):
    return sorted({os.path.normpath(os.path.abspath(file)) for file in files})


json.dump({"loaded": plain(loaded()), "declared": plain(declared())}, sys.stdout)
