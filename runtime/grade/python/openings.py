"""Reports which test files were opened by any code, including programs and libraries that open files without
Python. Uses inotify, so it works only on Linux and if the interpreter has `ctypes`. Runs on Python 3.6 and
later.

Code under test may close the inotify descriptor or replace it with another file. Each check therefore reads a byte
of this file, which is also watched. If that read causes no event, the watch is lost.
"""

import os
import struct

ACCESSED, OPENED = 0x1, 0x20  # IN_ACCESS, IN_OPEN
OVERFLOW = -1  # The watch descriptor of the event with which the kernel reports dropped events.
EVENT = struct.Struct("iIII")


class Openings:
    def __init__(self):
        self._names = {}
        self._file, self._add = None, None
        self._own, self._own_number = None, None
        # Bound before any graded code is loaded.
        self._read, self._pid, self._owner = os.read, os.getpid, os.getpid()
        self._read_at = getattr(os, "pread", None)
        self._unpack, self._size = EVENT.unpack_from, EVENT.size
        try:
            import ctypes

            library = ctypes.CDLL(None)
            self._add = library.inotify_add_watch
            self._file = self._kept(library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
            self._watch_own_file()
        except (ImportError, OSError, AttributeError):
            pass  # Without these functions, nothing is reported.

    @staticmethod
    def _kept(file):
        """Duplicates the file descriptor to a number that code is unlikely to guess, and closes the original."""
        import fcntl

        if file < 0:
            return None
        kept = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 64)
        os.close(file)
        return kept

    def _watch_own_file(self):
        if self._file is None or self._read_at is None:
            return
        number = self._add(self._file, os.fsencode(__file__), ACCESSED)
        own = self._kept(os.open(__file__, os.O_RDONLY | os.O_CLOEXEC))
        if number < 0:
            return
        self._own, self._own_number = own, number
        if self._events()[1]:
            return
        # This file system reports no reads.
        self._own = self._own_number = None

    def watch(self, path, name):
        if self._file is not None:
            number = self._add(self._file, os.fsencode(path), OPENED)
            if number >= 0:
                self._names[number] = name

    def take(self):
        """Returns the names of the files that were opened since the last call; none in a forked process.

        Raises `OSError` once if the watch was lost."""
        if self._file is None or self._pid() != self._owner:
            return set()
        try:
            found, is_alive = self._events()
        except OSError:  # Other code closed a file descriptor.
            found, is_alive = set(), False
        if not is_alive:
            self._file = None
            raise OSError("the watch was lost")
        return found

    def _events(self):
        """Returns the names of opened files, and whether the watch works."""
        found, is_alive = set(), self._own is None
        if self._own is not None:
            self._read_at(self._own, 1, 0)
        while True:
            try:
                events = self._read(self._file, 1 << 16)
            except BlockingIOError:
                return found, is_alive
            if not events:
                return found, False  # The descriptor refers to another file, which is at its end.
            at = 0
            while at + self._size <= len(events):
                number, _, _, length = self._unpack(events, at)
                is_alive = is_alive or number in (self._own_number, OVERFLOW)
                found.add(self._names.get(number))
                at += self._size + length
            found.discard(None)
