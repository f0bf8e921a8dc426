"""Exceptions with the message and the hint from the binary."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Optional, Union

if TYPE_CHECKING:
    from ._run import Run


class ProctorError(Exception):
    """An error of the ``proctor`` binary.

    ``message`` says what failed, ``hint`` says what to change, and ``status`` is the exit status.
    """

    def __init__(
        self, message: str, *, hint: Optional[str] = None, status: Optional[int] = None
    ) -> None:
        super().__init__(message if hint is None else f"{message}\nhint: {hint}")
        self.message = message
        self.hint = hint
        self.status = status


class ConfigError(ProctorError):
    """The configuration, an option or a path is wrong. No trial was started."""


class BinaryError(ProctorError):
    """The binary is missing or its version is incompatible with this package."""


class IncompleteRun(ProctorError):
    """The run has ended, but some trials have no verdict. ``proctor.resume(error.run)`` continues the run."""

    def __init__(
        self,
        message: str,
        *,
        run: Run,
        hint: Optional[str] = None,
        status: Optional[int] = None,
    ) -> None:
        super().__init__(message, hint=hint, status=status)
        self.run = run


class EndpointError(IncompleteRun):
    """The run is incomplete, because a model's endpoint failed or rejected requests."""


_ERROR = re.compile(r"^error: (?P<what>.*?)(?=^ *hint: |\Z)", re.MULTILINE | re.DOTALL)
_HINT = re.compile(r"^ *hint: (?P<hint>.*)\Z", re.MULTILINE | re.DOTALL)


def parse(stderr: str) -> tuple[str, Optional[str]]:
    """Returns the message and the hint at the end of the binary's standard error."""
    start = stderr.rfind("\nerror: ")
    text = stderr[start + 1 :] if start >= 0 else stderr
    error = _ERROR.search(text)
    if error is None:
        lines = [line for line in stderr.splitlines() if line.strip()]
        return (lines[-1].strip() if lines else "proctor failed without a message"), None
    hint = _HINT.search(text)
    return _flat(error["what"]), _flat(hint["hint"]) if hint else None


#: The binary's options that are parameters of this package with the same name.
_PARAMETERS = "out|model|tasks|arms|limit|jobs"


def _resume(match: re.Match[str]) -> str:
    run = match[1]
    return f"proctor.resume({run if run.isupper() else repr(run)})"


def _set(match: re.Match[str]) -> str:
    value = match[2]
    is_plain = re.fullmatch(r"-?[\d._]+|true|false|[\[{\"'].*|[A-Z]+", value)
    shown = {"true": "True", "false": "False"}.get(value, value) if is_plain else f'"{value}"'
    return f'set={{"{match[1]}": {shown}}}'


#: How the binary's messages name commands and options, and what to call in Python instead.
_TERMS: list[tuple[str, Union[str, Callable[[re.Match[str]], str]]]] = [
    (r"`proctor resume ((?:(?! --)[^`])+)`", _resume),
    (r"`proctor resume`", "proctor.resume(run)"),
    (r"`proctor show(?: (?:(?! --)[^`])*)?`", "trial.show()"),
    (r"--extend\b", "extend=True"),
    (r"--allow-truncated\b", "allow_truncated=True"),
    (r"--every\b", "every=True"),
    (r"--at (?=\w+=)", ""),
    (r"--set:", "set:"),
    (r"`?--set ([\w.\"-]+)=([^\s,;`)]+)`?", _set),
    (r"`?--set\b`?", "`set`"),
    (rf"`?--({_PARAMETERS})[ =]([A-Z]{{2,}}[A-Z/]*|'[^']*'|\d+)`?", r"\1=\2"),
    (rf"`?--({_PARAMETERS})\b`?", r"`\1`"),
]


def in_python(text: str) -> str:
    """Replaces the command line's terms in the binary's messages with this package's terms."""
    for pattern, replacement in _TERMS:
        text = re.sub(pattern, replacement, text)
    return text


def _flat(text: str) -> str:
    # The binary wraps long lines for terminals.
    return " ".join(text.split())


def error_of(status: int, stderr: str) -> ProctorError:
    """Returns the exception for a failed command."""
    message, hint = parse(stderr)
    kind = ConfigError if status == 2 else ProctorError
    return kind(in_python(message), hint=hint and in_python(hint), status=status)
