"""Tests that need no run: values, messages, the binary's version, progress and the session protocol."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import proctor
from proctor import _binary, _errors, _frames, _progress
from proctor._results import select_names
from proctor._run import _incomplete, toml
from proctor._session import Session


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (100, "100"),
        (2.5, "2.5"),
        ('a "b"\n', '"a \\"b\\"\\n"'),
        ("größe\x7f", '"größe\\u007f"'),
        (Path("/a b"), '"/a b"'),
        ([1, "x"], '[1, "x"]'),
        ({"input": 1.0, "a.b": False}, '{"input" = 1.0, "a.b" = false}'),
    ],
)
def test_toml_writes_what_set_reads(value: Any, text: str) -> None:
    assert toml(value) == text


def test_toml_rejects_what_toml_has_not() -> None:
    with pytest.raises(TypeError):
        toml(None)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("tools", ["tools"]),
        ("scripted", ["tools/scripted"]),
        ("TOOLS/", ["tools/scripted"]),
        ("tool", ["tools", "tools/scripted"]),
        ("b", ["bash"]),
        ("codex", []),
    ],
)
def test_part_of_a_name_selects_it(query: str, found: list[str]) -> None:
    names = ["tools", "tools/scripted", "bash", "tools", "a/b"]
    assert select_names(names, query) == found


def test_remarks_include_doubtful_verdicts() -> None:
    def trial(task: str, integrity: Any, **more: Any) -> dict[str, Any]:
        verdict = {"outcome": "submitted", "resolved": True, "passed_rate": 1.0}
        return {"task": task, "arm": "a1", "attempt": 2, "integrity": integrity, **verdict, **more}

    run = proctor.Run.__new__(proctor.Run)
    run.path = Path("runs/x")
    run._report = {
        "arms": [{"arm": "a1", "name": "tools"}],
        "remarks": ["The run has 5 of 9 tasks."],
        "tasks": [
            trial("t1", "clean"),
            trial("t2", "suspect", evidence_classes=["grader_in_process", "other"]),
            trial("t3", "unverified"),
            trial("t4", "contaminated"),
            trial("t5", None),
        ],
    }
    assert run.remarks == [
        "The run has 5 of 9 tasks.",
        "tools / t2 / 2: the verdict is suspect (grader in process, other); verdict.json has the evidence.",
        "tools / t4 / 2: the verdict is contaminated; verdict.json has the evidence.",
    ]


def test_message_and_hint_are_unwrapped() -> None:
    stderr = (
        "some note\nerror: a.toml:3: key `budget.step`: unknown\n       key\n"
        " hint: did you mean `steps`?\n       known keys: steps\n"
    )
    error = _errors.error_of(2, stderr)
    assert isinstance(error, proctor.ConfigError)
    assert error.message == "a.toml:3: key `budget.step`: unknown key"
    assert error.hint == "did you mean `steps`? known keys: steps"
    assert error.status == 2
    plain = _errors.error_of(1, "error: the disk is full\n")
    assert (plain.message, plain.hint) == ("the disk is full", None)
    assert not isinstance(plain, proctor.ConfigError)


def test_an_endpoint_error_has_the_whole_message() -> None:
    fault = "http://127.0.0.1:1/v1: rejected with 401: no such key"
    trials = [
        types.SimpleNamespace(
            resolved=None, outcome="infrastructure_fault_model", data={"fault": fault}
        ),
        types.SimpleNamespace(resolved=None, outcome=None, data={}),
    ]
    run: Any = types.SimpleNamespace(trials=trials, path=Path("r"))
    halted = "model fault: same error as t a (2 times so far); 1 trial not started"
    error = _incomplete(run, halted)
    assert isinstance(error, proctor.EndpointError)
    assert error.message == f"2 of 2 trials have no verdict: {fault}"
    # If no trial was started, the line from the binary is the only information.
    trials.pop(0)
    assert _incomplete(run, halted).message == f"1 of 1 trials have no verdict: {halted}"


def _binary_that_says(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\necho '{text}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_binary_of_another_version_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text, says in [
        ("proctor 0.0.9", "is version 0.0.9, but this package needs 0.1.0 or newer"),
        ("something else", "not a `proctor` binary"),
    ]:
        _binary._find.cache_clear()
        monkeypatch.setenv("PROCTOR_BINARY", _binary_that_says(tmp_path / "proctor", text))
        with pytest.raises(proctor.BinaryError) as error:
            proctor.binary()
        assert says in str(error.value)
        assert error.value.hint
    for text in ["proctor 0.1.0", "proctor 0.1.0 (0123456789ab-dirty)"]:
        _binary._find.cache_clear()
        path = _binary_that_says(tmp_path / "proctor", text)
        monkeypatch.setenv("PROCTOR_BINARY", path)
        assert proctor.binary() == path
    _binary._find.cache_clear()
    # An installed package and its binary have the same version.
    monkeypatch.setattr(_binary, "version", lambda: "0.2.0")
    monkeypatch.setenv("PROCTOR_BINARY", _binary_that_says(tmp_path / "other", "proctor 0.3.0"))
    with pytest.raises(proctor.BinaryError, match="0.3.0.*needs 0.2.0"):
        proctor.binary()
    _binary._find.cache_clear()


def test_proctor_binary_wins_and_must_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = _binary_that_says(tmp_path / "proctor", "proctor 0.1.0")
    named = _binary_that_says(tmp_path / "named", "proctor 0.1.0")
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    _binary._find.cache_clear()
    monkeypatch.setenv("PROCTOR_BINARY", named)
    assert proctor.binary() == named
    monkeypatch.setenv("PROCTOR_BINARY", str(tmp_path / "nothing"))
    with pytest.raises(proctor.BinaryError, match="PROCTOR_BINARY: .*nothing is not an executable"):
        proctor.binary()
    monkeypatch.delenv("PROCTOR_BINARY")
    assert proctor.binary() == beside
    _binary._find.cache_clear()


def test_a_missing_binary_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    _binary._find.cache_clear()
    monkeypatch.delenv("PROCTOR_BINARY")
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    monkeypatch.setattr("sysconfig.get_path", lambda name: "/nonexistent")
    with pytest.raises(proctor.BinaryError, match="no `proctor` binary"):
        proctor.binary()
    _binary._find.cache_clear()


def test_progress_counts_trials() -> None:
    stream = io.StringIO()
    bar = _progress.Progress(lambda: 4, stream)
    trial = {"task": "t", "arm": "a", "attempt": 1}
    other = {"task": "u", "arm": "a", "attempt": 1}
    events: list[dict[str, Any]] = [
        {"event": "started", **trial},
        {"event": "started", **other},
        {"event": "stepped", "step": 3, **trial},
        {"event": "ended", "cost_usd": 0.5, **trial},
        {"event": "graded", "resolved": True, **trial},
        {"event": "environment_built", "task": "t"},
    ]
    for event in events:
        bar.take(event)
    text = bar.text()
    assert "1/4 graded, 1 resolved, 1 running, $0.50" in text
    # A file is not a terminal, so the bar is not redrawn.
    assert stream.getvalue() == ""


def test_progress_is_drawn_in_a_terminal_and_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    trial = {"task": "<t>", "arm": "a", "attempt": 1}
    events: list[dict[str, Any]] = [
        {"event": "started", **trial},
        {"event": "graded", "resolved": True, **trial},
    ]
    terminal = Terminal()
    bar = _progress.Progress(lambda: 1, terminal)
    for event in events:
        bar.take(event)
    bar.say("run directory: x")
    bar.close()
    assert "run directory: x\n" in terminal.getvalue()
    assert "[##############################] 1/1 graded, 1 resolved" in terminal.getvalue()

    shown: list[str] = []
    display = types.ModuleType("IPython.display")
    handle = types.SimpleNamespace(update=shown.append)
    vars(display).update(HTML=str, display=lambda html, display_id: handle)
    ipython = types.ModuleType("IPython")
    vars(ipython).update(get_ipython=lambda: types.SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    stream = io.StringIO()
    bar = _progress.Progress(lambda: 1, stream)
    for event in events:
        bar.take(event)
    bar.close()
    assert stream.getvalue() == ""
    assert '<progress max="1" value="1.0000">' in shown[-1] and "1/1 graded" in shown[-1]


ROWS = [
    {"task": "t", "steps": 3, "cost_usd": 0.5, "resolved": True},
    {"task": "u", "steps": None, "cost_usd": None, "resolved": None},
]
COLUMNS = [
    {"name": "task", "type": "text", "unit": "", "about": "the task"},
    {"name": "steps", "type": "integer", "unit": "steps", "about": "steps"},
    {"name": "cost_usd", "type": "number", "unit": "US dollars", "about": "cost"},
    {"name": "resolved", "type": "boolean", "unit": "", "about": "resolved"},
]


@pytest.mark.parametrize("rows", [ROWS, []])
def test_frames_keep_types_and_missing_values(rows: list[dict[str, Any]]) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    table = _frames._arrow(rows, COLUMNS)
    assert [str(field.type) for field in table.schema] == ["string", "int64", "double", "bool"]
    assert table.schema.field("cost_usd").metadata[b"unit"] == b"US dollars"
    assert table.to_pylist() == rows
    data = _frames._pandas(rows, COLUMNS)
    assert [str(kind) for kind in data.dtypes] == ["string", "Int64", "Float64", "boolean"]
    assert len(data) == len(rows)
    frame = _frames._polars(rows, COLUMNS)
    assert frame.to_dicts() == rows
    assert [str(kind) for kind in frame.dtypes] == ["String", "Int64", "Float64", "Boolean"]


def test_unknown_tables_and_kinds_are_named() -> None:
    with pytest.raises(ValueError, match="trials, steps, tests"):
        _frames.frame("run", "trial", None)
    with pytest.raises(ValueError, match="arrow, pandas, polars, records"):
        _frames.frame("run", "trials", "parquet")


FIRST = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocol": 1,
        "task": {"statement": "Add it.", "workdir": "/repo"},
        "model": "m",
        "context_window": None,
        "limits": None,
        "command_seconds": 60.0,
        "tools": [],
        "settings": {"effort": "low"},
    },
}


def session(*replies: dict[str, Any]) -> tuple[Session, io.BytesIO]:
    lines = [FIRST, *({"jsonrpc": "2.0", "id": 1, **reply} for reply in replies)]
    sent = io.BytesIO()
    opened = Session(io.BytesIO(b"".join(json.dumps(line).encode() + b"\n" for line in lines)), sent)
    opened.open()
    return opened, sent


def requests(sent: io.BytesIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in sent.getvalue().splitlines()][1:]


ANSWER = {
    "content": "ok",
    "tool_calls": [{"id": "c1", "name": "shell", "arguments": '{"command": "ls"}'}],
    "extra": {"reasoning_content": "hm"},
    "native": {"api": "chat", "items": []},
    "finish_reason": "tool_calls",
    "usage": {"input": 5, "output": 2},
}


def test_ask_takes_both_forms_of_messages_and_returns_a_message() -> None:
    opened, sent = session({"result": ANSWER}, {"result": ANSWER})
    assert opened.brief.settings == {"effort": "low"}
    tool = {"type": "function", "function": {"name": "shell", "parameters": {"type": "object"}}}
    answer = opened.ask([{"role": "user", "content": [{"type": "text", "text": "hi"}]}], [tool])
    assert answer.tool_calls[0].parsed() == {"command": "ls"}
    openai = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c0", "type": "function", "function": {"name": "shell", "arguments": "{}"}}
        ],
    }
    opened.ask(
        [openai, answer.message, {"role": "tool", "tool_call_id": "c1", "content": "out"}], []
    )
    first, second = (request["params"] for request in requests(sent))
    assert first["messages"] == [{"role": "user", "content": "hi"}]
    assert first["tools"][0]["name"] == "shell"
    assert second["tools"] == []
    assert second["messages"][0]["tool_calls"] == [
        {"id": "c0", "name": "shell", "arguments": "{}"}
    ]
    # The model's turn is sent back unchanged.
    assert second["messages"][1]["extra"] == {"reasoning_content": "hm"}
    assert second["messages"][1]["native"] == {"api": "chat", "items": []}
    assert second["messages"][2] == {"role": "tool", "call_id": "c1", "content": "out"}


def test_errors_are_refusals_or_the_end_of_the_trial() -> None:
    over = {"code": -32000, "message": "the limit on steps is reached", "data": {"reason": "budget"}}
    opened, sent = session(
        {"error": {"code": -32001, "message": "no such file"}}, {"error": over}
    )
    with pytest.raises(proctor.Refused, match="no such file"):
        opened.read("nothing.py")
    with pytest.raises(proctor.TrialOver) as ended:
        opened.ask([{"role": "user", "content": "x"}])
    assert ended.value.reason == "budget"
    assert not isinstance(ended.value, Exception)
    # After the end of the trial, no more requests are sent.
    with pytest.raises(proctor.TrialOver):
        opened.shell("ls")
    assert len(requests(sent)) == 2


def test_edit_replaces_one_text_alone() -> None:
    read = {"result": {"content": "a b a", "encoding": "utf-8"}}
    opened, sent = session(read, read, {"result": {}})
    with pytest.raises(proctor.EditError, match="2 times"):
        opened.edit("f", "a", "c")
    opened.edit("f", "b", "\u00e9")
    written = requests(sent)[-1]["params"]
    assert (written["encoding"], written["content"]) == ("base64", "YSDDqSBh")


def drive(tmp_path: Path, text: str, *replies: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Runs the driver in the same way as Proctor, with prepared replies."""
    file = tmp_path / "agent.py"
    file.write_text(text)
    lines = [FIRST, *({"jsonrpc": "2.0", "id": 1, **reply} for reply in replies)]
    source = str(Path(proctor.__file__).parents[1])
    start = f"import sys; sys.path.insert(0, {source!r}); from proctor._driver import main; main(sys.argv[1:])"
    return subprocess.run(
        [sys.executable, "-I", "-u", "-c", start, str(file), "drive"],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


HEAD = "import proctor\n@proctor.scaffold\ndef drive(session):\n"


def test_what_an_agent_prints_is_no_message(tmp_path: Path) -> None:
    text = HEAD + (
        "    import os, subprocess\n"
        "    print('hello')\n"
        "    os.write(1, b'raw')\n"
        "    subprocess.run(['echo', 'child'])\n"
        "    session.submit()\n"
    )
    done = drive(tmp_path, text, {"result": {}})
    sent = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one.get("method") for one in sent] == [None, "finish"]
    assert sent[1]["params"] == {"submit": True}
    assert done.returncode == 0
    assert {"hello", "raw", "child"} <= set(done.stderr.replace("raw", "raw\n").split())


def test_an_early_return_is_no_submission(tmp_path: Path) -> None:
    done = drive(tmp_path, HEAD + "    return 3\n", {"result": {}})
    finish = json.loads(done.stdout.splitlines()[-1])["params"]
    assert finish == {"submit": False, "why": "drive returned without session.submit()"}


def test_an_exception_ends_with_status_1_and_its_name(tmp_path: Path) -> None:
    done = drive(tmp_path, HEAD + "    raise KeyError('x')\n")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "KeyError: 'x'"
    done = drive(tmp_path, "import nothing_of_that_name\n")
    assert done.returncode == 1 and "nothing_of_that_name" in done.stderr
    done = drive(tmp_path, "import proctor\n@proctor.scaffold\ndef other(session): ...\n")
    assert "has no function drive; it has other" in done.stderr


def test_a_coroutine_is_awaited_and_threads_do_not_hold_the_trial(tmp_path: Path) -> None:
    text = (
        "import threading, time\n"
        "async def drive(session):\n"
        "    threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "    session.submit()\n"
    )
    done = drive(tmp_path, text, {"result": {}})
    assert done.returncode == 0
    assert json.loads(done.stdout.splitlines()[-1])["method"] == "finish"


def test_an_agent_cannot_swallow_the_end(tmp_path: Path) -> None:
    text = HEAD + (
        "    while True:\n"
        "        try:\n"
        "            session.shell('ls')\n"
        "        except Exception:\n"
        "            pass\n"
    )
    over = {"code": -32000, "message": "the limit on steps is reached", "data": {"reason": "budget"}}
    done = drive(tmp_path, text, {"error": over})
    assert (done.returncode, done.stderr.strip()) == (0, "the limit on steps is reached")


def test_an_endpoint_that_is_not_there_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, _ = session()
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(proctor.Refused, match="OPENAI_BASE_URL"):
        _ = opened.openai_base_url
    monkeypatch.setitem(os.environ, "OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    assert opened.openai_base_url == "http://127.0.0.1:1/v1"
