"""Runs a user's function as an agent. Proctor starts ``python -m proctor._driver FILE FUNCTION`` in the agent's own
sandbox."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from typing import Any, BinaryIO, Callable, NoReturn

from ._session import Session, TrialOver


def _channel() -> tuple[BinaryIO, BinaryIO]:
    """Reserves standard input and output for the protocol.

    If the agent, its libraries or its child processes print something, it goes to standard error. Their input is empty.
    """
    reader = os.fdopen(os.dup(0), "rb")
    writer = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return reader, writer


def _load(file: str, name: str) -> Callable[[Session], Any]:
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    module_name = os.path.splitext(os.path.basename(file))[0]
    if module_name in sys.modules:
        # Use another module name, so that an agent in `proctor.py` or `json.py` does not replace
        # the real module.
        module_name += "_agent"
    loader = SourceFileLoader(module_name, file)
    spec = importlib.util.spec_from_loader(module_name, loader)
    if spec is None:
        raise ImportError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Register the module, so that its classes can be pickled and its dataclasses can be resolved.
    sys.modules[module_name] = module
    loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        marked = [
            key
            for key, value in vars(module).items()
            if getattr(value, "__proctor_scaffold__", False)
        ]
        known = f"; it has {', '.join(marked)}" if marked else ""
        raise AttributeError(f"{os.path.basename(file)} has no function {name}{known}")
    return function  # type: ignore[no-any-return,unused-ignore]


def _leave(status: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    # Don't wait for threads that the agent left running.
    os._exit(status)


def main(arguments: Sequence[str]) -> NoReturn:
    """Runs the function and exits: with 0 if it returned or the trial is over, with 1 if it raised an exception."""
    file, name = arguments
    session = Session(*_channel())
    status = 0
    try:
        session.open()
        function = _load(file, name)
        returned = function(session)
        if inspect.isawaitable(returned):
            asyncio.run(_wait(returned))
        if not session.is_over:
            session.give_up(f"{name} returned without session.submit()")
    except TrialOver as over:
        if over.reason != "finished":
            print(over, file=sys.stderr)
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:  # noqa: BLE001  Any exception ends the agent; the last line says which.
        traceback.print_exc()
        status = 1
    _leave(status)


async def _wait(awaitable: Any) -> Any:
    return await awaitable


if __name__ == "__main__":
    main(sys.argv[1:])
