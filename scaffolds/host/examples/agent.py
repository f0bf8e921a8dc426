"""A complete agent for the scaffold `process` (docs/reference/host.md): call the model, run its tool calls, repeat."""
import itertools
import json
import sys

NUMBERS = itertools.count(1)


class Refused(Exception):
    """Proctor responded with an error. Code -32000 means that the trial is over."""


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def receive():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def call(method, **params):
    send({"id": next(NUMBERS), "method": method, "params": params})
    answer = receive()
    if "error" in answer:
        raise Refused(answer["error"]["message"])
    return answer["result"]


def solve(start):
    task = start["task"]
    messages = [
        {"role": "system", "content": "You are a software engineer. Work with the tools; call submit when done."},
        {"role": "user", "content": f"{task['statement']}\n\nThe code is in {task['workdir']}."},
    ]
    while True:
        answer = call("model/ask", messages=messages)
        messages.append({"role": "assistant", **{key: answer[key] for key in ("content", "tool_calls", "extra")}})
        if not answer["tool_calls"]:
            return call("finish")
        for wanted in answer["tool_calls"]:
            done = call("tool/call", **wanted)
            if done["submitted"]:
                return None
            messages.append({"role": "tool", "call_id": wanted["id"], "content": done["output"]})


first = receive()
send({"id": first["id"], "result": {"protocol": 1}})
try:
    solve(first["params"])
except Refused as error:
    print(error, file=sys.stderr)
