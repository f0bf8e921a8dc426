"""Records responses from llama.cpp's server, byte for byte, in recorded/NAME.http.

usage: record.py [--out FOLDER] [NAME...]

Each file contains the status line, the relevant headers, an empty line and the unchanged body (without chunk framing;
MODEL replaces the path of the weights). Only ids and times should differ from run to run. README.md
describes each case.
"""

import argparse
import contextlib
import http.client
import json
import pathlib
import subprocess
import sys

from serve import shipped_model

HERE = pathlib.Path(__file__).resolve().parent
HEADERS = ["content-type", "transfer-encoding"]

LIST = [{"role": "user", "content": "List the files of the work directory."}]
SHELL = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
TOOLS = [{"type": "function", "function": {"name": "shell", "description": "Run a command.", "parameters": SHELL}}]
USAGE = {"stream": True, "stream_options": {"include_usage": True}}
WORDS = [{"role": "user", "content": "word " * 900}]


def chat(messages=LIST, tokens=4, **more):
    return "/v1/chat/completions", {"model": "m", "messages": messages, "max_tokens": tokens, "temperature": 0, **more}


def called(arguments):
    call = {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": arguments}}
    return LIST + [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
    ]


# If the last message is from the assistant, the server continues it. Here, that message ends in an incomplete call.
BROKEN_CALL = LIST + [
    {"role": "assistant", "content": '<tool_call>\n{"name": "shell", "arguments": {"command": "ls"}}\n</tool_'}
]

PLAIN, SMALL, SHOWN, CALLS, TEXT = (
    [],
    ["--context", "512"],
    ["--template", "qwen.jinja"],
    ["--template", "tools.jinja"],
    ["--template", "calls-as-text.jinja"],
)
CASES = {
    # For each name: the options for serve.py, the path, and the body (None for GET).
    "models": (PLAIN, "/v1/models", None),
    "props": (PLAIN, "/props", None),
    "props-with-tools": (SHOWN, "/props", None),
    "answer": (PLAIN, *chat()),
    "answer-stream": (PLAIN, *chat(**USAGE)),
    "stream-without-usage": (PLAIN, *chat(stream=True)),
    "tools-dropped": (PLAIN, *chat(tools=TOOLS)),
    "tools-dropped-required": (PLAIN, *chat(tokens=40, tools=TOOLS, tool_choice="required")),
    "tools-shown": (SHOWN, *chat(tools=TOOLS)),
    "call": (CALLS, *chat(tokens=90, tools=TOOLS)),
    "call-stream": (CALLS, *chat(tokens=90, tools=TOOLS, **USAGE)),
    "call-cut": (CALLS, *chat(tokens=18, tools=TOOLS)),
    "call-cut-stream": (CALLS, *chat(tokens=18, tools=TOOLS, **USAGE)),
    "call-as-text": (TEXT, *chat(tokens=60, tools=TOOLS)),
    "call-as-text-stream": (TEXT, *chat(tokens=60, tools=TOOLS, **USAGE)),
    "call-unreadable": (SHOWN, *chat(BROKEN_CALL, 30, tools=TOOLS)),
    "call-unreadable-stream": (SHOWN, *chat(BROKEN_CALL, 30, tools=TOOLS, **USAGE)),
    "history-arguments-malformed": (SHOWN, *chat(called('{"command": '), tools=TOOLS)),
    "history-arguments-empty": (SHOWN, *chat(called(""), tools=TOOLS)),
    "overflow": (SMALL, *chat(WORDS)),
    "overflow-stream": (SMALL, *chat(WORDS, **USAGE)),
    "overflow-messages": (SMALL, "/v1/messages", {"model": "m", "max_tokens": 4, "messages": WORDS}),
    "overflow-responses": (SMALL, "/v1/responses", {"model": "m", "input": "word " * 900}),
    "window-filled": (SMALL, *chat([{"role": "user", "content": "word " * 470}], 400, ignore_eos=True)),
    "window-filled-stream": (SMALL, *chat([{"role": "user", "content": "word " * 470}], 400, ignore_eos=True, **USAGE)),
    "empty-stop": (PLAIN, *chat(tokens=20, stop=["The"])),
    "empty-stop-stream": (PLAIN, *chat(tokens=20, stop=["The"], **USAGE)),
    "comments-stream": (["--ping", "1"], *chat([{"role": "user", "content": "word " * 700}], 2, **USAGE)),
    "messages-stream": (PLAIN, "/v1/messages", {"model": "m", "max_tokens": 3, "messages": LIST, "stream": True}),
    "responses-stream": (
        PLAIN,
        "/v1/responses",
        {"model": "m", "max_output_tokens": 3, "input": "List the files.", "stream": True},
    ),
    "responses-cut": (PLAIN, "/v1/responses", {"model": "m", "max_output_tokens": 3, "input": "List the files."}),
    "rejected-two-assistants": (PLAIN, *chat(LIST + [{"role": "assistant", "content": "a"}] * 2)),
    "rejected-no-content": (PLAIN, *chat(LIST + [{"role": "assistant"}] + LIST)),
    "rejected-choices": (PLAIN, *chat(n=2)),
    "rejected-max-tokens": (PLAIN, *chat(tokens=-5)),
    "rejected-image": (
        PLAIN,
        *chat([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]}]),
    ),
    "rejected-path": (PLAIN, "/v1/nowhere", {}),
}


@contextlib.contextmanager
def server(options):
    command = [sys.executable, str(HERE / "serve.py"), "--until-eof", *options]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process.stdout.readline().strip().removeprefix("http://").removesuffix("/v1")
    finally:
        process.kill()
        process.wait()


def record(host, path, body):
    connection = http.client.HTTPConnection(host, timeout=600)
    sent = None if body is None else json.dumps(body)
    connection.request("GET" if body is None else "POST", path, sent, {"content-type": "application/json"})
    response = connection.getresponse()
    head = [f"HTTP/1.1 {response.status}"]
    head += [f"{name}: {value}" for name in HEADERS if (value := response.getheader(name))]
    return "\n".join(head).encode() + b"\n\n" + response.read().replace(str(shipped_model()).encode(), b"MODEL")


def main():
    parser = argparse.ArgumentParser(description="Record responses from llama.cpp's server")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "recorded")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    args.out.mkdir(exist_ok=True)
    unknown = set(args.names) - set(CASES)
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    names = args.names or list(CASES)
    for options in [PLAIN, SMALL, SHOWN, CALLS, TEXT, ["--ping", "1"]]:
        cases = [name for name in names if CASES[name][0] == options]
        if not cases:
            continue
        with server(options) as host:
            for name in cases:
                _, path, body = CASES[name]
                got = record(host, path, body)
                (args.out / f"{name}.http").write_bytes(got)
                print(name, got.split(b"\n", 1)[0].decode())


if __name__ == "__main__":
    main()
