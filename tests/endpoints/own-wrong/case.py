"""messages/tools, honest: the model writes a from_roman that accepts `IIII`, and submits: scored."""
from mock import *
CMDS = ['ls; cat numerals/roman.py', SOLVE.replace(' or to_roman(total) != text', ''), TEST]
class C(Case):
    api = 'messages'
    def answer(self, conv, k, body):
        s = steps(body); n = n_of(body)
        block = tuse(CMDS[s]) if s < 3 else tuse(name='submit', input={})
        if not body.get('stream'): return js({'id': f'msg_{self.seq}', 'type': 'message', 'role': 'assistant', 'model': 'mock', 'content': [block], 'stop_reason': 'tool_use', 'stop_sequence': None, 'usage': {'input_tokens': n, 'output_tokens': 60}})
        return mev(*blocks_events([block], 'tool_use', {'input_tokens': n, 'output_tokens': 1}, {'output_tokens': 60}))
