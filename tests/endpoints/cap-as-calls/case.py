"""chat/tools, vLLM (and DeepSeek recipes over it, Dynamo) started with a default of 1,024 output tokens: the model thinks for 600 tokens and writes a long file; the cut call is reported with finish_reason `tool_calls` and arguments that end inside the string, streamed or not; completion_tokens is exactly 1,024. If the request sets max_tokens, the response is complete. Like vLLM, the server rejects a history whose arguments are not JSON: 400 `Unterminated string starting at`. Expected: resolved with an explicit limit, or a fault; never the model's malformed call. (vllm#58228 "identifiable only by comparing usage.completion_tokens with max_tokens", DSpark#55, dynamo#13791, vllm#47761)"""
from mock import *
LONG = SOLVE + '\ncat > NOTES.txt <<END\n' + 'Roman numerals are read from left to right; each letter adds its value.\n' * 60 + 'END\nrm NOTES.txt'
class C(Case):
    def check(self, conv, k, body, h):
        for m in body['messages']:
            for c in m.get('tool_calls') or []:
                try: json.loads(c['function']['arguments'])
                except ValueError as e: return err(400, f'{e}'.replace('Expecting', 'Unterminated string starting at: expecting'), type='BadRequestError', code=400)
    def answer(self, conv, k, body):
        good = sum(m['role'] == 'tool' for m in body['messages'])
        done = any('MARK-DONE' in (m.get('content') or '') for m in body['messages'] if m['role'] == 'tool')
        tries = steps(body)
        if not tries: return call(body, 'shell', sh('ls; cat numerals/roman.py'), use(n_of(body), 40))
        if done: return call(body, 'submit', {}, use(n_of(body), 12))
        if tries >= 6: return say(body, 'My calls do not arrive whole, so I stop here.', use(n_of(body), 14))
        raw = json.dumps(sh(LONG + '\necho MARK-DONE'))
        limit = body.get('max_tokens') or body.get('max_completion_tokens') or 1024
        need = 600 + n_of(raw)
        think = {'reasoning_content': 'I think about how to write it. ' * 80}
        cut = raw if need <= limit else raw[:max(0, limit - 600) * 4]
        c = tcall('shell', cut); whole = {a: b for a, b in c.items() if a != 'index'}
        return out(body, {'content': None, **think, 'tool_calls': [whole]}, [think, {'tool_calls': [c]}], 'tool_calls', use(n_of(body), min(need, limit)))
