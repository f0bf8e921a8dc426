"""Runs a configuration, then prints the resolved rates, a comparison of the arms, and why trials failed."""

from __future__ import annotations

import sys

import proctor


def main(config: str, out: str) -> None:
    try:
        run = proctor.run(config, out=out)
    except proctor.IncompleteRun as error:
        print(error, file=sys.stderr)
        run = error.run
    for arm in run.arms:
        low, high = arm.interval or (0.0, 1.0)
        print(f"{arm.name}: {arm.resolved}/{arm.trials} resolved, 95% interval {low:.2f} to {high:.2f}")
    print(run.compare())
    for trial in run.trials:
        if trial.resolved is False:
            print(f"{trial.task} by {trial.arm}: {trial.reason}, after {trial.steps} steps")


if __name__ == "__main__":
    main(*sys.argv[1:3])
