"""mini-swe-agent with its loop outside the task's sandbox (docs/reference/host.md). Agent and prompts are its own; the model
and the environment are Proctor's. The packages are in `lib` next to this file. litellm is not needed.

pip install --target lib --no-deps mini-swe-agent==2.4.6
pip install --target lib jinja2 pydantic pyyaml platformdirs python-dotenv requests rich tenacity typer
"""
import itertools
import json
import os
import platform
import sys
from types import SimpleNamespace

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
os.environ.update(MSWEA_SILENT_STARTUP="1", MSWEA_GLOBAL_CONFIG_DIR="/work/.mswea", MSWEA_CONFIGURED="true")
OUT = sys.stdout
sys.stdout = sys.stderr  # what libraries print must not look like a message
import yaml
from minisweagent.agents.default import DefaultAgent
from minisweagent.config import get_config_path
from minisweagent.exceptions import Submitted
from minisweagent.models.utils import actions_toolcall as toolcall

NUMBERS = itertools.count(1)
BASH = toolcall.BASH_TOOL["function"]


class Over(BaseException):
    """Proctor responded with an error: the trial is over. Not an `Exception`, so that the agent does not catch it."""


def send(message):
    OUT.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    OUT.flush()


def receive():
    line = sys.stdin.readline()
    return json.loads(line) if line else sys.exit(0)


def call(method, **params):
    send({"id": next(NUMBERS), "method": method, "params": params})
    answer = receive()
    if "error" in answer:
        raise Over(answer["error"]["message"])
    return answer["result"]


class Model:
    def __init__(self, templates):
        self.config = SimpleNamespace(model_name="proctor", **templates)

    def query(self, messages, **_):
        asked = [self.said(message) for message in messages if message["role"] != "exit"]
        answer = call("model/ask", messages=asked, tools=[BASH])
        calls = [SimpleNamespace(id=one["id"], function=SimpleNamespace(name=one["name"], arguments=one["arguments"]))
                 for one in answer["tool_calls"]]
        actions = toolcall.parse_toolcall_actions(
            calls, format_error_template=self.config.format_error_template,
            template_kwargs={"finish_reason": answer["finish_reason"]})
        kept = {key: answer[key] for key in ("content", "tool_calls", "extra")}
        return {"role": "assistant", "content": answer["content"], "extra": {"actions": actions, "kept": kept}}

    @staticmethod
    def said(message):
        if message["role"] == "assistant":
            return {"role": "assistant", **message["extra"]["kept"]}
        if message["role"] == "tool":
            return {"role": "tool", "call_id": message["tool_call_id"], "content": message["content"]}
        return {"role": message["role"], "content": message["content"]}

    def format_message(self, **message):
        return message

    def format_observation_messages(self, message, outputs, template_vars=None):
        return toolcall.format_toolcall_observation_messages(
            actions=message["extra"]["actions"], outputs=outputs, template_vars=template_vars,
            observation_template=self.config.observation_template)

    def get_template_vars(self, **_):
        return {}

    def serialize(self):
        return {}


class Environment:
    def __init__(self, variables, seconds):
        self.config = SimpleNamespace(timeout=seconds)
        self.before = "".join(f"export {key}='{value}'; " for key, value in variables.items())

    def execute(self, action, cwd="", **_):
        # Merge stderr into stdout, like mini-swe-agent's own environments.
        line = f"{self.before}exec 2>&1\n{action['command']}"
        done = call("sandbox/exec", command=line, **({"cwd": cwd} if cwd else {}))
        code = -1 if done["exit_status"] is None else done["exit_status"]
        why = "The command ran out of its time." if done["timed_out"] else ""
        lines = done["stdout"].lstrip().splitlines(keepends=True)
        if code == 0 and lines and lines[0].strip() == "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT":
            text = "".join(lines[1:])
            extra = {"exit_status": "Submitted", "submission": text}
            raise Submitted({"role": "exit", "content": text, "extra": extra})
        return {"output": done["stdout"], "returncode": code, "exception_info": why}

    def get_template_vars(self, **_):
        return platform.uname()._asdict()

    def serialize(self):
        return {}


def solve(start):
    config = yaml.safe_load(get_config_path("mini.yaml").read_text())
    templates = {key: config["model"][key] for key in ("observation_template", "format_error_template")}
    environment = Environment(config["environment"]["env"], start["command_seconds"])
    prompts = {key: config["agent"][key] for key in ("system_template", "instance_template")}
    agent = DefaultAgent(Model(templates), environment, step_limit=0, cost_limit=0, **prompts)
    task = start["task"]
    ended = agent.run(f"The repository is at `{task['workdir']}`.\n\n{task['statement']}")
    submitted = ended.get("exit_status") == "Submitted"
    call("finish", submit=submitted, why=str(ended.get("exit_status")))


first = receive()
send({"id": first["id"], "result": {"protocol": 1}})
try:
    solve(first["params"])
except Over as error:
    print(error, file=sys.stderr)
