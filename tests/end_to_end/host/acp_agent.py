"""An agent for the scaffold `acp`, written without an ACP library.

In the mode `titles`, it asks the model for a title before it sends the task. Otherwise, it waits for `session/cancel`.
"""
import json
import os
import sys
import time
import urllib.request

TOOL = {"type": "function", "function": {"name": "shell", "parameters": {"type": "object", "properties": {}}}}


def answer(number, result):
    print(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}), flush=True)


def model(text, tools):
    body = {"model": os.environ["PROCTOR_MODEL"], "messages": [{"role": "user", "content": text}]}
    if tools:
        body["tools"] = tools
    head = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), head)).read()


prompt = None
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        answer(message["id"], {"protocolVersion": 1, "agentCapabilities": {}})
    elif method == "session/new":
        answer(message["id"], {"sessionId": "one"})
    elif method == "session/prompt":
        prompt = message["id"]
        if json.loads(os.environ["PROCTOR_SETTINGS"])["mode"] == "titles":
            model("A title for this conversation, please.", None)
            model(message["params"]["prompt"][0]["text"], [TOOL])
            answer(prompt, {"stopReason": "end_turn"})
    elif method == "session/cancel":
        print("told:", method, message["params"]["sessionId"], file=sys.stderr, flush=True)
        # Proctor stops the agent after this response. Wait, so that Proctor has time to read
        # the line on standard error first.
        time.sleep(0.5)
        answer(prompt, {"stopReason": "cancelled"})
