# `int 0x80` calls the 32-bit ABI of an x86-64 kernel, where 26 is ptrace and 20 is getpid.
import mmap
if platform.machine() == "x86_64":
    for number in (20, 26):
        code = b"\xb8" + struct.pack("<I", number) + b"\x31\xdb\x31\xc9\x31\xd2\x31\xf6\xcd\x80\x48\x98\xc3"
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(code)
        child = os.fork()
        if child == 0:
            enter = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
            os._exit(1 if enter() >= 0 else 0)
        _, status = os.waitpid(child, 0)
        # If a signal kills the child, the attack also failed: the kernel has no such ABI.
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 1:
            breach("the 32-bit call", number, "was answered")
    # The x32 ABI uses the same numbers with an additional bit.
    if call(0x40000000 + 39) >= 0:
        breach("an x32 call was answered")
