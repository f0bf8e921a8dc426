"""messages/tools, a gateway before Anthropic that turns on context editing for every request: above 5,000 input tokens, the API replaces all tool results but the last one, and reports `context_management.applied_edits`. The model needs three results at once, and reads the missing one again and again. Expected: a fault that names `applied_edits`; never the model's limit. (claude-code#44521, stdapi.ai#128, chatcli#1483)"""
from mock import *
class C(Case):
    api = 'messages'
    budget = 'steps = 12\nwall_seconds = 120'
    def answer(self, conv, k, body):
        import copy
        ms = copy.deepcopy(body['messages'])
        full = n_of(body)
        results = [b for m in ms if m['role'] == 'user' and isinstance(m['content'], list) for b in m['content'] if b['type'] == 'tool_result']
        edits = []
        if not GOOD and full > 5000 and len(results) > 1:
            for b in results[:-1]: b['content'] = '[Old tool result content cleared]'
            seen = n_of({**body, 'messages': ms})
            edits = [{'type': 'clear_tool_uses_20250919', 'cleared_tool_uses': len(results) - 1, 'cleared_input_tokens': full - seen}]
            full = seen
        text = '\n'.join(flat(b.get('content')) for b in results)
        part = next((i for i in (1, 2, 3) if f'PART-{i} begins' not in text), None)
        if part: block = tuse(f'echo "PART-{part} begins"; for i in $(seq 1 110); do echo "{part}: line $i of the conventions of this package and of its numerals, values and tests"; done')
        elif 'passed' in text: block = tuse(name='submit', input={})
        else: block = tuse(SOLVE + '\n' + TEST)
        r = m_out(body, [block], 'tool_use', full, n_of(block['input']) + 20)
        more = {'context_management': {'applied_edits': edits}}
        if not body.get('stream'): return js({**json.loads(r.pieces[0]), **more})
        r.pieces[-2] = r.pieces[-2].replace(b'"type": "message_delta", ', b'"type": "message_delta", "context_management": ' + json.dumps(more['context_management']).encode() + b', ')
        return r
