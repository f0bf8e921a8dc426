"""chat/bash, a router; from step 2 on, the backend is a Hugging Face pipeline (`return_full_text` is true by default), vLLM's plain api_server or a bridge with `echo`: content is the whole rendered prompt and then the model's answer, streamed or not; completion_tokens counts the answer only. The prompt has command blocks of its own, so the client finds several. Expected: resolved (the text begins with what was sent), or a fault with a hint; never the model's "3 bash blocks". (vllm#8864 "the returned text always also includes the prompt itself", discourse-ai#338 "Don't echo prompt back on HF/TGI", vllm#1232)"""
from mock import *
TURNS = ['I look at the package.\n\n' + ASK % 'ls; cat numerals/roman.py', 'I write the function and export it.\n\n' + ASK % SOLVE, 'I run the tests.\n\n' + ASK % TEST, 'Done.\n\n' + ASK % 'proctor-submit']
class C(Case):
    scaffold = 'bash'
    n = 0
    def answer(self, conv, k, body):
        text = TURNS[min(steps(body), 3)]
        u = use(n_of(body), n_of(text))
        if steps(body) == 0 or GOOD: return say(body, text, u)
        prompt = ''.join(f"{m['role'].title()}: {m['content'].strip()}\n\n" for m in body['messages']) + 'Assistant: '
        return say(body, prompt + text, u)
