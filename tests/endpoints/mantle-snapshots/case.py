"""responses/bash, Amazon Bedrock's mantle endpoint (GPT-5): in streams, a longer reply arrives as several message items with ids of their own, each with the whole text so far (its deltas are sent again from the start, its output_item.done has the longer prefix), between reasoning items; `completed` lists them all. Short replies are one item, and complete responses are correct. Only the last message is the reply; its command appends and must run once. Expected: resolved. The parts must never be joined into a broken command. (codex#29755 "text length grows monotonically", #30072, hermes-agent#41321 "59 strictly prefix-increasing message items", #41332)"""
from mock import *
ASK = '```bash\n%s\n```'
class C(Case):
    api = 'responses'
    scaffold = 'bash'
    def answer(self, conv, k, body):
        items = body['input']
        said = lambda i: i['content'] if isinstance(i['content'], str) else ''.join(p.get('text', '') for p in i['content'])
        users = [said(i) for i in items if i.get('role') == 'user']
        # The model continues if its step worked. Otherwise, it starts over up to 3 times and then gives up.
        at, again = 0, 0
        for u in users[1:]:
            bad = u.startswith('Nothing was run') or '[exit status' in u or 'Traceback' in u
            at, again = (1, again + 1) if bad and at in (1, 2) else (at if bad else at + 1, again)
        text = ['I look at the package.\n\n' + ASK % 'ls numerals', 'The numerals are greedy, so I read them greedily, compare with `to_roman`, and export the function.\n\n' + ASK % (('git checkout -q -- numerals\n' if again else '') + SOLVE),
                ASK % 'tail -4 numerals/roman.py; /venv/bin/python -m pytest -q', 'Done.\n\n' + ASK % 'proctor-submit'][min(at, 3)]
        if again > 3: text = 'My commands arrive garbled each time, so I stop here.'
        n, t = len(json.dumps(body)) // 4, len(text) // 4
        usage = {'input_tokens': n, 'input_tokens_details': {'cached_tokens': 0}, 'output_tokens': t + 128, 'output_tokens_details': {'reasoning_tokens': 128}, 'total_tokens': n + t + 128}
        message = lambda s: {'type': 'message', 'id': nid('msg_'), 'role': 'assistant', 'status': 'completed', 'content': [{'type': 'output_text', 'text': s, 'annotations': []}]}
        thought = lambda: {'type': 'reasoning', 'id': nid('rs_'), 'summary': [], 'encrypted_content': 'gAAAA' + nid('')}
        cuts = [len(text)] if len(text) < 300 else [len(text) * i // 5 for i in (1, 2, 3, 4)] + [len(text)]
        base = {'id': nid('resp_'), 'object': 'response', 'model': 'openai.gpt-5.5', 'status': 'in_progress', 'output': []}
        if not body.get('stream'): return js({**base, 'status': 'completed', 'output': [thought(), message(text)], 'usage': usage})
        out, ev = [], [{'type': 'response.created', 'response': base}]
        for cut in cuts:
            for item in (thought(), message(text[:cut])):
                at, who = len(out), {'output_index': len(out), 'item_id': item['id']}
                out.append(item)
                if item['type'] == 'reasoning':
                    ev += [{'type': 'response.output_item.added', 'output_index': at, 'item': {**item, 'encrypted_content': ''}}, {'type': 'response.output_item.done', 'output_index': at, 'item': item}]
                    continue
                part = item['content'][0]
                ev += [{'type': 'response.output_item.added', 'output_index': at, 'item': {**item, 'status': 'in_progress', 'content': []}}, {'type': 'response.content_part.added', **who, 'content_index': 0, 'part': {**part, 'text': ''}}]
                ev += [{'type': 'response.output_text.delta', **who, 'content_index': 0, 'delta': part['text'][i:i+40]} for i in range(0, cut, 40)]
                ev += [{'type': 'response.output_text.done', **who, 'content_index': 0, 'text': part['text']}, {'type': 'response.content_part.done', **who, 'content_index': 0, 'part': part}, {'type': 'response.output_item.done', 'output_index': at, 'item': item}]
        ev.append({'type': 'response.completed', 'response': {**base, 'status': 'completed', 'output': out, 'usage': usage}})
        return mev(*[{**e, 'sequence_number': i} for i, e in enumerate(ev)])
