"""Classifies files: tests, code under test, libraries, the standard library."""

import os
import sys
import types


class Paths:
    """The folders of a run. Everything is decided by a file's name."""

    def __init__(self, root, order, folder):
        """`folder` contains the recorder's own files."""
        self.root = root + os.sep
        self.work = os.getcwd() + os.sep
        self.graded = (self.root, self.work)
        if order["submitted"] is not None:
            self.graded += (order["submitted"]["folder"].rstrip(os.sep) + os.sep,)
        self.library = os.path.dirname(os.__file__) + os.sep
        # The tests' files by path, with their names relative to the work directory.
        self.watch = {os.path.join(self.work, name): name for name in order["watch"]}
        self.kinds = {}
        self._stat = os.stat
        self._remember_places(order["path"], folder)

    def _remember_places(self, path, folder):
        """Records where the environment's code is. Other code outside the work directory was created during the
        run."""
        places = [folder, self.library, sys.prefix, sys.exec_prefix, sys.base_prefix]
        places += [entry for entry in path if entry.startswith("/")]
        both = {one.rstrip(os.sep) + os.sep for place in places for one in (place, os.path.realpath(place))}
        environment = [place for place in both if place != os.sep and not self.root.startswith(place)]
        self._places_of_environment = tuple(environment)
        hooks = getattr(sys.modules.get("pluggy"), "__file__", None)
        self.hook_folders = (folder + os.sep, (os.path.dirname(hooks) if hooks else folder) + os.sep)

    def is_elsewhere(self, file):
        """Whether code is outside the environment and the work directory, such as a module that code under test
        wrote."""
        return file[:1] == "/" and not file.startswith(self._places_of_environment + self.graded)

    def is_code_under_test(self, file):
        return file.startswith(self.graded) and file not in self.watch and "-packages" + os.sep not in file

    def is_graded(self, files):
        return any(file.startswith(self.graded) and file not in self.watch for file in files)

    def kind_of(self, file):
        """Classifies code by its file name. Returns whether the code belongs to a test, a library, the graded code, or
        neither the environment nor the work directory, and whether it is outside the standard library."""
        kind = self.kinds[file] = (
            file in self.watch,
            "-packages" + os.sep in file or file.startswith(self.library),
            file.startswith(self.graded),
            self.is_elsewhere(file),
            file[:1] == "/" and not self.is_standard(file),
        )
        return kind

    def is_code_of_tests(self, file):
        return file in self.watch and file.endswith(".py")

    def is_standard(self, file):
        return file.startswith(self.library) and "-packages" + os.sep not in file

    def short(self, file):
        return file[len(self.root) :] if file.startswith(self.root) else file

    def identity(self, folder):
        try:
            status = self._stat(folder)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def module_file(self, module):
        """Returns the file of a module if it is in the work directory."""
        if not isinstance(module, types.ModuleType):
            return None
        known = vars(module)
        spec = known.get("__spec__")
        for file in (known.get("__file__"), getattr(spec, "origin", None)):
            if isinstance(file, str) and file.startswith(self.graded):
                return file
        try:
            folders = list(known.get("__path__") or ())
        except Exception:  # A namespace package whose parent could not be imported.
            folders = []
        for folder in folders:
            if isinstance(folder, str) and (folder + os.sep).startswith(self.graded):
                return folder
        return None
