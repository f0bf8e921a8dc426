"""Builds the wheel with maturin, so that it runs with glibc 2.28 or newer.

zig links against the symbols of glibc 2.28. Set PROCTOR_WHEEL_NATIVE=1 to link against this machine's glibc, which is
faster. Set MATURIN_PEP517_ARGS to use your own arguments for maturin.
"""

from __future__ import annotations

import os
from typing import Any, Optional

import maturin

PORTABLE = "--zig --compatibility manylinux_2_28"


def _arguments() -> None:
    if not os.environ.get("PROCTOR_WHEEL_NATIVE"):
        os.environ.setdefault("MATURIN_PEP517_ARGS", PORTABLE)


def get_requires_for_build_wheel(config_settings: Optional[dict[str, Any]] = None) -> list[str]:
    return list(maturin.get_requires_for_build_wheel(config_settings))


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: Optional[dict[str, Any]] = None
) -> str:
    _arguments()
    return str(maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings))


def build_wheel(
    wheel_directory: str,
    config_settings: Optional[dict[str, Any]] = None,
    metadata_directory: Optional[str] = None,
) -> str:
    _arguments()
    return str(maturin.build_wheel(wheel_directory, config_settings, metadata_directory))


def build_editable(
    wheel_directory: str,
    config_settings: Optional[dict[str, Any]] = None,
    metadata_directory: Optional[str] = None,
) -> str:
    return str(maturin.build_editable(wheel_directory, config_settings, metadata_directory))
