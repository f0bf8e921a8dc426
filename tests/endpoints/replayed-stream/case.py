"""chat/bash, proxies that retry a broken stream: the first half of one response, then all of another one in the same stream (different id, a second `role`), every time; without streaming it is correct. (shenyu#6647, gemini-web2api#92)"""
from mock import *
class C(Case):
    scaffold = 'bash'
    sticky = True
    def answer(self, conv, k, body):
        text = ['I look at the package.\n\n```bash\nls numerals\n```', 'I write it.\n\n```bash\n' + SOLVE + '\n```', 'Done.\n\n```bash\nproctor-submit\n```'][min(k, 2)]
        if not body.get('stream'):
            return js({'id': 'x', 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': text}}], 'usage': USAGE})
        pieces = lambda t, id: [chunk({'role': 'assistant', 'content': ''}, id=id)] + [chunk({'content': t[i:i + 12]}, id=id) for i in range(0, len(t), 12)]
        return sse(*pieces(text[:len(text) * 2 // 3], 'chatcmpl-1'), *pieces(text, 'chatcmpl-2'), chunk({}, 'stop', id='chatcmpl-2'), chunk(usage=USAGE, id='chatcmpl-2'))
