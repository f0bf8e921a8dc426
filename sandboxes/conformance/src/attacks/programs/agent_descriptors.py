for n in range(128):
    for mode in (os.O_RDONLY, os.O_WRONLY):
        tried(f"open descriptor {n}", lambda: os.open(f"/proc/1/fd/{n}", mode | os.O_NONBLOCK))
    tried(f"name descriptor {n}", lambda: os.readlink(f"/proc/1/fd/{n}"))
    tried(f"look at descriptor {n}", lambda: open(f"/proc/1/fdinfo/{n}").read())
# Root may list the descriptor numbers, but none may be opened or resolved.
if hasattr(os, "pidfd_open"):
    try:
        handle = os.pidfd_open(1)
    except OSError:
        handle = -1
    for n in range(64):
        if handle >= 0 and call(438, handle, n, 0) >= 0:
            breach("copied descriptor", n)
