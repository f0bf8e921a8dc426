"""Checks that the tests' folders and the working directory stay in their places, and records the import path."""

import os
import sys
import time

from .bindings import SHARE
from .context import Observer


class Locations(Observer):
    """The folders that a run must not move, and `sys.path`."""

    def __init__(self, context, folders):
        super().__init__(context)
        self._now, self._looked, self._walked = time.perf_counter, 0.0, 0.0
        identity = self._paths.identity
        self._folders = {self._paths.work + name: identity(self._paths.work + name) for name in folders}
        self._here = {".": identity(".")}
        # True from when code under test changes the working directory until a test itself changes it.
        self.is_moved = False
        self.path = []

    def check_start(self):
        """Checks that the working directory did not change while tests were collected."""
        self._check_identities(self._here)
        self._looked = 0.0

    def check_folders(self):
        self._check_identities(self._folders)

    def _check_identities(self, folders):
        """Checks the identity of folders: a folder that was moved away and back leaves no trace on its files."""
        start = self._now()
        if start - self._looked > SHARE * self._walked:
            for folder, was in folders.items():
                if self._paths.identity(folder) != was:
                    self._reports.report("moved", folder[len(self._paths.work) :] or "the working directory", [""])
            self._looked = self._now()
            self._walked = self._looked - start

    def check_relative_path(self, path, identity):
        """Reports a test file that is opened by a relative name after code under test changed the working
        directory."""
        if path is None or path[:1] == "/":
            return
        meant = os.path.normpath(self._paths.work + path)
        if any(meant.startswith(folder + os.sep) for folder in self._folders):
            known = identity(meant)
            if known is not None and identity(path) != known:
                self._reports.report("moved", "the working directory, for %s" % path, [""])

    def check_path(self):
        for entry in sys.path:
            if entry not in self.path and len(self.path) < 1000:
                self.path.append(entry)
