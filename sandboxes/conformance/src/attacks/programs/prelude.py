# Prepended to every attack program. A line that starts with BREACH reports a successful attack.
import ctypes, errno, os, platform, signal, socket, stat, struct, subprocess, sys, time

libc = ctypes.CDLL(None, use_errno=True)


def breach(*what):
    print("BREACH", *what, flush=True)


def tried(what, attempt, allowed=()):
    """Reports a breach if `attempt` succeeds and returns a value that is not in `allowed`."""
    try:
        got = attempt()
    except (OSError, ValueError, PermissionError):
        return
    if got not in allowed:
        breach(what, repr(got)[:80])


def call(number, *arguments):
    """Makes a system call by number. Returns its result or its negative error number."""
    ctypes.set_errno(0)
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *words)
    return -ctypes.get_errno() if result == -1 else result
