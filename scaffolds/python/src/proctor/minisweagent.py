"""Connects mini-swe-agent to a Proctor session: an environment and a model for its own ``DefaultAgent``.

    agent = DefaultAgent(Model(session), Environment(session), **prompts)

Requires ``mini-swe-agent`` and its templates, but not litellm.
"""

from __future__ import annotations

import os
import platform
from types import SimpleNamespace
from typing import Any, Optional

from ._session import Session

# On its first import, mini-swe-agent would print a greeting and create a directory in the user's
# home.
os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")
os.environ.setdefault("MSWEA_CONFIGURED", "true")
os.environ.setdefault("MSWEA_GLOBAL_CONFIG_DIR", os.path.join(os.getcwd(), ".mswea"))

#: If this is the first line that a successful command prints, the agent submits.
SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def configuration(name: str = "mini.yaml") -> dict[str, Any]:
    """Returns one of mini-swe-agent's own configurations."""
    import yaml
    from minisweagent.config import get_config_path

    found: dict[str, Any] = yaml.safe_load(get_config_path(name).read_text())
    return found


class Environment:
    """Runs the agent's commands in the task's sandbox."""

    def __init__(self, session: Session, *, env: Optional[dict[str, str]] = None) -> None:
        self.session = session
        self.config = SimpleNamespace(timeout=session.brief.command_seconds)
        variables: dict[str, str] = configuration()["environment"]["env"] if env is None else env
        self._before = "".join(f"export {key}='{value}'; " for key, value in variables.items())

    def execute(self, action: dict[str, Any], cwd: str = "", **_: Any) -> dict[str, Any]:
        from minisweagent.exceptions import Submitted

        # Merge stderr into stdout, like mini-swe-agent's own environments.
        line = f"{self._before}exec 2>&1\n{action['command']}"
        done = self.session.shell(line, cwd=cwd or None)
        code = -1 if done.exit_status is None else done.exit_status
        lines = done.stdout.lstrip().splitlines(keepends=True)
        if code == 0 and lines and lines[0].strip() == SUBMIT:
            text = "".join(lines[1:])
            extra = {"exit_status": "Submitted", "submission": text}
            raise Submitted({"role": "exit", "content": text, "extra": extra})
        why = "The command ran out of its time." if done.timed_out else ""
        return {"output": done.stdout, "returncode": code, "exception_info": why}

    def get_template_vars(self, **_: Any) -> dict[str, Any]:
        return dict(platform.uname()._asdict())

    def serialize(self) -> dict[str, Any]:
        return {}


class Model:
    """Calls the model through the session."""

    def __init__(self, session: Session, *, templates: Optional[dict[str, str]] = None) -> None:
        self.session = session
        if templates is None:
            own = configuration()["model"]
            templates = {
                key: own[key] for key in ("observation_template", "format_error_template")
            }
        self.config = SimpleNamespace(model_name=session.brief.model or "proctor", **templates)

    def query(self, messages: list[dict[str, Any]], **_: Any) -> dict[str, Any]:
        from minisweagent.models.utils import actions_toolcall as toolcall

        asked = [self._said(message) for message in messages if message["role"] != "exit"]
        answer = self.session.ask(asked, [toolcall.BASH_TOOL])
        calls = [
            SimpleNamespace(
                id=call.id, function=SimpleNamespace(name=call.name, arguments=call.arguments)
            )
            for call in answer.tool_calls
        ]
        actions = toolcall.parse_toolcall_actions(
            calls,
            format_error_template=self.config.format_error_template,
            template_kwargs={"finish_reason": answer.finish_reason},
        )
        extra = {"actions": actions, "message": answer.message}
        return {"role": "assistant", "content": answer.content, "extra": extra}

    @staticmethod
    def _said(message: dict[str, Any]) -> dict[str, Any]:
        if message["role"] == "assistant":
            kept: dict[str, Any] = message["extra"]["message"]
            return kept
        return message

    def format_message(self, **message: Any) -> dict[str, Any]:
        return message

    def format_observation_messages(
        self,
        message: dict[str, Any],
        outputs: list[dict[str, Any]],
        template_vars: Optional[dict[str, Any]] = None,
    ) -> list[dict[str, Any]]:
        from minisweagent.models.utils import actions_toolcall as toolcall

        found: list[dict[str, Any]] = toolcall.format_toolcall_observation_messages(
            actions=message["extra"]["actions"],
            outputs=outputs,
            template_vars=template_vars,
            observation_template=self.config.observation_template,
        )
        return found

    def get_template_vars(self, **_: Any) -> dict[str, Any]:
        return {}

    def serialize(self) -> dict[str, Any]:
        return {}
