"""Runs Proctor, reads its runs, and connects your own agents to it.

    import proctor

    run = proctor.run("config.toml", out="runs/x", set={"budget.steps": 100})
    run.arms, run.trials
    run.frame("trials")

The package needs only the standard library. It reads runs through the ``proctor`` binary.
"""

from ._binary import binary, version
from ._errors import (
    BinaryError,
    ConfigError,
    EndpointError,
    IncompleteRun,
    ProctorError,
)
from ._results import Arm, Comparison, Curve, Pair, Point, Tree, TreeEntry, Trial
from ._run import Run, resume, run
from ._session import (
    Answer,
    Brief,
    CommandResult,
    EditError,
    Refused,
    Session,
    ToolCall,
    ToolResult,
    TrialOver,
    scaffold,
)

__version__ = version()

__all__ = [
    "Answer",
    "Arm",
    "BinaryError",
    "Brief",
    "CommandResult",
    "Comparison",
    "ConfigError",
    "Curve",
    "EditError",
    "EndpointError",
    "IncompleteRun",
    "Pair",
    "Point",
    "ProctorError",
    "Refused",
    "Run",
    "Session",
    "ToolCall",
    "ToolResult",
    "Tree",
    "TreeEntry",
    "Trial",
    "TrialOver",
    "__version__",
    "binary",
    "resume",
    "run",
    "scaffold",
]
