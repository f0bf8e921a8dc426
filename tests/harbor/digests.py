"""Writes `digests.json`: generated task folders, each with the results of Harbor's own package.

    python3.12 -m venv V && V/bin/pip install 'harbor==0.26.*'
    V/bin/python tests/harbor/digests.py

Each case contains the files in a task folder, the digest that Harbor computes for the folder, and the files in `tests/`
that Harbor would upload for the verifier. `runtime/harbor/tests/all/digests.rs` creates the same folders and compares
Proctor's results.
"""

import json
import os
import random
import tempfile
from pathlib import Path

from harbor.models.dataset.manifest import DatasetManifest
from harbor.models.task.file_filter import TaskFileFilter
from harbor.publisher.packager import Packager

# Patterns that have different meanings in Git, in the two pattern styles of the pathspec package, and in plain globs.
PATTERNS = [
    "*.log", "*.pyc", "!keep.log", "/top.txt", "data/", "data/*", "!data/keep.txt", "**/deep", "a/**/z.txt",
    "deep/**", "# comment", "", "  ", "name\\ ", "[ab].txt", "[!a].txt", "[^b].txt", "?.txt", "\\!bang", "!\\#x", "*",
    "!*.sh", "*/", "**", "**/", "/", "tests/data", "tests/*.log", "!tests/data/keep.txt", "ünï*", "a b.txt", "a.b+c",
    "deep/*/z.txt", "/data", "data", "__pycache__/", "[a-c]*", "[]x]", "[ab", "x[.]y", "*.tx?",
]

NAMES = [
    "a.txt", "b.txt", "x.log", "keep.log", "top.txt", "data/keep.txt", "data/drop.txt", "data/deep/z.txt",
    "a/z.txt", "a/b/c/z.txt", "deep/x/z.txt", "deep/z.txt", "name ", "!bang", "#x", "ünïcode.txt", "a b.txt", "a.b+c",
    "__pycache__/m.pyc", "m.pyc", "x.y", "]", "test_a.py", "empty", ".hidden", "dir.log/inner.txt", "x~", "y.swp",
]

BASE = {
    "task.toml": 'schema_version = "1.4"\n[task]\nname = "made/case"\n',
    "instruction.md": "Do it.\n",
    "environment/Dockerfile": "FROM debian:12\n",
    "tests/test.sh": "echo 1 > /logs/verifier/reward.txt\n",
    "solution/solve.sh": "true\n",
}


def case(name, files, links=None):
    """Returns the case for one folder. `files` maps paths to contents, and `links` maps paths to targets."""
    return {"name": name, "files": {**BASE, **files}, "links": links or {}}


def fixed():
    pycache = {"tests/__pycache__/t.pyc": "x", "tests/a.swp": "x", "environment/x~": "x", "tests/.DS_Store": "x"}
    yield case("plain", {})
    yield case("readme and trajectory", {"README.md": "r", "trajectory.json": "{}", "other.txt": "not a part"})
    yield case("default ignores", pycache)
    yield case("own gitignore keeps what the default drops", {**pycache, ".gitignore": "*.swp\n"})
    yield case("gitignore of the task file", {".gitignore": "task.toml\nREADME.md\n", "README.md": "r"})
    yield case("gitignore with exceptions", {
        ".gitignore": "data/\n!data/keep.txt\n*.log\n!keep.log\n",
        "tests/data/keep.txt": "1", "tests/data/drop.txt": "2", "tests/x.log": "3", "tests/keep.log": "4",
    })
    yield case("harborignore", {
        "tests/.harborignore": "*.log\ndata/*\n!data/keep.txt\n", "tests/x.log": "1", "tests/data/keep.txt": "2",
        "tests/data/drop.txt": "3", "environment/x.log": "4", "solution/x.log": "5",
    })
    yield case("nested harborignore", {
        "tests/.harborignore": "*.txt\n", "tests/sub/.harborignore": "!a.txt\n", "tests/sub/a.txt": "1",
        "tests/sub/b.txt": "2", "tests/a.txt": "3",
    })
    yield case("harborignore out of its scope", {"environment/.harborignore": "*\n", "environment/a": "1"})
    yield case("links in the task", {"environment/data.txt": "1", "tests/sub/a": "2"}, {
        "tests/data.txt": "../environment/data.txt", "tests/other": "sub", "environment/link": "data.txt",
    })
    yield case("link to an ignored file", {"tests/.harborignore": "secret\n", "tests/secret": "1"}, {
        "tests/open": "secret",
    })
    yield case("steps", {
        "steps/one/instruction.md": "1", "steps/one/tests/test.sh": "2", "steps/one/tests/.harborignore": "*.log\n",
        "steps/one/tests/x.log": "3",
    })
    yield case("windows line ends and a byte order mark", {
        "task.toml": '\ufeffschema_version = "1.4"\r\n', ".gitignore": "*.log\r\n", "tests/x.log": "1",
    })
    yield case("empty files and odd names", {name if "/" in name else f"tests/{name}": "" for name in NAMES})


def drawn(count):
    draw = random.Random(26)
    for number in range(count):
        files = {}
        for name in draw.sample(NAMES, draw.randint(3, 14)):
            folder = draw.choice(["tests", "tests", "environment", "solution", "tests/sub"])
            files[f"{folder}/{name}"] = f"{number} {name}"
        if draw.random() < 0.6:
            files[".gitignore"] = "\n".join(draw.sample(PATTERNS, draw.randint(1, 6))) + "\n"
        for place in ["tests", "tests/sub", "solution"]:
            if draw.random() < 0.5:
                files[f"{place}/.harborignore"] = "\n".join(draw.sample(PATTERNS, draw.randint(1, 6))) + "\n"
        yield case(f"drawn {number}", files)


def judged(one):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for path, text in one["files"].items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(text.encode())
        for path, target in one["links"].items():
            os.symlink(target, root / path)
        try:
            digest, _ = Packager.compute_content_hash(root)
            selection = TaskFileFilter(root).select(root / "tests")
            inputs = sorted(path.as_posix() for path in selection.relative_paths)
        except Exception as error:  # Proctor must reject what Harbor rejects.
            return {**one, "error": type(error).__name__}
        return {**one, "digest": f"sha256:{digest}", "inputs": inputs}


def main():
    cases = [judged(one) for one in [*fixed(), *drawn(120)]]
    digests = [one["digest"] for one in cases if "digest" in one][:5]
    tasks = "".join(f'[[tasks]]\nname = "made/t{i}"\ndigest = "{d}"\n' for i, d in enumerate(digests))
    files = f'[[files]]\npath = "metric.py"\ndigest = "{digests[0]}"\n'
    dataset = '[dataset]\nname = "made/set"\n' + tasks
    table = {
        "cases": cases,
        "datasets": [
            {"tasks": digests, "files": [],
             "digest": "sha256:" + DatasetManifest.from_toml(dataset).compute_content_hash()},
            {"tasks": digests, "files": [["metric.py", digests[0]]],
             "digest": "sha256:" + DatasetManifest.from_toml(dataset + files).compute_content_hash()},
        ],
    }
    out = Path(__file__).with_name("digests.json")
    out.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n")
    errors = sum("error" in one for one in cases)
    print(f"{len(cases)} cases, {errors} of them rejected, in {out}")


main()
