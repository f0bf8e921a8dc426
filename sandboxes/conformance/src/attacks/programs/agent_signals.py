apart = sys.argv[1] == "apart"
threads = [int(name) for name in os.listdir("/proc/1/task")]
send = {"x86_64": 424, "aarch64": 424}[platform.machine()]
tgkill = {"x86_64": 234, "aarch64": 131}[platform.machine()]
for number in [0] + list(range(1, 65)):
    if number in (32, 33):
        continue
    try:
        os.kill(1, number)
        # Process 1 ignores signals that it has no handler for. So sending them must fail only if
        # the agent is another user.
        if apart:
            breach("signal", number, "was sent")
    except OSError:
        pass
    for thread in threads:
        if call(tgkill, 1, thread, number) == 0 and apart:
            breach("signal", number, "was sent to thread", thread)
try:
    handle = os.pidfd_open(1)
    for number in (0, 9, 11, 15, 19):
        if call(send, handle, number, None, 0) == 0 and apart:
            breach("signal", number, "was sent by handle")
except (OSError, AttributeError):
    pass
