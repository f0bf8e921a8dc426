"""messages/tools: a proxy trims each piece of streamed arguments, so blanks and newlines between words are lost (the JSON stays valid); without streaming they are correct. (metapi#494, OmniRoute#9170, opencode-copilot-chat#194)"""
from mock import *
import re
class C(Case):
    api = 'messages'
    def answer(self, conv, k, body):
        done = json.dumps(body['messages'])
        name, inp = ('shell', sh('ls -l numerals && cat numerals/roman.py')) if 'tool_use' not in done else ('submit', {}) if 'ValueError(f' in done and 'rest or not 1' in done else ('shell', sh(SOLVE))
        u = {'type': 'tool_use', 'id': nid('toolu_'), 'name': name, 'input': {}}
        if not body.get('stream'): return js({'id': 'msg_1', 'type': 'message', 'role': 'assistant', 'model': 'mock', 'content': [{**u, 'input': inp}], 'stop_reason': 'tool_use', 'usage': {'input_tokens': 100, 'output_tokens': 60}})
        # Real newlines within a piece come as JSON's \\n, which a trim leaves; blanks at the edges are lost.
        pieces = [p.strip() for p in re.findall(r' ?[^ ]+', json.dumps(inp))]
        return mev({'type': 'message_start', 'message': {'id': 'msg_1', 'type': 'message', 'role': 'assistant', 'content': [], 'model': 'mock', 'usage': {'input_tokens': 100, 'output_tokens': 1}}}, {'type': 'content_block_start', 'content_block': u, 'index': 0},
          *[{'type': 'content_block_delta', 'index': 0, 'delta': {'type': 'input_json_delta', 'partial_json': p}} for p in pieces],
          {'type': 'content_block_stop', 'index': 0}, {'type': 'message_delta', 'delta': {'stop_reason': 'tool_use', 'stop_sequence': None}, 'usage': {'output_tokens': 60}}, {'type': 'message_stop'})
