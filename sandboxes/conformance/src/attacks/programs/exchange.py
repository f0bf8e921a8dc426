# Swap a directory and a link that leads outside, as fast as possible.
os.makedirs("/testbed/entry", exist_ok=True)
os.makedirs("/outside", exist_ok=True)
os.symlink("/outside", "/testbed/link")
renameat2 = {"x86_64": 316, "aarch64": 276}[platform.machine()]
end = time.monotonic() + 60
print("swapping", flush=True)
while time.monotonic() < end and not os.path.exists("/testbed/stop"):
    for _ in range(200):
        call(renameat2, -100, b"/testbed/entry", -100, b"/testbed/link", 2)
