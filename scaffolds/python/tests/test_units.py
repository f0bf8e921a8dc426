"""Tests that need no run: values, messages, the binary's version, progress and the session protocol."""

from __future__ import annotations

import io
import json
import os
import re
import stat
import subprocess
import sys
import types
from fractions import Fraction
from pathlib import Path
from typing import Any, Callable, Optional

import pytest

import proctor
from proctor import _binary, _errors, _frames, _progress
from proctor._results import _absent_keys, select_names
from proctor._run import _incomplete, toml
from proctor._session import Session

from conftest import ROOT


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (100, "100"),
        (2.5, "2.5"),
        ('a "b"\n', '"a \\"b\\"\\n"'),
        ("größe\x7f", '"größe\\u007f"'),
        (Path("/a b"), '"/a b"'),
        (Fraction(1, 2), "0.5"),
        ([1, "x"], '[1, "x"]'),
        ({"input": 1.0, "a.b": False}, '{"input" = 1.0, "a.b" = false}'),
    ],
)
def test_toml_writes_what_set_reads(value: Any, text: str) -> None:
    assert toml(value) == text


def test_toml_rejects_what_toml_has_not() -> None:
    with pytest.raises(proctor.ConfigError, match="None has no form"):
        toml(None)


def test_a_function_as_a_scaffold_is_rejected_with_a_short_traceback() -> None:
    def solve(session: proctor.Session) -> None: ...

    with pytest.raises(proctor.ConfigError, match="cannot contain the function `solve`") as error:
        proctor.run("demo", set={"arms": [{"name": "a", "scaffold": solve}]})
    assert error.value.hint and "%%writefile agents.py" in error.value.hint
    assert '"python:agents.py:solve"' in error.value.hint
    assert len(error.traceback) <= 2, "only the test and proctor.run"


def test_a_key_of_the_configuration_as_a_parameter_is_reported() -> None:
    run: Any = proctor.run
    with pytest.raises(proctor.ConfigError, match="no parameter `attempts`") as error:
        run("demo", attempts=3)
    assert error.value.hint and 'set={"attempts": 3}' in error.value.hint


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


def run_with(report: dict[str, Any]) -> proctor.Run:
    run = proctor.Run.__new__(proctor.Run)
    run.path = Path("runs/x")
    run._report = report
    return run


def test_remarks_are_all_findings_of_the_report() -> None:
    findings = [
        {"rank": "doubtful", "text": "tools: warning: the scaffold failed in 1 of 1 trial."},
        {"rank": "missing", "text": "The run has 5 of 9 tasks."},
    ]
    remarks = [findings[1]["text"]]
    run = run_with({"findings": findings, "remarks": remarks})
    assert run.remarks == [finding["text"] for finding in findings]
    # Older binaries report only remarks.
    assert run_with({"remarks": remarks}).remarks == remarks
    assert run_with({}).remarks == []


def test_a_trial_has_every_documented_key() -> None:
    """The report omits keys without a value, and the package restores them."""
    source = (ROOT / "runtime/report/src/task.rs").read_text()
    struct = source[source.index("pub struct TaskReport {") :]
    struct = struct[: struct.index("\n}")]
    keys = re.findall(r"pub (\w+):", struct)
    omitted = re.findall(r"skip_serializing_if[^]]*\)\]\s*pub (\w+):", struct)
    assert set(omitted) == set(_absent_keys()), "update _absent_keys"
    given = {key: None for key in keys if key not in omitted}
    trial = proctor.Trial.of({**given, "task": "t", "arm": "a1", "attempt": 1}, "r", {})
    assert set(trial.data) == set(keys)
    assert (trial.cause, trial.why, trial.fault) == (None, None, None)
    crashed = {**given, "task": "t", "arm": "a1", "attempt": 1, "cause": "crashed", "why": "boom"}
    trial = proctor.Trial.of(crashed, "r", {})
    assert (trial.cause, trial.why, trial.data["cause"]) == ("crashed", "boom", "crashed")


def trial_of(task: str, arm: str, arm_id: str) -> dict[str, Any]:
    verdict = {"outcome": "submitted", "resolved": True, "passed_rate": 1.0}
    return {"task": task, "arm": arm_id, "attempt": 1, **verdict}


def test_a_trial_is_found_by_parts_of_its_names() -> None:
    arms = [{"arm": "9f01", "name": "tools/a"}, {"arm": "77c2", "name": "bash"}]
    tasks = ["demo__roman-1", "boltons__lists", "boltons__dicts"]
    rows = [trial_of(task, arm["name"], arm["arm"]) for task in tasks for arm in arms]
    run = run_with({"arms": arms, "tasks": rows})
    for task, arm in [("roman", "tools"), ("DEMO", "9f"), ("demo__roman-1", "9f01"), ("-1", "/a")]:
        found = run.trial(task, arm=arm)
        assert (found.task, found.arm) == ("demo__roman-1", "tools/a")
    with pytest.raises(LookupError, match="'boltons' matches several tasks: boltons__lists, bol"):
        run.trial("boltons", arm="bash")
    with pytest.raises(LookupError, match="no trial matches 'nothing'"):
        run.trial("nothing", arm="bash")


def pair(a: str, b: str, metric: str, difference: float) -> dict[str, Any]:
    return {
        "a": a, "b": b, "metric": metric, "tasks": 2, "difference": difference,
        "interval": [difference - 0.25, difference + 0.25], "p_value": 0.5, "p_adjusted": None,
        "distinguishable": None, "sentence": f"{a} and {b}: {metric}",
    }  # fmt: skip


def test_a_comparison_is_a_sequence_of_pairs() -> None:
    names = [("x/one", "x/two"), ("x/one", "y"), ("x/two", "y")]
    pairs = [pair(a, b, metric, 0.5) for a, b in names for metric in ("resolved", "tokens")]
    control = pair("x/one", "gold", "resolved", -1.0)
    whole = proctor.Comparison.of({"pairs": pairs, "controls": [control]})
    assert len(whole) == 7 and [one.b for one in whole][-1] == "gold"
    assert whole.arms == ["x/one", "x/two", "y", "gold"]
    one = whole.only("y", "two")
    assert (len(one), one.difference, one.interval, one.p_value) == (2, -0.5, (-0.75, -0.25), 0.5)
    assert one.distinguishable is None
    assert (one.pair().a, one.pair().b, one.pair().points) == ("y", "x/two", -50.0)
    assert one.pair(metric="tokens").points is None
    assert whole.pair("one", "gold").difference == -1.0
    assert {pair.b for pair in whole.only("y")} == {"x/one", "x/two"}
    mistakes: list[tuple[Callable[[], Any], str]] = [
        (lambda: whole.pair(), "4 pairs with the metric 'resolved'.*x/one and x/two"),
        (lambda: whole.pair("one", "two", metric="cost"), "0 pairs with the metric 'cost'"),
        (lambda: whole.only("x"), "'x' matches several arms: x/one, x/two"),
        (lambda: whole.only("none"), "no arm or run directory 'none'; arms: x/one"),
        (lambda: whole.difference, "4 pairs"),
    ]
    for wrong, says in mistakes:
        with pytest.raises(LookupError, match=says):
            wrong()
    table = proctor.Comparison.of({"pairs": [pair("<a>", "b", "resolved", 0.5)]})._repr_html_()
    assert "<td>&lt;a&gt;</td>" in table and "+50.0 points" in table and "<a>" not in table


def test_a_comparison_has_the_conclusions_of_its_pair() -> None:
    data = {**pair("a", "b", "resolved", 0.5), "distinguishable": True, "clear": False}
    comparison = proctor.Comparison.of({"pairs": [data]})
    assert (comparison.distinguishable, comparison.clear) == (True, False)


def test_only_a_single_arm_makes_a_comparison_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(arguments: list[str]) -> Any:
        if arguments[0] == "compare":
            raise proctor.ConfigError("runs/x: the record is corrupt")
        return {"arms": [], "tasks": []}

    monkeypatch.setattr(_binary, "output_json", answer)
    with pytest.raises(proctor.ConfigError, match="the record is corrupt"):
        run_with({"arms": []}).compare()


def test_a_curve_names_its_arms_and_its_notes() -> None:
    def point(arm: str, at: int) -> dict[str, Any]:
        numbers = {"trials": 1, "graded": 1, "resolved": 1, "resolved_rate": 1.0, "passed_rate": 1.0}
        return {"name": arm, "budget": "steps", "at": at, **numbers}

    notes = ["skipped arm `short`: its limit is 2, and arm `long` has a larger limit"]
    points = [point("long", 1), point("long", 5), point("bash", 1)]
    curve = proctor.Curve.of({"points": points, "notes": notes})
    assert (curve.arms, curve.notes) == (["long", "bash"], notes)
    with pytest.raises(KeyError, match="unknown arm 'short'; the curve has: long, bash; skipped arm"):
        curve.series("short")


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (
            "continue it with `proctor resume runs/two`, add to it with --extend, or choose another --out",
            "continue it with proctor.resume('runs/two'), add to it with extend=True, or choose another `out`",
        ),
        ("`proctor resume RUN` continues", "proctor.resume(RUN) continues"),
        ("then continue with `proctor resume`", "then continue with proctor.resume(run)"),
        ("or use --set sandbox.kind=docker", 'or use set={"sandbox.kind": "docker"}'),
        ("use `--set budget.steps=5`", 'use set={"budget.steps": 5}'),
        ("--set: key `budget.step`: unknown key", "set: key `budget.step`: unknown key"),
        ("use --model VENDOR/NAME", "use model=VENDOR/NAME"),
        ("repeat `--tasks` or --limit 5", "repeat `tasks` or limit=5"),
        ("--at steps=50: arm a ran with a limit of 30", "steps=50: arm a ran with a limit of 30"),
        ("--allow-truncated shows the curve anyway", "allow_truncated=True shows the curve anyway"),
        ("`proctor show` prints the end", "trial.show() prints the end"),
        ("`proctor tasks list` lists the ids", "`proctor tasks list` lists the ids"),
    ],
)
def test_hints_name_what_to_call_in_python(told: str, expected: str) -> None:
    error = _errors.error_of(2, f"error: wrong\n hint: {told}\n")
    assert error.hint == expected


def test_a_fault_of_the_agents_file_does_not_advise_to_resume() -> None:
    fault = "setup fault: it crashed (fix the program and start a new run, because ...)"
    trial = types.SimpleNamespace(
        resolved=None, outcome="infrastructure_fault_setup", data={"fault": fault}
    )
    other = types.SimpleNamespace(resolved=None, outcome=None, data={"fault": "disk full"})
    of_agent: Any = types.SimpleNamespace(trials=[trial], path=Path("r"))
    both: Any = types.SimpleNamespace(trials=[trial, other], path=Path("r"))
    assert "start a new run" in str(_incomplete(of_agent, None).hint)
    assert _incomplete(both, None).hint == "proctor.resume('r') continues"


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
