"""chat/tools, vLLM/SGLang reasoning parser: the call stays as markup in the reasoning (no content, no call, stop), three times at step 2, then a valid response."""
from mock import *
class C(Case):
    n = 0; N = 3
    def answer(self, conv, k, body):
        if k >= 1 and self.n < self.N:
            self.n += 1
            r = sse(chunk({'role': 'assistant', 'content': ''}), chunk({'reasoning_content': 'I should look at the tests.\n'}), chunk({'reasoning_content': '<tool_call>\n<function=shell>\n<parameter=command>\ncat tests/test_roman.py\n</parameter>\n</function>\n</tool_call>'}), chunk({}, 'stop'), chunk(usage=USAGE))
            r.counts = False; return r
        return [chat_call, lambda: solve('chat'), chat_submit][min(k, 2)]()
