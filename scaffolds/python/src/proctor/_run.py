"""Starts runs and reads them."""

from __future__ import annotations

import collections
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Optional, Union, overload

from . import _binary, _frames
from ._errors import EndpointError, IncompleteRun, error_of
from ._progress import Progress
from ._results import Arm, Comparison, Curve, Trial, select_names

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

PathLike = Union[str, "os.PathLike[str]"]
TableName = Literal["trials", "steps", "tests"]

#: Exit status if a run has ended and some trials have no verdict.
INCOMPLETE = 3
INTERRUPTED = 130
#: Number of lines from stderr to keep for error messages.
TAIL = 200


class Run:
    """A run directory: finished, in progress, or imported. Results are loaded on first access and cached
    until ``refresh``."""

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        self._report: Optional[dict[str, Any]] = None
        # Report a wrong path here, not at the first access.
        self._read()

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def _read(self) -> dict[str, Any]:
        if self._report is None:
            report: dict[str, Any] = _binary.output_json(
                ["report", "--format", "json", "--", str(self.path)]
            )
            self._report = report
        return self._report

    def refresh(self) -> Run:
        """Clears cached results. The next access then shows the current state of a run in progress."""
        self._report = None
        return self

    @property
    def report(self) -> dict[str, Any]:
        """The output of ``proctor report --format json``."""
        return self._read()

    @property
    def complete(self) -> bool:
        """Whether every planned trial has a verdict."""
        return all(arm.complete for arm in self.arms)

    @property
    def remarks(self) -> list[str]:
        """Caveats about the results: the report's remarks, then one sentence per suspect or contaminated verdict."""
        doubtful = [trial for trial in self.trials if trial.integrity in ("suspect", "contaminated")]
        return [*self._read().get("remarks", []), *map(_doubt, doubtful)]

    @property
    def arms(self) -> list[Arm]:
        """The arms, in the order of the plan."""
        return [Arm.of(data) for data in self._read()["arms"]]

    @property
    def trials(self) -> list[Trial]:
        """Every planned trial, in the order of the plan."""
        report = self._read()
        names = {arm["arm"]: arm["name"] for arm in report["arms"]}
        return [Trial.of(data, str(self.path), names) for data in report["tasks"]]

    def trial(self, task: str, arm: Optional[str] = None, attempt: int = 1) -> Trial:
        """Returns one trial. ``arm`` is a name, a part of only one name, or an id. It is optional if the run has a
        single arm."""
        trials = self.trials
        found = [one for one in trials if one.task == task and one.attempt == attempt]
        if arm is not None:
            # Match the names of all arms, so that the same part selects the same arm for every task.
            names = select_names((one.arm for one in trials), arm)
            if len(names) > 1:
                raise LookupError(f"{arm!r} matches several arms: {_first(names)}")
            found = [one for one in found if one.arm in names or one.arm_id == arm]
        if len(found) == 1:
            return found[0]
        tasks = sorted({one.task for one in trials})
        arms = sorted({one.arm for one in trials})
        wanted = f"{task!r}, arm {arm!r}, attempt {attempt}"
        problem = f"{len(found)} trials match" if found else "no trial matches"
        raise LookupError(
            f"{problem} {wanted}; tasks: {_first(tasks)}; arms: {_first(arms)}"
        )

    def compare(self, *others: Union[Run, PathLike]) -> Comparison:
        """Compares the arms of this run and other runs, based on the tasks that they have in common."""
        runs = [str(one.path if isinstance(one, Run) else one) for one in (self, *others)]
        return Comparison.of(_binary.output_json(["compare", "--format", "json", "--", *runs]))

    def curve(
        self,
        *,
        steps: Optional[Iterable[int]] = None,
        tokens: Optional[Iterable[int]] = None,
        cost: Optional[Iterable[float]] = None,
        seconds: Optional[Iterable[float]] = None,
        every: bool = False,
        arms: Iterable[str] = (),
    ) -> Curve:
        """Computes what the results would be under smaller limits, without calling a model. Pass one kind of limit.

        If ``every`` is true, also finds the step at which each trial first resolves its task.
        """
        kinds = {"steps": steps, "tokens": tokens, "cost": cost, "seconds": seconds}
        given = {kind: list(values) for kind, values in kinds.items() if values is not None}
        if len(given) > 1:
            raise ValueError(f"pass one kind of limit, not {' and '.join(given)}")
        arguments = ["curve", "--format", "json"]
        for kind, values in given.items():
            arguments += ["--at", f"{kind}={','.join(str(value) for value in values)}"]
        if every:
            arguments.append("--every")
        for pattern in arms:
            arguments += ["--arms", pattern]
        # The exit status of a run in progress is INCOMPLETE, but its points are valid results.
        accept = (0, INCOMPLETE)
        return Curve.of(
            _binary.output_json([*arguments, "--", str(self.path)], accept=accept)
        )

    @overload
    def frame(self, name: TableName, to: Literal["records"]) -> list[dict[str, Any]]: ...
    @overload
    def frame(self, name: TableName, to: Literal["arrow"]) -> pyarrow.Table: ...
    @overload
    def frame(self, name: TableName, to: Literal["pandas"]) -> pandas.DataFrame: ...
    @overload
    def frame(self, name: TableName, to: Literal["polars"]) -> polars.DataFrame: ...
    @overload
    def frame(self, name: TableName, to: None = None) -> Any: ...

    def frame(self, name: TableName, to: Optional[str] = None) -> Any:
        """Returns a table of the run: ``trials``, ``steps`` or ``tests`` (docs/reference/tables.md lists the columns).

        ``to`` is ``arrow``, ``pandas``, ``polars`` or ``records``. The default is Arrow if pyarrow is installed, else
        a list of dictionaries.
        """
        return _frames.frame(str(self.path), name, to)


def run(
    config: PathLike,
    *,
    out: Optional[PathLike] = None,
    set: Optional[Mapping[str, Any]] = None,  # noqa: A002
    progress: bool = True,
    model: Optional[str] = None,
    tasks: Iterable[str] = (),
    arms: Iterable[str] = (),
    limit: Optional[int] = None,
    jobs: Optional[int] = None,
    extend: bool = False,
) -> Run:
    """Runs a configuration and returns the run.

    ``set`` overrides keys of the configuration: ``{"budget.steps": 100}``. The other parameters are options of
    ``proctor run``.

    Raises ConfigError if no trial could be started, and IncompleteRun if some trials have no verdict. If a model's
    endpoint is the cause, this is an EndpointError. A second Ctrl-C stops immediately, as in a terminal.
    """
    arguments = ["run", os.fspath(config)]
    if out is not None:
        arguments += ["--out", os.fspath(out)]
    for key, value in (set or {}).items():
        arguments += ["--set", f"{key}={toml(value)}"]
    if model is not None:
        arguments += ["--model", model]
    for pattern in tasks:
        arguments += ["--tasks", pattern]
    for pattern in arms:
        arguments += ["--arms", pattern]
    if limit is not None:
        arguments += ["--limit", str(limit)]
    if jobs is not None:
        arguments += ["--jobs", str(jobs)]
    if extend:
        arguments.append("--extend")
    return _carry_out(arguments, None if out is None else Path(out), progress)


def resume(run: Union[Run, PathLike], *, progress: bool = True) -> Run:
    """Continues a run: runs or grades the trials without a verdict. Raises the same errors as ``run``."""
    path = run.path if isinstance(run, Run) else Path(run)
    return _carry_out(["resume", str(path)], path, progress)


def toml(value: Any) -> str:
    """Returns a value in TOML syntax."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(os.fspath(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        items = (f"{json.dumps(str(key), ensure_ascii=False)} = {toml(one)}" for key, one in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(toml(one) for one in value) + "]"
    raise TypeError(f"{value!r} cannot be written as TOML")


def _first(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _doubt(trial: Trial) -> str:
    classes = ", ".join(name.replace("_", " ") for name in trial.data.get("evidence_classes", []))
    evidence = f" ({classes})" if classes else ""
    name = f"{trial.arm} / {trial.task} / {trial.attempt}"
    return f"{name}: the verdict is {trial.integrity}{evidence}; verdict.json has the evidence."


class _Listener:
    """Reads the binary's standard error, which contains progress events and lines for people."""

    def __init__(self, out: Optional[Path], progress: bool) -> None:
        self.out = out
        self.tail: collections.deque[str] = collections.deque(maxlen=TAIL)
        self.halted: Optional[str] = None
        self._bar = Progress(self._total) if progress else None

    def _total(self) -> Optional[int]:
        if self.out is None:
            return None
        try:
            return len(Run(self.out).trials)
        except Exception:  # noqa: BLE001  A bar without a total is better than a failed run.
            return None

    def read(self, stream: Iterable[str]) -> None:
        for line in stream:
            line = line.rstrip("\n")
            if line.startswith("{"):
                try:
                    event = json.loads(line)
                except ValueError:
                    continue
                if self._bar is not None:
                    self._bar.take(event)
                continue
            self.tail.append(line)
            if line.startswith("run directory: ") and self.out is None:
                self.out = Path(line[len("run directory: ") :])
            elif line.startswith("halted: "):
                self.halted = line[len("halted: ") :]
            if self._bar is not None and not line.startswith(("error: ", " hint: ")):
                self._bar.say(line)
        if self._bar is not None:
            self._bar.close()


def _carry_out(arguments: Sequence[str], out: Optional[Path], progress: bool) -> Run:
    listener = _Listener(out, progress)
    process = subprocess.Popen(
        [_binary.binary(), "--progress", "json", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        env=_binary.environment(),
    )
    assert process.stderr is not None
    reader = threading.Thread(target=listener.read, args=(process.stderr,), daemon=True)
    reader.start()
    interrupted = False
    while True:
        try:
            status = process.wait()
            break
        except KeyboardInterrupt:
            # A terminal also sends the signal to the binary. The kernel of a notebook sends it only
            # to this process.
            interrupted = True
            if not _shares_terminal():
                process.send_signal(signal.SIGINT)
    reader.join()
    if interrupted or status == INTERRUPTED:
        raise KeyboardInterrupt
    if status == 0 and listener.out is not None:
        return Run(listener.out)
    stderr = "\n".join(listener.tail)
    if status == INCOMPLETE and listener.out is not None:
        raise _incomplete(Run(listener.out), listener.halted)
    raise error_of(status, stderr)


def _shares_terminal() -> bool:
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _incomplete(run: Run, halted: Optional[str]) -> IncompleteRun:
    missing = [trial for trial in run.trials if trial.resolved is None]
    faults = [str(trial.data["fault"]) for trial in missing if trial.data.get("fault")]
    of_model = [
        str(trial.data["fault"])
        for trial in missing
        if trial.outcome == "infrastructure_fault_model" and trial.data.get("fault")
    ]
    count = f"{len(missing)} of {len(run.trials)} trials have no verdict"
    hint = f"proctor.resume({str(run.path)!r}) continues"
    if of_model or halted:
        # The binary abbreviates a repeated error to "same error as ...". The report contains the
        # whole error.
        why = of_model[0] if of_model else halted
        return EndpointError(f"{count}: {why}", run=run, hint=hint, status=INCOMPLETE)
    why = f": {faults[0]}" if faults else ""
    return IncompleteRun(f"{count}{why}", run=run, hint=hint, status=INCOMPLETE)
