"""Collects the observations of a run."""

import os

from .values import NAME_OF, text

try:
    import mmap
except ImportError:
    mmap = None

# Size and number of the records that forked processes write to shared memory for their parent.
SLOT, SLOTS = 512, 64
# Kinds of observations. `failed` lists the recorder's hooks that raised an exception, `forked` the tests that ran
# in a forked process.
KINDS = ("plugins", "patched", "foreign", "swapped", "moved", "replaced", "readers", "swallowed") + (
    "caught",
    "failed",
    "forked",
)
MAX_ENTRIES = 1000  # Maximum length of each list. A further entry says that the list was truncated.


def shared_memory(size):
    """Returns memory that forked processes share; `None` if the interpreter has no `mmap`."""
    return mmap.mmap(-1, size) if mmap is not None else None


class Reports:
    """The observations, by kind. A forked process has the hooks but not the pipe, so it writes its observations to
    shared memory."""

    def __init__(self, checks):
        self._checks = checks
        self._pid, self._owner = os.getpid, os.getpid()
        self._shared = shared_memory(SLOT * SLOTS) if "forks" in checks else None
        self._lists = {kind: {} for kind in KINDS}

    def report(self, kind, name, files):
        if self._pid() != self._owner:
            self._report_parent(kind, name, files)
            return
        where = self._lists[kind]
        for file in files:
            if len(where) < MAX_ENTRIES:
                where[text(name), file] = True
            elif (text(name), file) not in where:
                where["more", ""] = True

    def report_object(self, name, files):
        if "objects" in self._checks:
            self.report("patched", name, files)

    def _report_parent(self, kind, name, files):
        shared = self._shared
        if shared is None:
            return
        for file in files:
            told = "\0".join((kind, text(name), file)).encode("utf-8", "replace")[: SLOT - 2] + b"\0"
            for start in range(0, SLOT * SLOTS, SLOT):
                at = shared[start : start + SLOT]
                if at[:1] == b"\0":
                    shared[start : start + 1 + len(told)] = b"\1" + told
                    break
                if at[1:].startswith(told):
                    break

    def _collect_from_children(self):
        for start in range(0, SLOT * SLOTS, SLOT) if self._shared is not None else ():
            told = self._shared[start : start + SLOT]
            if told[:1] != b"\0":
                parts = told[1:].decode("utf-8", "replace").split("\0")
                if parts[0] in self._lists and len(parts) > 2:
                    self.report(parts[0], parts[1], [parts[2]])

    def is_forked(self):
        return self._pid() != self._owner

    def ran_in_fork(self, item):
        """Reports a test that runs in a forked process, which could tell its parent what the next tests expect."""
        if "forks" in self._checks:
            self.report("forked", item.nodeid, [""])

    def failed(self, where, error):
        """Reports that a hook of the recorder raised an exception, because the hook's observation is then missing."""
        if "failures" in self._checks:
            self.report("failed", "%s: %s" % (where, NAME_OF(type(error))), [""])

    def observations(self):
        """Returns the observations as they are recorded."""
        self._collect_from_children()
        pairs = lambda kind: [[name, file] for name, file in self._lists[kind]]
        names = lambda kind: [name for name, _ in self._lists[kind]]
        told = {kind: pairs(kind) for kind in ("plugins", "patched", "foreign", "swapped", "replaced", "readers")}
        told.update({kind: names(kind) for kind in ("moved", "swallowed", "caught", "failed", "forked")})
        return told
