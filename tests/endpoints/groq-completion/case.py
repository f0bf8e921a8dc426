"""chat/tools, Groq: a window of 32,768 tokens that has to hold the prompt and the requested completion; past it, 400 `Please reduce the length of the messages or completion.` (context_length_exceeded, no numbers). The arm asks for up to 24,000 tokens, so the request fails once the prompt has 9,000, which is a third of the window; with a smaller max_tokens it is answered, and the model's turns take 60 tokens. Expected: resolved with a smaller limit (or a fault); never scored as the model's overflow. (letta#1963 "context_length_exceeded ... simple query", goose#9785 "a single small prompt", amurex-backend#51, pi#4675 "a hard ceiling at contextWindow - maxTokens input tokens")"""
from mock import *
WORDS = 'the parser reads each numeral from left to right and adds the value of every sign that it finds in the table of values for the package'
class C(Case):
    sticky = True
    model = 'max_output_tokens = 24000'
    budget = 'steps = 14\nwall_seconds = 140'
    timeout = 150
    def check(self, conv, k, body, h):
        n = len(json.dumps(body)) // 4
        if n + (body.get('max_tokens') or body.get('max_completion_tokens') or 0) > 32768:
            assert n < 20000, n
            return js({'error': {'message': 'Please reduce the length of the messages or completion.', 'type': 'invalid_request_error', 'param': 'messages', 'code': 'context_length_exceeded'}}, 400)
    def answer(self, conv, k, body):
        n = len(json.dumps(body)) // 4
        u = {'prompt_tokens': n, 'completion_tokens': 64, 'total_tokens': n + 64}
        read = lambda part: tcall(args=sh(f'# notes on part {part}\nfor i in $(seq 1 60); do echo "{WORDS}"; done'), index=part % 2)
        calls = [read(2 * k), read(2 * k + 1)] if k < 3 else [tcall(args=sh(SOLVE))] if k == 3 else [tcall('submit', {})]
        if body.get('stream'): return chat({'role': 'assistant', 'content': None}, *[{'tool_calls': [c]} for c in calls], usage=u)
        for c in calls: c.pop('index')
        return js({'id': f'chatcmpl-{k}', 'object': 'chat.completion', 'model': 'mock', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': {'role': 'assistant', 'content': None, 'tool_calls': calls}}], 'usage': u})
