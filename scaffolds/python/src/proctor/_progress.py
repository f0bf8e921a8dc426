"""A progress bar for terminals and notebooks, based on the binary's progress events."""

from __future__ import annotations

import html
import importlib
import sys
import time
from typing import Any, Callable, Optional, TextIO

#: Seconds between two redraws.
INTERVAL = 0.2
WIDTH = 30


class Progress:
    """Counts events and draws the bar. If the output is not interactive, draws nothing."""

    def __init__(self, total: Callable[[], Optional[int]], stream: Optional[TextIO] = None) -> None:
        self._of = total
        self._stream = sys.stderr if stream is None else stream
        self._total: Optional[int] = None
        self._asked = False
        self._graded: dict[tuple[Any, Any, Any], bool] = {}
        self._running: dict[tuple[Any, Any, Any], str] = {}
        self._cost = 0.0
        self._drawn = 0.0
        self._begun = time.monotonic()
        self._notebook = _notebook_display()
        self._terminal = self._notebook is None and self._stream.isatty()

    def take(self, event: dict[str, Any]) -> None:
        """Counts one event of ``proctor --progress json``."""
        key = (event.get("task"), event.get("arm"), event.get("attempt"))
        kind = event.get("event")
        if kind in ("started", "resumed") and not self._asked:
            self._asked = True
            self._total = self._of()
        if kind in ("started", "resumed"):
            self._running[key] = ""
        elif kind == "stepped":
            self._running[key] = f"step {event.get('step')}"
        elif kind in ("graded", "grading"):
            self._running.pop(key, None)
            if "resolved" in event:
                self._graded[key] = bool(event["resolved"])
        elif kind in ("ended", "grading_failed", "try_failed"):
            self._running.pop(key, None)
            self._cost += float(event.get("cost_usd") or 0.0)
        if time.monotonic() - self._drawn >= INTERVAL:
            self._draw()

    def text(self) -> str:
        """Returns the current text of the bar."""
        done, resolved = len(self._graded), sum(self._graded.values())
        seconds = int(time.monotonic() - self._begun)
        bar = ""
        if self._total:
            full = min(WIDTH, WIDTH * done // self._total)
            bar = f"[{'#' * full}{'.' * (WIDTH - full)}] "
        of = f"/{self._total}" if self._total else ""
        running = f", {len(self._running)} running" if self._running else ""
        cost = f", ${self._cost:.2f}" if self._cost else ""
        clock = f"{seconds // 60}:{seconds % 60:02}"
        return f"{bar}{done}{of} graded, {resolved} resolved{running}{cost}, {clock}"

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        if self._notebook is not None:
            share = len(self._graded) / self._total if self._total else 0.0
            self._notebook(
                f'<progress max="1" value="{share:.4f}"></progress> '
                f"<code>{html.escape(self.text())}</code>"
            )
        elif self._terminal:
            self._stream.write(f"\r\x1b[2K{self.text()}")
            self._stream.flush()

    def say(self, line: str) -> None:
        """Prints a line from the binary above the bar."""
        if self._terminal:
            self._stream.write("\r\x1b[2K")
        self._stream.write(f"{line}\n")
        self._stream.flush()

    def close(self) -> None:
        """Draws the bar for the last time."""
        if self._notebook is not None or self._terminal:
            self._draw()
        if self._terminal:
            self._stream.write("\n")
            self._stream.flush()


def _notebook_display() -> Optional[Callable[[str], None]]:
    # In a notebook, IPython is already imported. If it isn't, don't import it.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    display = importlib.import_module("IPython.display")
    handle = display.display(display.HTML(""), display_id=True)

    def show(text: str) -> None:
        handle.update(display.HTML(text))

    return show
