"""Calls the gateway with the official clients, each in its own wire format.

usage: matrix.py BASE_URL TOKEN CLIENT, with CLIENT one of chat, responses, messages, gemini.

Each check runs a conversation of two turns, with streaming and without: two parallel tool calls with reasoning,
their results, and a final text. The model is scripted, and the endpoint rejects inconsistent
conversations. Exits with 0 if all checks pass.
"""

import json
import sys

BASE, TOKEN, CLIENT = sys.argv[1:4]
SYSTEM = "You are under test."
TASK = "matrix: list both folders"
DESCRIPTION = "Lists a folder."
SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
}
CALLS = [("list", {"path": "/a"}), ("list", {"path": "/b"})]
RESULTS = ["a-result", "b-result"]
THOUGHT = "First look, then think about what was seen."
TEXT = "Grüße: both are listed, said in more than one chunk."
# The token counts (input, output, cached) that the model's script specifies for each turn.
FIRST, SECOND = (100, 20, 80), (200, 9, 0)


def same(what, seen, wanted):
    if seen != wanted:
        raise SystemExit(f"{CLIENT}: {what}: {seen!r} instead of {wanted!r}")


def chat(stream):
    from openai import OpenAI

    client = OpenAI(base_url=f"{BASE}/v1", api_key=TOKEN, max_retries=0)
    function = {"name": "list", "description": DESCRIPTION, "parameters": SCHEMA}
    ask = {
        "model": "m",
        "tools": [{"type": "function", "function": function}],
        "parallel_tool_calls": True,
        "max_completion_tokens": 500,
    }
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]

    def turn():
        if not stream:
            done = client.chat.completions.create(messages=messages, **ask)
            return done.choices[0].message, done.choices[0].finish_reason, done.usage
        with client.chat.completions.stream(
            messages=messages, stream_options={"include_usage": True}, **ask
        ) as events:
            pieces = sum(event.type == "chunk" for event in events)
            done = events.get_final_completion()
        assert pieces > 5, f"only {pieces} chunks"
        return done.choices[0].message, done.choices[0].finish_reason, done.usage

    def usage(seen, wanted):
        cached = seen.prompt_tokens_details.cached_tokens
        same("usage", (seen.prompt_tokens, seen.completion_tokens, cached), wanted)

    message, reason, used = turn()
    same("reason", reason, "tool_calls")
    calls = message.tool_calls
    same("calls", [(c.function.name, json.loads(c.function.arguments)) for c in calls], CALLS)
    assert len({call.id for call in calls}) == 2
    if not stream:
        same("reasoning", message.model_extra["reasoning_content"], THOUGHT)
    usage(used, FIRST)
    messages.append(message.model_dump(exclude_none=True))
    for call, result in zip(calls, RESULTS):
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    message, reason, used = turn()
    same("reason", reason, "stop")
    same("text", message.content, TEXT)
    usage(used, SECOND)


def responses(stream):
    from openai import OpenAI

    client = OpenAI(base_url=f"{BASE}/v1", api_key=TOKEN, max_retries=0)
    tool = {"type": "function", "name": "list", "description": DESCRIPTION, "parameters": SCHEMA}
    ask = {
        "model": "m",
        "instructions": SYSTEM,
        "tools": [tool],
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 500,
    }
    items = [{"role": "user", "content": TASK}]

    def turn():
        if not stream:
            return client.responses.create(input=items, **ask)
        kinds = []
        with client.responses.stream(input=items, **ask) as events:
            for event in events:
                kinds.append(event.type)
            done = events.get_final_response()
        same("first event", kinds[0], "response.created")
        same("last event", kinds[-1], "response.completed")
        deltas = sum(kind.endswith(".delta") for kind in kinds)
        assert deltas > 1, f"only {deltas} deltas"
        return done

    def usage(seen, wanted):
        cached = seen.input_tokens_details.cached_tokens
        same("usage", (seen.input_tokens, seen.output_tokens, cached), wanted)

    done = turn()
    same("status", done.status, "completed")
    calls = [item for item in done.output if item.type == "function_call"]
    same("calls", [(c.name, json.loads(c.arguments)) for c in calls], CALLS)
    thoughts = [item for item in done.output if item.type == "reasoning"]
    same("reasoning", [part.text for item in thoughts for part in item.summary], [THOUGHT])
    usage(done.usage, FIRST)
    items += [item.model_dump(exclude_none=True) for item in done.output]
    for call, result in zip(calls, RESULTS):
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": result})
    done = turn()
    same("text", done.output_text, TEXT)
    usage(done.usage, SECOND)


def messages(stream):
    from anthropic import Anthropic

    client = Anthropic(base_url=BASE, api_key=TOKEN, max_retries=0)
    ask = {
        "model": "m",
        "system": [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "list", "description": DESCRIPTION, "input_schema": SCHEMA}],
        "max_tokens": 500,
    }
    talk = [{"role": "user", "content": TASK}]

    def turn():
        if not stream:
            return client.messages.create(messages=talk, **ask)
        with client.messages.stream(messages=talk, **ask) as events:
            deltas = sum(event.type == "content_block_delta" for event in events)
            done = events.get_final_message()
        assert deltas > 1, f"only {deltas} deltas"
        return done

    def usage(seen, wanted):
        cached = seen.cache_read_input_tokens or 0
        same("usage", (seen.input_tokens + cached, seen.output_tokens, cached), wanted)

    done = turn()
    same("reason", done.stop_reason, "tool_use")
    calls = [block for block in done.content if block.type == "tool_use"]
    same("calls", [(c.name, c.input) for c in calls], CALLS)
    thoughts = [block.thinking for block in done.content if block.type == "thinking"]
    same("reasoning", thoughts, [THOUGHT])
    usage(done.usage, FIRST)
    talk.append({"role": "assistant", "content": [b.model_dump(exclude_none=True) for b in done.content]})
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": result}
        for call, result in zip(calls, RESULTS)
    ]
    talk.append({"role": "user", "content": results})
    done = turn()
    same("reason", done.stop_reason, "end_turn")
    same("text", "".join(block.text for block in done.content if block.type == "text"), TEXT)
    usage(done.usage, SECOND)
    counted = client.messages.count_tokens(model="m", messages=[{"role": "user", "content": "hi there"}])
    assert counted.input_tokens > 1


def gemini(stream):
    from google import genai
    from google.genai import types

    client = genai.Client(
        api_key=TOKEN, http_options=types.HttpOptions(base_url=BASE, api_version="v1beta")
    )
    declared = types.FunctionDeclaration(
        name="list",
        description=DESCRIPTION,
        parameters=types.Schema(
            type="OBJECT", properties={"path": types.Schema(type="STRING")}, required=["path"]
        ),
    )
    config = types.GenerateContentConfig(
        system_instruction=SYSTEM,
        tools=[types.Tool(function_declarations=[declared])],
        max_output_tokens=500,
    )
    talk = [types.Content(role="user", parts=[types.Part(text=TASK)])]

    def turn():
        if not stream:
            done = client.models.generate_content(model="m", contents=talk, config=config)
            return done.candidates[0].content.parts, done.usage_metadata
        parts, used = [], None
        for piece in client.models.generate_content_stream(model="m", contents=talk, config=config):
            parts += piece.candidates[0].content.parts or []
            used = piece.usage_metadata or used
        return parts, used

    def usage(seen, wanted):
        output = (seen.candidates_token_count or 0) + (seen.thoughts_token_count or 0)
        cached = seen.cached_content_token_count or 0
        same("usage", (seen.prompt_token_count, output, cached), wanted)

    parts, used = turn()
    calls = [part.function_call for part in parts if part.function_call]
    same("calls", [(c.name, c.args) for c in calls], CALLS)
    thought = "".join(part.text for part in parts if part.thought and part.text)
    same("reasoning", thought, THOUGHT)
    usage(used, FIRST)
    talk.append(types.Content(role="model", parts=[part for part in parts if not part.thought]))
    results = [
        types.Part(
            function_response=types.FunctionResponse(
                id=call.id, name=call.name, response={"output": result}
            )
        )
        for call, result in zip(calls, RESULTS)
    ]
    talk.append(types.Content(role="user", parts=results))
    parts, used = turn()
    same("text", "".join(part.text or "" for part in parts if not part.thought), TEXT)
    usage(used, SECOND)


def refused():
    """Checks that each client reports status 402 (the trial is over) as an error and sends no further request."""
    if CLIENT in ("chat", "responses"):
        from openai import APIStatusError, OpenAI

        client = OpenAI(base_url=f"{BASE}/v1", api_key=TOKEN)
        ask = [{"role": "user", "content": TASK}]
        try:
            if CLIENT == "chat":
                client.chat.completions.create(model="m", messages=ask)
            else:
                client.responses.create(model="m", input=ask)
        except APIStatusError as error:
            return same("status", error.status_code, 402)
    elif CLIENT == "messages":
        from anthropic import Anthropic, APIStatusError

        try:
            Anthropic(base_url=BASE, api_key=TOKEN).messages.create(
                model="m", max_tokens=9, messages=[{"role": "user", "content": TASK}]
            )
        except APIStatusError as error:
            return same("status", error.status_code, 402)
    else:
        from google import genai
        from google.genai import errors, types

        client = genai.Client(api_key=TOKEN, http_options=types.HttpOptions(base_url=BASE))
        try:
            client.models.generate_content(model="m", contents=TASK)
        except errors.APIError as error:
            return same("status", error.code, 402)
    raise SystemExit(f"{CLIENT}: no request was rejected")


for streamed in (False, True):
    try:
        globals()[CLIENT](streamed)
    except SystemExit as error:
        raise SystemExit(f"{'streamed' if streamed else 'whole'}: {error}") from None
refused()
print("ok")
