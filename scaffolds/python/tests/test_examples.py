"""Runs the examples as `python:` arms with the agents' libraries. CI installs these; otherwise they may be missing."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import proctor

from conftest import ROOT
from test_runs import PYTHON, SOLUTION, call, knows_python_arms, stage

EXAMPLES = ROOT / "scaffolds/python/examples"


def library(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        if os.environ.get("PROCTOR_TEST_ALL"):
            raise RuntimeError(f"{name} is not installed: see the example's first lines")
        pytest.skip(f"{name} is not installed")


def back_end(kind: str) -> None:
    """Skips a test if Docker is missing. CI requires Docker."""
    if kind != "docker":
        return
    try:
        done = subprocess.run(["docker", "info"], capture_output=True, check=False)
        answers = done.returncode == 0
    except OSError:
        answers = False
    if not answers:
        if os.environ.get("PROCTOR_REQUIRE_DOCKER"):
            raise RuntimeError("Docker is not responding, and PROCTOR_REQUIRE_DOCKER is set")
        pytest.skip("Docker is not responding")


def run_example(
    folder: Path, example: str, turns: list[dict[str, Any]], budget: str, kind: str, more: str = ""
) -> list[proctor.Trial]:
    """Runs the example, and the arms in `more`, and returns their trials."""
    if not os.environ.get("PROCTOR_TEST_ALL") and not knows_python_arms(folder):
        pytest.skip("this binary has no python: arms")
    shutil.copy(EXAMPLES / example, folder / "agent.py")
    arms = PYTHON + f'interpreter = "{sys.executable}"\n' + more
    config = stage(folder, turns, arms, budget=budget, kind=kind)
    return proctor.run(config, out=folder / "out", progress=False).trials


MINI = [
    call("bash", command="ls numerals"),
    call("bash", command=SOLUTION),
    call("bash", command="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"),
]
SMOL = [call("shell", command=SOLUTION), call("final_answer", answer="done")]


@pytest.mark.parametrize("kind", ["native", "docker"])
@pytest.mark.parametrize(
    ("name", "example", "turns"),
    [
        ("minisweagent", "mini_swe_agent.py", MINI),
        ("smolagents", "smolagents_agent.py", SMOL),
        ("json", "plain_agent.py", [call("shell", command=SOLUTION), call("submit")]),
    ],
)
def test_an_example_solves_the_task_and_keeps_to_its_limit(
    tmp_path: Path, name: str, example: str, turns: list[dict[str, Any]], kind: str
) -> None:
    library(name)
    back_end(kind)
    (trial,) = run_example(tmp_path, example, turns, "steps = 20", kind)
    assert (trial.outcome, trial.resolved, trial.steps) == ("submitted", True, len(turns)), trial.data
    assert trial.patch is not None and "from_roman" in trial.patch
    limited = tmp_path / "limited"
    limited.mkdir()
    (trial,) = run_example(limited, example, turns, "steps = 1", kind)
    assert (trial.outcome, trial.steps) == ("budget_steps", 1), trial.data


def seconds_to_first_request(trial: proctor.Trial) -> float:
    """Returns how long the agent took from a ready sandbox to its first request."""
    events = trial.events()
    ready = next(event for event in events if event["kind"] == "setup_finished")
    first = next(event for event in events if event["kind"] == "model_attempted")
    # The event is recorded when the response is complete.
    return float(first["t_mono"] - (first.get("seconds") or 0.0) - ready["t_mono"])


BUNDLED = '[[arms]]\nname = "bundled"\nscaffold = "mini-swe-agent"\nmodel = "m"\n'


@pytest.mark.skipif(
    os.environ.get("PROCTOR_TIER") != "full", reason="downloads the bundle of mini-swe-agent"
)
@pytest.mark.parametrize("kind", ["native", "docker"])
def test_mini_swe_agent_takes_the_same_steps_as_the_bundled_one(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    library("minisweagent")
    back_end(kind)
    for steps, outcome in [(20, "submitted"), (2, "budget_steps")]:
        folder = tmp_path / str(steps)
        folder.mkdir()
        trials = run_example(folder, "mini_swe_agent.py", MINI, f"steps = {steps}", kind, BUNDLED)
        own, bundled = sorted(trials, key=lambda trial: trial.arm == "bundled")
        for trial in (own, bundled):
            taken = (trial.outcome, trial.resolved, trial.steps)
            assert taken == (outcome, True, min(steps, len(MINI))), trial.data
        assert own.patch == bundled.patch
        with capsys.disabled():
            print(
                f"\n{kind}, {steps} steps: first request after {seconds_to_first_request(own):.1f} s,"
                f" bundled {seconds_to_first_request(bundled):.1f} s"
            )
