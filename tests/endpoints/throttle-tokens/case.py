"""chat/tools, LiteLLM before Bedrock: at step 3 (14,000 tokens of a window of 200,000), the account's tokens per minute are used up: 429 `litellm.RateLimitError: BedrockException - {"message":"Too many tokens, please wait before trying again."}`, five times within about 20 s, streamed or not; then the same request is answered; once more at step 4. Bedrock throttles the request but uses the words of an overflow: resolved (or a fault after all retries); never scored as the model's overflow. (opencode#39621 "stop classifying Bedrock throttling as context overflow", litellm#11197, hermes-agent#70394, crewAI#7377, claude-code#1466, Roo-Code#5050)"""
from mock import *
PROSE = "for i in $(seq 1 190); do echo \"chapter $i: the parser reads each numeral from left to right, adds the value of every letter, and rejects what the writer would never write\"; done"
class C(Case):
    budget = 'steps = 12\nwall_seconds = 400'
    timeout = 420
    def __init__(self):
        super().__init__(); self.left = {2: 5, 3: 1}
    def answer(self, conv, k, body):
        step = sum(m['role'] == 'assistant' for m in body['messages'])
        command = [PROSE, PROSE.replace('chapter', 'part'), SOLVE, '/venv/bin/python -m pytest -q | tail -2'][min(step, 3)]
        call = tcall(args=sh(command), id=f'tooluse_{step:06d}') if step < 4 else tcall('submit', {}, id='tooluse_end')
        n = len(json.dumps(body)) // 4
        u = {'prompt_tokens': n, 'completion_tokens': 90, 'total_tokens': n + 90}
        if body.get('stream'): return chat({'role': 'assistant', 'content': ''}, {'tool_calls': [call]}, usage=u)
        call.pop('index')
        return js({'id': f'chatcmpl-{step}', 'object': 'chat.completion', 'model': 'mock', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': {'role': 'assistant', 'content': None, 'tool_calls': [call]}}], 'usage': u})
    def check(self, conv, k, body, h):
        step = sum(m['role'] == 'assistant' for m in body['messages'])
        if self.left.get(step, 0) > 0:
            self.left[step] -= 1
            return js({'error': {'message': 'litellm.RateLimitError: BedrockException - {"message":"Too many tokens, please wait before trying again."}. Received Model Group=mock\nAvailable Model Group Fallbacks=None', 'type': 'throttling_error', 'param': None, 'code': '429'}}, 429)
