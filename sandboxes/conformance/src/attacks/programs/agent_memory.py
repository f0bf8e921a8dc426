def first(path):
    with open(path, "rb", buffering=0) as file:
        return file.read(1)

for name in ("mem", "environ", "maps", "smaps", "auxv", "io", "stack", "syscall", "pagemap", "personality"):
    tried(f"read /proc/1/{name}", lambda: first(f"/proc/1/{name}"), (b"",))
for name in ("root", "cwd", "exe", "ns/net", "ns/pid", "ns/mnt"):
    tried(f"follow /proc/1/{name}", lambda: os.readlink(f"/proc/1/{name}"))
    tried(f"open /proc/1/{name}", lambda: os.open(f"/proc/1/{name}", os.O_RDONLY))
tried("write to /proc/1/mem", lambda: os.open("/proc/1/mem", os.O_WRONLY))
tried("list its threads' memory", lambda: [first(f"/proc/1/task/{t}/mem") for t in os.listdir("/proc/1/task")])

libc.ptrace.restype = ctypes.c_long
SEIZE, ATTACH = 0x4206, 16
for request in (SEIZE, ATTACH):
    if libc.ptrace(ctypes.c_long(request), ctypes.c_long(1), None, None) == 0:
        breach("traced the agent by", request)

class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

buffer = ctypes.create_string_buffer(64)
here, there = Vector(ctypes.addressof(buffer), 64), Vector(0x400000, 64)
for name in ("process_vm_readv", "process_vm_writev"):
    if getattr(libc, name)(1, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) > 0:
        breach(name)
