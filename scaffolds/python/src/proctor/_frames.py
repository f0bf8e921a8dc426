"""Returns tables as data frames. The binary defines the columns (docs/reference/tables.md)."""

from __future__ import annotations

import importlib
import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any, Optional

from . import _binary

NAMES = ("trials", "steps", "tests")
KINDS = ("arrow", "pandas", "polars", "records")
Rows = list[dict[str, Any]]
Columns = list[dict[str, str]]


def _read(run: str, name: str) -> tuple[Rows, Columns]:
    with tempfile.TemporaryDirectory(prefix="proctor-") as folder:
        out = Path(folder) / "tables"
        _binary.output(["export", "--format", "jsonl", "--out", str(out), "--", run])
        columns: Columns = json.loads((out / "columns.json").read_bytes())[name]
        names = [column["name"] for column in columns]
        rows: Rows = []
        with open(out / f"{name}.jsonl", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                rows.append({key: row[key] for key in names})
    return rows, columns


def frame(run: str, name: str, to: Optional[str]) -> Any:
    """Returns a table of a run as Arrow, pandas, Polars or a list of dictionaries."""
    if name not in NAMES:
        raise ValueError(f"unknown table {name!r}; tables: {', '.join(NAMES)}")
    if to is None:
        to = "arrow" if importlib.util.find_spec("pyarrow") else "records"
    if to not in KINDS:
        raise ValueError(f"unknown frame type {to!r}; types: {', '.join(KINDS)}")
    make = {"arrow": _arrow, "pandas": _pandas, "polars": _polars, "records": _records}[to]
    return make(*_read(run, name))


def _records(rows: Rows, columns: Columns) -> Rows:
    return rows


def _needed(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"this frame needs {module}: pip install {module}") from error


def _arrow(rows: Rows, columns: Columns) -> Any:
    pa = _needed("pyarrow")
    types = {
        "text": pa.string(),
        "integer": pa.int64(),
        "number": pa.float64(),
        "boolean": pa.bool_(),
    }
    about = [
        pa.field(
            column["name"],
            types[column["type"]],
            metadata={"unit": column["unit"], "about": column["about"]},
        )
        for column in columns
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema(about))


def _pandas(rows: Rows, columns: Columns) -> Any:
    pd = _needed("pandas")
    # Use nullable types. Otherwise, the missing counts of unfinished trials would turn integer
    # columns into floats.
    types = {"text": "string", "integer": "Int64", "number": "Float64", "boolean": "boolean"}
    data = {
        column["name"]: pd.array(
            [row[column["name"]] for row in rows], dtype=types[column["type"]]
        )
        for column in columns
    }
    return pd.DataFrame(data)


def _polars(rows: Rows, columns: Columns) -> Any:
    pl = _needed("polars")
    types = {
        "text": pl.String,
        "integer": pl.Int64,
        "number": pl.Float64,
        "boolean": pl.Boolean,
    }
    return pl.DataFrame(
        rows, schema={column["name"]: types[column["type"]] for column in columns}, orient="row"
    )
