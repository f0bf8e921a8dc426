"""messages/tools, the region that serves step 2 on rejects any `cache_control` with 403 `You invoked an unsupported model or your request did not allow prompt caching`: resolved without cache_control. (litellm#39210, models.dev#5082, positron#12988)"""
from mock import *
class C(Case):
    api = 'messages'
    def answer(self, conv, k, body):
        blocks = [[tuse('ls')], [{'type': 'text', 'text': 'I read it first.'}, tuse('cat numerals/roman.py')], [tuse(SOLVE)], [tuse(name='submit', input={})]][min(k, 3)]
        n = len(json.dumps(body)) // 4
        if body.get('stream'): return msg(*blocks, usage0={'input_tokens': n, 'output_tokens': 1}, usage1={'output_tokens': 50})
        return js({'id': f'msg_{k}', 'type': 'message', 'role': 'assistant', 'model': 'mock', 'content': blocks, 'stop_reason': 'tool_use', 'stop_sequence': None, 'usage': {'input_tokens': n, 'output_tokens': 50}})
    def check(self, conv, k, body, h):
        if k and '"cache_control"' in json.dumps(body):
            return js({'error': {'message': 'litellm.BadRequestError: BedrockException - {"message":"You invoked an unsupported model or your request did not allow prompt caching. See the documentation for more information."}', 'type': 'None', 'param': 'None', 'code': '403'}}, 403)
