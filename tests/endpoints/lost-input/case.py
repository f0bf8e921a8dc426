"""messages/tools, LiteLLM before Gemini: streamed tool_use blocks have input {} and no delta (126 output tokens); without streaming they are complete. (litellm#25836, #25561, #25390)"""
from mock import *
class C(Case):
    api = 'messages'
    def answer(self, conv, k, body):
        c = [('shell', sh('ls')), ('shell', sh(SOLVE)), ('submit', {})]
        real = sum(b['type'] == 'tool_use' and b['input'] not in ({}, None) for m in body['messages'] if m['role'] == 'assistant' and isinstance(m['content'], list) for b in m['content'])
        name, inp = c[min(real, 2)]
        u = {'type': 'tool_use', 'id': nid('call_'), 'name': name, 'input': {}}
        if not body.get('stream'): return js({'id': 'msg_1', 'type': 'message', 'role': 'assistant', 'model': 'mock', 'content': [{**u, 'input': inp}], 'stop_reason': 'tool_use', 'stop_sequence': None, 'usage': {'input_tokens': 21331, 'output_tokens': 126}})
        return mev({'type': 'message_start', 'message': {'id': 'msg_1', 'type': 'message', 'role': 'assistant', 'model': 'mock', 'content': [], 'stop_reason': None, 'usage': {'input_tokens': 0, 'output_tokens': 0}}},
          {'type': 'content_block_start', 'index': 0, 'content_block': {'type': 'text', 'text': ''}}, {'type': 'content_block_stop', 'index': 0},
          {'type': 'content_block_start', 'index': 1, 'content_block': u}, {'type': 'content_block_stop', 'index': 1},
          {'type': 'message_delta', 'delta': {'stop_reason': 'tool_use'}, 'usage': {'input_tokens': 21331, 'output_tokens': 126}}, {'type': 'message_stop'})
