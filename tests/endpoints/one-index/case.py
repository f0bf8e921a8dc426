"""messages/tools, Ollama's /v1/messages (and other converters): streams reuse the index of a content block. A short text opens block 0 and is never closed, then the thinking opens block 0 again; from step 2 on, the tool_use opens index 0 again after the thinking, or two parallel calls are both index 1. Without streaming the responses are correct. Clients must distinguish blocks by their starts (Claude Code and the SDK abort with `Content block not found`): resolved; never a lost or mixed call. (ollama#17101 "second start, same index, text block never stopped", #14816, anthropic-sdk-typescript#879 "content_block_start index=1 text <- duplicate", cc-switch#2303, surogate#113)"""
from mock import *
STEPS = [
    [('text', '---\n'), ('thinking', 'The task names two files. I look at them first.'), ('call', 'ls; cat numerals/roman.py')],
    [('thinking', 'Now the export, and how the tests are laid out.'), ('call', 'cat numerals/__init__.py'), ('call', 'head -5 tests/*.py')],
    [('text', 'I write it.'), ('thinking', 'The numerals are greedy, so I read them greedily.'), ('call', SOLVE)],
    [('thinking', 'The tests, then I am done.'), ('call', '/venv/bin/python -m pytest -q | tail -2')],
    [('call', None)],
]
class C(Case):
    api = 'messages'
    def answer(self, conv, k, body):
        step = min(sum(m['role'] == 'assistant' for m in body['messages']), 4)
        n = len(json.dumps(body)) // 4
        usage = {'input_tokens': n, 'output_tokens': 88}
        full = []
        for i, (kind, what) in enumerate(STEPS[step]):
            if kind == 'text': full.append({'type': 'text', 'text': what})
            elif kind == 'thinking': full.append({'type': 'thinking', 'thinking': what, 'signature': ''})
            else: full.append({'type': 'tool_use', 'id': f'call_{step}{i}', 'name': 'shell' if what else 'submit', 'input': sh(what) if what else {}})
        if not body.get('stream'): return js({'id': f'msg_{step}', 'type': 'message', 'role': 'assistant', 'model': 'mock', 'content': full, 'stop_reason': 'tool_use', 'usage': usage})
        ev = [{'type': 'message_start', 'message': {'id': f'msg_{step}', 'type': 'message', 'role': 'assistant', 'model': 'mock', 'content': [], 'usage': {'input_tokens': n, 'output_tokens': 0}}}]
        for i, b in enumerate(full):
            index = [[0, 0, 1], [0, 1, 1], [0, 0, 1], [0, 0], [0]][step][i]
            if b['type'] == 'tool_use':
                raw = json.dumps(b['input'])
                ev += [{'type': 'content_block_start', 'index': index, 'content_block': {**b, 'input': {}}}] + [{'type': 'content_block_delta', 'index': index, 'delta': {'type': 'input_json_delta', 'partial_json': p}} for p in (raw[:9], raw[9:]) if p]
            elif b['type'] == 'text':
                ev += [{'type': 'content_block_start', 'index': index, 'content_block': {'type': 'text', 'text': ''}}, {'type': 'content_block_delta', 'index': index, 'delta': {'type': 'text_delta', 'text': b['text']}}]
            else:
                ev += [{'type': 'content_block_start', 'index': index, 'content_block': {'type': 'thinking', 'thinking': ''}}] + [{'type': 'content_block_delta', 'index': index, 'delta': {'type': 'thinking_delta', 'thinking': p}} for p in (b['thinking'][:12], b['thinking'][12:])]
            if not (b['type'] == 'text' and i + 1 < len(full) and full[i + 1]['type'] == 'thinking'): ev.append({'type': 'content_block_stop', 'index': index})
        return mev(*ev, {'type': 'message_delta', 'delta': {'stop_reason': 'tool_use'}, 'usage': usage}, {'type': 'message_stop'})
    def check(self, conv, k, body, h):
        ms, step = body['messages'], -1
        for m, after in zip(ms, [*ms[1:], {'content': []}]):
            if m['role'] != 'assistant': continue
            step += 1
            uses = [b for b in m['content'] if b['type'] == 'tool_use']
            if any(not isinstance(b['input'], dict) for b in uses): return merr(400, 'invalid tool_use input')
            want = [what for kind, what in STEPS[min(step, 4)] if kind == 'call']
            if [b['input'].get('command') for b in uses] != want: return merr(400, f'messages: the calls of turn {step + 1} are not the ones that were made')
            if [b['id'] for b in uses] != [b.get('tool_use_id') for b in after['content'] if b['type'] == 'tool_result']: return merr(400, 'tool_result does not match tool_use')
