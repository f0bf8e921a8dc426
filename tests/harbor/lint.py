"""Writes `lint.json`: generated task folders, each with the findings of Harbor's own lint.

    V/bin/python tests/harbor/lint.py     (see digests.py)

`runtime/harbor/tests/all/lint.rs` creates the same folders and compares Proctor's findings. This
script leaves out the rules that Proctor already checks when it loads a task.
"""

import json
import tempfile
from pathlib import Path

from harbor.lint.models import COMPOSE_RULES, LintRule
from harbor.lint.task import lint_task

OF_THE_LOADER = {LintRule.INVALID_TASK_CONFIG, LintRule.UNKNOWN_CONFIG_FIELD, LintRule.INVALID_TASK_FILES}
RULES = set(LintRule) - OF_THE_LOADER - (COMPOSE_RULES - {LintRule.UNPINNED_IMAGE})

SELECT = '[metadata.harbor.lint]\nselect = ["ALL"]\n'
SEPARATE = '[verifier]\nenvironment_mode = "separate"\n'
COMMIT, HASH = "0123456789abcdef0123456789abcdef01234567", "ab" * 32

COMMANDS = [
    "pip install pytest", "pip install pytest==8.4.1", "pip install 'pytest>=8' x", "pip install -r requirements.txt",
    "pip install -c constraints.txt pytest", "pip3 install a==1.*", "python3 -m pip install --quiet a b==2",
    "python -m pip install -U pip", "python -m pip install --upgrade pip setuptools", "uv pip install a[b]==1 'c[d]'",
    "uv tool install ruff", "uvx --with pytest==8.4.1 --with pytest-json-ctrf==0.3.5 pytest /tests", "uvx -w pytest x",
    "uvx --from a==1 --with=b x y", "pip install -e . ./a /b c.whl $PACKAGES", f"pip install git+https://a.b/c@{COMMIT}",
    "pip install git+https://a.b/c@main", f"pip install https://a.b/c.whl#sha256={HASH}", "pip install https://a.b/c.whl",
    "pip install -e git+https://a.b/c", "pip install 'a; python_version < \"3\"'", "pip install a=1", "pip install --no-index pytest",
    "uv pip install --offline pytest", "pip install Pytest_JSON_ctrf==1", "pip install a && pip install b==1; pip install c",
    "(pip install a)", "if pip install a; then true; fi", "sudo pip install a", "pip install a # pip install b",
    "echo 'pip install a", "echo \"pip install a\"", "pip install \\", "  a==1", "pip install \\", "# a comment", "  b",
    "cat > x <<'END'", "pip install heredoc", "END", "cat <<-END && true", "pip install heredoc", "  END", "cat <<<word", "word",
    "echo \"<<no\"", "pip install 'a'\"b\"", "pip install a;;pip install b", "pip install \"a==1\"", "pip install a\\ b",
    "curl -LsSf https://astral.sh/uv/0.9.5/install.sh | sh", "curl https://a.sh/x | grep y", "curl -o x https://a.sh/x",
    "curl -ox https://a.sh/x", "curl -o /dev/null https://a.sh/x", "curl -O https://a.sh/x", "curl https://a.sh/x > x",
    "curl https://a.sh/x >x", "curl https://a.sh/x >/dev/null", "curl -s https://a.sh/x", "curl --output=x https://a.sh/x",
    "curl -o $X https://a.sh/x", "curl -o x http://localhost:80/y", "curl -o x http://127.0.0.1/y", "curl -o x --url=https://a.sh/y",
    "wget https://a.sh/x", "wget -qO- https://a.sh/x", "wget -O - https://a.sh/x", "wget --spider https://a.sh/x",
    "wget -qO- https://a.sh/x | bash", "wget -O x https://a.sh/x", "git clone https://a.sh/x", "git clone git@a.sh:x/y",
    "git clone git@host:x/y", "git fetch https://a.sh/x", "curl -o x https://db.localhost/x", "curl -o x //a.sh/x", "apt-get install -y curl",
]

DOCKERFILE = f"""# syntax=docker/dockerfile:1
FROM --platform=linux/amd64 debian:12 AS base
FROM debian:12@sha256:{HASH} as pinned
FROM base
FROM scratch
FROM ${{IMAGE}}
ARG X=1
RUN pip install a b==1
RUN --mount=type=cache,target=/x pip install c
RUN ["pip", "install", "d"]
RUN ["pip", "install", "e==1"]
RUN pip install \\
    # why
    f
RUN echo 'open
COPY --from=base /tests/test.sh /x
COPY tests/test.sh tests/helpers.py /tests/
COPY ["solution/solve.sh", "/solution/"]
COPY app tests/
ADD ./tests/test_a.py /x/
COPY mytests/test.sh /x
COPY tests/test_.py /x
WORKDIR /app
RUN
"""

BASE = {
    "instruction.md": "Do it.\n",
    "environment/Dockerfile": f"FROM debian:12@sha256:{HASH}\n",
    "tests/test.sh": "echo 1 > /logs/verifier/reward.txt\n",
}


def case(name, config="", **files):
    """Returns the case for one folder. In the names of `files`, `__` stands for `/`, and `_DOT_` stands for `.`."""
    named = {path.replace("__", "/").replace("_DOT_", "."): text for path, text in files.items()}
    return {"name": name, "files": {**BASE, **named, "task.toml": config + SELECT}}


def cases():
    script = "".join(f"{line}\n" for line in COMMANDS)
    yield case("plain")
    yield case("agent", '[agent]\nuser = "dev"\n')
    yield case("agents by number", "[agent]\nuser = 0\n")
    yield case("root with a group", '[agent]\nuser = "root:root"\n')
    yield case("separate", SEPARATE)
    yield case("own environment", '[verifier.environment]\ndocker_image = "v:1"\n', tests__Dockerfile="FROM x\n")
    yield case("image", f'[environment]\ndocker_image = "a@sha256:{HASH}"\n')
    yield case("unpinned image", '[environment]\ndocker_image = "a:1"\n')
    yield case("ignore files", **{"_DOT_harborignore": "x\n", "environment___DOT_harborignore": "x\n",
                                  "tests___DOT_harborignore": "y\n", "tests__sub___DOT_harborignore": "z\n"})
    for name, artifacts in {
        "one": ["/app/out"], "above": ["/app", "/app/out"], "below": ["/app/out", "/app"], "same": ["/app/out", "/app/out/"],
        "published": ["/logs/artifacts", "/logs/artifacts/x"], "logs": ["/logs"], "verifier": ["/logs/verifier/ctrf.json"],
        "agent": ["/logs/agent", "logs/agent"], "all": ["/"], "relative": ["out", "./out/a", "/out"],
    }.items():
        for mode in ("", SEPARATE):
            yield case(f"artifacts {name} {bool(mode)}", f"artifacts = {json.dumps(artifacts)}\n{mode}")
    yield case("destinations", '[[artifacts]]\nsource = "/a"\ndestination = "x"\n[[artifacts]]\nsource = "/b"\ndestination = "x/y"\n'
               '[[artifacts]]\nsource = "/a/b"\ndestination = "x/b"\n')
    yield case("excludes", '[[artifacts]]\nsource = "/a"\nexclude = ["z"]\n[[artifacts]]\nsource = "/a/b"\n')
    yield case("shared script", tests__test_DOT_sh=script, solution__solve_DOT_sh=script)
    yield case("separate script", SEPARATE, tests__test_DOT_sh=script, solution__solve_DOT_sh=script)
    yield case("dockerfile", environment__Dockerfile=DOCKERFILE)
    yield case("dockerfile of the verifier", SEPARATE, tests__Dockerfile=DOCKERFILE)
    yield case("dockerfile without a use", tests__Dockerfile=DOCKERFILE)
    yield case("excluded solution", solution__solve_DOT_sh="pip install a\n", solution___DOT_harborignore="*.sh\n")
    yield case("windows line ends", tests__test_DOT_sh="pip install \\\r\n  a\r\npip install b\r\n")


def judged(one):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for path, text in one["files"].items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(text.encode())
        found = lint_task(root, selected_rules=RULES)
        places = {(str(Path(one.path).relative_to(root)), one.line, one.rule.value) for one in found}
    return {**one, "findings": sorted(map(list, places), key=str)}


def main():
    table = [judged(one) for one in cases()]
    out = Path(__file__).with_name("lint.json")
    out.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n")
    print(f"{len(table)} folders, {sum(len(one['findings']) for one in table)} findings, in {out}")


main()
