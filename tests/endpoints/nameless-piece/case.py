"""chat/tools, SGLang minimax_m2: a call is streamed as two entries, the first with a name and no arguments, the second without name and id and with the arguments twice (the first copy truncated); without streaming it is complete. (sglang#23071)"""
from mock import *
class C(Case):
    budget = 'steps = 12\nwall_seconds = 60'
    def answer(self, conv, k, body):
        good = 0
        for m in body['messages']:
            for t in m.get('tool_calls') or []:
                try: good += 'command' in json.loads(t['function']['arguments'])
                except ValueError: pass
        name, a = [('shell', sh('ls')), ('shell', sh(SOLVE)), ('submit', {})][min(good, 2)]
        full = json.dumps(a)
        if not body.get('stream'): return js({'id': 'x', 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': {'role': 'assistant', 'content': None, 'tool_calls': [{'id': nid(), 'type': 'function', 'function': {'name': name, 'arguments': full}}]}}], 'usage': USAGE})
        if name == 'submit': return chat_submit()
        cut = json.dumps({'command': a['command']})[:-1]
        return sse(chunk({'role': 'assistant', 'content': ''}), chunk({'tool_calls': [tcall(name, '')]}), chunk({'tool_calls': [{'index': 1, 'id': None, 'type': 'function', 'function': {'name': None, 'arguments': cut}}]}), chunk({'tool_calls': [{'index': 1, 'id': None, 'type': 'function', 'function': {'name': None, 'arguments': full}}]}), chunk({}, 'tool_calls'), chunk(usage=USAGE))
