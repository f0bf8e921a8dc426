"""Runs the examples as `python:` arms with the agents' libraries. CI installs these; otherwise they may be missing."""

from __future__ import annotations

import importlib.util
import os
import shutil
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


def run_example(folder: Path, example: str, turns: list[dict[str, Any]], budget: str) -> proctor.Trial:
    if not os.environ.get("PROCTOR_TEST_ALL") and not knows_python_arms(folder):
        pytest.skip("this binary has no python: arms")
    shutil.copy(EXAMPLES / example, folder / "agent.py")
    arms = PYTHON + f'interpreter = "{sys.executable}"\n'
    config = stage(folder, turns, arms, budget=budget)
    (trial,) = proctor.run(config, out=folder / "out", progress=False).trials
    return trial


MINI = [
    call("bash", command="ls numerals"),
    call("bash", command=SOLUTION),
    call("bash", command="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"),
]
SMOL = [call("shell", command=SOLUTION), call("final_answer", answer="done")]


@pytest.mark.parametrize(
    ("name", "example", "turns"),
    [
        ("minisweagent", "mini_swe_agent.py", MINI),
        ("smolagents", "smolagents_agent.py", SMOL),
        ("json", "plain_agent.py", [call("shell", command=SOLUTION), call("submit")]),
    ],
)
def test_an_example_solves_the_task_and_keeps_to_its_limit(
    tmp_path: Path, name: str, example: str, turns: list[dict[str, Any]]
) -> None:
    library(name)
    trial = run_example(tmp_path, example, turns, "steps = 20")
    assert (trial.outcome, trial.resolved, trial.steps) == ("submitted", True, len(turns)), trial.data
    assert trial.patch is not None and "from_roman" in trial.patch
    (tmp_path / "limited").mkdir()
    trial = run_example(tmp_path / "limited", example, turns, "steps = 1")
    assert (trial.outcome, trial.steps) == ("budget_steps", 1), trial.data
