"""Checks fake-llm's wire format with the official `openai` package.

usage: python check_openai_client.py BASE_URL      (the server must serve check_script.toml)
Needs `pip install openai`. Exits with 0 when every check holds.
"""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="not-a-key", max_retries=0)
raw = dict(model="m", tools=[{"type": "function", "function": {"name": "shell", "parameters": {}}}])


def asked(text, **more):
    messages = [{"role": "user", "content": text}]
    return client.chat.completions.create(messages=messages, **raw, **more)


def streamed(text):
    stream = asked(text, stream=True, stream_options={"include_usage": True})
    content, calls, reasoning, usage, finish = "", {}, "", None, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            finish = choice.finish_reason or finish
            content += choice.delta.content or ""
            reasoning += getattr(choice.delta, "reasoning_content", None) or ""
            for part in choice.delta.tool_calls or []:
                call = calls.setdefault(part.index, {"id": part.id, "name": "", "arguments": ""})
                call["name"] += part.function.name or ""
                call["arguments"] += part.function.arguments or ""
    return content, calls, reasoning, usage, finish


assert [model.id for model in client.models.list()] == ["scripted"]

plain = asked("plain")
assert plain.choices[0].message.content == "Grüße aus dem Skript, with more than one chunk."
assert plain.choices[0].finish_reason == "stop"
assert plain.choices[0].message.tool_calls is None
assert plain.model == "m" and plain.object == "chat.completion"

calls = asked("calls")
message = calls.choices[0].message
assert calls.choices[0].finish_reason == "tool_calls" and message.content is None
assert [call.function.name for call in message.tool_calls] == ["shell", "shell"]
assert json.loads(message.tool_calls[0].function.arguments) == {"command": "ls -la /testbed"}
assert message.tool_calls[1].function.arguments == '{"command": '
assert message.reasoning_content == "First look, then think."
assert (calls.usage.prompt_tokens, calls.usage.completion_tokens) == (100, 20)
assert calls.usage.prompt_tokens_details.cached_tokens == 80
assert calls.usage.completion_tokens_details.reasoning_tokens == 7

content, _, _, usage, finish = streamed("plain")
assert content == plain.choices[0].message.content and finish == "stop"
assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens > 0

content, parts, reasoning, usage, finish = streamed("calls")
assert finish == "tool_calls" and content == "" and reasoning == "First look, then think."
assert [parts[i]["id"] for i in (0, 1)] == [call.id for call in message.tool_calls]
assert [parts[i]["arguments"] for i in (0, 1)] == [c.function.arguments for c in message.tool_calls]
assert usage.prompt_tokens == 100

# The whole second turn with the tool results, as the package serializes them.
results = [
    {"role": "tool", "tool_call_id": call.id, "content": "done"} for call in message.tool_calls
]
history = [{"role": "user", "content": "calls"}, message.model_dump(exclude_none=True), *results]
second = client.chat.completions.create(messages=history, **raw)
assert second.choices[0].message.content == "Finished."

assert asked("unbilled").usage is None

try:
    client.chat.completions.create(messages=history[:-1], **raw)
    raise SystemExit("a missing tool result was accepted")
except openai.BadRequestError as error:
    assert "has no result" in str(error), error

for text, kind in [("limited", openai.RateLimitError), ("broken", openai.InternalServerError)]:
    try:
        asked(text)
        raise SystemExit(f"{text}: no error")
    except kind as error:
        assert error.status_code in (429, 503)
        if text == "limited":
            assert error.response.headers["retry-after"] == "3"
    assert asked(text).choices[0].message.content == "At last."

try:
    asked("dropped")
    raise SystemExit("dropped: no error")
except openai.APIConnectionError:
    pass

# The package's own retries recover from a fault.
patient = client.with_options(max_retries=2)
again = patient.chat.completions.create(messages=[{"role": "user", "content": "flaky"}], **raw)
assert again.choices[0].message.content == "At last."

print("openai", openai.__version__, "and fake-llm agree")
