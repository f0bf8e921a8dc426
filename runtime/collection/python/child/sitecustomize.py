"""Start tracing in an interpreter that a test started. Then run the environment's own `sitecustomize`, if any."""

import importlib.machinery
import importlib.util
import os
import sys

if "PROCTOR_CALLS" in os.environ:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    sys.path.insert(0, os.path.dirname(here))
    try:
        from calls import child
    finally:
        sys.path.pop(0)
    child()
    other = importlib.machinery.PathFinder.find_spec("sitecustomize")
    if other is not None and other.loader is not None:
        other.loader.exec_module(importlib.util.module_from_spec(other))
