#!/usr/bin/env python3
"""Runs Proctor against model servers that, from the second request on, validate requests as real services do.

    PROCTOR=target/debug/proctor tests/endpoints/run.py [--full] [--every N] [--work DIR] [--jobs N] [CASE ...]

Each case is a server in CASE/case.py, whose first line describes it. expected.toml says how each must end. The exit
status is 1 if a case ends differently. All files are written below --work (default: a new temporary folder).
"""

import argparse, concurrent.futures, glob, importlib.util, json, os, shutil, subprocess, sys, tempfile, time, tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE + "/lib")
sys.dont_write_bytecode = True
import mock

CONFIG = """tasks = {tasks}
attempts = 1
jobs = {jobs}
{case.top}
[sandbox]
kind = "native"
[network]
mode = "closed"
[budget]
{case.budget}
[[arms]]
name = "m"
scaffold = "{case.scaffold}"
model = "m"
{case.arm}
[models.m]
base_url = "http://127.0.0.1:{port}{base}"
name = "mock"
api = "{case.api}"
{case.model}
"""


def run(name, work, proctor):
    """Runs one case. Returns how it ended, and its log."""
    folder = f"{work}/{name}"
    spec = importlib.util.spec_from_file_location("case_" + name.replace("-", "_"), f"{folder}/case.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    case = module.C()
    port = mock.serve(case, folder + "/reqs")
    tasks = getattr(case, "taskfiles", None) or [f"../base/task{letter}.jsonl" for letter in case.tasks]
    base = "/v1beta" if case.api == "gemini" else "/v1"
    config = CONFIG.format(tasks=json.dumps(tasks), jobs=min(4, len(case.tasks)), case=case, port=port, base=base)
    if "price" not in case.model:
        config += "price = { input = 1.0, output = 10.0 }\n"
    with open(folder + "/config.toml", "w") as file:
        file.write(config)
    out = folder + "/run"
    shutil.rmtree(out, ignore_errors=True)
    command = [proctor, "run", folder + "/config.toml", "--out", out, "--no-preflight", *case.args]
    begun = time.time()
    done = subprocess.run(
        ["timeout", "-s", "TERM", str(case.timeout), *command],
        env={**os.environ, "HOME": work + "/home", **case.env},
        capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, cwd=folder,
    )
    outcomes, verdicts = [], []
    for path in sorted(glob.glob(out + "/trials/**/outcome.json", recursive=True)):
        outcomes.append(json.load(open(path)))
        verdict = path.replace("outcome.json", "verdict.json")
        verdicts.append(json.load(open(verdict)).get("resolved") if os.path.exists(verdict) else None)
    limited = [outcome["kind"] == "budget" for outcome in outcomes]
    if any(resolved is False and not limit for resolved, limit in zip(verdicts, limited)):
        end = "scored"
    elif False in verdicts:
        end = "limit"
    else:
        end = "resolved" if verdicts and all(verdicts) else "fault"
    log = open(folder + "/reqs/log.txt").read()
    seen = f"exit {done.returncode} in {time.time() - begun:.1f} s\n{log}\n{json.dumps(outcomes)[:4000]}\n{done.stderr[-4000:]}"
    return end, (module.__doc__ or "").strip(), seen


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--full", action="store_true", help="also run the slow cases")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="run only every N-th case")
    parser.add_argument("--work", help="folder for all written files")
    parser.add_argument("--jobs", type=int, default=4, metavar="N")
    options = parser.parse_args()
    proctor = os.path.abspath(os.environ.get("PROCTOR", "target/debug/proctor"))
    expected = tomllib.load(open(HERE + "/expected.toml", "rb"))
    work = options.work or tempfile.mkdtemp(prefix="proctor-endpoints-")
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(HERE, work)
    names = options.cases or sorted(
        name for name in os.listdir(HERE)
        if os.path.exists(f"{HERE}/{name}/case.py") and (options.full or name not in expected["full"])
    )[::options.every]

    def one(name):
        # Run each case in its own process, so that its server ends with it.
        code = f"import sys; sys.path.insert(0, {HERE!r}); import run, json; print(json.dumps(run.run({name!r}, {work!r}, {proctor!r})))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        try:
            return name, *json.loads(done.stdout.splitlines()[-1])
        except (ValueError, IndexError):
            return name, "broken", "", done.stderr[-2000:]

    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, end, says, seen in pool.map(one, names):
            want = next((kind for kind in ("fault", "limit", "scored") if name in expected[kind]), "resolved")
            print(f"{name}: {end}" + ("" if end == want else f", expected {want}: {says}\n{seen}"), flush=True)
            wrong += end != want
    print(f"{len(names)} cases, {wrong} of them did not end as expected")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
