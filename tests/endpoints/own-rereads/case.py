"""messages/tools, honest: like applied-edits, but `applied_edits` is empty and the counts grow: the model itself reads the same three parts until its twelve steps are used up: its own limit."""
from mock import *
class C(Case):
    api = 'messages'
    def answer(self, conv, k, body):
        part = turns(body) % 3 + 1
        block = tuse(f'echo "PART-{part} begins"; for i in $(seq 1 110); do echo "{part}: line $i of the conventions of this package and of its numerals, values and tests"; done')
        r = m_out(body, [block], 'tool_use', n_of(body), n_of(block['input']) + 20)
        if not body.get('stream'): return js({**json.loads(r.pieces[0]), 'context_management': {'applied_edits': []}})
        r.pieces[-2] = r.pieces[-2].replace(b'"type": "message_delta", ', b'"type": "message_delta", "context_management": {"applied_edits": []}, ')
        return r
