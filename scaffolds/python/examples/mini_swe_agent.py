"""Runs mini-swe-agent's own agent and prompts, unchanged, with Proctor's environment and model.

pip install --no-deps mini-swe-agent==2.4.6
pip install jinja2 pydantic pyyaml platformdirs python-dotenv requests rich tenacity typer
"""

from __future__ import annotations

import proctor
from proctor.minisweagent import Environment, Model, configuration


@proctor.scaffold
def drive(session: proctor.Session) -> None:
    from minisweagent.agents.default import DefaultAgent

    prompts = configuration()["agent"]
    agent = DefaultAgent(
        Model(session),
        Environment(session),
        system_template=prompts["system_template"],
        instance_template=prompts["instance_template"],
        # Proctor enforces the limits, so the agent's own limits are disabled.
        step_limit=0,
        cost_limit=0,
    )
    brief = session.brief
    ended = agent.run(f"The repository is at `{brief.workdir}`.\n\n{brief.statement}")
    status = str(ended.get("exit_status"))
    if status == "Submitted":
        session.submit()
    else:
        session.give_up(status)
