"""A smolagents agent with its own client, which calls the model at ``session.openai_base_url``.

pip install 'smolagents[openai]==1.26.0'
"""

from __future__ import annotations

import proctor


@proctor.scaffold
def drive(session: proctor.Session) -> None:
    from smolagents import OpenAIServerModel, ToolCallingAgent, tool

    def shell(command: str) -> str:
        """Runs a command in the repository and returns what it prints.

        Args:
            command: a line for /bin/sh
        """
        done = session.shell(command)
        return f"{done.output}\n[exit status {done.exit_status}]"

    model = OpenAIServerModel(
        model_id=session.brief.model or "model",
        api_base=session.openai_base_url,
        api_key=session.api_key,
    )
    # Proctor ends the trial at its own limits, so the agent needs none.
    agent = ToolCallingAgent(tools=[tool(shell)], model=model, max_steps=10_000)
    agent.run(f"{session.brief.statement}\n\nThe code is in {session.brief.workdir}.")
    session.submit()
