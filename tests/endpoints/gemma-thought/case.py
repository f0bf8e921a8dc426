"""chat/bash, Gemma 4 on mlx-vlm, LM Studio, oMLX and others: a system message turns thinking on, and content is the raw thought channel, then the answer, streamed (the marks split between deltas) or not: `<|channel>thought` drafts `<channel|>` answer; after an output the template has opened the channel in the prompt, so only `<channel|>` appears. The drafts contain blocks too, and one of them submits. Only what follows `<channel|>` is the model's answer: resolved. A draft must never run or cost the trial. (mlx-vlm#899 "raw thinking blocks leak through to API callers ... when system prompt is present", omlx#2533 "the generated stream starts inside the thought body", lmstudio-bug-tracker#2013, freellmapi#539)"""
from mock import *
ASK = '```bash\n%s\n```'
TURNS = [
    ('The user wants `from_roman`. When I am done I hand in with\n\n' + ASK % 'proctor-submit' + '\n\nBut first I have to see the code, so I list the files.', 'I look at the package first.\n\n' + ASK % 'ls; cat numerals/roman.py'),
    ('VALUES is ordered. A quick hack would be\n\n' + ASK % "echo 'from_roman = int' >> numerals/roman.py" + '\n\nNo, that accepts `IIII`. I compare with to_roman instead.', 'I write the function and export it.\n\n' + ASK % SOLVE),
    ('I could start again with\n\n' + ASK % 'git checkout -- .' + '\n\nbut the function is right. I hand in.', 'Done.\n\n' + ASK % 'proctor-submit'),
]
class C(Case):
    scaffold = 'bash'
    sticky = True
    def answer(self, conv, k, body):
        users = [m['content'] if isinstance(m['content'], str) else ''.join(p.get('text', '') for p in m['content']) for m in body['messages'] if m['role'] == 'user']
        ran = min(sum(not u.startswith('Nothing was run') for u in users[1:]), 2)
        thought, answer = TURNS[ran]
        text = ('<|channel>thought\n' if ran == 0 else '') + thought + '\n<channel|>' + answer
        n = len(json.dumps(body)) // 4
        u = {'prompt_tokens': n, 'completion_tokens': len(text) // 4 | 1, 'total_tokens': n + (len(text) // 4 | 1)}
        if not body.get('stream'):
            return js({'id': f'chatcmpl-{k}', 'object': 'chat.completion', 'model': 'mock', 'choices': [{'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': text}}], 'usage': u})
        return chat({'role': 'assistant', 'content': ''}, *[{'content': text[i:i+6]} for i in range(0, len(text), 6)], fin='stop', usage=u)
