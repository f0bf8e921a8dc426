"""Makes canaries: real tests with a mistake in one expectation, so that they must fail.

Reads `{"seed", "enough", "words", "work", "groups": {group: [{"name", "text", "functions", "conftests"}]}}`
and writes `{group: {"canaries": [...], "compares": N}}`. A canary is one mistake in one test: the same
names, lines and types, but another value. If the value comes from elsewhere (an argument or a constant of
the module) and the test reads it only there, the value is replaced and the test's code is unchanged.
Otherwise one line of the code is edited. `compares` counts the inspected tests that compare values. `work`
has the names that the task asks for. An expectation about these names makes a better canary than one about
existing code.

An edit is made only where the mistake certainly makes the test fail with honest values: in a statement that every
run of the test reaches, in an expectation that nothing else reads, and in the value itself rather than in a part
that a comparison may ignore. If this is not certain, there is no canary.

If all expectations of a test are in branches, each branch gets one mistake, so that the run meets a mistake
whichever branch it takes. `marks` contains the lines of these statements. The run reports whether it reached any.

Runs isolated, before any patch is applied, on Python 3.6 and later. The interpreter gets the modules in memory
(`lend.py`).
"""

import json
import sys

from .candidates import candidates_of_group
from .request import request


def main():
    made = {group: candidates_of_group(files) for group, files in sorted(request["groups"].items())}
    json.dump(made, sys.stdout)
