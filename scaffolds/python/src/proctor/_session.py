"""The session that your agent receives: the task, the model, and the task's sandbox.

``docs/guides/python.md`` is the guide. The session uses the protocol of ``scaffold = "process"`` (``docs/reference/host.md``).
"""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Callable, Optional, TypeVar, Union

F = TypeVar("F", bound=Callable[..., Any])
Message = Mapping[str, Any]
Tool = Mapping[str, Any]

#: Error codes of the protocol.
TRIAL_OVER = -32000
REFUSED = -32001


class TrialOver(BaseException):
    """The trial is over: a limit was reached, the model refused, or the agent has submitted.

    This is not an ``Exception``, so that ``except Exception`` in an agent does not catch it. Don't catch it yourself.
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        #: ``budget``, ``refused`` or ``finished``.
        self.reason = reason


class Refused(Exception):
    """The sandbox or the protocol rejected a request, for example because a file is missing or too large."""


class EditError(Exception):
    """The text to replace does not occur exactly once."""


@dataclass(frozen=True)
class Brief:
    """What the agent may know about its task."""

    #: The task description.
    statement: str
    #: The working directory of commands, as an absolute path in the sandbox.
    workdir: str
    #: The model's name at the endpoint.
    model: Optional[str]
    #: The context window in tokens.
    context_window: Optional[int]
    #: The limits; None if the budget is not announced.
    limits: Optional[Mapping[str, Any]]
    #: The time limit for one command, in seconds.
    command_seconds: float
    #: Proctor's own tools, which ``Session.call`` runs.
    tools: Sequence[Tool]
    #: The agent's own keys in ``[arms.settings]``.
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class ToolCall:
    """A tool call as the model wrote it."""

    id: str
    name: str
    #: The arguments as the model wrote them, which should be JSON.
    arguments: str

    def parsed(self) -> dict[str, Any]:
        """Returns the arguments as a dictionary. Raises ValueError if they are not a JSON object."""
        arguments = json.loads(self.arguments or "{}")
        if not isinstance(arguments, dict):
            raise ValueError(f"the arguments of {self.name} are not an object")
        return arguments


@dataclass(frozen=True)
class Answer:
    """A complete model response. Each response is one step."""

    content: str
    tool_calls: list[ToolCall]
    finish_reason: Optional[str]
    #: Numbers of tokens: ``input``, ``output``, ``cached``, ``reasoning`` and more.
    usage: Mapping[str, Any]
    #: The response as a message for the next request. Append it to your messages unchanged.
    message: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class ToolResult:
    """The result of one of Proctor's own tools, as shown to the model."""

    output: str
    exit_status: Optional[int]
    submitted: bool


@dataclass(frozen=True)
class CommandResult:
    """The result of a command."""

    #: None if a signal or a timeout ended the command.
    exit_status: Optional[int]
    signal: Optional[int]
    timed_out: bool
    #: The first MiB of each stream.
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        """Stdout followed by stderr."""
        return self.stdout + self.stderr


class Session:
    """The agent's interface to its trial. Any thread may call its methods; requests run one at a time."""

    def __init__(self, reader: BinaryIO, writer: BinaryIO) -> None:
        self._reader = reader
        self._writer = writer
        self._lock = threading.Lock()
        self._number = 0
        self._over: Optional[TrialOver] = None
        self._brief: Optional[Brief] = None

    # Protocol.

    def _send(self, message: Mapping[str, Any]) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False)
        # UTF-8 cannot encode lone surrogates, but JSON can escape them.
        try:
            data = line.encode()
        except UnicodeEncodeError:
            data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._writer.write(data + b"\n")
        self._writer.flush()

    def _receive(self) -> dict[str, Any]:
        line = self._reader.readline()
        if not line:
            self._over = self._over or TrialOver("Proctor has closed the connection", "finished")
            raise self._over
        message: dict[str, Any] = json.loads(line)
        return message

    def open(self) -> None:
        """Responds to Proctor's first request. Called by the driver."""
        first = self._receive()
        given = first["params"]
        task = given["task"]
        self._brief = Brief(
            statement=task["statement"],
            workdir=task["workdir"],
            model=given.get("model"),
            context_window=given.get("context_window"),
            limits=given.get("limits"),
            command_seconds=float(given["command_seconds"]),
            tools=given["tools"],
            settings=given["settings"],
        )
        self._send({"id": first["id"], "result": {"protocol": 1}})

    def _call(self, method: str, **params: Any) -> Any:
        with self._lock:
            if self._over is not None:
                raise self._over
            self._number += 1
            number = self._number
            self._send({"id": number, "method": method, "params": params})
            answer = self._receive()
            if "error" not in answer:
                return answer["result"]
            error = answer["error"]
            if error["code"] != TRIAL_OVER:
                raise Refused(error["message"])
            reason = (error.get("data") or {}).get("reason", "finished")
            self._over = TrialOver(error["message"], reason)
            raise self._over

    # Methods for agents.

    @property
    def brief(self) -> Brief:
        """What the agent may know about the task and its limits."""
        if self._brief is None:
            raise RuntimeError("the session is not open")
        return self._brief

    def ask(
        self, messages: Iterable[Message], tools: Optional[Iterable[Tool]] = None
    ) -> Answer:
        """Requests a response from the model. Each response is one step.

        ``messages`` and ``tools`` have Proctor's format or that of OpenAI's chat API. If ``tools`` is None, the
        model can use Proctor's own tools (``brief.tools``). If it is an empty list, the model can use no tools.
        """
        params: dict[str, Any] = {"messages": [_message(message) for message in messages]}
        if tools is not None:
            params["tools"] = [_tool(tool) for tool in tools]
        told = self._call("model/ask", **params)
        kept = ("content", "tool_calls", "extra", "native")
        return Answer(
            content=told["content"],
            tool_calls=[
                ToolCall(id=call["id"], name=call["name"], arguments=call["arguments"])
                for call in told["tool_calls"]
            ],
            finish_reason=told.get("finish_reason"),
            usage=told.get("usage") or {},
            message={
                "role": "assistant",
                **{key: told[key] for key in kept if told.get(key) is not None},
            },
        )

    def call(self, call: ToolCall) -> ToolResult:
        """Runs one of Proctor's own tools (``shell``, ``edit``, ``search``, ``submit``)."""
        done = self._call("tool/call", id=call.id, name=call.name, arguments=call.arguments)
        result = ToolResult(
            output=done["output"],
            exit_status=done.get("exit_status"),
            submitted=bool(done["submitted"]),
        )
        if result.submitted:
            self._over = TrialOver("the agent has submitted", "finished")
        return result

    def shell(
        self,
        command: Union[str, Sequence[str]],
        *,
        cwd: Optional[str] = None,
        stdin: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> CommandResult:
        """Runs a command in the task's sandbox. A string is a shell line; a list is a program and its arguments.

        ``timeout`` is in seconds and at most ``brief.command_seconds``.
        """
        params: dict[str, Any] = {
            "command": command if isinstance(command, str) else list(command)
        }
        given = {"cwd": cwd, "stdin": stdin, "timeout": timeout}
        params.update({key: value for key, value in given.items() if value is not None})
        done = self._call("sandbox/exec", **params)
        return CommandResult(
            exit_status=done["exit_status"],
            signal=done.get("signal"),
            timed_out=bool(done["timed_out"]),
            stdout=done["stdout"],
            stderr=done["stderr"],
        )

    def read_bytes(self, path: str, offset: int = 0) -> bytes:
        """Returns the content of a file in the task's sandbox. A relative path starts at ``brief.workdir``."""
        told = self._call("sandbox/read", path=path, offset=offset)
        if told["encoding"] == "base64":
            return base64.b64decode(told["content"])
        return str(told["content"]).encode()

    def read(self, path: str) -> str:
        """Returns the content of a file as text. Replaces bytes that are not UTF-8."""
        return self.read_bytes(path).decode("utf-8", "replace")

    def write(self, path: str, content: Union[str, bytes], *, executable: bool = False) -> None:
        """Writes a file in the task's sandbox."""
        data = content.encode() if isinstance(content, str) else content
        self._call(
            "sandbox/write",
            path=path,
            content=base64.b64encode(data).decode(),
            encoding="base64",
            executable=executable,
        )

    def edit(self, path: str, old: str, new: str) -> None:
        """Replaces ``old`` with ``new``. Raises EditError unless ``old`` occurs exactly once."""
        before = self.read_bytes(path)
        count = before.count(old.encode()) if old else 0
        if count != 1:
            raise EditError(f"{path}: the text occurs {count} times, not once")
        self.write(path, before.replace(old.encode(), new.encode()))

    def log(self, text: str) -> None:
        """Adds a note to the trial's record."""
        with self._lock:
            self._send({"method": "log", "params": {"text": text}})

    def submit(self) -> None:
        """Submits the work directory and ends the trial. Later requests raise TrialOver."""
        self._finish(submit=True)

    def give_up(self, why: str) -> None:
        """Ends the trial without a submission. The work directory is still graded."""
        self._finish(submit=False, why=why)

    def _finish(self, **params: Any) -> None:
        self._call("finish", **params)
        self._over = TrialOver("the agent has ended the trial", "finished")

    @property
    def is_over(self) -> bool:
        """Whether the trial is over."""
        return self._over is not None

    @property
    def openai_base_url(self) -> str:
        """The model's base URL for clients of OpenAI's API, including ``/v1``.

        Each response that the client receives is a step, as with ``ask``. ``OPENAI_BASE_URL`` and the variables for
        other vendors' clients are also set.
        """
        return self._variable("OPENAI_BASE_URL")

    @property
    def anthropic_base_url(self) -> str:
        """The model's base URL for clients of Anthropic's API."""
        return self._variable("ANTHROPIC_BASE_URL")

    @property
    def api_key(self) -> str:
        """The API key for your own client. It is valid only for this trial."""
        return self._variable("OPENAI_API_KEY")

    @staticmethod
    def _variable(name: str) -> str:
        value = os.environ.get(name)
        if not value:
            raise Refused(
                f"{name} is not set: this arm has no model endpoint; remove `endpoint = false` from its settings"
            )
        return value


def scaffold(function: F) -> F:
    """Marks a function as the agent for ``scaffold = "python:FILE.py:FUNCTION"``.

        @proctor.scaffold
        def drive(session: proctor.Session) -> None: ...
    """
    setattr(function, "__proctor_scaffold__", True)
    return function


def _message(message: Message) -> dict[str, Any]:
    """Converts a message to Proctor's format."""
    role = message["role"]
    content = _text(message.get("content"))
    if role == "tool":
        call_id = message.get("call_id", message.get("tool_call_id"))
        return {"role": "tool", "call_id": call_id, "content": content}
    if role == "assistant":
        kept = {key: message[key] for key in ("extra", "native") if message.get(key) is not None}
        calls = [_tool_call(call) for call in message.get("tool_calls") or []]
        return {"role": "assistant", "content": content, "tool_calls": calls, **kept}
    # Newer OpenAI models have "developer" in place of the system role.
    return {"role": "system" if role == "developer" else role, "content": content}


def _text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = []
    for part in content:
        if part.get("type") not in ("text", "input_text", "output_text"):
            raise ValueError(f"messages can only have text, not {part.get('type')!r}")
        parts.append(part["text"])
    return "".join(parts)


def _tool_call(call: Any) -> dict[str, Any]:
    if isinstance(call, ToolCall):
        return {"id": call.id, "name": call.name, "arguments": call.arguments}
    function = call.get("function", call)
    return {"id": call["id"], "name": function["name"], "arguments": function["arguments"]}


def _tool(tool: Tool) -> dict[str, Any]:
    function = tool.get("function", tool)
    return {
        "name": function["name"],
        "description": function.get("description") or "",
        "parameters": function.get("parameters") or {"type": "object", "properties": {}},
    }
