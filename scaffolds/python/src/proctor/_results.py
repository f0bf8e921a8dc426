"""The typed results of a run. Each contains the JSON from the binary in ``data``."""

from __future__ import annotations

import dataclasses
import html
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, TypeVar
from urllib.parse import quote_from_bytes, unquote_to_bytes

from . import _binary
from ._errors import ConfigError

JSON = Mapping[str, Any]
T = TypeVar("T")


def select(items: Iterable[T], query: str, names: Callable[[T], Sequence[str]]) -> list[T]:
    """Returns the items with the name. If there are none, returns the items with a name that starts with it, or else
    with a name that contains it, regardless of case. `proctor show` uses the same rule."""
    distinct = list(dict.fromkeys(items))
    wanted = query.lower()
    tests: list[Callable[[str], bool]] = [
        lambda name: name == query,
        lambda name: name.lower().startswith(wanted),
        lambda name: wanted in name.lower(),
    ]
    for test in tests:
        found = [item for item in distinct if any(map(test, names(item)))]
        if found:
            return found
    return []


def select_names(names: Iterable[str], query: str) -> list[str]:
    """Returns the names that fit a query, by the rule of ``select``."""
    return select(names, query, lambda name: [name])


def first_names(names: Iterable[str], most: int = 5) -> str:
    """Returns the first names as a list for an error message."""
    known = list(dict.fromkeys(names))
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more


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


def _absent_keys() -> dict[str, Any]:
    """Returns the keys that the report omits from a trial if they have these values."""
    return {
        "evidence_classes": [],
        "unverified": [],
        "marks": [],
        "labels": [],
        "exceptions": {},
        "touched": [],
        "grading_touched": [],
        "noise": None,
        "environment": None,
        "policies_differ": {},
        "earlier_tries": {"tries": 0, "steps": 0, "input": 0, "output": 0, "cost_usd": 0.0},
        "outgrown": False,
        "fault": None,
        "grading_fault": None,
        "damage": [],
        "single_shot": None,
        "cause": None,
        "why": None,
        "interruptions": {},
        "spent": None,
        "tool_calls": None,
        "malformed_calls": None,
        "tool_seconds": None,
        "patch_bytes": None,
        "tests": None,
        "repo": None,
        "level": None,
    }


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
    #: Why the scaffold ended the trial: ``crashed``, ``idle``, ``approval``, ``empty_turn``, ``loop`` or ``finished``.
    #: None unless the outcome is ``scaffold_exited``.
    cause: Optional[str]
    #: The sentence for ``cause``, for example with the exception; or why the model refused.
    why: Optional[str]
    #: The infrastructure fault that ended the trial, with its hint. The trial is then not scored.
    fault: Optional[str]
    #: All keys of the report's JSON; a key without a value is None or empty.
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
            cause=data.get("cause"),
            why=data.get("why"),
            fault=data.get("fault"),
            data={**_absent_keys(), **data},
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
        """Returns the output of ``proctor show``: the steps, up to ten failed tests with their tracebacks, what the
        agent logged, and the end of its standard error if it failed.

        With ``step``, returns one step in full: the message, tool calls, outputs and file changes.
        """
        return self._show(step).decode("utf-8", "replace")

    def tree(self, step: Optional[int] = None) -> Tree:
        """Returns the work directory after a step. Step 0 is the initial state; the default is the final state."""
        return Tree(self, step, json.loads(self._part("tree", step)))


#: The metrics whose difference is a fraction.
_RATES = ("resolved", "passed_rate")


@dataclass(frozen=True)
class Pair:
    """The comparison of two arms in one metric."""

    a: str
    b: str
    #: ``resolved``, ``passed_rate``, ``tokens``, ``cost`` or ``steps``.
    metric: str
    #: Number of tasks for which both arms have results.
    tasks: int
    #: The value of ``a`` minus that of ``b``. For ``resolved`` and ``passed_rate``, this is a fraction: 0.5 is 50
    #: percentage points. Otherwise it is in tokens, US dollars or steps, per task.
    difference: Optional[float]
    #: The 95% confidence interval of the difference, in the same unit.
    interval: Optional[tuple[float, float]]
    p_value: Optional[float]
    #: The p-value adjusted for the number of pairs; None for a pair with a control.
    p_adjusted: Optional[float]
    #: Whether the graded trials show a difference between the arms; None if there is no p-value. Missing verdicts could
    #: change this value; see ``clear``.
    distinguishable: Optional[bool]
    #: Whether the arms differ, no matter what the missing verdicts are; None if there is no p-value. The same as
    #: ``distinguishable`` if no verdict is missing.
    clear: Optional[bool]
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
            distinguishable=data.get("distinguishable"),
            clear=data.get("clear"),
            sentence=data.get("sentence", ""),
            data=data,
        )

    @property
    def points(self) -> Optional[float]:
        """The difference in percentage points; None for a metric that is not a rate."""
        if self.difference is None or self.metric not in _RATES:
            return None
        return self.difference * 100

    def reversed(self) -> Pair:
        """Returns the same comparison with ``a`` and ``b`` exchanged. ``data`` stays unchanged."""
        return dataclasses.replace(
            self,
            a=self.b,
            b=self.a,
            difference=None if self.difference is None else 0.0 - self.difference,
            interval=self.interval and (0.0 - self.interval[1], 0.0 - self.interval[0]),
        )

    def _number(self, value: float) -> str:
        if self.metric in _RATES:
            return f"{value * 100:+.1f} points"
        return f"{value:+.4f} US dollars" if self.metric == "cost" else f"{value:+.1f} {self.metric}"

    def _row(self) -> list[str]:
        interval = "" if self.interval is None else " to ".join(map(self._number, self.interval))
        difference = "" if self.difference is None else self._number(self.difference)
        p_value = self.p_value if self.p_adjusted is None else self.p_adjusted
        return [self.a, self.b, self.metric, difference, interval, "" if p_value is None else f"{p_value:.4f}"]


@dataclass(frozen=True)
class Comparison:
    """The comparisons of pairs of arms, with one ``Pair`` per metric. Iterating yields ``pairs``, then ``controls``.

    ``difference``, ``interval``, ``p_value``, ``distinguishable`` and ``clear`` are those of ``pair()``, if there are
    only two arms.
    """

    pairs: list[Pair]
    #: Pairs with a control arm, such as ``gold`` or ``noop``.
    controls: list[Pair]
    data: JSON = field(repr=False)
    #: Why there are no pairs, or an empty string.
    note: str = ""

    @classmethod
    def of(cls, data: JSON) -> Comparison:
        return cls(
            pairs=[Pair.of(pair) for pair in data["pairs"]],
            controls=[Pair.of(pair) for pair in data.get("controls", [])],
            data=data,
        )

    def __iter__(self) -> Iterator[Pair]:
        return iter([*self.pairs, *self.controls])

    def __len__(self) -> int:
        return len(self.pairs) + len(self.controls)

    def __str__(self) -> str:
        # If two arms cannot be compared, all their metrics have the same sentence.
        sentences = dict.fromkeys(pair.sentence for pair in self)
        return "\n".join(sentence for sentence in sentences if sentence) or self.note

    def _repr_html_(self) -> str:
        if len(self) == 0:
            return f"<p>{html.escape(self.note)}</p>"
        head = ["a", "b", "metric", "a - b", "95% interval", "p"]
        rows = ["".join(f"<td>{html.escape(cell)}</td>" for cell in pair._row()) for pair in self]
        titles = "".join(f"<th>{title}</th>" for title in head)
        sentences = "<br>".join(html.escape(line) for line in str(self).splitlines())
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table><p>{sentences}</p>"

    @property
    def arms(self) -> list[str]:
        """The names of the compared arms."""
        return list(dict.fromkeys(name for pair in self for name in (pair.a, pair.b)))

    def only(self, *arms: str) -> Comparison:
        """Returns the pairs of the given arms, in the order of the arguments. With one arm, returns its pairs with
        all other arms. Each is a name, or a part of only one name."""
        names = [self._name(arm) for arm in arms]

        def oriented(pairs: Iterable[Pair]) -> list[Pair]:
            if len(names) == 1:
                kept = [pair for pair in pairs if names[0] in (pair.a, pair.b)]
                return [pair if pair.a == names[0] else pair.reversed() for pair in kept]
            kept = [pair for pair in pairs if pair.a in names and pair.b in names]
            ordered = (names.index(pair.a) < names.index(pair.b) for pair in kept)
            return [pair if right else pair.reversed() for pair, right in zip(kept, ordered)]

        return dataclasses.replace(self, pairs=oriented(self.pairs), controls=oriented(self.controls))

    def _name(self, arm: str) -> str:
        found = select_names(self.arms, arm)
        if len(found) == 1:
            return found[0]
        if found:
            raise LookupError(f"{arm!r} matches several arms: {first_names(found)}")
        raise LookupError(f"no arm or run directory {arm!r}; arms: {first_names(self.arms)}")

    def pair(self, a: Optional[str] = None, b: Optional[str] = None, metric: str = "resolved") -> Pair:
        """Returns the comparison of two arms in one metric. Without arms, there must be only one pair."""
        names = [arm for arm in (a, b) if arm is not None]
        found = [pair for pair in (self.only(*names) if names else self) if pair.metric == metric]
        if len(found) == 1:
            return found[0]
        known = first_names(f"{pair.a} and {pair.b}" for pair in self)
        metrics = first_names(pair.metric for pair in self)
        which = self.note or f"pairs: {known}; metrics: {metrics}"
        raise LookupError(f"{len(found)} pairs with the metric {metric!r}, not one; {which}")

    @property
    def difference(self) -> Optional[float]:
        """The difference in ``resolved`` as a fraction, if there are only two arms."""
        return self.pair().difference

    @property
    def interval(self) -> Optional[tuple[float, float]]:
        """The 95% confidence interval of ``difference``."""
        return self.pair().interval

    @property
    def p_value(self) -> Optional[float]:
        """The p-value of ``difference``."""
        return self.pair().p_value

    @property
    def distinguishable(self) -> Optional[bool]:
        """Whether the graded trials show a difference in ``resolved``. Missing verdicts could change this: see
        ``clear``."""
        return self.pair().distinguishable

    @property
    def clear(self) -> Optional[bool]:
        """Whether the arms differ in ``resolved``, no matter what the missing verdicts are."""
        return self.pair().clear


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
    #: Sentences about the curve, for example about arms that it skips.
    notes: list[str]
    data: JSON = field(repr=False)

    @classmethod
    def of(cls, data: JSON) -> Curve:
        return cls(
            points=[Point.of(point) for point in data["points"]],
            first_resolved=list(data.get("first_resolved", [])),
            notes=list(data.get("notes", [])),
            data=data,
        )

    @property
    def arms(self) -> list[str]:
        """The names of the arms with points, in the order of the plan. See ``notes`` for skipped arms."""
        return list(dict.fromkeys(point.arm for point in self.points))

    def series(self, arm: str) -> tuple[list[float], list[float]]:
        """Returns an arm's budgets and resolved rates for plotting. ``arm`` is a name, or a part of only one name."""
        found = select_names(self.arms, arm)
        if len(found) != 1:
            problem = f"{arm!r} matches several arms" if found else f"unknown arm {arm!r}"
            known = ", ".join(found or self.arms)
            raise KeyError("; ".join([problem, f"the curve has: {known}", *self.notes]))
        points = sorted((point for point in self.points if point.arm == found[0]), key=lambda p: p.at)
        return [point.at for point in points], [point.resolved_rate for point in points]
