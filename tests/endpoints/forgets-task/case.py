"""chat/tools, Ollama with its default window of 4,096: once the conversation outgrows it, the server silently drops the oldest messages (first the task) before each response, and prompt_tokens stay near 3,300 while the conversation grows to 12,000. The model continues to call tools, then submits an unchanged repository: a fault with a hint about `num_ctx`, never scored as submitted. (ollama#18107, PuPu#129, subwave#293, webai-at-home#213, smolagents#252)"""
from mock import *
WORDS = 'the parser reads each numeral from left to right and adds the value of every sign that it finds in the table of values for the package'
class C(Case):
    sticky = True
    budget = 'steps = 12\nwall_seconds = 60'
    timeout = 150
    def answer(self, conv, k, body):
        size = lambda x: len(json.dumps(x)) // 4
        ms = body['messages']
        fixed = size(body.get('tools', [])) + sum(size(m) for m in ms if m['role'] == 'system')
        kept, n = [], fixed
        for m in reversed([m for m in ms if m['role'] != 'system']):
            if kept and n + size(m) > 4096: break
            kept.insert(0, m); n += size(m)
        knows = any(m['role'] == 'user' and 'MARK-' in json.dumps(m) for m in kept)
        u = {'prompt_tokens': n, 'completion_tokens': 27, 'total_tokens': n + 27}
        read = lambda name: chat_call(f'# notes on {name}\nfor i in $(seq 1 60); do echo "{WORDS}"; done', usage=u)
        if k < 5: return read(['roman.py', 'tally.py', 'the tests', 'the history', 'the other files'][k])
        if knows: return [lambda: chat_call(SOLVE, usage=u), chat_submit][min(k - 5, 1)]()
        return chat({'role': 'assistant', 'content': 'The repository is complete and nothing is left to do.', 'tool_calls': [tcall('submit', {})]}, usage=u)
