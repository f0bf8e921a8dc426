instances = []
while len(instances) < 100:
    handle = libc.inotify_init()
    if handle < 0:
        break
    instances.append(handle)
if len(instances) >= 100:
    breach("took", len(instances), "watch instances")
import pty
terminals = 0
try:
    while terminals < 200:
        pty.openpty()
        terminals += 1
    breach("took", terminals, "terminals")
except OSError:
    pass
