"""chat/bash, a gateway that truncates at its default limit of 2,048 tokens, including thinking, if the request sets no max_tokens; with a limit it works. (mistral-vibe#1118, bedrock-access-gateway#237, tgi#2421)"""
from mock import *
class C(Case):
    scaffold = 'bash'
    def answer(self, conv, k, body):
        if not (body.get('max_tokens') or body.get('max_completion_tokens')):
            r = sse(chunk({'role': 'assistant', 'content': None}), *[chunk({'reasoning_content': 'Let me think about subtractive notation. ' * 20})] * 10, chunk({}, 'length'), chunk(usage={'prompt_tokens': 900, 'completion_tokens': 2048, 'total_tokens': 2948}))
            r.counts = False; return r
        return chat({'role': 'assistant', 'content': ['```bash\n' + SOLVE + '\n```', '```bash\nproctor-submit\n```'][min(k, 1)]}, fin='stop')
