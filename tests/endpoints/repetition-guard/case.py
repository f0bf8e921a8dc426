"""chat/tools, MLX servers: a loop guard truncates a long line of `====` in a legitimate call with finish_reason `repetition`, twice; then the call is complete. (mlx-node#81, MTPLX#311)"""
from mock import *
class C(Case):
    n = 0
    def answer(self, conv, k, body):
        if k == 1 and self.n < 2:
            self.n += 1
            r = chat({'role': 'assistant', 'content': 'I write the function.'}, {'tool_calls': [tcall(args='{"command": "echo =====================')]}, fin='repetition')
            r.counts = False; return r
        return [chat_call, lambda: solve('chat'), chat_submit][min(k, 2)]()
