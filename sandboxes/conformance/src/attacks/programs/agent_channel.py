# Write garbage to every inherited descriptor, abstract socket and other process's descriptor.
for n in range(3, 1024):
    try:
        os.write(n, b"\xff" * 64)
        breach("wrote to descriptor", n)
    except OSError:
        pass
for line in open("/proc/net/unix").read().splitlines()[1:]:
    name = line.split()[-1]
    if name.startswith("@"):
        other = socket.socket(socket.AF_UNIX)
        tried(f"connect to {name}", lambda: other.connect("\0" + name[1:]))
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) not in (os.getpid(), os.getppid()):
        for n in range(64):
            tried(f"write to {n} of {pid}", lambda: os.write(os.open(f"/proc/{pid}/fd/{n}", os.O_WRONLY | os.O_NONBLOCK), b"\xff"))
