for place in ("/tmp", "/dev", "/dev/shm", "/root"):
    for kind, number in ((stat.S_IFBLK, os.makedev(8, 0)), (stat.S_IFBLK, os.makedev(254, 0)), (stat.S_IFCHR, os.makedev(1, 1)), (stat.S_IFCHR, os.makedev(10, 229))):
        path = f"{place}/attack-device"
        tried(f"make a device in {place}", lambda: os.mknod(path, kind | 0o666, number))
        if os.path.lexists(path):
            tried(f"open {path}", lambda: os.open(path, os.O_RDWR))
            os.unlink(path)
ORDINARY = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"}
for folder, _, names in os.walk("/dev"):
    for name in names:
        path = os.path.join(folder, name)
        mode = os.lstat(path).st_mode
        if stat.S_ISBLK(mode) or stat.S_ISCHR(mode) and name not in ORDINARY and not folder.endswith("/pts"):
            breach("a device:", path)
