"""chat/tools, bedrock-access-gateway before Bedrock: throttle-tokens, but the throttling arrives as an event of the stream, status 200: `{"error": {"message": "An error occurred (throttlingException) when calling the ConverseStream operation: Too many tokens, please wait before trying again."}}`, without a code (without streaming: status 500 and the same words as `detail`), five times within about 20 s at step 3 (14,000 tokens of a window of 200,000); then the same request is answered. The service throttles the request but uses the words of an overflow: resolved (or a fault after all retries); never scored as the model's overflow. (opencode#39621, hermes-agent#70394 "the message-only path", billion-context-pi#169 "the relay puts this error JSON into the stream ... context 22% full", bedrock-access-gateway#91 and #88, crewAI#7377)"""
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
            words = 'An error occurred (throttlingException) when calling the ConverseStream operation: Too many tokens, please wait before trying again.'
            if not body.get('stream'): return js({'detail': words}, 500)
            return sse(chunk({'role': 'assistant', 'content': ''}), {'error': {'message': words}})
