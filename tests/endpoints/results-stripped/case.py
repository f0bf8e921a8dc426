"""chat/tools, oMLX with vision models, mlx-vlm and LiteLLM's old Ollama route: the server strips calls and tool results before its template, so the model makes the same first call again and again. prompt_tokens are those of the first prompt for every request, while the conversation grows to 60,000 tokens: a fault with a hint. (omlx#788, #789, #783, litellm#40611)"""
from mock import *
FIRST = "ls -R; cat numerals/*.py; find / -name '*.py' -not -path '/proc/*' 2>/dev/null | head -220"
class C(Case):
    budget = 'steps = 12\nwall_seconds = 120'
    timeout = 200
    def answer(self, conv, k, body):
        sees = [m for m in body['messages'] if m['role'] in ('system', 'user')]
        n = (len(json.dumps(sees)) + len(json.dumps(body.get('tools', [])))) // 4
        call = tcall(args=sh(FIRST), id=f'call_{self.seq:08x}')
        u = {'prompt_tokens': n, 'completion_tokens': 58, 'total_tokens': n + 58}
        if body.get('stream'): return chat({'role': 'assistant', 'content': ''}, {'tool_calls': [call]}, usage=u)
        call.pop('index')
        return js({'id': f'chatcmpl-{self.seq:08x}', 'object': 'chat.completion', 'created': int(time.time()), 'model': 'mock', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': {'role': 'assistant', 'content': None, 'tool_calls': [call]}}], 'usage': u})
