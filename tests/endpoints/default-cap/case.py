"""chat/bash, a gateway that cuts at its own default of 2,048 tokens where the request names no max_tokens (thinking included); with a limit in the request all is well. (mistral-vibe#1118, bedrock-access-gateway#237, tgi#2421)"""
from mock import *
class C(Case):
    scaffold = 'bash'
    def answer(self, conv, k, body):
        if not (body.get('max_tokens') or body.get('max_completion_tokens')):
            r = sse(chunk({'role': 'assistant', 'content': None}), *[chunk({'reasoning_content': 'Let me think about subtractive notation. ' * 20})] * 10, chunk({}, 'length'), chunk(usage={'prompt_tokens': 900, 'completion_tokens': 2048, 'total_tokens': 2948}))
            r.counts = False; return r
        return chat({'role': 'assistant', 'content': ['```bash\n' + SOLVE + '\n```', '```bash\nproctor-submit\n```'][min(k, 1)]}, fin='stop')
