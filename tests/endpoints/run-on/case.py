"""chat/bash, Llama 3 on Ollama, llama.cpp, Together and others, mlx-vlm with Qwen: the server does not stop at the end-of-turn token, prints it, and continues with an invented user turn and a second assistant turn, streamed or not: a correct command, then `<|eot_id|><|start_header_id|>user<|end_header_id|>`, an invented output, and a block that submits. Only what precedes the first end-of-turn token is the model's turn: resolved (or a fault). The invented turn must never run or cost the trial. (ollama#3759 "`here!<|eot_id|><|start_header_id|>assistant<|end_header_id|>` ... in the OpenAI-compatible endpoint", llama.cpp#6772, together-python#137, continue#1152, mlx-vlm#2112 "emitted at token 460 and ignored, the model opened a second assistant turn")"""
from mock import *
ASK = '```bash\n%s\n```'
TURN = '<|eot_id|><|start_header_id|>%s<|end_header_id|>\n\n'
class C(Case):
    scaffold = 'bash'
    sticky = True
    def answer(self, conv, k, body):
        # Count the turns that ran a command: messages after the task, except those that complain about the form.
        users = [m['content'] if isinstance(m['content'], str) else ''.join(p.get('text', '') for p in m['content']) for m in body['messages'] if m['role'] == 'user']
        ran = sum(not u.startswith('Nothing was run') for u in users[1:])
        own, invented = [
            ('I look at the package first.\n\n' + ASK % 'ls; cat numerals/roman.py', 'numerals\ntests'),
            ('I write the function and export it.\n\n' + ASK % SOLVE, '[no output]'),
            ('I run the tests.\n\n' + ASK % '/venv/bin/python -m pytest -q', '2 passed in 0.02s'),
            ('All tests pass.\n\n' + ASK % 'proctor-submit', 'Submitted.'),
        ][min(ran, 3)]
        text = own + TURN % 'user' + invented + TURN % 'assistant' + 'The work is done.\n\n' + ASK % 'proctor-submit'
        n = len(json.dumps(body)) // 4
        u = {'prompt_tokens': n, 'completion_tokens': len(text) // 4, 'total_tokens': n + len(text) // 4}
        if not body.get('stream'):
            return js({'id': f'chatcmpl-{k}', 'object': 'chat.completion', 'model': 'mock', 'system_fingerprint': 'fp_ollama', 'choices': [{'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': text}}], 'usage': u})
        return chat(*[{'role': 'assistant', 'content': text[i:i+7]} for i in range(0, len(text), 7)], fin='stop', usage=u)
