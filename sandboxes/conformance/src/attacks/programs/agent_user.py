AGENT = 65432
for name, attempt in (
    ("setuid", lambda: os.setuid(AGENT)),
    ("seteuid", lambda: os.seteuid(AGENT)),
    ("setreuid", lambda: os.setreuid(0, AGENT)),
    ("setresuid", lambda: os.setresuid(0, 0, AGENT)),
    ("setresuid, first", lambda: os.setresuid(AGENT, 0, 0)),
):
    tried(name, attempt)
libc.setfsuid(AGENT)
if libc.setfsuid(-1) == AGENT:
    breach("setfsuid")
