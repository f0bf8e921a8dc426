"""Reports which test files were opened by any code, including programs and libraries that open files without
Python. Uses inotify, so it works only on Linux and if the interpreter has `ctypes`. Runs on Python 3.6 and
later.
"""

import os
import struct

OPENED = 0x20  # IN_OPEN
EVENT = struct.Struct("iIII")


class Openings:
    def __init__(self):
        self._names = {}
        self._file, self._add = None, None
        # Bound before any graded code is loaded.
        self._read, self._pid, self._owner = os.read, os.getpid, os.getpid()
        self._unpack, self._size = EVENT.unpack_from, EVENT.size
        try:
            import ctypes

            library = ctypes.CDLL(None)
            self._add = library.inotify_add_watch
            self._file = self._kept(library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
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

    def watch(self, path, name):
        if self._file is not None:
            number = self._add(self._file, os.fsencode(path), OPENED)
            if number >= 0:
                self._names[number] = name

    def take(self):
        """Returns the names of the files that were opened since the last call; none in a forked process."""
        found = set()
        if self._file is None or self._pid() != self._owner:
            return found
        while True:
            try:
                events = self._read(self._file, 1 << 16)
            except BlockingIOError:
                return found
            except OSError:
                # Other code closed the file descriptor.
                self._file = None
                return found
            at = 0
            while at + self._size <= len(events):
                number, _, _, length = self._unpack(events, at)
                found.add(self._names.get(number))
                at += self._size + length
            found.discard(None)
