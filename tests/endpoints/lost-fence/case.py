"""messages/bash, LiteLLM's /v1/messages: each stream has an empty text block, then the thinking, then the text without its first delta (the opening fence), because the chunk at the change of blocks is dropped; without streaming it is complete. Turns sent back need non-empty text and unchanged thinking. Expected: resolved. (litellm#30765, #27492, #25216)"""
from mock import *
class C(Case):
    api = 'messages'
    scaffold = 'bash'
    model = 'extra_body = { thinking = { type = "enabled", budget_tokens = 2000 } }'
    def answer(self, conv, k, body):
        turns = [m['content'] for m in body['messages'] if m['role'] == 'assistant']
        texts = [c if isinstance(c, str) else ''.join(b.get('text', '') for b in c) for c in turns]
        done = sum('```bash\n' in t for t in texts)
        deltas = [['```bash\n', 'ls', '\n```'], ['```bash\n', *[SOLVE[i:i+60] for i in range(0, len(SOLVE), 60)], '\n```'], ['```bash\n', 'proctor-submit', '\n```']][min(done, 2)]
        thought, u = {'type': 'thinking', 'thinking': f'What next, {done}?', 'signature': f'SIG{done}'}, {'input_tokens': len(json.dumps(body)) // 4, 'output_tokens': len(''.join(deltas)) // 4 + 21}
        m = {'id': 'msg_1', 'type': 'message', 'role': 'assistant', 'model': 'converse/mock', 'content': [], 'stop_reason': None, 'stop_sequence': None, 'usage': {'input_tokens': 0, 'output_tokens': 0}}
        if not body.get('stream'): return js({**m, 'content': [thought, {'type': 'text', 'text': ''.join(deltas)}], 'stop_reason': 'end_turn', 'usage': u})
        d = lambda i, **x: {'type': 'content_block_delta', 'index': i, 'delta': x}
        return mev({'type': 'message_start', 'message': m},
          {'type': 'content_block_start', 'index': 0, 'content_block': {'type': 'text', 'text': ''}}, {'type': 'content_block_stop', 'index': 0},
          {'type': 'content_block_start', 'index': 1, 'content_block': {'type': 'thinking', 'thinking': '', 'signature': ''}}, d(1, type='thinking_delta', thinking=thought['thinking']), d(1, type='signature_delta', signature=thought['signature']), {'type': 'content_block_stop', 'index': 1},
          {'type': 'content_block_start', 'index': 2, 'content_block': {'type': 'text', 'text': ''}}, *[d(2, type='text_delta', text=t) for t in deltas[1:]], {'type': 'content_block_stop', 'index': 2},
          {'type': 'message_delta', 'delta': {'stop_reason': 'end_turn', 'stop_sequence': None}, 'usage': u}, {'type': 'message_stop'})
    def check(self, conv, k, body, h):
        for i, m in enumerate(body['messages']):
            if isinstance(m['content'], str): continue
            for j, b in enumerate(m['content']):
                if b['type'] == 'text' and not b['text'].strip(): return merr(400, f'messages.{i}.content.{j}: text content blocks must be non-empty')
                if b['type'] == 'thinking' and (not b['thinking'].startswith('What next, ') or b['signature'] != 'SIG' + b['thinking'][11:-1]): return merr(400, f'messages.{i}.content.{j}: Invalid `signature` in `thinking` block')
