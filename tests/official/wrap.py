"""Wraps raw output in the lines that an evaluation script prints around it.

    wrap.py LOGS

For each NAME.raw, writes NAME.log next to it. Also writes the hand-written logs, and an index.jsonl of all logs.
"""
import json
import pathlib
import sys

import languages
import nasty

LOGS = pathlib.Path(sys.argv[1])
COMMANDS = ["pytest -rA", "pytest --no-header -rA --tb=no -p no:cacheprovider", "pytest -rA"]


def wrapped(raw, status, number):
    """Returns the output together with the lines that `bash -x` prints for the harness's script."""
    head = (
        "+ cd /testbed\n+ git apply -v -\nChecking patch test_a.py...\nApplied patch test_a.py cleanly.\n"
        f"+ : '>>>>> Start Test Output'\n+ {COMMANDS[number % 3]} test_a.py\n"
    )
    tail = f"+ SWEBENCH_TEST_EXIT_CODE={status}\n+ : '>>>>> End Test Output'\n"
    tail += f"+ echo '>>>>> Test Exit Code: {status}'\n>>>>> Test Exit Code: {status}\n"
    return head.encode() + raw + (b"" if raw.endswith(b"\n") else b"\n") + tail.encode()


with open(LOGS / "index.jsonl", "w") as index:
    number = 0
    for part in sorted(LOGS.glob("index-*.jsonl")):
        for line in open(part):
            entry = json.loads(line)
            raw = LOGS / entry["log"]
            raw.with_suffix(".log").write_bytes(wrapped(raw.read_bytes(), entry["exit"], number))
            entry["wrapped"] = raw.with_suffix(".log").name
            index.write(json.dumps(entry) + "\n")
            number += 1
    print(f"{number} logs of real runs, {len(nasty.LOGS) + len(nasty.BYTES)} made by hand")
    made = {name: text.encode() for name, text in nasty.LOGS.items()} | nasty.BYTES
    for name, text in made.items():
        (LOGS / f"nasty-{name}.log").write_bytes(text)
        index.write(json.dumps({"log": f"nasty-{name}.log", "wrapped": f"nasty-{name}.log", "exit": 0}) + "\n")
    counts = {True: 0, False: 0}
    for name, text, real in languages.all_logs():
        raw = LOGS / f"language-{name}.raw"
        raw.write_bytes(text.encode())
        raw.with_suffix(".log").write_bytes(wrapped(text.encode(), 1 if counts[real] % 2 else 0, number))
        entry = {"log": raw.name, "wrapped": raw.with_suffix(".log").name, "exit": 0, "language": True}
        index.write(json.dumps(entry) + "\n")
        counts[real] += 1
    print(f"{counts[True]} logs of other languages' runners, {counts[False]} made by hand or mutated")
