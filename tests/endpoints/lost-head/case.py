"""messages/tools, vLLM's /v1/messages: the first piece of the arguments ('{"') is always dropped in streams; without streaming they are complete. (vllm#34887)"""
from mock import *
class C(Case):
    api = 'messages'
    def answer(self, conv, k, body):
        good = sum(1 for m in body['messages'] if m['role'] == 'assistant' and isinstance(m['content'], list) for b in m['content'] if b['type'] == 'tool_use' and b['input'].get('command'))
        name, inp = [('shell', sh('ls')), ('shell', sh(SOLVE)), ('submit', {})][min(good, 2)]
        full = json.dumps(inp)
        u = {'type': 'tool_use', 'id': nid('call_'), 'name': name, 'input': {}}
        if not body.get('stream'): return js({'id': 'msg_1', 'type': 'message', 'role': 'assistant', 'model': 'mock', 'content': [{**u, 'input': inp}], 'stop_reason': 'tool_use', 'usage': {'input_tokens': 94, 'output_tokens': 26}})
        rest = full[2:]
        return mev({'type': 'message_start', 'message': {'id': 'chatcmpl-1', 'content': [], 'model': 'mock', 'usage': {'input_tokens': 94, 'output_tokens': 0}}}, {'type': 'content_block_start', 'content_block': u, 'index': 0},
          *[{'type': 'content_block_delta', 'delta': {'type': 'input_json_delta', 'partial_json': rest[i:i+40]}, 'index': 0} for i in range(0, len(rest), 40)],
          {'type': 'content_block_stop', 'index': 0}, {'type': 'message_delta', 'delta': {'stop_reason': 'tool_use'}, 'usage': {'input_tokens': 94, 'output_tokens': 26}}, {'type': 'message_stop'})
