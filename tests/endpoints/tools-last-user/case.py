"""chat/tools, Ollama (the templates of Llama 3.1, Ministral and others, and proxies before it): the tools are rendered into the prompt only if the last message is the user's. After a tool result the model does not see them, so it describes its next step in text; after the client's nudge (a user message) it calls again. prompt_tokens show it: they fall by the schemas after each tool result. A model that needs 8 calls uses up the 12 steps with 6 calls. The server dropped the tools: a fault with a hint (or resolved); never the model's limit, and never scored. (ollama#6477 "the assistant won't know what tools exist ... for the second function call", #13334, continue#13254 "executes exactly one tool call per user message and then stops — it narrates its next intended step")"""
from mock import *
PLAN = [
    ('list the repository', 'ls -la; git log --oneline | head -3'), ('read `numerals/roman.py`', 'cat numerals/roman.py'),
    ('read `numerals/__init__.py`', 'cat numerals/__init__.py'), ('see how the tests are laid out', 'ls tests; head -5 tests/*.py'),
    ('look at `numerals/tally.py` for the conventions', 'head -12 numerals/tally.py'), ('run the existing tests', '/venv/bin/python -m pytest -q 2>&1 | tail -2'),
    ('write `from_roman` and export it', SOLVE), ('hand in the work', None),
]
class C(Case):
    sticky = True
    budget = 'steps = 12\nwall_seconds = 60'
    timeout = 200
    def answer(self, conv, k, body):
        calls = sum(len(m.get('tool_calls') or []) for m in body['messages'])
        sees = body['messages'][-1]['role'] == 'user'
        n = (len(json.dumps(body['messages'])) + (len(json.dumps(body['tools'])) if sees else 0)) // 4
        say, command = PLAN[min(calls, len(PLAN) - 1)]
        if sees: m = {'role': 'assistant', 'content': '', 'tool_calls': [tcall(args=sh(command)) if command else tcall('submit', {})]}
        else: m = {'role': 'assistant', 'content': f'The output is clear so far. Next, I will {say}.'}
        u = {'prompt_tokens': n, 'completion_tokens': 31, 'total_tokens': n + 31}
        fin = 'tool_calls' if sees else 'stop'
        if body.get('stream'): return chat(m, fin=fin, usage=u)
        for c in m.get('tool_calls', []): c.pop('index')
        return js({'id': f'chatcmpl-{k}', 'object': 'chat.completion', 'model': 'mock', 'system_fingerprint': 'fp_ollama', 'choices': [{'index': 0, 'finish_reason': fin, 'message': m}], 'usage': u})
