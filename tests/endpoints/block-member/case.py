"""messages/tools, a router: the first service adds `caller` to its tool_use blocks, and the service from step 2 on rejects it. (anthropic-sdk-java#383, langchain#31208, claude-code#4378)"""
from mock import *
class C(Case):
    api = 'messages'
    def script(self, conv): return [lambda: msg({'type': 'text', 'text': 'I look.'}, {**tuse('ls'), 'caller': {'type': 'direct'}}), lambda: msg(tuse('pwd'))]
    def answer(self, conv, k, body):
        if k: return super().answer(conv, k, body)
        block = tuse('ls')
        events = blocks_events([{'type': 'text', 'text': 'I look.'}, block])
        for e in events:
            if e['type'] == 'content_block_start' and e['content_block']['type'] == 'tool_use': e['content_block']['caller'] = {'type': 'direct'}
        return mev(*events)
    def check(self, conv, k, body, h):
        for i, m in enumerate(body['messages']):
            for j, b in enumerate(m['content'] if isinstance(m['content'], list) else []):
                if 'caller' in b: return merr(400, f'messages.{i}.content.{j}.tool_use.caller: Extra inputs are not permitted')
