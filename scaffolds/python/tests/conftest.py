"""Selects the binary under test: PROCTOR_BINARY, or the debug build of this repository."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DEBUG = ROOT / "target" / "debug" / "proctor"


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Sets a clean home directory and a cache for all tests."""
    binary = os.environ.get("PROCTOR_BINARY") or str(DEBUG)
    if not os.access(binary, os.X_OK):
        raise RuntimeError(f"{binary} is missing: cargo build -p proctor, or set PROCTOR_BINARY")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROCTOR_BINARY", binary)
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        if "PROCTOR_CACHE" not in os.environ:
            patch.setenv("PROCTOR_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def has(*words: str) -> bool:
    """Returns whether the binary under test supports an option or value. A build of this repository supports all."""
    command, *options = words
    binary = os.environ.get("PROCTOR_BINARY") or str(DEBUG)
    done = subprocess.run([binary, command, "--help"], capture_output=True, text=True, check=False)
    return all(option in done.stdout for option in options)


def needs(*words: str) -> pytest.MarkDecorator:
    """Skips a test if the binary is too old, unless PROCTOR_TEST_ALL is set, as in CI."""
    skip = not os.environ.get("PROCTOR_TEST_ALL") and not has(*words)
    return pytest.mark.skipif(skip, reason=f"this binary has no {' '.join(words)}")
