"""An agent that works or misbehaves, depending on the setting `mode`."""
import itertools, json, os, signal, subprocess, sys, time

NUMBERS = itertools.count(1)


def raw(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def send(**message):
    raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def receive():
    line = sys.stdin.readline()
    return json.loads(line) if line else sys.exit(0)


def call(method, **params):
    send(id=next(NUMBERS), method=method, params=params)
    return receive()


def result(method, **params):
    answer = call(method, **params)
    if "error" in answer:
        log(json.dumps(answer["error"]))
        raise SystemExit(0)
    return answer["result"]


def log(text):
    send(method="log", params={"text": text})


def solve():
    while True:
        answer = result("model/ask", messages=MESSAGES)
        MESSAGES.append({"role": "assistant", "content": answer["content"], "tool_calls": answer["tool_calls"]})
        if not answer["tool_calls"]:
            return answer
        for wanted in answer["tool_calls"]:
            done = result("tool/call", **wanted)
            MESSAGES.append({"role": "tool", "call_id": wanted["id"], "content": done["output"]})


def ask():
    return result("model/ask", messages=MESSAGES)


def code(method, **params):
    return call(method, **params).get("error", {}).get("code")


first = receive()
start = first["params"]
mode = start["settings"]["mode"]
MESSAGES = [{"role": "user", "content": start["task"]["statement"]}]

if mode == "early":
    # Send a request before responding to `initialize`. Proctor must reject this request.
    assert code("model/ask", messages=MESSAGES) == -32600
if mode == "version":
    send(id=first["id"], result={"protocol": 7})
    time.sleep(1000)
send(id=first["id"], result={"protocol": 1})

if mode in ("solve", "early"):
    solve()
    result("finish")
elif mode == "text":
    # Offer the model a tool of the agent's own, and run the tool's calls with `sandbox/exec`.
    mine = [{"name": "shell", "description": "d", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}]
    while True:
        answer = result("model/ask", messages=MESSAGES, tools=mine)
        MESSAGES.append({"role": "assistant", "content": answer["content"], "tool_calls": answer["tool_calls"]})
        if not answer["tool_calls"]:
            break
        for wanted in answer["tool_calls"]:
            line = json.loads(wanted["arguments"])["command"]
            done = result("sandbox/exec", command=line)
            MESSAGES.append({"role": "tool", "call_id": wanted["id"], "content": done["stdout"] + done["stderr"]})
    result("finish", submit=True)
elif mode == "gives_up":
    ask()
    result("finish", submit=False, why="too hard")
elif mode == "nothing":
    pass
elif mode == "crash":
    ask()
    sys.exit("boom")
elif mode == "killed":
    ask()
    os.kill(os.getpid(), signal.SIGKILL)
elif mode == "memory":
    ask()
    hog = [bytearray(b"x") * (64 << 20) for _ in range(64)]
elif mode == "idle":
    ask()
    time.sleep(1000)
elif mode == "chatters":
    # Send many messages but no request to the model.
    ask()
    while True:
        log("x" * 10000)
elif mode == "empty":
    ask()
elif mode == "garbage":
    ask()
    while True:
        print("Thinking...", flush=True)
        time.sleep(0.01)
elif mode == "bytes":
    ask()
    while True:
        raw(b"\xff\xfe\x00\n")
elif mode == "giant":
    ask()
    while True:
        raw(b"x" * (1 << 20))
elif mode == "ids":
    # Respond to requests that Proctor never sent.
    ask()
    send(id=99, result={"protocol": 1})
    time.sleep(1000)
elif mode == "unknown":
    ask()
    while True:
        assert code("sandbox/format_disk") == -32601
elif mode == "deaf":
    # Send requests without reading the responses, which must not accumulate in the runtime's
    # memory.
    ask()
    while True:
        send(id=next(NUMBERS), method="sandbox/read", params={"path": "/usr/bin/python3"})
elif mode == "loops":
    ask()
    while True:
        result("sandbox/exec", command="true")
elif mode == "probes":
    checks = {
        "bad params": code("model/ask", messages="x") == -32602,
        "no messages": code("model/ask", messages=[]) == -32602,
        "unknown field": code("sandbox/exec", command="true", shell=True) == -32602,
        "no timeout": code("sandbox/exec", command="true", timeout=-1) == -32602,
        "not base64": code("sandbox/write", path="x", content="%", encoding="base64") == -32602,
        "no file": code("sandbox/read", path="nope") == -32001,
        # Files in the agent's sandbox do not exist in the task's sandbox, and vice versa.
        "own program": code("sandbox/read", path="/agent/agent.py") == -32001,
        "no code here": not os.path.exists(start["task"]["workdir"]),
        "relative": result("sandbox/exec", command="pwd")["stdout"].strip() == start["task"]["workdir"],
        "status": result("sandbox/exec", command=["/bin/sh", "-c", "echo no >&2; exit 3"])["exit_status"] == 3,
        "time": result("sandbox/exec", command="sleep 60", timeout=0.3)["timed_out"],
        "flood": len(result("sandbox/exec", command="head -c 3000000 /dev/zero | tr '\\0' x")["stdout"]) == 1 << 20,
        "stdin": result("sandbox/exec", command="cat", stdin="héllo")["stdout"] == "héllo",
        "malformed": "are not valid JSON" in result("tool/call", name="shell", arguments="{")["output"],
        "no tool": "does not exist" in result("tool/call", name="fly", arguments={})["output"],
    }
    result("sandbox/write", path="probe.bin", content="AP8=", encoding="base64", executable=True)
    checks["bytes"] = result("sandbox/read", path="probe.bin") == {"content": "AP8=", "encoding": "base64"}
    checks["offset"] = result("sandbox/read", path="probe.bin", offset=1)["content"] == "/w=="
    checks["mode"] = result("sandbox/exec", command="test -x probe.bin")["exit_status"] == 0
    result("sandbox/exec", command=["rm", "probe.bin"])
    # The agent's sandbox has no network, no key and none of the user's files, and its program folder is read-only.
    found = subprocess.run(["find", "/", "-xdev", "-name", start["settings"]["secret"]], capture_output=True, text=True)
    checks["no files of the user"] = found.stdout == ""
    checks["no home"] = not any(os.path.exists(f"/root/{name}") for name in (".ssh", ".cargo", ".bashrc"))
    checks["no key"] = not any("KEY" in name or "PROCTOR" in name for name in os.environ)
    checks["no network"] = open("/proc/net/dev").read().count(":") == 1
    for place in ("/agent/x", "/usr/x"):
        try:
            open(place, "w")
            checks[place] = False
        except OSError:
            checks[place] = True
    log("failed: " + ", ".join(name for name, held in checks.items() if not held))
    ask()
    result("finish")
    # After the trial has ended, requests have no effect.
    try:
        log(f"after: {code('sandbox/write', path='late.txt', content='late')}")
        print(code("model/ask", messages=MESSAGES), file=sys.stderr)
    except BrokenPipeError:
        pass
elif mode == "steps":
    while code("model/ask", messages=MESSAGES) is None:
        result("sandbox/exec", command="echo one >> steps.txt")
    print("told:", code("model/ask", messages=MESSAGES), file=sys.stderr, flush=True)
elif mode == "stubborn":
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        call("model/ask", messages=MESSAGES)
        call("sandbox/exec", command="echo one >> steps.txt")
