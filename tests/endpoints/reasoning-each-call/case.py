"""responses/tools, DeepSeek V4 over a gateway: two calls share one reasoning item, but each call in the input must directly follow a reasoning item. (rikkahub#1690)"""
from mock import *
class C(Case):
    api = 'responses'
    def answer(self, conv, k, body):
        calls = [[fcall('ls'), fcall('pwd')], [fcall(SOLVE)], [fcall(name='submit', args={})]][min(k, 2)]
        thought = {'type': 'reasoning', 'id': f'rs_{k}', 'summary': [], 'content': [{'type': 'reasoning_text', 'text': f'think{k}'}]}
        return resp(thought, *calls)
    def check(self, conv, k, body, h):
        items = body['input']
        for i, item in enumerate(items):
            if item.get('type') == 'function_call' and (i == 0 or items[i - 1].get('type') != 'reasoning' or not items[i - 1].get('content')):
                return err(400, 'Error from provider: Upstream request failed: [invalid_request_error] The `reasoning_text` in the thinking mode must be passed back to the API.')
