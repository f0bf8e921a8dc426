"""A complete agent for the scaffold `mcp` (docs/reference/host.md), using the official MCP and OpenAI libraries."""
import asyncio
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import mcp
import openai
from mcp.client.streamable_http import streamable_http_client


async def main():
    model = openai.AsyncOpenAI(max_retries=0)
    messages = [{"role": "user", "content": sys.stdin.read()}]
    async with streamable_http_client(os.environ["PROCTOR_MCP_URL"]) as (reader, writer, *_):
        async with mcp.ClientSession(reader, writer) as tools:
            await tools.initialize()
            offered = [{"type": "function", "function": {
                "name": tool.name, "description": tool.description, "parameters": tool.input_schema}}
                for tool in (await tools.list_tools()).tools]
            while True:
                answer = await model.chat.completions.create(
                    model=os.environ["PROCTOR_MODEL"], messages=messages, tools=offered)
                said = answer.choices[0].message
                messages.append(said.model_dump(exclude_none=True))
                if not said.tool_calls:
                    return
                for call in said.tool_calls:
                    done = await tools.call_tool(call.function.name, json.loads(call.function.arguments))
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": done.content[0].text})


asyncio.run(main())
