"""chat/tools, LiteLLM/Fireworks streams: prompt_tokens is at least 100 times the possible maximum (2,000,000 for a prompt of 2,000 tokens); complete responses count correctly. This count must not end the trial at a token limit. (litellm#12970, lemma-platform#564: 193 M input tokens, 138 $ in one run)"""
from mock import *
class C(Case):
    budget = 'steps = 12\nwall_seconds = 120\ninput_tokens = 300000\ncost_usd = 1.0'
    def answer(self, conv, k, body):
        size = len(json.dumps(body)) // 4
        u = {'prompt_tokens': size * 200 if body.get('stream') else size, 'completion_tokens': 40, 'total_tokens': 0}
        u['total_tokens'] = u['prompt_tokens'] + 40
        name, a = [('shell', sh('ls')), ('shell', sh('cat numerals/roman.py')), ('shell', sh(SOLVE)), ('submit', {})][min(k, 3)]
        t = {'role': 'assistant', 'content': None, 'tool_calls': [tcall(name, a)]}
        if body.get('stream'): return chat(t, usage=u)
        t['tool_calls'][0].pop('index')
        return js({'id': 'x', 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': t}], 'usage': u})
