"""chat/tools, vLLM hermes parser with MTP: the last brace of streamed arguments is always dropped; without streaming they are complete. (vllm#32152)"""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        seen = json.dumps([m for m in body['messages'] if m['role'] == 'tool'])
        ok = sum(m['role'] == 'tool' and ('numerals' in str(m['content']) or 'exit' in str(m['content']).lower()) for m in body['messages'])
        name, a = [('shell', sh('ls')), ('shell', sh(SOLVE)), ('submit', {})][min(k, 2)] if self.fixed(body) else [('shell', sh('ls')), ('shell', sh(SOLVE)), ('submit', {})][min(k, 2)]
        full = json.dumps(a)
        if not body.get('stream'): return js({'id': 'x', 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': {'role': 'assistant', 'content': None, 'tool_calls': [{'id': nid(), 'type': 'function', 'function': {'name': name, 'arguments': full}}]}}], 'usage': USAGE})
        c = tcall(name, full[:-1])
        h = len(full) // 2
        return sse(chunk({'role': 'assistant', 'content': ''}), chunk({'tool_calls': [{**c, 'function': {'name': name, 'arguments': ''}}]}), chunk({'tool_calls': [{'index': 0, 'function': {'arguments': full[:h]}}]}), chunk({'tool_calls': [{'index': 0, 'function': {'arguments': full[h:-1]}}]}), chunk({'content': ''}, 'tool_calls', stop_reason=None), chunk(usage=USAGE))
    def fixed(self, body): return True
