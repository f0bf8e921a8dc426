"""chat/bash, vLLM behind a proxy: status 200, partial text, then {"detail": ...} or {"object": "error", ...} in the stream and [DONE], three times at step 2, then a valid response. (SHTUCodeProxy#4)"""
from mock import *
class C(Case):
    scaffold = 'bash'
    n = 0
    def answer(self, conv, k, body):
        if k == 1 and self.n < 3:
            self.n += 1
            e = {'detail': 'EngineDeadError: worker died'} if self.n % 2 else {'object': 'error', 'message': 'Internal server error', 'type': 'InternalServerError', 'param': None, 'code': 500}
            r = sse(chunk({'role': 'assistant', 'content': 'Now I write'}), e, chunk({}, 'stop') if self.n == 3 else e); r.counts = False; return r
        t = ['```bash\nls\n```', '```bash\n' + SOLVE + '\n```', '```bash\nproctor-submit\n```'][min(k, 2)]
        if body.get('stream'): return chat({'role': 'assistant', 'content': t}, fin='stop')
        return js({'id': 'x', 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': t}}], 'usage': USAGE})
