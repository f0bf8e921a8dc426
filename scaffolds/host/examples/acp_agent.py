"""A complete agent for the scaffold `acp` (docs/reference/host.md), using the official library for the Agent Client Protocol."""
import asyncio
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import acp
import openai
from acp.schema import PermissionOption, ToolCallUpdate

SHELL = {"type": "function", "function": {
    "name": "shell", "description": "Runs a line of shell.",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}}
ONCE = PermissionOption(option_id="yes", name="Allow", kind="allow_once")


class Agent(acp.Agent):
    def on_connect(self, conn):
        self.client = conn

    async def initialize(self, protocol_version, **rest):
        return acp.InitializeResponse(protocol_version=acp.PROTOCOL_VERSION)

    async def new_session(self, cwd, **rest):
        self.cwd = cwd
        return acp.NewSessionResponse(session_id="one")

    async def cancel(self, session_id, **rest):
        print("cancelled", file=sys.stderr)

    async def shell(self, session, call_id, line):
        asked = ToolCallUpdate(tool_call_id=call_id, title=line[:60])
        allowed = await self.client.request_permission(session_id=session, tool_call=asked, options=[ONCE])
        if allowed.outcome.outcome != "selected":
            return "not allowed"
        terminal = (await self.client.create_terminal(session_id=session, command=line, cwd=self.cwd)).terminal_id
        await self.client.wait_for_terminal_exit(session_id=session, terminal_id=terminal)
        done = await self.client.terminal_output(session_id=session, terminal_id=terminal)
        await self.client.release_terminal(session_id=session, terminal_id=terminal)
        return f"status {done.exit_status.exit_code}\n{done.output}"

    async def prompt(self, prompt, session_id, **rest):
        model = openai.AsyncOpenAI(max_retries=0)
        messages = [{"role": "user", "content": prompt[0].text}]
        while True:
            answer = await model.chat.completions.create(
                model=os.environ["PROCTOR_MODEL"], messages=messages, tools=[SHELL])
            said = answer.choices[0].message
            messages.append(said.model_dump(exclude_none=True))
            await self.client.session_update(session_id, acp.update_agent_message_text(said.content or ""))
            if not said.tool_calls:
                return acp.PromptResponse(stop_reason="end_turn")
            for call in said.tool_calls:
                line = json.loads(call.function.arguments)["command"]
                await self.client.session_update(session_id, acp.start_tool_call(call.id, line[:60], kind="execute"))
                shown = await self.shell(session_id, call.id, line)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": shown})


asyncio.run(acp.run_agent(Agent()))
