import resource
for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_CPU):
    def squeeze():
        before = resource.prlimit(1, which)
        resource.prlimit(1, which, (before[0] - 1 if before[0] > 1 else before[0], before[1]))
        return before
    tried(f"change limit {which}", squeeze)
tried("set its niceness", lambda: os.setpriority(os.PRIO_PROCESS, 1, 19))
tried("set its processors", lambda: os.sched_setaffinity(1, {0}))
tried("set its scheduler", lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)))
ioprio_set = {"x86_64": 251, "aarch64": 30}[platform.machine()]
if call(ioprio_set, 1, 1, 3 << 13) == 0:
    breach("set its priority for input and output")
tried("set its OOM score", lambda: open("/proc/1/oom_score_adj", "w").write("1000"))
tried("move it to another session", lambda: os.setpgid(1, 0))
