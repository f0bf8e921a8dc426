"""Finds the ``proctor`` binary, checks its version and runs it."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Optional

from ._errors import BinaryError, error_of

DISTRIBUTION = "proctor-bench"
#: The oldest version of the binary that has everything this package calls.
OLDEST = (0, 1, 0)


def version() -> str:
    """Returns the version of this package, or ``0+source`` if it is not installed."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "0+source"


@functools.lru_cache(maxsize=None)
def _find(override: Optional[str], path: Optional[str]) -> str:
    if override:
        if not _is_executable(override):
            raise BinaryError(
                f"PROCTOR_BINARY: {override} is not an executable file",
                hint="unset PROCTOR_BINARY, or set it to the binary",
            )
        candidates = [override]
    else:
        beside = [Path(sysconfig.get_path("scripts")), Path(sys.executable).parent]
        candidates = [str(folder / "proctor") for folder in beside]
        on_path = shutil.which("proctor", path=path)
        if on_path:
            candidates.append(on_path)
    for candidate in candidates:
        if _is_executable(candidate):
            _check(candidate)
            return candidate
    raise BinaryError(
        "no `proctor` binary was found",
        hint=f"pip install {DISTRIBUTION}, or set PROCTOR_BINARY to the binary",
    )


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def binary() -> str:
    """Returns the path of the binary: from ``PROCTOR_BINARY``, next to the interpreter, or on ``PATH``.

    Raises BinaryError if there is no binary, or if its version is incompatible with this package.
    """
    return _find(os.environ.get("PROCTOR_BINARY"), os.environ.get("PATH"))


def _check(path: str) -> None:
    try:
        done = subprocess.run(
            [path, "-V"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BinaryError(f"{path} does not run: {error}") from error
    # Published binaries also print their commit: "proctor 0.1.0 (0123456789ab)".
    found = re.fullmatch(r"proctor (\S+)(?: \([^()\n]*\))?", done.stdout.strip())
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", found[1]) if found else None
    if found is None or numbers is None:
        raise BinaryError(f"{path} is not a `proctor` binary", hint="unset PROCTOR_BINARY")
    mine = version()
    is_older = tuple(int(number) for number in numbers.groups()) < OLDEST
    # A wheel contains its own binary. If its version differs, that is a mistake.
    is_other = mine != "0+source" and found[1] != mine
    if is_older or is_other:
        needed = mine if is_other else f"{'.'.join(map(str, OLDEST))} or newer"
        raise BinaryError(
            f"{path} is version {found[1]}, but this package needs {needed}",
            hint=f"install both from one wheel: pip install --force-reinstall {DISTRIBUTION}",
        )


def environment() -> dict[str, str]:
    """Returns the environment for the binary. It names this Python interpreter, for `python:` arms that set none."""
    return {"PROCTOR_PYTHON": sys.executable, **os.environ}


def output(arguments: Sequence[str], *, accept: Sequence[int] = (0,)) -> bytes:
    """Runs the binary and returns its standard output. Raises a ProctorError if its status is not in ``accept``."""
    done = subprocess.run(
        [binary(), "--quiet", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(),
        check=False,
    )
    if done.returncode not in accept:
        raise error_of(done.returncode, done.stderr.decode("utf-8", "replace"))
    return done.stdout


def output_json(arguments: Sequence[str], *, accept: Sequence[int] = (0,)) -> Any:
    """Runs the binary and parses its standard output as JSON."""
    return json.loads(output(arguments, accept=accept))
