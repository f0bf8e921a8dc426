"""chat/tools, the gateway of default-cap: its default limit of 2,048 tokens truncates the call (finish_reason length) if the request sets no limit."""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        lim = body.get('max_tokens') or body.get('max_completion_tokens')
        if k >= 1 and k < 2 and not lim:
            f = json.dumps(sh(SOLVE))
            r = sse(chunk({'role': 'assistant', 'content': None}), chunk({'reasoning_content': 'Let me think. ' * 400}), chunk({'tool_calls': [tcall(args=f[:150])]}), chunk({}, 'length'), chunk(usage={'prompt_tokens': 900, 'completion_tokens': 2048, 'total_tokens': 2948}))
            r.counts = False; return r
        return [chat_call, lambda: solve('chat'), chat_submit][min(k, 2)]()
