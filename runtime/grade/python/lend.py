"""Provides the test tool with modules that are hidden in the sandbox: the tool's own copies of the package under
test, which the code under test must not be able to read. The modules are imported from memory. Their names, paths
and compiled code are the same as those of the environment's files. Runs on Python 3.6 and later.
"""


class Lender:
    """Finds and loads modules from `[{"root": folder, "files": {path below it: text}}]`."""

    def __init__(self, lent):
        # Import this now: during a lookup, the import would search this finder first.
        from importlib.machinery import ModuleSpec

        self._lent = lent
        self._spec = ModuleSpec

    def find_spec(self, name, path=None, target=None):
        inner = name.replace(".", "/")
        for one in self._lent:
            for file, is_package in ((inner + "/__init__.py", True), (inner + ".py", False)):
                if file in one["files"]:
                    place = one["root"] + "/" + file
                    spec = self._spec(name, self, origin=place, is_package=is_package)
                    spec.has_location = True
                    spec.loader_state = one["files"][file]
                    if is_package:
                        spec.submodule_search_locations = [one["root"] + "/" + inner]
                    return spec
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        spec = module.__spec__
        text, spec.loader_state = spec.loader_state, None
        exec(compile(text, spec.origin, "exec", dont_inherit=True), module.__dict__)

    def names(self):
        return {file.split("/")[0].split(".")[0] for one in self._lent for file in one["files"]}


def lend(lent):
    import sys

    lender = Lender(lent)
    sys.meta_path.insert(0, lender)
    return lender


def take_back(lender):
    """Removes the lent modules, so that later imports of their names search the import path. The test tool keeps its
    references to these modules."""
    import importlib
    import sys

    names = lender.names()
    sys.meta_path.remove(lender)
    for key in list(sys.modules):
        if key.split(".")[0] in names:
            del sys.modules[key]
    lender._lent = []
    importlib.invalidate_caches()
