"""Compare the cost (CPU seconds and peak memory) of tracing a project's tests with Proctor and with FeatureBench.

    python3 cost_of_tracing.py PYTHON PROJECT FEATUREBENCH [FILE...]

PYTHON is an interpreter with pytest and the project's dependencies. PROJECT is a source tree. FEATUREBENCH is a clone
of https://github.com/LiberCoders/FeatureBench. The default for FILE is every test_*.py below PROJECT/tests.

FeatureBench ("theirs") processes one test file at a time, here without its containers: a plain run, a run under
`dynamic_script.py`, and the same run with `--collect-only`. Proctor ("ours") processes all files at once, as
`proctor collect` does: a collection, which also reports the third-party modules that the files load, a plain run, a
run in random order and a traced run.
"""

import glob
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
OBSERVE = os.path.join(HERE, "..", "python", "observe.py")
QUIET = ["-p", "no:cacheprovider"]


def cost(command, project, **more):
    """Return the CPU seconds of a command and its children, its exit status and the peak MiB of the largest process."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([project, os.path.join(project, "src")])}
    process = subprocess.Popen(command, cwd=project, env=env, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, **more)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, process.returncode, usage.ru_maxrss // 1024


def theirs(python, project, clone, files):
    script = os.path.join(clone, "featurebench/resources/scripts/dynamic_script/dynamic_script.py")
    total, failed, largest = [0.0, 0.0, 0.0], [], 0
    for file in files:
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "trace.json")
            begin = [python, script, file, project, "-o", out, "--pytest-args"]
            options = ["-p", "no:xdist", "--no-header", "--tb=short", "--color=no", "-vv", "-rA"]
            for at, command in enumerate([
                [python, "-m", "pytest", "-rA", "--tb=short", "--color=no", *QUIET, file],
                [*begin, *options],
                [*begin, "--collect-only"],
            ]):
                seconds, status, size = cost(command, project)
                total[at] += seconds
                largest = max(largest, size)
                if at == 1 and (status != 0 or not os.path.exists(out)):
                    failed.append(file)
    return total, failed, largest


def ours(python, project, files):
    total, largest, warm = [], 0, []
    for mode, seed in [("collect", None), ("run", None), ("run", 1), ("trace", None)]:
        order = {
            "mode": mode, "seed": seed, "files": files, "deselect": [], "warm": warm, "plugin_arguments": {},
            "arguments": ["-q", *QUIET, "--rootdir=" + project], "test_seconds": 60.0, "file_seconds": 600.0,
        }
        with tempfile.TemporaryFile() as records, tempfile.TemporaryFile() as asked:
            command = ["sh", "-c", 'exec 3>&"$0"; exec "$@"', str(records.fileno()), python, OBSERVE]
            asked.write(json.dumps(order).encode() + b"\n")
            asked.seek(0)
            seconds, status, size = cost(command, project, stdin=asked, pass_fds=[records.fileno()])
            total.append(seconds)
            largest = max(largest, size)
            records.seek(0)
            said = [json.loads(line) for line in records if line.strip()]
            if mode == "collect":
                warm = [module for it in said if it["t"] == "loaded" for module in it["modules"]]
                print(f"ours, collect: {seconds:.1f} s, {len(warm)} third-party modules")
                continue
            passed = sum(it["t"] == "test" and it["outcome"] == "passed" for it in said)
            edges = sum(len(it["edges"]) for it in said if it["t"] == "calls")
            if status != 0 or passed == 0:
                sys.exit(f"ours, {mode}: {passed} tests passed, status {status}: does {python} have pytest and the project's dependencies?")
            print(f"ours, {mode}: {seconds:.1f} s, {passed} tests passed, {edges} calls reported")
    return total, largest


def main():
    python, project, clone, *files = sys.argv[1:]
    # Don't resolve symlinks: a virtual environment's interpreter finds its environment by the path of the link.
    python, project, clone = (os.path.abspath(path) for path in (python, project, clone))
    if not files:
        found = glob.glob(os.path.join(project, "tests", "**", "test_*.py"), recursive=True)
        files = sorted(os.path.relpath(file, project) for file in found)
    own, own_largest = ours(python, project, files)
    (plain, traced, collected), failed, largest = theirs(python, project, clone, files)
    print(f"theirs: plain {plain:.1f} s, traced {traced:.1f} s, collected {collected:.1f} s; "
          f"{len(failed)} of {len(files)} files lost their trace")
    print(f"largest process: theirs {largest} MiB, ours {own_largest} MiB")
    print(f"all runs: theirs {plain + traced + collected:.1f} s, ours {sum(own):.1f} s: "
          f"{(plain + traced + collected) / sum(own):.1f} times")
    print(f"tracing alone: theirs {traced + collected:.1f} s, ours {own[3]:.1f} s: "
          f"{(traced + collected) / own[3]:.1f} times")


if __name__ == "__main__":
    main()
