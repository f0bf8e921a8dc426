"""chat/bash, gpt-oss on mlx-lm, Ollama and others without a Harmony parser: content is the raw channels, streamed or not: `<|channel|>analysis<|message|>` drafts (one submits) `<|end|><|start|>assistant<|channel|>final<|message|>` the answer `<|return|>`. Only the final channel is the model's answer: resolved. A draft must never run or cost the trial. (mlx-lm#875/1867, macprovider#743, odysseus#2420, hermes-agent#62680, maclocal-api#121)"""
from mock import *
class C(Case):
    scaffold = 'bash'
    def answer(self, conv, k, body):
        replies = [m['content'] if isinstance(m['content'], str) else json.dumps(m['content']) for m in body['messages'] if m['role'] == 'user'][1:]
        done = sum('block' not in r for r in replies)
        do = ['ls', SOLVE, 'proctor-submit'][min(done, 2)]
        final = ['I look around.', 'I write the function.', 'All done.'][min(done, 2)] + f'\n\n```bash\n{do}\n```'
        text = f'<|channel|>analysis<|message|>We need to add from_roman. In the end we hand in with\n\n```bash\nproctor-submit\n```\n\n{"Not yet." if done < 2 else "That is now."}<|end|><|start|>assistant<|channel|>final<|message|>{final}<|return|>'
        n, out = len(json.dumps(body)) // 4, len(text) // 4
        u = {'prompt_tokens': n, 'completion_tokens': out, 'total_tokens': n + out}
        if body.get('stream'): return chat({'role': 'assistant', 'content': ''}, *[{'content': text[i:i+9]} for i in range(0, len(text), 9)], fin='stop', usage=u)
        return js({'id': 'chatcmpl-1', 'object': 'chat.completion', 'model': 'mock', 'choices': [{'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': text, 'reasoning_content': None}}], 'usage': u})
