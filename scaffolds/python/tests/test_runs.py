"""Tests that run the binary with scripted models."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any, Callable

import pytest

import proctor
from proctor._run import TableName, _carry_out

from conftest import ROOT, needs

SOLUTION = r'''cat >> numerals/roman.py <<'END'


def from_roman(text: str) -> int:
    total, rest = 0, text
    for numeral, value in VALUES.items():
        while rest.startswith(numeral):
            total += value
            rest = rest[len(numeral):]
    if rest or not 1 <= total <= 3999 or to_roman(total) != text:
        raise ValueError(f"not a Roman numeral: {text!r}")
    return total
END
sed -i 's/import to_roman/import from_roman, to_roman/; s/__all__ = \[/__all__ = ["from_roman", /' numerals/__init__.py'''


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def stage(
    folder: Path,
    turns: list[dict[str, Any]],
    arms: str,
    *,
    budget: str = "steps = 20",
    kind: str = "native",
) -> Path:
    """Writes the demo task, a script and a configuration."""
    rows = (ROOT / "configs/tasks/demo.jsonl").read_text().splitlines()
    task = json.loads(rows[0])
    task["source"]["path"] = str(ROOT / "configs/tasks/numerals")
    (folder / "task.jsonl").write_text(json.dumps(task) + "\n")
    script = {"conversation": [{"model": "m", "turn": turns, "repeat_last": False}]}
    (folder / "script.json").write_text(json.dumps(script))
    config = folder / "run.toml"
    config.write_text(
        f"tasks = [\"task.jsonl\"]\n[sandbox]\nkind = \"{kind}\"\n[budget]\n{budget}\n{arms}\n"
        '[models.m]\nbase_url = "script:script.json"\nname = "m"\nprice = { input = 1.0, output = 2.0 }\n'
    )
    return config


TWO = (
    '[[arms]]\nname = "tools"\nscaffold = "tools"\nmodel = "m"\n'
    '[[arms]]\nname = "noop"\nscaffold = "noop"\n'
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> proctor.Run:
    folder = tmp_path_factory.mktemp("run")
    config = stage(folder, [call("shell", command=SOLUTION), call("submit")], TWO)
    return proctor.run(config, out=folder / "out", set={"budget.steps": 7}, progress=False)


def test_a_run_has_arms_trials_and_numbers(finished: proctor.Run) -> None:
    assert finished.complete
    tools, noop = finished.arms
    assert (tools.name, tools.resolved, tools.trials) == ("tools", 1, 1)
    assert tools.interval is not None and tools.interval[0] < 1.0
    assert noop.resolved == 0
    trial = finished.trial("demo__roman-1", arm="tools")
    assert trial.resolved and trial.steps == 2 and trial.integrity == "clean"
    assert trial.cost_usd is not None and trial.cost_usd > 0
    failed = finished.trial("demo__roman-1", arm="noop")
    assert (failed.resolved, failed.reason) == (False, "never_edited")
    assert proctor.Run(finished.path).trials == finished.trials
    assert finished.trial("demo__roman-1", arm="NOO") == failed
    assert finished.trial("demo__roman-1", arm=failed.arm_id) == failed
    with pytest.raises(LookupError, match="'oo' matches several arms: tools, noop"):
        finished.trial("demo__roman-1", arm="oo")
    with pytest.raises(LookupError, match="no trial matches .*'other'"):
        finished.trial("demo__roman-1", arm="other")
    with pytest.raises(LookupError, match="tasks: demo__roman-1; arms: noop, tools"):
        finished.trial("demo__roman-2")
    with pytest.raises(LookupError, match="2 trials"):
        finished.trial("demo__roman-1")
    assert finished.trial("roman", arm="noop") == failed
    assert failed.data["cause"] is None and failed.data["exceptions"] != {}
    assert finished.trial("roman", arm="tools").data["exceptions"] == {}


def test_runs_are_compared_and_drawn_as_curves(finished: proctor.Run) -> None:
    comparison = finished.compare()
    assert comparison.pairs == [] and len(comparison) == len(comparison.controls) > 0
    pair = next(pair for pair in comparison if pair.metric == "resolved")
    assert {pair.a, pair.b} == {"tools", "noop"}
    assert pair.sentence in str(comparison)
    assert finished.compare("noop", "tool").difference == -1.0
    assert finished.compare("tools", "noop").pair().points == 100.0
    # A run's path is not the name of an arm.
    with pytest.raises(proctor.ConfigError, match="listed twice"):
        finished.compare(str(finished.path))
    with pytest.raises(LookupError, match="no arm or run directory 'other'; arms: tools, noop"):
        finished.compare("tools", "other")
    curve = finished.curve(steps=[1, 5], arms=["tools"])
    assert curve.arms == ["tools"]
    assert curve.series("tools") == curve.series("tool") == ([1, 5], [1.0, 1.0])
    with pytest.raises(KeyError, match="the curve has: tools"):
        curve.series("other")
    with pytest.raises(ValueError, match="one kind of limit"):
        finished.curve(steps=[1], cost=[1.0])


def test_a_run_with_one_arm_has_an_empty_comparison(tmp_path: Path) -> None:
    config = stage(tmp_path, [call("submit")], '[[arms]]\nname = "alone"\nscaffold = "tools"\nmodel = "m"\n')
    run = proctor.run(config, out=tmp_path / "out", progress=False)
    comparison = run.compare()
    assert len(comparison) == 0 and list(comparison) == []
    assert str(comparison) == "nothing to compare with: alone is the only arm"
    assert str(comparison) in comparison._repr_html_()


def test_a_curve_says_which_arms_it_skips(tmp_path: Path) -> None:
    arms = "".join(
        f'[[arms]]\nname = "{name}"\nscaffold = "tools"\nmodel = "m"\nbudget = {{ steps = {steps} }}\n'
        for name, steps in [("long", 20), ("short", 2)]
    )
    turns = [call("shell", command="true"), call("shell", command=SOLUTION), call("submit")]
    config = stage(tmp_path, turns, arms)
    run = proctor.run(config, out=tmp_path / "out", progress=False)
    curve = run.curve(steps=[1, 2, 3])
    assert curve.arms == ["long"]
    assert [curve.series(arm) for arm in curve.arms] == [([1, 2, 3], [0.0, 1.0, 1.0])]
    assert len(curve.notes) == 1 and "skipped arm `short`" in curve.notes[0]
    with pytest.raises(KeyError, match="skipped arm `short`"):
        curve.series("short")


@needs("show", "--print")
def test_a_trial_shows_its_parts(finished: proctor.Run) -> None:
    trial = finished.trial("demo__roman-1", arm="tools")
    kinds = [event["kind"] for event in trial.events()]
    assert kinds[0] == "trial_started" and kinds.count("model_answered") == 2
    assert trial.patch is not None and "from_roman" in trial.patch
    assert trial.verdict is not None and trial.verdict["resolved"] is True
    before, after = trial.tree(step=0), trial.tree(step=1)
    assert "numerals/roman.py" in before and before["numerals/roman.py"].kind == "file"
    assert b"from_roman" not in before.read("numerals/roman.py")
    assert b"from_roman" in after.read("numerals/roman.py")
    assert len(trial.tree()) == len(after)
    with pytest.raises(proctor.ConfigError, match="no file tree after step 99"):
        trial.tree(step=99)


def test_show_returns_tracebacks_and_steps(finished: proctor.Run) -> None:
    failed = finished.trial("demo__roman-1", arm="noop").show()
    assert "not resolved: never edited" in failed
    assert "cannot import name 'from_roman'" in failed
    trial = finished.trial("demo__roman-1", arm="tools")
    assert "18 of 18 tests passed" in trial.show()
    step = trial.show(step=1)
    assert "== call: shell ==" in step and "def from_roman" in step
    with pytest.raises(proctor.ConfigError, match="no step 99"):
        trial.show(step=99)


@needs("export", "parquet", "jsonl")
def test_a_run_is_a_frame_of_every_kind(finished: proctor.Run) -> None:
    rows = finished.frame("trials", to="records")
    assert {row["arm_name"] for row in rows} == {"tools", "noop"}
    row = next(row for row in rows if row["arm_name"] == "tools")
    assert (row["steps"], row["limit_steps"], row["resolved"]) == (2, 7, True)
    steps = finished.frame("steps", to="records")
    assert sum(step["input_tokens"] for step in steps) == row["input_tokens"]
    tests = finished.frame("tests", to="records")
    assert {test["kind"] for test in tests} == {"fail_to_pass", "pass_to_pass"}
    pytest.importorskip("pandas")
    assert len(finished.frame("trials", to="pandas")) == 2
    pytest.importorskip("pyarrow")
    assert finished.frame("tests").num_rows == len(tests)


@needs("export", "parquet", "jsonl")
def test_parquet_holds_what_the_frames_hold(finished: proctor.Run, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "tables"
    arguments = ["export", str(finished.path), "--format", "parquet", "--out", str(out)]
    subprocess.run([proctor.binary(), *arguments], check=True)
    names: list[TableName] = ["trials", "steps", "tests"]
    for name in names:
        table = parquet.read_table(out / f"{name}.parquet")
        assert table.to_pylist() == finished.frame(name, to="records")
        assert table.schema.equals(finished.frame(name, to="arrow").schema)
        about = json.loads(table.schema.metadata[b"proctor.columns"])
        assert [column["name"] for column in about] == table.column_names


def test_mistakes_are_config_errors_with_a_hint(tmp_path: Path) -> None:
    config = stage(tmp_path, [call("submit")], TWO)
    with pytest.raises(proctor.ConfigError) as error:
        proctor.run(config, out=tmp_path / "a", set={"budget.step": 3}, progress=False)
    assert "budget.step" in error.value.message
    assert error.value.hint and "steps" in error.value.hint
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(proctor.ConfigError, match="is not empty"):
        proctor.run(config, out=tmp_path / "full", progress=False)
    with pytest.raises(proctor.ConfigError, match="not a run directory"):
        proctor.Run(tmp_path)


def test_an_endpoint_that_rejects_requests_is_an_endpoint_error(tmp_path: Path) -> None:
    fault = {"content": "x", "fault": [{"kind": "status", "status": 401, "times": 0}]}
    config = stage(tmp_path, [fault], TWO)
    with pytest.raises(proctor.EndpointError) as error:
        proctor.run(config, out=tmp_path / "out", progress=False)
    assert "401" in error.value.message
    assert isinstance(error.value, proctor.IncompleteRun)
    unfinished = error.value.run
    assert [trial.resolved for trial in unfinished.trials] == [None, False]
    assert not unfinished.complete
    # Resume with a model that responds.
    script = json.loads((tmp_path / "script.json").read_text())
    script["conversation"][0]["turn"] = [call("submit")]
    (tmp_path / "script.json").write_text(json.dumps(script))
    again = proctor.resume(unfinished, progress=False)
    assert again.complete and again.trial("demo__roman-1", arm="tools").resolved is False


def test_progress_is_drawn_without_disturbing_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = stage(tmp_path, [call("submit")], '[[arms]]\nname = "noop"\nscaffold = "noop"\n')
    text = config.read_text()
    config.write_text(text[: text.index("[models")])
    run = proctor.run(config, out=tmp_path / "out", set={"budget": {}})
    assert run.complete
    assert "run directory: " in capsys.readouterr().err


def test_a_run_in_progress_and_an_interrupted_run_can_be_read(tmp_path: Path) -> None:
    hang = {**call("submit"), "fault": [{"kind": "hang", "times": 0}]}
    config = stage(tmp_path, [call("shell", command=SOLUTION), hang], TWO)
    out = tmp_path / "out"
    arguments = ["run", str(config), "--out", str(out)]
    process = subprocess.Popen(
        [proctor.binary(), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        run = wait_for(lambda: proctor.Run(out), lambda run: steps_of(run) == 1)
        trial = run.trial("demo__roman-1", arm="tools")
        assert (trial.outcome, trial.resolved, trial.patch, trial.verdict) == (None, None, None, None)
        assert not run.complete
        assert [event["kind"] for event in trial.events()].count("model_answered") == 1
        assert b"from_roman" in trial.tree(step=1).read("numerals/roman.py")
        assert len(run.frame("trials", to="records")) == 2
        assert run.compare().pairs == []
        wait_for(run.refresh, lambda run: run.trial("demo__roman-1", arm="noop").resolved is False)
    finally:
        stop(process)
    interrupted = proctor.Run(out)
    assert not interrupted.complete
    # Without the fault, the trial continues and finishes.
    script = json.loads((tmp_path / "script.json").read_text())
    del script["conversation"][0]["turn"][1]["fault"]
    (tmp_path / "script.json").write_text(json.dumps(script))
    finished = proctor.resume(interrupted, progress=False)
    assert finished.complete and finished.trial("demo__roman-1", arm="tools").resolved is True


def stop(process: subprocess.Popen[bytes]) -> None:
    """Interrupts a run as often as it takes, like a person who presses Ctrl-C."""
    for _ in range(20):
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=3)
            return
        except subprocess.TimeoutExpired:
            pass
    process.kill()
    raise AssertionError("the run did not stop")


def steps_of(run: proctor.Run) -> int:
    """Returns how many steps the arm `tools` has taken, based on its trial's events."""
    events = run.trial("demo__roman-1", arm="tools").events()
    return sum(event["kind"] == "tool_returned" for event in events)


def wait_for(read: Callable[[], proctor.Run], ready: Callable[[proctor.Run], bool]) -> proctor.Run:
    """Reads a run until it is ready. At first, its directory may not exist."""
    deadline = time.monotonic() + 120
    while True:
        try:
            run = read()
            if ready(run):
                return run
        except proctor.ConfigError:
            if time.monotonic() > deadline:
                raise
        assert time.monotonic() < deadline, "the run did not get so far"
        time.sleep(0.2)


def test_a_run_without_any_results_can_be_read(finished: proctor.Run, tmp_path: Path) -> None:
    # This is what a run directory contains before its first trial starts.
    shutil.copy(finished.path / "run.json", tmp_path)
    run = proctor.Run(tmp_path)
    assert not run.complete
    assert [(arm.trials, arm.graded, arm.interval) for arm in run.arms] == [(1, 0, (0.0, 1.0))] * 2
    trial = run.trial("demo__roman-1", arm="tools")
    assert (trial.outcome, trial.resolved, trial.steps) == (None, None, None)
    assert (trial.patch, trial.verdict, trial.events()) == (None, None, [])
    with pytest.raises(proctor.ConfigError, match="has no file tree"):
        trial.tree()
    assert len(run.frame("trials", to="records")) == 2
    assert run.frame("steps", to="records") == run.frame("tests", to="records") == []
    assert run.curve(steps=[1], arms=["tools"]).series("tools") == ([1], [0.0])
    # Each metric has the same reason, which is printed once.
    assert len(str(run.compare()).splitlines()) == 1


def test_an_imported_run_can_be_read(finished: proctor.Run, tmp_path: Path) -> None:
    trial = finished.trial("demo__roman-1", arm="tools")
    row = {"instance_id": trial.task, "model_name_or_path": "other", "model_patch": trial.patch}
    predictions = tmp_path / "predictions.jsonl"
    predictions.write_text(json.dumps(row) + "\n")
    out = tmp_path / "imported"
    arguments = ["import", str(predictions), "--format", "swebench", "--out", str(out)]
    subprocess.run([proctor.binary(), *arguments], check=True, capture_output=True)
    run = proctor.Run(out)
    assert [(arm.name, arm.trials, arm.complete) for arm in run.arms] == [("other", 1, False)]
    imported = run.trial(trial.task)
    assert (imported.patch, imported.verdict) == (trial.patch, None)
    assert len(run.frame("trials", to="records")) == 1


def program(folder: Path, text: str) -> str:
    """Creates an agent's folder for `scaffold = "process"`, with the package next to the agent's file."""
    source = Path(proctor.__file__).parent
    shutil.copytree(source, folder / "agent/lib/proctor", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "agent/agent.py").write_text(text)
    start = "import sys; sys.path.insert(0, '/agent/lib'); from proctor._driver import main; main(sys.argv[1:])"
    words = ["/usr/bin/python3", "-I", "-u", "-c", start, "/agent/agent.py", "drive"]
    return (
        '[[arms]]\nname = "mine"\nscaffold = "process"\nmodel = "m"\n[arms.settings]\n'
        f'program = "agent"\nidle_seconds = 60\ncommand = {json.dumps(words)}\n'
    )


def test_the_driver_speaks_the_protocol_of_process_scaffolds(tmp_path: Path) -> None:
    text = (ROOT / "scaffolds/python/examples/plain_agent.py").read_text()
    config = stage(tmp_path, [call("shell", command=SOLUTION), call("submit")], program(tmp_path, text))
    run = proctor.run(config, out=tmp_path / "out", progress=False)
    (trial,) = run.trials
    assert (trial.outcome, trial.resolved, trial.steps) == ("submitted", True, 2)


def test_a_crashed_agent_is_no_silent_zero(tmp_path: Path) -> None:
    text = '''
import proctor

@proctor.scaffold
def drive(session):
    session.log("about to ask")
    answer = session.ask([{"role": "user", "content": session.brief.statement}])
    session.log("about to crash")
    raise ValueError("boom")
'''
    config = stage(tmp_path, [call("shell", command="ls -R .")], program(tmp_path, text))
    run = proctor.run(config, out=tmp_path / "out", progress=False)
    (trial,) = run.trials
    assert (trial.outcome, trial.cause, trial.fault) == ("scaffold_exited", "crashed", None)
    assert trial.why is not None and "ValueError: boom" in trial.why
    warning = "mine: warning: the scaffold failed in 1 of 1 trial (100%: 1 crashed)"
    assert any(remark.startswith(warning) for remark in run.remarks), run.remarks
    # The report prints the same sentences.
    report = subprocess.run(
        [proctor.binary(), "report", str(run.path), "--findings"], capture_output=True, text=True, check=True
    )
    printed = " ".join(report.stdout.split())
    assert all(" ".join(remark.split()) in printed for remark in run.remarks), report.stdout
    # The call never ran, and the traceback is shown.
    shown = trial.show()
    assert "shell: ls -R . [1 call not recorded as run]" in shown
    assert "log (step 0): about to ask" in shown and "log (step 1): about to crash" in shown
    assert 'raise ValueError("boom")' in shown and "scaffold/stderr.log" in shown
    assert f"proctor shell {run.path} --trial {trial.task}/mine/1" in shown
    step = trial.show(step=1)
    assert "the record does not show that it ran" in step and "about to crash" in step


def test_a_crash_before_the_first_request_advises_a_new_run(tmp_path: Path) -> None:
    config = stage(tmp_path, [call("submit")], program(tmp_path, "import nothing_of_that_name\n"))
    with pytest.raises(proctor.IncompleteRun, match="nothing_of_that_name") as error:
        proctor.run(config, out=tmp_path / "out", progress=False)
    assert error.value.hint and "start a new run" in error.value.hint
    (trial,) = error.value.run.trials
    assert trial.fault is not None and "RUN --trial" not in trial.fault
    assert "No module named 'nothing_of_that_name'" in trial.show()


def test_an_agent_acts_in_the_sandbox_and_cannot_pass_a_limit(tmp_path: Path) -> None:
    text = '''
import proctor

@proctor.scaffold
def drive(session):
    session.write("note.txt", "one\\n")
    session.edit("note.txt", "one", "two")
    assert session.read("note.txt") == "two\\n"
    done = session.shell("cat note.txt; echo problem >&2; exit 3")
    assert (done.stdout, done.stderr, done.exit_status) == ("two\\n", "problem\\n", 3), done
    try:
        session.read("missing.txt")
    except proctor.Refused as error:
        session.log(str(error))
    print("printed")
    while True:
        try:
            session.ask([{"role": "user", "content": "go on"}], [])
        except Exception:
            pass
'''
    config = stage(
        tmp_path, [{"content": "yes"}] * 5, program(tmp_path, text), budget="steps = 2"
    )
    run = proctor.run(config, out=tmp_path / "out", progress=False)
    (trial,) = run.trials
    assert (trial.outcome, trial.steps, trial.limit) == ("budget_steps", 2, "steps"), trial.data
    journals = list((tmp_path / "out").rglob("stderr.log"))
    assert "printed" in journals[0].read_text()


PYTHON = '[[arms]]\nname = "mine"\nscaffold = "python:agent.py:drive"\nmodel = "m"\n'


def knows_python_arms(tmp_path: Path) -> bool:
    shutil.copy(ROOT / "scaffolds/python/examples/plain_agent.py", tmp_path / "agent.py")
    config = stage(tmp_path, [call("submit")], PYTHON)
    try:
        _carry_out(["run", str(config), "--dry-run"], tmp_path, False)
    except proctor.ConfigError as error:
        return "unknown scaffold" not in error.message
    return True


def test_a_python_arm_must_name_a_function_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("import proctor\ndef driver(session): ...\n")
    config = stage(tmp_path, [call("submit")], PYTHON)
    with pytest.raises(proctor.ConfigError, match="has no function `drive`") as error:
        proctor.run(config, out=tmp_path / "out", progress=False)
    assert error.value.hint == "did you mean `driver`?"
    assert "arms.0.scaffold" in error.value.message
    assert not (tmp_path / "out").exists()


def test_built_in_files_are_found_by_name(tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    config.write_text(
        'tasks = ["tasks/demo.jsonl"]\n[budget]\nsteps = 30\n'
        '[[arms]]\nname = "tools"\nscaffold = "tools"\nmodel = "scripted"\n'
        '[models.scripted]\nbase_url = "script:scripts/demo.toml"\nname = "scripted-demo"\n'
        "price = { input = 0.0, output = 0.0 }\n"
    )
    run = proctor.run(config, out=tmp_path / "out", progress=False)
    assert [trial.resolved for trial in run.trials] == [True]
    based = tmp_path / "based.toml"
    based.write_text('base = "demo"\n[[arms]]\nname = "extra"\nscaffold = "tools"\nmodel = "scripted"\n'
                     "budget = { steps = 2 }\n")
    run = proctor.run(based, out=tmp_path / "two", tasks=["demo__*"], arms=["extra"], progress=False)
    assert [(trial.arm, trial.steps) for trial in run.trials] == [("extra", 2)]


def test_the_guide_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the guide's two-arm run, its comparison, its curve and its configuration file."""
    page = (ROOT / "docs/guides/python.md").read_text()
    blocks = [block.split("\n", 1)[1] for block in page.split("```")[1::2]]

    def block(part: str) -> str:
        (found,) = [block for block in blocks if part in block]
        return found

    for name in ("my_agent.py", "two.toml"):
        (tmp_path / name).write_text(block(f"# {name}\n"))
    monkeypatch.chdir(tmp_path)
    drawn: list[tuple[list[float], list[float], str]] = []
    pyplot = types.ModuleType("matplotlib.pyplot")
    vars(pyplot).update(
        plot=lambda x, y, label: drawn.append((x, y, label)), legend=lambda: None, savefig=lambda name: None
    )
    matplotlib = types.ModuleType("matplotlib")
    vars(matplotlib).update(pyplot=pyplot)
    monkeypatch.setitem(sys.modules, "matplotlib", matplotlib)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", pyplot)
    # The demo's other task needs PyPI.
    two = block('proctor.run("demo"').replace('out="runs/two"', 'out="runs/two", tasks=["demo__*"]')
    names: dict[str, Any] = {}
    exec(two, names)
    exec(block("one.pair(").replace('run.compare(proctor.Run("runs/y"))', ""), names)
    exec(block("plt.legend"), names)
    assert [label for _, _, label in drawn] == ["tools"]
    assert drawn[0][1][0] == 0.0 and drawn[0][1][-1] == 1.0
    assert names["one"].difference == 1.0
    run = proctor.run("two.toml", progress=False)
    assert [(trial.arm, trial.resolved) for trial in run.trials] == [("tools", True), ("mine", True)]


def test_a_python_arm_runs_in_its_own_sandbox(tmp_path: Path) -> None:
    if not os.environ.get("PROCTOR_TEST_ALL") and not knows_python_arms(tmp_path):
        pytest.skip("this binary has no python: arms")
    shutil.copy(ROOT / "scaffolds/python/examples/plain_agent.py", tmp_path / "agent.py")
    arms = PYTHON + f'interpreter = "{sys.executable}"\n'
    config = stage(tmp_path, [call("shell", command=SOLUTION), call("submit")], arms)
    run = proctor.run(config, out=tmp_path / "out", progress=False)
    (trial,) = run.trials
    assert (trial.outcome, trial.resolved, trial.steps) == ("submitted", True, 2), trial.data
