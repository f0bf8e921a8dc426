"""An agent for the scaffold `acp` without a library. It requests a title first, or waits until it is cancelled."""
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
        # The agent is ended after this response, which may overtake the last message on the other
        # stream.
        time.sleep(0.5)
        answer(prompt, {"stopReason": "cancelled"})
