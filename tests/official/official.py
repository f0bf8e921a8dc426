"""Grades logs with a benchmark's own code, and writes each result together with its task.

    official.py GRADER LOGS OUT

GRADER is an unpacked wheel (`swebench-5.0.2`). This script does not run the packages' `__init__` files, because they
import Docker and other packages. OUT gets one line per result: a map of statuses, or a task and its verdict.
"""
import collections
import importlib.abc
import importlib.machinery
import json
import pathlib
import random
import sys
import tempfile
import types
import unittest.mock

GRADER = pathlib.Path(sys.argv[1])
# SWE-smith imports SWE-bench's package.
ROOTS = [GRADER, GRADER.parent / "swebench-4.1.0"] if GRADER.name.startswith("swesmith") else [GRADER]
LOGS = pathlib.Path(sys.argv[2])
OUT = open(sys.argv[3], "w")
BARE = {"swebench", "swebench.harness", "featurebench", "featurebench.harness", "swesmith.harness"}
ABSENT = {
    "bs4", "chardet", "datasets", "docker", "dotenv", "ghapi", "git", "litellm", "modal", "pandas",
    "requests", "rich", "tqdm", "unidiff", "yaml", "numpy", "openai", "tenacity", "sweagent", "jinja2",
}


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the grader's packages without their `__init__` files, and a mock module for each package in ABSENT."""

    def find_spec(self, name, path=None, target=None):
        for root in ROOTS:
            folder = root / name.replace(".", "/")
            if name in BARE and folder.is_dir():
                spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
                spec.submodule_search_locations = [str(folder)]
                return spec
        if name.split(".")[0] in ABSENT:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        if spec.name in BARE:
            return None
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda name: unittest.mock.MagicMock(name=name)
        return module

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Finder())
sys.path[:0] = map(str, ROOTS)


def write(**result):
    OUT.write(json.dumps(result) + "\n")


def statuses(log, parser, edition, function, row=None, errors=(IndexError,)):
    """Runs one parser on a complete log."""
    try:
        text = (LOGS / log).read_bytes().decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
        found = [[name, status] for name, status in function(text).items()]
    except errors:
        found = None
    write(kind="statuses", log=log, parser=parser, edition=edition, statuses=found, row=row)


def expectations(log, names):
    """Yields lists of fail-to-pass and pass-to-pass tests: names from the log, mangled names, and a name that is nowhere."""
    chance = random.Random(log)
    names = list(names)
    mangled = [name[: len(name) // 2 + 1] for name in names] + [f"{name} " for name in names]
    mangled += [name.split("[")[0] + "[" for name in names if "[" in name]
    chance.shuffle(names)
    yield names[:4], names[4:9]
    yield names[:2], chance.sample(mangled, min(2, len(mangled)))
    yield names[:1], ["nowhere.py::test_nothing"] if chance.random() < 0.5 else []
    yield [], names[:3]
    # Few tests, none of them pass-to-pass, so that more of the verdicts are positive.
    yield names[9:12], []


def task(log, repo, benchmark, version, details, f2p, p2p):
    return {
        "schema_version": 1, "id": "owner__name-1", "repo": repo, "statement": "", "environment": {},
        "fail_to_pass": f2p, "pass_to_pass": p2p, "test_command": [],
        "benchmark": {"name": benchmark, "version": version, "details": details},
    }


def verdict(log, task, report, groups):
    write(kind="verdict", log=log, task=task, resolved=report, groups=groups)


def groups_of(report):
    if report is None:
        return None
    return [sorted(set(report[group][side])) for group in ("FAIL_TO_PASS", "PASS_TO_PASS")
            for side in ("success", "failure")]


class Spec(types.SimpleNamespace):
    def get_test_cmd(self, *_):
        return "", []


PYTHON_PARSERS = ["pytest", "pytest_options", "pytest_v2", "matplotlib", "seaborn", "django", "sympy"]


# Maps parser names in 5.0.2's registry to Proctor's names, if these differ.
SAME = {"react_pdf": "carbon"}
# Rows for the parsers whose result depends on the row. All other parsers get the rows under `None`.
ROWS = {
    None: [{"id": "owner__name-1", "version": "1.0"}],
    "jekyll": [{"id": f"jekyll__jekyll-{number}", "version": None} for number in (9141, 8761, 1)],
    "immutable_js": [{"id": f"immutable-js__immutable-js-{number}", "version": None} for number in (2006, 2005, 1)],
    "next": [{"id": "a__next-1", "version": version} for version in ("1.27", "1.20")],
    "lighthouse": [{"id": "a__lighthouse-1", "version": version} for version in ("9.5", "2.4", "4.0", "new", None)],
}


def language(log, raw):
    """Runs all of 5.0.2's parsers for languages other than Python on a log, no matter which runner wrote the log."""
    from swebench.harness import grading, log_parsers

    for full, function in log_parsers.PARSER_REGISTRY.items():
        name = full.removeprefix("parse_log_")
        if getattr(function, "__module__", "").endswith(".python"):
            continue
        name = SAME.get(name, name)
        for row in ROWS.get(name, ROWS[None]):
            spec = Spec(instance_id=row["id"], version=row["version"])
            read = lambda text, function=function, spec=spec: function(text, spec)
            statuses(raw, name, "5", read, row, (Exception,))
        if name in ROWS:
            continue
        try:
            seen = list(function((LOGS / log).read_text(errors="replace"), Spec(instance_id="a-1", version="1.0")))
        except Exception:
            seen = []
        for f2p, p2p in choices(log, seen)[: 2 if seen else 1]:
            for kind in ("pass_and_fail", "fail_only")[: 2 if hash_of(log) % 3 == 0 else 1]:
                spec = Spec(instance_id="owner__name-1", repo="owner/name", version="1.0", log_parser=full,
                            FAIL_TO_PASS=f2p, PASS_TO_PASS=p2p, eval_type=kind)
                details = {"log_parser": full, "eval_type": kind, "version": "1.0"}
                try:
                    report = grading.get_eval_report(
                        spec, {"instance_id": "owner__name-1", "model_patch": "x"}, str(LOGS / log), True)["owner__name-1"]
                except Exception:
                    report = {"resolved": False}
                verdict(log, task(log, "owner/name", "swe-bench", "5.0.2", details, f2p, p2p), report["resolved"],
                        groups_of(report.get("tests_status")))


def harness(log, spec, task_of, f2p, p2p, grading, call):
    """Runs a SWE-bench harness on one log and one selection of tests."""
    prediction = {"instance_id": spec.instance_id, "model_patch": "x", "model_name_or_path": "m"}
    try:
        report = call(spec, prediction)[spec.instance_id]
    except (IndexError, KeyError, UnicodeDecodeError, ValueError):
        report = {"resolved": False}
    verdict(log, task_of, report["resolved"], groups_of(report.get("tests_status")))


def swebench(log, exit_status, version):
    from swebench.harness import grading, log_parsers

    edition = version.split(".")[0]
    if version.startswith("2"):
        parsers = {name: getattr(log_parsers, f"parse_log_{name}") for name in PYTHON_PARSERS}
        for name, function in parsers.items():
            statuses(log, name, edition, function)
    else:
        module = log_parsers.python if hasattr(log_parsers, "python") else log_parsers
        parsers = {name: getattr(module, f"parse_log_{name}") for name in PYTHON_PARSERS}
        for name, function in parsers.items():
            statuses(log, name, edition, lambda text, function=function: function(text, None))
    swe = LOGS / log
    if version == "5.0.2":
        for name in PYTHON_PARSERS:
            seen = seen_names(parsers[name], swe, with_spec=True)
            for f2p, p2p in choices(log, seen):
                for kind in ("pass_and_fail", "fail_only")[: 2 if hash_of(log) % 3 == 0 else 1]:
                    spec = Spec(instance_id="owner__name-1", repo="owner/name", log_parser=f"parse_log_{name}",
                                FAIL_TO_PASS=f2p, PASS_TO_PASS=p2p, eval_type=kind)
                    details = {"log_parser": f"parse_log_{name}", "eval_type": kind}
                    harness(log, spec, task(log, "owner/name", "swe-bench", "5.0.2", details, f2p, p2p), f2p, p2p,
                            grading, lambda s, p: grading.get_eval_report(s, p, str(swe), True))
        return
    repos = {"pallets/flask": "pytest", "pydicom/pydicom": "pytest_options", "sphinx-doc/sphinx": "pytest_v2",
             "matplotlib/matplotlib": "matplotlib", "mwaskom/seaborn": "seaborn", "sympy/sympy": "sympy",
             "django/django": "django"}
    versions = {"django/django": "3.0", "sympy/sympy": "1.10", "mwaskom/seaborn": "0.12", "pallets/flask": "2.0",
                "pydicom/pydicom": "1.3", "sphinx-doc/sphinx": "4.0", "matplotlib/matplotlib": "3.5"}
    if version == "3.0.4":
        repos["other/library"] = "pytest_v2"
        # FEA-Bench changes the harness: it adds these entries for repositories that the harness
        # does not know.
        default = {"test_cmd": "pytest --no-header -rA --tb=no -p no:cacheprovider"}
        grading.MAP_REPO_TO_PARSER.setdefault("other/library", parsers["pytest_v2"])
        grading.MAP_REPO_VERSION_TO_SPECS.setdefault("other/library", collections.defaultdict(lambda: default))
    for repo, name in repos.items():
        seen = seen_names(parsers[name], swe, with_spec=not version.startswith("2"))
        for f2p, p2p in choices(log, seen):
            known = versions.get(repo)
            if version == "2.1.0":
                with tempfile.TemporaryDirectory() as folder:
                    where = pathlib.Path(folder) / (repo.replace("/", "__") + "-1")
                    where.mkdir()
                    (where / "test_output.txt").write_bytes(swe.read_bytes())
                    spec = Spec(instance_id="owner__name-1", FAIL_TO_PASS=f2p, PASS_TO_PASS=p2p)
                    harness(log, spec, task(log, repo, "swe-gym", None, {}, f2p, p2p), f2p, p2p, grading,
                            lambda s, p: grading.get_eval_report(s, p, str(where / "test_output.txt"), True))
                continue
            spec = Spec(instance_id="owner__name-1", repo=repo, version=known, FAIL_TO_PASS=f2p, PASS_TO_PASS=p2p)
            benchmarks = [("swe-bench", version)]
            if version == "3.0.4":
                benchmarks = [("fea-bench", None)] if repo == "other/library" else [
                    ("fea-bench", "swe-bench 3.0.4"), ("swe-bench", version)]
            for benchmark, named in benchmarks:
                row = task(log, repo, benchmark, named, {"version": known} if known else {}, f2p, p2p)
                harness(log, spec, row, f2p, p2p, grading,
                        lambda s, p: grading.get_eval_report(s, p, str(swe), True))


def seen_names(parser, path, with_spec):
    text = path.read_bytes().decode(errors="replace")
    try:
        return list(parser(text, None) if with_spec else parser(text))
    except IndexError:
        return ["test_a.py::t", "test_a.py::v"]


def choices(log, names):
    """Returns all lists from `expectations` for one log in six, and only the first lists for the others, to save time."""
    made = list(expectations(log, names))
    return made if hash_of(log) % 6 == 0 else made[:1]


def hash_of(text):
    return sum(map(ord, text))


def smith(log, _exit_status, _version):
    from swesmith.harness import grading

    profile = PROFILE()
    statuses(log, "smith", "5", profile.log_parser)
    grading.registry = types.SimpleNamespace(get_from_inst=lambda inst: profile)
    seen = list(profile.log_parser((LOGS / log).read_bytes().decode(errors="replace")))
    for f2p, p2p in choices(log, seen):
        row = {"instance_id": "owner__name-1", "repo": "owner/name", "FAIL_TO_PASS": f2p, "PASS_TO_PASS": p2p}
        try:
            report = grading.get_eval_report({"model_patch": "x"}, row, str(LOGS / log))
        except ValueError:
            report = {"resolved": False}
        verdict(log, task(log, "owner/name", "swe-smith", None, {}, f2p, p2p), report["resolved"],
                groups_of(report.get("tests_status")))


def PROFILE():
    from swesmith.profiles.python import PythonProfile

    return PythonProfile.__new__(PythonProfile)


def featurebench(log, exit_status, _version):
    from featurebench.harness import report, test_parsers

    parsers = {"featurebench": ("owner/name", test_parsers.parse_log_pytest),
               "featurebench_subfailed": ("mesonbuild/meson", test_parsers.parse_log_pytest_with_subfailed),
               "featurebench_verbose": ("pydantic/pydantic", test_parsers.parse_log_pytest_verbose)}
    for parser, (repo, function) in parsers.items():
        statuses(log, parser, "5", function)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            # Decode Docker's output and write it in the same way as the harness.
            text = (LOGS / log).read_bytes().decode(errors="replace")
            (folder / "test_output.txt").write_text(text, encoding="utf-8")
            (folder / "test_output_p2p_test_b.txt").write_text(text, encoding="utf-8")
            f2p_map, p2p_maps = report.parse_test_outputs(folder, repo, 1)
            lists = report.build_test_status(f2p_map, p2p_maps)
            for f2p_ok, p2p_ok in ((exit_status == 0, True), (exit_status == 0, False)):
                made = report.generate_instance_report(
                    "i", 1, "x", True, *lists, {"f2p_success": f2p_ok, "p2p_success": p2p_ok})["i"]
                row = task(log, repo, "featurebench", None, {}, ["test_a.py"], ["tests/test_b.py"])
                write(kind="files", log=log, task=row, exit=exit_status, p2p_exit=0 if p2p_ok else 1,
                      resolved=made["resolved"], pass_rate=made["pass_rate"],
                      groups=groups_of(made["tests_status"]))


name, _, version = GRADER.name.partition("-")
grade = {"swebench": swebench, "swesmith": smith, "featurebench": featurebench}[name]
for line in open(LOGS / "index.jsonl"):
    entry = json.loads(line)
    if entry.get("language"):
        if GRADER.name == "swebench-5.0.2":
            language(entry["wrapped"], entry["log"])
        continue
    grade(entry["log"] if name == "featurebench" else entry["wrapped"], entry["exit"], version)
OUT.close()
