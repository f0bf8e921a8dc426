"""chat/tools, proxies that translate formats: each entry of tool_calls is the bare function, {"name", "arguments"} without `function`, `id` and `type`, streamed (whole, in one chunk) or not; in requests the standard form is read, with one result per call. Expected: resolved; never "no call", never scored. (home-llm#349/348 "tool calls are silently ignored")"""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        k = sum(m['role'] == 'tool' for m in body['messages'])
        name, args = [('shell', sh('ls')), ('shell', sh(SOLVE)), ('submit', {})][min(k, 2)]
        n = len(json.dumps(body)) // 4
        u = {'prompt_tokens': n, 'completion_tokens': 40, 'total_tokens': n + 40}
        m = {'role': 'assistant', 'content': None, 'tool_calls': [{'name': name, 'arguments': json.dumps(args)}]}
        if body.get('stream'): return chat(m, usage=u)
        return js({'id': 'x', 'object': 'chat.completion', 'model': 'mock', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': m}], 'usage': u})
    def check(self, conv, k, body, h):
        calls = sum(len(m.get('tool_calls') or []) for m in body['messages'] if m['role'] == 'assistant')
        if sum(m['role'] == 'tool' for m in body['messages']) != calls: return err(400, 'each tool call needs one result')
