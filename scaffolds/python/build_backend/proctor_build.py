"""Builds the wheel with maturin, so that it runs with glibc 2.28 or newer.

zig links against the symbols of glibc 2.28. Set PROCTOR_WHEEL_NATIVE=1 to link against this machine's glibc, which is
faster. Set MATURIN_PEP517_ARGS to use your own arguments for maturin. `proctor --version` prints the commit from
PROCTOR_COMMIT, or the commit of the checkout.
"""

from __future__ import annotations

import os
import subprocess
from typing import Any, Optional

import maturin

PORTABLE = "--zig --compatibility manylinux_2_28"


def _commit() -> str:
    """Returns the commit of the checkout, with `-dirty` if files differ from it. Empty if this is not a checkout."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _environment() -> None:
    """Sets the variables that maturin and the compiler read."""
    if not os.environ.get("PROCTOR_WHEEL_NATIVE"):
        os.environ.setdefault("MATURIN_PEP517_ARGS", PORTABLE)
    os.environ.setdefault("PROCTOR_COMMIT", _commit())


def get_requires_for_build_wheel(config_settings: Optional[dict[str, Any]] = None) -> list[str]:
    return list(maturin.get_requires_for_build_wheel(config_settings))


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: Optional[dict[str, Any]] = None
) -> str:
    _environment()
    return str(maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings))


def build_wheel(
    wheel_directory: str,
    config_settings: Optional[dict[str, Any]] = None,
    metadata_directory: Optional[str] = None,
) -> str:
    _environment()
    return str(maturin.build_wheel(wheel_directory, config_settings, metadata_directory))


def build_editable(
    wheel_directory: str,
    config_settings: Optional[dict[str, Any]] = None,
    metadata_directory: Optional[str] = None,
) -> str:
    os.environ.setdefault("PROCTOR_COMMIT", _commit())
    return str(maturin.build_editable(wheel_directory, config_settings, metadata_directory))
