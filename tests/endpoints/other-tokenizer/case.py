"""responses/bash, LiteLLM's router: from step 3 on, a fallback of the same model group answers; its tokenizer counts 28% fewer tokens, and the response still names the group. So input_tokens fall although the conversation grows, and a repeated request gets the same count. The prompt is complete, and the model solves the task: resolved. (litellm#13486, #25503, headroom#2761)"""
from mock import *
ASK = '```bash\n%s\n```'
PROSE = "for i in $(seq 1 %d); do echo \"chapter $i: the parser reads each numeral from left to right, adds the value of every letter, and rejects what the writer would never write\"; done"
TURNS = ['I read the notes.\n\n' + ASK % (PROSE % 95), 'I read the rest of them.\n\n' + ASK % (PROSE % 18), 'I write the function and export it.\n\n' + ASK % SOLVE, 'I run the tests.\n\n' + ASK % '/venv/bin/python -m pytest -q | tail -2', 'Done.\n\n' + ASK % 'proctor-submit']
class C(Case):
    api = 'responses'
    scaffold = 'bash'
    def answer(self, conv, k, body):
        step = sum(i.get('role') == 'assistant' for i in body['input'])
        text = TURNS[min(step, 4)]
        size = len(json.dumps(body['input']))
        n = int(size / (3.3 if step < 2 else 4.6))
        events = resp_events([{'type': 'message', 'id': f'msg_{step}', 'role': 'assistant', 'status': 'completed', 'content': [{'type': 'output_text', 'text': text, 'annotations': []}]}])
        for e in events:
            if 'response' in e: e['response'] = {**e['response'], 'id': f'resp_{self.seq}'}
        events[-1]['response']['usage'] = {'input_tokens': n, 'output_tokens': len(text) // 4 + 1, 'total_tokens': n + len(text) // 4 + 1}
        return mev(*events) if body.get('stream') else js(events[-1]['response'])
