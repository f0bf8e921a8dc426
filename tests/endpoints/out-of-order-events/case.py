"""responses/bash, proxies that forward each event in a task of its own: from step 2 on, neighbouring text deltas of a stream are swapped. `output_text.done`, `output_item.done` and `completed` have the right text. Expected: resolved; never the model's failed commands. (ai-dial-core#420, twenty#22484)"""
from mock import *
TURNS = ['I look at the package.\n\n' + ASK % 'ls; cat numerals/roman.py', 'I write the function and export it.\n\n' + ASK % SOLVE, 'I run the tests.\n\n' + ASK % TEST, 'Done.\n\n' + ASK % 'proctor-submit']
class C(Case):
    api = 'responses'
    scaffold = 'bash'
    def answer(self, conv, k, body):
        n = sum(i.get('role') == 'assistant' for i in body['input'])
        got = [flat(i['content']) for i in body['input'] if i.get('role') == 'user']
        bad = sum('exit status' in t for t in got)
        text = TURNS[min(n - bad, 3)] if bad < 4 else 'My commands fail although they are right. I stop here.'; i = nid('msg_')
        item = {'type': 'message', 'id': i, 'role': 'assistant', 'status': 'completed', 'content': [{'type': 'output_text', 'text': text, 'annotations': []}]}
        if not body.get('stream'): return r_out(body, [item], r_use(n_of(body), n_of(text)))
        ev = resp_events([item]); ev[-1]['response']['usage'] = r_use(n_of(body), n_of(text))
        d = next(x for x in ev if x['type'].endswith('output_text.delta'))
        at = ev.index(d); ds = [{**d, 'item_id': i, 'delta': p} for p in pieces(text, 6)]
        ev = ev[:at] + ds + [{'type': 'response.output_text.done', 'item_id': i, 'output_index': 0, 'content_index': 0, 'text': text}] + ev[at + 1:]
        for s, e in enumerate(ev): e['sequence_number'] = s
        if n and not GOOD:
            for j in range(at + 3, at + len(ds) - 2, 5): ev[j], ev[j + 1] = ev[j + 1], ev[j]
        return mev(*ev)
