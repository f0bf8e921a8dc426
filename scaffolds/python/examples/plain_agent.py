"""A complete agent: call the model, run its tool calls, repeat."""

from __future__ import annotations

from typing import Any

import proctor


@proctor.scaffold
def drive(session: proctor.Session) -> None:
    brief = session.brief
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a software engineer. Call submit when you are done."},
        {"role": "user", "content": f"{brief.statement}\n\nThe code is in {brief.workdir}."},
    ]
    while True:
        answer = session.ask(messages)
        messages.append(answer.message)
        if not answer.tool_calls:
            session.submit()
            return
        for call in answer.tool_calls:
            done = session.call(call)
            if done.submitted:
                return
            messages.append({"role": "tool", "call_id": call.id, "content": done.output})
