"""chat/bash, vLLM/SGLang without a reasoning parser (R1, QwQ, DeepSeek V4): the template opens <think> in the prompt, so content is the reasoning with its drafts, then `</think>`, then the answer, streamed or not. Only what follows `</think>` is the model's answer: resolved. A draft must never run (one of them submits) or cost the trial. (vllm#12999, #13125, #13375, DeepSeek-R1#352, mlx-vlm#1161)"""
from mock import *
ASK = '```bash\n%s\n```'
TURNS = [
    ("Okay, let me look at the task. I need to add from_roman. The format: exactly one block per answer, and at the end I hand in with\n\n" + ASK % 'proctor-submit' + "\n\nBut first I have to see the code. So I list the files.", "I look at the package first.\n\n" + ASK % 'ls; cat numerals/roman.py'),
    ("Now I know VALUES and to_roman. A first idea would be a plain loop:\n\n" + ASK % "echo 'from_roman = int' >> numerals/roman.py" + "\n\nHmm, no, that accepts `IIII`. I compare with to_roman instead, and export it.", "I write the function and export it.\n\n" + ASK % SOLVE),
    ("The function is written. I could run the tests again with\n\n" + ASK % 'git checkout -- . && /venv/bin/python -m pytest -q' + "\n\nno wait, that would throw my change away. The work is done, so I hand in.", "Done.\n\n" + ASK % 'proctor-submit'),
]
class C(Case):
    scaffold = 'bash'
    sticky = True
    def answer(self, conv, k, body):
        thought, answer = TURNS[min(k, 2)]
        u = {'prompt_tokens': len(json.dumps(body)) // 4, 'completion_tokens': (len(thought) + len(answer)) // 4 | 1}
        u['total_tokens'] = sum(u.values())
        if not body.get('stream'):
            return js({'id': 'chatcmpl-1', 'object': 'chat.completion', 'model': 'mock', 'choices': [{'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': f'{thought}\n</think>\n\n{answer}', 'reasoning_content': None, 'tool_calls': []}}], 'usage': u})
        cut = lambda t: [{'content': t[i:i+9]} for i in range(0, len(t), 9)]
        return chat({'role': 'assistant', 'content': ''}, *cut(thought + '\n'), {'content': '</think>'}, *cut('\n\n' + answer), fin='stop', usage=u)
