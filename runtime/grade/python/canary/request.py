"""Reads the request from standard input."""

import json
import random
import sys

request = json.loads(sys.stdin.buffer.read().decode("ascii"))
# Names with a meaning, by their role: `[canaries.words]` in `grading.toml`, and `work`.
words = {name: frozenset(value) for name, value in request["words"].items()}
words["work"] = frozenset(request["work"])
chance = random.Random(request["seed"])
