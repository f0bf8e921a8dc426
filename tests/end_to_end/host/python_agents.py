"""Agents for the scaffold `python:`: some that work, and one for each kind of misbehavior."""
import glob
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

import proctor


@proctor.scaffold
def solves(session):
    messages = [{"role": "user", "content": session.brief.statement}]
    while True:
        answer = session.ask(messages)
        messages.append(answer.message)
        if not answer.tool_calls:
            return session.submit()
        for call in answer.tool_calls:
            done = session.call(call)
            if done.submitted:
                return None
            messages.append({"role": "tool", "call_id": call.id, "content": done.output})


def post(session, messages):
    tools = [{"type": "function", "function": {
        "name": "shell", "description": "Runs a command.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}}]
    body = json.dumps({"model": session.brief.model, "messages": messages, "tools": tools}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {session.api_key}"}
    request = urllib.request.Request(f"{session.openai_base_url}/chat/completions", body, headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]


@proctor.scaffold
def own_client(session):
    messages = [{"role": "user", "content": session.brief.statement}]
    while True:
        message = post(session, messages)
        messages.append(message)
        if not message.get("tool_calls"):
            return session.submit()
        for call in message["tool_calls"]:
            command = json.loads(call["function"]["arguments"])["command"]
            done = session.shell(command)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.output})


@proctor.scaffold
def stubborn_client(session):
    while True:
        try:
            message = post(session, [{"role": "user", "content": "go on"}])
            for call in message["tool_calls"]:
                session.shell(json.loads(call["function"]["arguments"])["command"])
        except Exception as error:
            print("refused:", error)
            time.sleep(0.01)


@proctor.scaffold
def both(session):
    """Alternates forever between `session.ask` and requests from the agent's own HTTP client."""
    while True:
        session.ask([{"role": "user", "content": "go on"}])
        post(session, [{"role": "user", "content": "go on"}])


@proctor.scaffold
def prints(session):
    print("not a message")
    os.write(1, b"{}\n")
    subprocess.run(["echo", "neither is this"])
    solves(session)


@proctor.scaffold
def raises(session):
    raise RuntimeError("a bug before the first request")


@proctor.scaffold
def raises_later(session):
    session.ask([{"role": "user", "content": "x"}])
    raise RuntimeError("a bug after the first response")


@proctor.scaffold
def returns(session):
    pass


@proctor.scaffold
def returns_later(session):
    session.ask([{"role": "user", "content": "x"}])


@proctor.scaffold
def forever(session):
    session.ask([{"role": "user", "content": "x"}])
    while True:
        time.sleep(1)


@proctor.scaffold
async def coroutine(session):
    import asyncio
    await asyncio.to_thread(solves, session)


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def holds_gold(path):
    """Returns whether a file contains the function that the task removed. Skips the machine's own programs."""
    if path.startswith(("/usr/", "/opt/", "/agent/")) or not os.path.isfile(path):
        return False
    return b"def from_roman" in read(path)


@proctor.scaffold
def hostile(session):
    """Searches for things that an agent must not have access to, and reports them."""
    import marker
    session.log(f"marker: {marker.VALUE}")
    session.log(f"prefix: {sys.prefix}")
    secret = session.brief.settings["secret"]
    for folder, folders, files in os.walk("/"):
        folders[:] = [name for name in folders if os.path.join(folder, name) not in ("/proc", "/sys", "/dev")]
        for name in files + folders:
            path = os.path.join(folder, name)
            if name in (secret, "run.toml", "run.json", "task.jsonl") or holds_gold(path):
                session.log(f"found: {path}")
    for home in ("/root", "/home", os.path.expanduser("~")):
        if os.path.isdir(home) and os.listdir(home):
            session.log(f"found: {home} holds {os.listdir(home)}")
    for place in glob.glob("/proc/[0-9]*/environ"):
        if b"proctor-test-key" in read(place):
            session.log(f"found: the key in {place}")
    for key, value in os.environ.items():
        if "proctor-test-key" in value:
            session.log(f"found: the key in {key}")
    for address in [("1.1.1.1", 53), ("127.0.0.1", int(session.brief.settings["port"]))]:
        try:
            socket.create_connection(address, timeout=2).close()
            session.log(f"found: a way to {address}")
        except OSError:
            pass
    for place in [os.path.dirname(marker.__file__), "/agent", "/proctor/proctor"]:
        try:
            with open(os.path.join(place, "written"), "w"):
                session.log(f"found: {place} can be written")
        except OSError:
            pass
    session.log("looked")
    solves(session)
