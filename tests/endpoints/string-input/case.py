"""messages/tools, gateways before chat endpoints: `input` of a tool_use is the object's JSON text, without deltas, streamed or not; in requests it must be an object. (claude-code-proxy#13, Bamboo-agent#359)"""
from mock import *
class C(Case):
    api = 'messages'
    def answer(self, conv, k, body):
        k = sum(m['role'] == 'assistant' for m in body['messages'])
        block = [tuse('ls'), tuse(SOLVE), tuse(name='submit', input={})][min(k, 2)]
        block['input'] = json.dumps(block['input'])
        if not body.get('stream'):
            return js({'id': 'msg_1', 'type': 'message', 'role': 'assistant', 'model': 'mock', 'content': [block], 'stop_reason': 'tool_use', 'stop_sequence': None, 'usage': {'input_tokens': 100, 'output_tokens': 20}})
        events = blocks_events([block])
        start = next(i for i, e in enumerate(events) if e['type'] == 'content_block_start')
        events[start]['content_block'] = block
        return mev(*[e for e in events if e['type'] != 'content_block_delta'])
    def check(self, conv, k, body, h):
        for i, m in enumerate(body['messages']):
            for j, b in enumerate(m['content'] if isinstance(m['content'], list) else []):
                if b['type'] == 'tool_use' and not isinstance(b['input'], dict): return merr(400, f'messages.{i}.content.{j}.tool_use.input: Input should be a valid dictionary')
