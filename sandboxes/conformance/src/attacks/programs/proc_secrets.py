def first(path):
    with open(path, "rb", buffering=0) as file:
        return file.read(64)

for path in open("/tmp/covered").read().split():
    if os.path.isdir(path):
        for name in os.listdir(path):
            breach("found", os.path.join(path, name))
    else:
        tried(f"read {path}", lambda: first(path), (b"",))

def open_for_writing(path):
    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    return path

# No machine state may be writable: settings, interrupts, buses, control groups.
for top in ("/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/sys"):
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            tried(f"write to {path}", lambda: open_for_writing(path))
for name in os.listdir("/proc"):
    path = f"/proc/{name}"
    # Skip files without write permission: root can open them for writing, but writes have no effect.
    if not name.isdigit() and os.path.isfile(path) and os.stat(path).st_mode & 0o222 and not os.stat(path).st_rdev:
        tried(f"write to {path}", lambda: open_for_writing(path))
