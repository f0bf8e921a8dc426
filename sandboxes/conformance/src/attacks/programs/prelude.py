# What every attack program stands on. A line that begins with BREACH is an attack that worked.
import ctypes, errno, os, platform, signal, socket, stat, struct, subprocess, sys, time

libc = ctypes.CDLL(None, use_errno=True)


def breach(*what):
    print("BREACH", *what, flush=True)


def tried(what, attempt, allowed=()):
    """A breach where `attempt` goes through and gives something that is not among `allowed`."""
    try:
        got = attempt()
    except (OSError, ValueError, PermissionError):
        return
    if got not in allowed:
        breach(what, repr(got)[:80])


def call(number, *arguments):
    """A system call by number; its negative error or its result."""
    ctypes.set_errno(0)
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *words)
    return -ctypes.get_errno() if result == -1 else result
