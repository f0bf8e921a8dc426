"""chat/tools, llama.cpp with `-c 6144` (and Ollama with its default): when prompt and output fill the context, the server does not report an error: it stops with finish_reason length and `truncated`, streamed or not; prompt_tokens + completion_tokens is exactly 6,144. The template drops earlier thinking, so the prompt stays at 4,700 tokens. The model needs 1,800 tokens to think and to write its call, and is cut in its thinking each time. The server's window is too small, whatever max_tokens the client sets: a fault with a hint; never the model's missing call. (llama.cpp#13577, #28711 "context capacity full - truncated is true", TradingAgents#168 "every truncated call lands on exactly total_tokens = 4096", ollama#3839)"""
from mock import *
READ = "cat numerals/*.py; for i in $(seq 1 108); do echo \"entry $i: the parser reads each numeral from left to right, adds the value of every letter, and rejects the rest\"; done"
class C(Case):
    timeout = 150
    def answer(self, conv, k, body):
        ms = [{a: b for a, b in m.items() if not a.startswith('reasoning')} for m in body['messages']]
        n = n_of(ms) + n_of(body.get('tools', []))
        if not steps(body): return call(body, 'shell', sh(READ), use(n, 60))
        if n >= 6144: return err(400, f'the request exceeds the available context size ({n} tokens > 6144)', type='exceed_context_size_error', code=400, n_prompt_tokens=n, n_ctx=6144)
        room = min(6144 - n, body.get('max_tokens') or body.get('max_completion_tokens') or 9999)
        if room >= 1800:
            return call(body, 'shell', sh(SOLVE), use(n, 1800)) if steps(body) < 2 else call(body, 'submit', {}, use(n, 12))
        t = ('Let me think about how a numeral is read and which texts are not canonical. ' * 100)[:room * 4]
        return out(body, {'content': None, 'reasoning_content': t}, [{'reasoning_content': p} for p in pieces(t, 400)], 'length', use(n, room), truncated=True)
