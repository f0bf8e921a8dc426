"""chat/tools, Open WebUI before Ollama: finish_reason stop in the first, empty chunk, followed by the response; at step 2 such a stream breaks inside a call (twice). Others send finish_reason '' in each chunk. (open-webui#23921, opencrabs#1499, cc-switch#5093)"""
from mock import *
class C(Case):
    n = 0
    def answer(self, conv, k, body):
        f = json.dumps(sh(SOLVE))
        if k == 1 and self.n < 2:
            self.n += 1
            r = sse(chunk({'role': 'assistant', 'content': ''}, 'stop'), chunk({'content': 'Now I write it.'}, ''), chunk({'tool_calls': [tcall('shell', f[:200])]}, ''), 0.1, done=False); r.close = False
            r.counts = False; return r
        c = [tcall(), tcall(args=f), tcall('submit', {})][min(k, 2)]
        a = c['function']['arguments']; h = len(a) // 2
        return sse(chunk({'role': 'assistant', 'content': ''}, 'stop'), chunk({'content': 'I think.'}, ''), chunk({'tool_calls': [{**c, 'function': {'name': c['function']['name'], 'arguments': a[:h]}}]}, ''), chunk({'tool_calls': [{'index': 0, 'function': {'arguments': a[h:]}}]}, ''), chunk({}, 'tool_calls'), chunk(usage=USAGE))
