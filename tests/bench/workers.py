#!/usr/bin/env python3
"""Measures the overhead of several workers that share one run: throughput, very short trials, and file system calls.

usage: workers.py ratio [WORKERS...]     trials that wait for their model, over 1, 2, 4 and 8 workers
       workers.py tiny [TRIALS] [WORKERS]    trials without a model, 10,000 over 8 workers
       workers.py calls [TRIALS]             system calls of one worker below the run directory, counted by strace

The variable PROCTOR is the path of the binary (default: target/release/proctor). The script writes runs to the folder in
the variable FOLDER (default: a temporary folder). It prints measurements, and fails only if a trial has no verdict.
"""

import collections
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROCTOR = os.environ.get("PROCTOR", str(ROOT / "target/release/proctor"))
# How many seconds the scripted model waits before it responds to a trial.
WAIT = 20.0

ARM = '[[arms]]\nname = "{name}"\nscaffold = "{name}"\n'
MODEL = 'model = "scripted"\n[models.scripted]\nbase_url = "script:{script}"\nname = "scripted"\n'
SCRIPT = '[default]\ndelay_seconds = {wait}\ntool_calls = [{{ name = "submit", arguments = {{}} }}]\n'


def plan(folder, trials, model):
    """Plans a run for workers. The scheduler is a fake `sbatch` that prints a job id and starts no workers."""
    folder.mkdir(parents=True)
    lines = f'tasks = ["{ROOT}/configs/tasks/demo.jsonl"]\nattempts = {trials}\njobs = 1\n'
    if model:
        script = folder / "script.toml"
        script.write_text(SCRIPT.format(wait=WAIT))
        lines += ARM.format(name="tools") + MODEL.format(script=script)
    else:
        lines += ARM.format(name="noop")
    (folder / "run.toml").write_text(lines)
    sbatch = folder / "bin/sbatch"
    sbatch.parent.mkdir()
    sbatch.write_text("#!/bin/sh\necho 1\n")
    sbatch.chmod(0o755)
    out = folder / "run"
    command = [PROCTOR, "submit", folder / "run.toml", "--out", out, "--engine", "slurm", "--workers", "1"]
    path = f"{sbatch.parent}:{os.environ['PATH']}"
    subprocess.run(command, env={**os.environ, "PATH": path}, check=True, capture_output=True, cwd=ROOT)
    return out


def work(out, workers, prefix=()):
    """Returns the seconds until the last worker ends, the CPU seconds of all workers, and the maximum load."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began, load = time.monotonic(), 0.0
    command = [*prefix, PROCTOR, "worker", out, "--jobs", "1", "--progress", "none"]
    with (out.parent / "log").open("a") as log:
        running = [subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT) for _ in range(workers)]
    while any(one.poll() is None for one in running):
        load = max(load, os.getloadavg()[0])
        time.sleep(0.2)
    took = time.monotonic() - began
    assert all(one.returncode == 0 for one in running), (out.parent / "log").read_text()[-2000:]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took, cpu, load


def expect_verdicts(out, trials):
    report = subprocess.run([PROCTOR, "report", out, "--format", "json"], check=True, capture_output=True, cwd=ROOT)
    arm = json.loads(report.stdout)["arms"][0]
    assert arm["graded"] == trials and arm["complete"], arm


def ratio(folder, counts):
    # The first run builds the environment.
    work(plan(folder / "first", 1, model=False), 1)
    print(f"{'workers':>8} {'trials/min':>11} {'ratio':>6} {'CPU s/trial':>12}")
    first = None
    for workers in counts:
        # Use the same number of trials per worker, so that no worker runs out of work early.
        trials = 4 * workers
        out = plan(folder / f"ratio-{workers}", trials, model=True)
        took, cpu, _ = work(out, workers)
        expect_verdicts(out, trials)
        rate = trials / took * 60
        first = first or rate / workers
        print(f"{workers:>8} {rate:>11.1f} {rate / first:>6.2f} {cpu / trials:>12.2f}", flush=True)


def tiny(folder, trials, workers):
    work(plan(folder / "first", 1, model=False), 1)
    out = plan(folder / "tiny", trials, model=False)
    took, cpu, load = work(out, workers)
    expect_verdicts(out, trials)
    print(f"{trials} trials, {workers} workers: {took:.0f} s, {trials / took:.1f} claims a second")
    print(f"{cpu / trials * 1000:.0f} ms of CPU per trial, load {load:.1f} on {os.cpu_count()} CPUs")
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{size / trials / 1024:.1f} KiB per trial in the run directory")


def calls(folder, trials):
    work(plan(folder / "first", 1, model=False), 1)
    counts = []
    # Compare a run with one of twice as many trials, to exclude the calls that a worker makes only once.
    for number in (trials, 2 * trials):
        out = plan(folder / f"calls-{number}", number, model=False)
        log = folder / f"strace-{number}"
        work(out, 1, ["strace", "-f", "-y", "-o", log, "-e", "trace=%file,%desc", "-e", "signal=none"])
        expect_verdicts(out, number)
        counts.append(counted(log, str(out)))
    print(f"{'call':<20} {'for each trial':>14} {'once':>8}")
    rows = []
    for name in sorted(set(counts[0]) | set(counts[1])):
        each = (counts[1][name] - counts[0][name]) / trials
        rows.append((each, name, counts[0][name] - each * trials))
    for each, name, once in sorted(rows, reverse=True):
        if each >= 0.05 or once >= 1:
            print(f"{name:<20} {each:>14.1f} {once:>8.0f}")
    print(f"{'all':<20} {sum(row[0] for row in rows):>14.1f} {sum(row[2] for row in rows):>8.0f}")


def counted(log, out):
    """Returns the number of system calls, by name, that access the run directory."""
    found = collections.Counter()
    for line in log.open(errors="replace"):
        call = re.match(r"\d+ +(\w+)\(", line)
        if call and out in line:
            found[call[1]] += 1
    return found


def main():
    what, *numbers = sys.argv[1:] or ["help"]
    numbers = [int(number) for number in numbers]
    given = os.environ.get("FOLDER")
    folder = Path(given or tempfile.mkdtemp(prefix="proctor-workers-"))
    os.environ.setdefault("PROCTOR_CACHE", str(folder / "cache"))
    try:
        if what == "ratio":
            ratio(folder, numbers or [1, 2, 4, 8])
        elif what == "tiny":
            tiny(folder, *(numbers + [10_000, 8][len(numbers):]))
        elif what == "calls":
            calls(folder, *(numbers or [50]))
        else:
            sys.exit(__doc__)
    finally:
        if not given:
            shutil.rmtree(folder, ignore_errors=True)


main()
