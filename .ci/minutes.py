"""Prints how long each step of CI and each test suite took, from a log of `.ci/run` or `.ci/full`.

In the log, a line `+ SECONDS COMMAND` marks the start of a step, as a Unix time. The last step ends when this script runs.
cargo prints a crate's unit tests before the crate's other suites, whose lines do not name the crate.
"""

import re
import sys
import time

STEP = re.compile(r"\+ (\d{9,}) (.*)")
BUILT = re.compile(r"\s+Finished .* in (?:(\d+)m )?([\d.]+)s$")
SUITE = re.compile(r"\s+Running (unittests )?\S+ \(\S*/deps/(\w+)-\w+\)$")
DOC = re.compile(r"\s+Doc-tests (\w+)$")
RESULT = re.compile(r"test result: (\w+)\. (\d+) passed; (\d+) failed;.* finished in ([\d.]+)s")


def read(lines):
    """Returns the steps as [start, command, build seconds] and the suites as (name, tests, seconds, failed tests)."""
    steps, suites, crate, suite = [], [], "", ""
    for line in lines:
        if found := STEP.match(line):
            steps.append([int(found[1]), found[2], None])
        elif (found := BUILT.match(line)) and steps:
            steps[-1][2] = int(found[1] or 0) * 60 + float(found[2])
        elif found := SUITE.match(line):
            if found[1]:
                crate, suite = found[2], f"{found[2]} (unit tests)"
            else:
                suite = f"{crate} {found[2]}"
        elif found := DOC.match(line):
            suite = f"{found[1]} (doc tests)"
        elif found := RESULT.match(line):
            suites.append((suite, int(found[2]) + int(found[3]), float(found[4]), int(found[3])))
    return steps, suites


def main(path):
    with open(path, errors="replace") as log:
        steps, suites = read(log)
    print("--- minutes ---")
    ends = [start for start, _, _ in steps[1:]] + [time.time()]
    for (start, command, built), end in zip(steps, ends):
        note = "" if built is None else f" (build {built / 60:.1f})"
        print(f"{(end - start) / 60:6.1f}  {command[:90]}{note}")
    if suites:
        print("minutes  tests  suite")
    for name, tests, seconds, failed in sorted(suites, key=lambda suite: -suite[2]):
        if tests:
            print(f"{seconds / 60:7.1f} {tests:6}  {name}{f', {failed} failed' if failed else ''}")
    print(f"{sum(suite[2] for suite in suites) / 60:7.1f} {sum(suite[1] for suite in suites):6}  all suites")


if __name__ == "__main__":
    main(sys.argv[1])
