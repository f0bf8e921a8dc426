"""chat/tools, OpenRouter and others before Gemini: an empty `stop` with native_finish_reason MALFORMED_FUNCTION_CALL, then finish_reason `function_call_filter: MALFORMED_FUNCTION_CALL`, then native UNEXPECTED_TOOL_CALL, all with counted tokens. Then a valid response. (hermes-agent#83882, #11171, req_llm#944)"""
from mock import *
class C(Case):
    n = 0
    def answer(self, conv, k, body):
        if k == 1 and self.n < 3:
            fin, native = [('stop', 'MALFORMED_FUNCTION_CALL'), ('function_call_filter: MALFORMED_FUNCTION_CALL', None), ('stop', 'UNEXPECTED_TOOL_CALL')][self.n]
            self.n += 1
            last = chunk({'role': 'assistant', 'content': ''}, fin)
            last['choices'][0]['native_finish_reason'] = native
            r = sse(last, chunk(usage={'prompt_tokens': 400, 'completion_tokens': 35, 'total_tokens': 435})); r.counts = False; return r
        return [chat_call, lambda: solve('chat'), chat_submit][min(k, 2)]()
