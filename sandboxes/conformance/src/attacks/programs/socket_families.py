OPEN = {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK}
for family in range(1, 46):
    if family in OPEN:
        continue
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        tried(f"family {family}, kind {kind}", lambda: socket.socket(family, kind).fileno())
tried("a raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).fileno())
