"""Runs swebench's run_instance for tests/bench/grading.rs: `swebench_harness.py ROW`.

ROW is a file with one row. Each line of standard input is a request, {"patches": [...], "workers": N}. For each request,
the script prints a line of JSON with the total seconds. For each patch, the line also contains the seconds that
run_instance took, the part of them spent on stopping and removing the container, and whether the task was resolved.
"""

import io
import json
import sys
import threading
import time
from contextlib import redirect_stderr, redirect_stdout

from swebench.harness import run_evaluation
from swebench.harness.utils import make_test_spec, run_threadpool

cleanups = {}
real_cleanup = run_evaluation.cleanup_container


def timed_cleanup(*args):
    begun = time.monotonic()
    real_cleanup(*args)
    cleanups[threading.get_ident()] = time.monotonic() - begun


run_evaluation.cleanup_container = timed_cleanup
out = sys.stdout
with open(sys.argv[1]) as file:
    row = json.loads(file.readline())
client = run_evaluation._docker_client()
runs = 0
for line in sys.stdin:
    asked = json.loads(line)
    ends = []

    def one(number, patch):
        begun = time.monotonic()
        spec = make_test_spec(row)
        prediction = {
            "instance_id": row["instance_id"],
            "model_name_or_path": "bench",
            "model_patch": patch,
        }
        run_id = f"bench-{runs}-{number}"
        done = run_evaluation.run_instance(spec, prediction, client, run_id, 1800)
        took = time.monotonic() - begun
        resolved = bool(done and done[1][row["instance_id"]]["resolved"])
        ends.append([took, cleanups[threading.get_ident()], resolved])

    begun = time.monotonic()
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        run_threadpool(one, list(enumerate(asked["patches"])), asked["workers"])
    runs += 1
    answer = {"seconds": time.monotonic() - begun, "instances": ends}
    print(json.dumps(answer), file=out, flush=True)
