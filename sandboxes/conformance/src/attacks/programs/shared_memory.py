# Create segments and queues that outlive this process.
libc.shmat.restype = ctypes.c_void_p
for _ in range(10):
    segment = libc.shmget(0, 18 << 20, 0o1600)
    if segment < 0:
        break
    at = libc.shmat(segment, None, 0)
    ctypes.memset(at, 1, 18 << 20)
    libc.shmdt(ctypes.c_void_p(at))
queues = 0
while queues < 200 and libc.msgget(0, 0o1600) >= 0:
    queues += 1
if queues >= 200:
    breach("made", queues, "message queues")
