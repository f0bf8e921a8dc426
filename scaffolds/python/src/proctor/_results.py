"""The typed results of a run. Each contains the JSON from the binary in ``data``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional
from urllib.parse import quote_from_bytes, unquote_to_bytes

from . import _binary
from ._errors import ConfigError

JSON = Mapping[str, Any]


def select_names(names: Iterable[str], query: str) -> list[str]:
    """Returns the query if it is a name. Otherwise, returns the names that start with it, or else the names that
    contain it, regardless of case. `proctor show` uses the same rule."""
    distinct = list(dict.fromkeys(names))
    if query in distinct:
        return [query]
    wanted = query.lower()
    starting = [name for name in distinct if name.lower().startswith(wanted)]
    return starting or [name for name in distinct if wanted in name.lower()]


def _interval(ends: Optional[list[float]]) -> Optional[tuple[float, float]]:
    return (ends[0], ends[1]) if ends else None


@dataclass(frozen=True)
class Arm:
    """The results of one arm. Rates are relative to all planned trials."""

    id: str
    name: str
    trials: int
    graded: int
    complete: bool
    resolved: int
    resolved_rate: float
    #: The 95% confidence interval of ``resolved_rate``, clustered by task.
    interval: Optional[tuple[float, float]]
    passed_rate: float
    #: In US dollars; None if the price of any response is unknown.
    cost_usd: Optional[float]
    scaffold: Optional[str]
    model: Optional[str]
    data: JSON = field(repr=False)

    @classmethod
    def of(cls, data: JSON) -> Arm:
        return cls(
            id=data["arm"],
            name=data["name"],
            trials=data["trials"],
            graded=data["graded"],
            complete=data["complete"],
            resolved=data["resolved"],
            resolved_rate=data["resolved_rate"],
            interval=_interval(data.get("intervals", {}).get("resolved_rate")),
            passed_rate=data["passed_rate"],
            cost_usd=data["cost_usd"] if data.get("cost_known") else None,
            scaffold=data.get("scaffold"),
            model=data.get("model"),
            data=data,
        )


@dataclass(frozen=True)
class TreeEntry:
    """An entry of the work directory. ``path`` is relative; bytes that are not UTF-8 are surrogate escapes."""

    path: str
    #: ``file``, ``dir``, ``link`` or ``other``.
    kind: str
    #: Permission bits.
    mode: int
    #: Size in bytes.
    size: int
    hash: Optional[str]
    #: The target of a symbolic link.
    link: Optional[str]


class Tree(Mapping[str, TreeEntry]):
    """The work directory after a step: a mapping of paths to entries. ``read`` returns a file's content."""

    def __init__(self, trial: Trial, step: Optional[int], entries: list[JSON]) -> None:
        self._trial = trial
        self._step = step
        self._entries: dict[str, TreeEntry] = {}
        for entry in entries:
            path, link = _path(entry["path"]), entry.get("link")
            self._entries[path] = TreeEntry(
                path=path,
                kind=entry["kind"],
                mode=entry["mode"],
                size=entry["size"],
                hash=entry.get("hash"),
                link=None if link is None else _path(link),
            )

    def __getitem__(self, path: str) -> TreeEntry:
        return self._entries[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        step = "the end" if self._step is None else f"step {self._step}"
        return f"<Tree of {self._trial.task} after {step}: {len(self)} paths>"

    def read(self, path: str) -> bytes:
        """Returns the content of a file."""
        if path not in self._entries:
            raise KeyError(path)
        escaped = quote_from_bytes(os.fsencode(path), safe=_PLAIN)
        return self._trial._part("file", self._step, "--path", escaped)


#: The binary writes these characters of a path as they are, and all other bytes as %XX.
_PLAIN = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")


def _path(escaped: str) -> str:
    return os.fsdecode(unquote_to_bytes(escaped))


@dataclass(frozen=True)
class Trial:
    """A trial: one attempt of an arm at a task. Data that is not in the table of trials is loaded on first access."""

    task: str
    #: The arm's name.
    arm: str
    arm_id: str
    attempt: int
    #: None until the trial has ended.
    outcome: Optional[str]
    #: None if there is no verdict.
    resolved: Optional[bool]
    passed_rate: Optional[float]
    #: Why the task was not resolved.
    reason: Optional[str]
    #: The limit that ended the trial, if it was one of the trial's own.
    limit: Optional[str]
    integrity: Optional[str]
    steps: Optional[int]
    #: In US dollars.
    cost_usd: Optional[float]
    #: In seconds.
    wall_seconds: Optional[float]
    data: JSON = field(repr=False)
    run: str = field(repr=False)

    @classmethod
    def of(cls, data: JSON, run: str, names: Mapping[str, str]) -> Trial:
        return cls(
            task=data["task"],
            arm=names.get(data["arm"], data["arm"]),
            arm_id=data["arm"],
            attempt=data["attempt"],
            outcome=data["outcome"],
            resolved=data["resolved"],
            passed_rate=data["passed_rate"],
            reason=data.get("reason"),
            limit=data.get("limit"),
            integrity=data.get("integrity"),
            steps=data.get("steps"),
            cost_usd=data.get("cost_usd"),
            wall_seconds=data.get("wall_seconds"),
            data=data,
            run=run,
        )

    def _part(self, part: str, step: Optional[int] = None, *more: str) -> bytes:
        return self._show(step, "--print", part, *more)

    def _show(self, step: Optional[int], *options: str) -> bytes:
        arguments = ["show", *options]
        if step is not None:
            arguments += ["--step", str(step)]
        # The name may start with a dash.
        return _binary.output([*arguments, "--", self.run, self.task, self.arm_id, str(self.attempt)])

    def events(self) -> list[dict[str, Any]]:
        """Returns the trial's events, oldest first: requests, responses, tool calls, snapshots (docs/reference/events.md)."""
        return [json.loads(line) for line in self._part("events").splitlines()]

    @property
    def patch(self) -> Optional[str]:
        """The patch; None until the trial has ended. Bytes that are not UTF-8 are surrogate escapes."""
        try:
            return self._part("patch").decode("utf-8", "surrogateescape")
        except ConfigError as error:
            if "has no patch" in error.message:
                return None
            raise

    @property
    def verdict(self) -> Optional[dict[str, Any]]:
        """The verdict with the status of each test; None if the trial has no verdict."""
        verdict: Optional[dict[str, Any]] = json.loads(self._part("verdict"))
        return verdict

    def show(self, step: Optional[int] = None) -> str:
        """Returns the output of ``proctor show``: the steps, and up to ten failed tests with their tracebacks.

        With ``step``, returns one step in full: the message, tool calls, outputs and file changes.
        """
        return self._show(step).decode("utf-8", "replace")

    def tree(self, step: Optional[int] = None) -> Tree:
        """Returns the work directory after a step. Step 0 is the initial state; the default is the final state."""
        return Tree(self, step, json.loads(self._part("tree", step)))


@dataclass(frozen=True)
class Pair:
    """The comparison of two arms in one metric."""

    a: str
    b: str
    metric: str
    #: Number of tasks for which both arms have results.
    tasks: int
    difference: Optional[float]
    #: The 95% confidence interval of the difference.
    interval: Optional[tuple[float, float]]
    p_value: Optional[float]
    p_adjusted: Optional[float]
    #: Whether the data shows a difference between the arms.
    distinguishable: bool
    #: The result in one sentence.
    sentence: str
    data: JSON = field(repr=False)

    @classmethod
    def of(cls, data: JSON) -> Pair:
        return cls(
            a=data["a"],
            b=data["b"],
            metric=data["metric"],
            tasks=data["tasks"],
            difference=data.get("difference"),
            interval=_interval(data.get("interval")),
            p_value=data.get("p_value"),
            p_adjusted=data.get("p_adjusted"),
            distinguishable=data["distinguishable"],
            sentence=data.get("sentence", ""),
            data=data,
        )


@dataclass(frozen=True)
class Comparison:
    """The comparisons of all pairs of arms. Pairs with a control arm are in ``controls``."""

    pairs: list[Pair]
    controls: list[Pair]
    data: JSON = field(repr=False)

    @classmethod
    def of(cls, data: JSON) -> Comparison:
        return cls(
            pairs=[Pair.of(pair) for pair in data["pairs"]],
            controls=[Pair.of(pair) for pair in data.get("controls", [])],
            data=data,
        )

    def __str__(self) -> str:
        # If two arms cannot be compared, all their metrics have the same sentence.
        sentences = dict.fromkeys(pair.sentence for pair in [*self.pairs, *self.controls])
        return "\n".join(sentence for sentence in sentences if sentence)


@dataclass(frozen=True)
class Point:
    """The results of one arm under one budget."""

    arm: str
    #: ``steps``, ``tokens``, ``cost`` or ``seconds``.
    budget: str
    at: float
    trials: int
    graded: int
    resolved: int
    resolved_rate: float
    interval: Optional[tuple[float, float]]
    passed_rate: float
    data: JSON = field(repr=False)

    @classmethod
    def of(cls, data: JSON) -> Point:
        return cls(
            arm=data["name"],
            budget=data["budget"],
            at=data["at"],
            trials=data["trials"],
            graded=data["graded"],
            resolved=data["resolved"],
            resolved_rate=data["resolved_rate"],
            interval=_interval(data.get("interval")),
            passed_rate=data["passed_rate"],
            data=data,
        )


@dataclass(frozen=True)
class Curve:
    """Results under smaller limits, computed from the run's snapshots."""

    points: list[Point]
    #: The step at which each trial first resolves its task. Only with ``every=True``.
    first_resolved: list[JSON]
    data: JSON = field(repr=False)

    @classmethod
    def of(cls, data: JSON) -> Curve:
        return cls(
            points=[Point.of(point) for point in data["points"]],
            first_resolved=list(data.get("first_resolved", [])),
            data=data,
        )

    def series(self, arm: str) -> tuple[list[float], list[float]]:
        """Returns an arm's budgets and resolved rates for plotting. ``arm`` is a name, or a part of only one name."""
        found = select_names((point.arm for point in self.points), arm)
        if len(found) != 1:
            problem = f"{arm!r} matches several arms" if found else f"unknown arm {arm!r}"
            known = ", ".join(found or sorted({point.arm for point in self.points}))
            raise KeyError(f"{problem}; the curve has: {known}")
        points = sorted((point for point in self.points if point.arm == found[0]), key=lambda p: p.at)
        return [point.at for point in points], [point.resolved_rate for point in points]
