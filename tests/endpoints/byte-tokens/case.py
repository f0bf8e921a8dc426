"""chat/bash, mlx-lm/LM Studio/oMLX with Mistral's tekken tokenizer: the detokenizer leaves the byte-level marks in the text, streamed or not: `Ġ` for each blank, `Ċ` for each newline (`lsĠ-laĊ`). The model wrote a correct block each time. Expected: a fault (or resolved, if the client decodes the marks); never the model's missing block, never scored. (lmstudio-bug-tracker#1302 "unable to do tool calls", mlx-lm#1041, omlx#1537 "```jsonĊ{ĊĠĠ", mlx-knife#49 "streaming and batch mode")"""
from mock import *
class C(Case):
    scaffold = 'bash'
    def answer(self, conv, k, body):
        replies = [m['content'] if isinstance(m['content'], str) else json.dumps(m['content']) for m in body['messages'] if m['role'] == 'user'][1:]
        done = sum('block' not in r for r in replies)
        do = ['ls -la', SOLVE, 'proctor-submit'][min(done, 2)]
        text = ['I look around first.', 'Now I write the function.', 'The work is done.'][min(done, 2)] + f'\n\n```bash\n{do}\n```'
        if len(replies) > done: text = 'Here is the command as a single block.\n\n' + text
        text = text.replace(' ', 'Ġ').replace('\n', 'Ċ')
        n, out = len(json.dumps(body)) // 4, len(text) // 4
        u = {'prompt_tokens': n, 'completion_tokens': out, 'total_tokens': n + out}
        if body.get('stream'): return chat({'role': 'assistant', 'content': ''}, *[{'content': text[i:i+7]} for i in range(0, len(text), 7)], fin='stop', usage=u)
        return js({'id': 'chatcmpl-1', 'object': 'chat.completion', 'model': 'mock', 'choices': [{'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': text, 'tool_calls': []}}], 'usage': u})
