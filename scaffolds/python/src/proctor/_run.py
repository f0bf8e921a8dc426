"""Starts runs and reads them."""

from __future__ import annotations

import collections
import json
import numbers
import os
import signal
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Optional, Union, overload

from . import _binary, _frames
from ._errors import ConfigError, EndpointError, IncompleteRun, error_of, in_python
from ._progress import Progress
from ._results import Arm, Comparison, Curve, Trial, first_names, select, select_names

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

PathLike = Union[str, "os.PathLike[str]"]
TableName = Literal["trials", "steps", "tests"]

#: Exit status if a run has ended and some trials have no verdict.
INCOMPLETE = 3
INTERRUPTED = 130
#: What the hint of a fault says if resuming cannot help, because the run keeps its copy of the agent.
NEW_RUN = "start a new run"
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
        """The output of ``proctor report --format json``: ``arms``, ``tasks`` (one entry per trial), ``findings`` and
        more (docs/reference/report.md). ``arms``, ``trials`` and ``remarks`` of this class are views of it."""
        return self._read()

    @property
    def complete(self) -> bool:
        """Whether every planned trial has a verdict."""
        return all(arm.complete for arm in self.arms)

    @property
    def remarks(self) -> list[str]:
        """The warnings and notes that the report prints below its tables, such as trials that crashed, failures at a
        limit, and suspect verdicts."""
        report = self._read()
        # Older binaries have only remarks.
        return [finding["text"] for finding in report.get("findings", [])] or list(report.get("remarks", []))

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
        """Returns one trial. ``task`` is an id, or a part of only one id. ``arm`` is a name or id, or a part of only
        one. It is optional if the run has a single arm. `proctor show` uses the same rule."""
        trials = self.trials
        # Match the names of all trials, so that the same part selects the same arm for every task.
        tasks = select_names((one.task for one in trials), task)
        if len(tasks) > 1:
            raise LookupError(f"{task!r} matches several tasks: {first_names(tasks)}")
        found = [one for one in trials if one.task in tasks and one.attempt == attempt]
        if arm is not None:
            known = ((one.arm, one.arm_id) for one in trials)
            arms = select(known, arm, lambda names: names)
            if len({name for name, _ in arms}) > 1:
                raise LookupError(f"{arm!r} matches several arms: {first_names(name for name, _ in arms)}")
            found = [one for one in found if (one.arm, one.arm_id) in arms]
        if len(found) == 1:
            return found[0]
        wanted = f"{task!r}, arm {arm!r}, attempt {attempt}"
        problem = f"{len(found)} trials match" if found else "no trial matches"
        all_tasks = first_names(sorted({one.task for one in trials}))
        all_arms = first_names(sorted({one.arm for one in trials}))
        raise LookupError(f"{problem} {wanted}; tasks: {all_tasks}; arms: {all_arms}")

    def compare(self, *others: Union[Run, PathLike]) -> Comparison:
        """Compares arms, based on the tasks that they have in common.

        Without arguments, compares all arms of this run. Pass other runs, or their paths, to include their arms. Pass
        names of arms to get only their pairs: ``run.compare("a", "b")``. Text that is not the name of an arm of this
        run is a path if it exists, else a part of an arm's name.
        """
        runs, arms = [str(self.path)], []
        for one in others:
            if isinstance(one, Run):
                runs.append(str(one.path))
            elif isinstance(one, str) and (self._has_arm(one) or not os.path.exists(one)):
                arms.append(one)
            else:
                runs.append(os.fspath(one))
        try:
            comparison = Comparison.of(_binary.output_json(["compare", "--format", "json", "--", *runs]))
        except ConfigError as error:
            if "nothing to compare with" not in error.message:
                raise
            names = {arm.id: arm.name for run in runs for arm in Run(run).arms}
            note = f"nothing to compare with: {first_names(names.values())} is the only arm"
            empty: dict[str, Any] = {"pairs": [], "controls": []}
            return Comparison(pairs=[], controls=[], data=empty, note=note)
        return comparison.only(*arms) if arms else comparison

    def _has_arm(self, name: str) -> bool:
        return any(arm.name == name for arm in self.arms)

    def curve(
        self,
        *,
        steps: Optional[Iterable[int]] = None,
        tokens: Optional[Iterable[int]] = None,
        cost: Optional[Iterable[float]] = None,
        seconds: Optional[Iterable[float]] = None,
        every: bool = False,
        arms: Iterable[str] = (),
        allow_truncated: bool = False,
    ) -> Curve:
        """Computes what the results would be under smaller limits, without calling a model. Pass one kind of limit.

        If ``every`` is true, also finds the step at which each trial first resolves its task. ``allow_truncated``
        includes arms whose model knew its limits, and might have behaved differently with smaller ones. Arms that
        differ only in this limit share the curve of the arm with the largest limit: ``notes`` names the others.
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
        if allow_truncated:
            arguments.append("--allow-truncated")
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
    **unknown: NoReturn,
) -> Run:
    """Runs a configuration and returns the run.

    ``set`` overrides keys of the configuration: ``{"attempts": 3, "budget.steps": 100}``. The other parameters are
    options of ``proctor run``.

    Raises ConfigError if no trial could be started, and IncompleteRun if some trials have no verdict. If a model's
    endpoint is the cause, this is an EndpointError. A second Ctrl-C stops immediately, as in a terminal.
    """
    if unknown:
        name = next(iter(unknown))
        given: Any = unknown[name]
        raise ConfigError(
            f"proctor.run has no parameter `{name}`",
            hint=f'for a key of the configuration, use set={{"{name}": {given!r}}}',
        )
    arguments = ["run", os.fspath(config)]
    if out is not None:
        arguments += ["--out", os.fspath(out)]
    try:
        for key, value in (set or {}).items():
            arguments += ["--set", f"{key}={toml(value)}"]
    except ConfigError as error:
        # Omit the frames of the nested values.
        raise error.with_traceback(None) from None
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
    """Returns a value in TOML syntax. Raises ConfigError if it has none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(os.fspath(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        items = (f"{json.dumps(str(key), ensure_ascii=False)} = {toml(one)}" for key, one in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(toml(one) for one in value) + "]"
    if callable(value):
        name = getattr(value, "__name__", "FUNCTION")
        raise ConfigError(
            f"a configuration cannot contain the function `{name}`, because agents run in their own sandbox",
            hint=f'save it to a file (in a notebook, begin its cell with "%%writefile agents.py") and use '
            f'"python:agents.py:{name}"',
        )
    raise ConfigError(
        f"{value!r} has no form in a configuration",
        hint="use text, numbers, booleans, paths, lists and dictionaries; omit keys without a value",
    )


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
    if faults and len(faults) == len(missing) and all(NEW_RUN in fault for fault in faults):
        hint = f"fix the agent and {NEW_RUN} with another `out`; proctor.resume runs this run's copy of the agent"
    if of_model or halted:
        # The binary abbreviates a repeated error to "same error as ...". The report contains the
        # whole error.
        why = of_model[0] if of_model else halted
        message = f"{count}: {in_python(why or '')}"
        return EndpointError(message, run=run, hint=hint, status=INCOMPLETE)
    why = f": {in_python(faults[0])}" if faults else ""
    return IncompleteRun(f"{count}{why}", run=run, hint=hint, status=INCOMPLETE)
