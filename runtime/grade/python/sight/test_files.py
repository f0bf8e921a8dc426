"""Finds the tests' files and folders that a path, a file descriptor or a program's arguments refer to."""

import glob
import os
import pathlib

from .context import Observer

PATH_LIKE = os.PathLike
PURE_PATH, PATH_TEXT = pathlib.PurePath, pathlib.PurePath.__str__
# Separators of words in a command line, which may contain shell patterns.
WORDS = str.maketrans(dict.fromkeys("\"'`;|&<>()=", " "))
# Programs that run or read tests without getting their names.
RUNNERS = frozenset(
    ("pytest", "py.test", "unittest", "nose2", "coverage", "tox", "nox", "git", "hg", "multiprocessing")
)
# Programs that read everything below the folder that they start in.
SEARCHERS = ("grep", "egrep", "fgrep", "rg", "ag", "ack", "tar", "zip", "rsync", "cpio", "find")


def plain(path):
    """Returns the text of a path of any string class, without calling the class's own methods."""
    if isinstance(path, bytes):
        path = bytes.__getitem__(path, slice(None)).decode("utf-8", "surrogateescape")
    return str.__str__(path) if isinstance(path, str) else None


def path_at(path):
    path = type(path).__fspath__(path) if isinstance(path, PATH_LIKE) else path
    return path if type(path) is int else plain(path)


def strings(value, depth=0):
    """Yields the strings and paths in a program's arguments."""
    value_of = plain(value)
    if value_of is not None:
        yield value_of
    elif type(value) in (list, tuple) and depth < 3:
        for part in value:
            for one in strings(part, depth + 1):
                yield one
    elif isinstance(value, PATH_LIKE):
        # The object's value may change later. Only its current value counts.
        yield plain(type(value).__fspath__(value))


class TestFiles(Observer):
    """The tests' files and folders. They are compared by identity (device and inode), not by name."""

    def __init__(self, context):
        super().__init__(context)
        self._stat, self._listed, self._expand = os.stat, os.listdir, glob.glob
        # Names of test files and of the tests' data files by identity.
        self.identities, self.data = {}, {}
        # Names of test files by path, by module name and by base name, and names of test folders by identity.
        self.named, self._stems, self._names, self._around = {}, {}, {}, {}
        # Whether a pattern in a program's arguments is being expanded, which lists folders.
        self.is_expanding = False

    def find(self, folders, data):
        """Finds the files of a run. Names in `folders` and `data` are relative to the work directory."""
        work, watch = self._paths.work, self._paths.watch
        for name in data:
            try:
                found = self._stat(work + name)
                self.data[found.st_dev, found.st_ino] = name
            except OSError:
                pass
        for path, name in watch.items():
            if name.endswith(".py"):
                base = name.rpartition("/")[2]
                if base != "__init__.py":
                    self._stems[base[:-3]] = self._names[base] = name
                try:
                    found = self._stat(path)
                    if found.st_size:
                        self.identities[found.st_dev, found.st_ino] = self.named[path] = name
                except OSError:
                    pass
        folders = frozenset(folders)
        for name in watch.values():
            while "/" in name:
                name = name.rpartition("/")[0]
                folders |= {name}
        for name in folders | {"."}:
            try:
                found = self._stat(work + name)
                self._around[found.st_dev, found.st_ino] = name
            except OSError:
                pass

    def identity(self, path, folder=None):
        try:
            found = self._stat(path) if folder is None else self._stat(path, dir_fd=folder)
        except (OSError, ValueError, OverflowError):
            return None
        return found.st_dev, found.st_ino

    def test_at(self, path, found, is_raw):
        """Returns the test at a path or file descriptor. `found` is the identity of the file."""
        files = self.identities
        if path is None or type(path) is int:
            return files.get(found)
        if path.endswith(".pyc"):
            folder, _, base = path.rpartition("/")
            stem = base.split(".", 1)[0]
            source = "%s/%s.py" % (folder[: -len("/__pycache__")], stem)
            if folder.endswith("/__pycache__") and self.identity(source) is not None:
                return files.get(self.identity(source))
            return self._stems.get(stem)
        name = files.get(found) or self.named.get(path) or self.named.get(self._paths.work + path)
        if name is None and is_raw and not path.startswith("/"):
            # The path may be relative to any open folder, because the event does not include the folder.
            for folder in self._listed("/proc/self/fd"):
                name = name or files.get(self.identity(path, int(folder)))
        return name

    def folder_at(self, path):
        """Returns the test folder at a path. The work directory does not count, because it also contains other
        files."""
        if type(path) is not int:
            path = "." if path is None else plain(path)
        name = None if path is None else self._around.get(self.identity(path))
        return None if name == "." else name

    def is_inside_test_folder(self, folder):
        return bool(folder) and self._around.get(self.identity(folder), ".") != "."

    def named_by(self, arguments, folder):
        """Yields the tests that a program's arguments identify: by name, by another name, by a pattern, or
        through their folder. For a program that searches files, the folder that it starts in also counts."""
        files, around, identity = self.identities, self._around, self.identity
        programs = [told.split(None, 1)[0].rpartition("/")[2] for told in strings(arguments) if told.strip()]
        if any(name in SEARCHERS for name in programs[:2]):
            yield around.get(identity(folder))
        for told in strings(arguments):
            for short, name in self._names.items():
                if short in told:
                    yield name
            for word in told.translate(WORDS).split() if len(told) < 10000 else ():
                if any(sign in word for sign in "*?["):
                    self.is_expanding = True
                    try:
                        paths = self._expand(word)[:1000]
                    finally:
                        self.is_expanding = False
                    for path in paths:
                        yield files.get(identity(path)) or around.get(identity(path))
                elif "/" in word or word == ".":
                    yield files.get(identity(word)) or around.get(identity(word))

    def are_run_by(self, arguments):
        """Whether a program is a test runner or gets the name of a test module."""
        for told in strings(arguments):
            # If the program is outside the graded folders, only its name counts.
            is_graded = told[:1] != "/" or told.startswith(self._paths.graded)
            told = told if is_graded else told.rpartition("/")[2]
            words = told.translate(WORDS).replace("/", " ").replace(".", " ").replace(",", " ").split()
            if any(word in RUNNERS or word in self._stems or word in ("test", "tests") for word in words):
                return True
        return False
