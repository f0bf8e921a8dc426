"""chat endpoint (sub2api/LiteLLM before Claude), Messages client: arguments always begin with an extra {} ('{}{"command": ...}'). (litellm#4537, sub2api#6336, ai-gateway#1465)"""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        name, a = [('shell', sh('ls')), ('shell', sh(SOLVE)), ('submit', {})][min(k, 2)]
        f = '{}' + (json.dumps(a) if a else '')
        t = {'role': 'assistant', 'content': None, 'tool_calls': [tcall(name, f)]}
        if body.get('stream'): return chat(t)
        return js({'id': 'x', 'model': 'mock', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': t}], 'usage': USAGE})
    def check(self, conv, k, body, h):
        for m in body['messages']:
            for t in m.get('tool_calls') or []:
                try: json.loads(t['function']['arguments'])
                except ValueError: return err(400, 'messages.1.content.0.tool_use.input: Input should be a valid dictionary')
