"""responses/tools, routers: the last event is `response.done`, and at step 2 the stream ends after the last item without it; without streaming the response is complete. (9router#2142, airi#2593)"""
from mock import *
class C(Case):
    api = 'responses'
    timeout = 200
    budget = 'steps = 12\nwall_seconds = 180'
    def answer(self, conv, k, body):
        k = sum(i.get('type') == 'function_call' for i in body['input'])
        items = [[rs('1'), fcall('ls')], [rs('2'), fcall(SOLVE)], [fcall(name='submit', args={})]][min(k, 2)]
        if not body.get('stream'):
            return js({'id': 'resp_1', 'object': 'response', 'model': 'mock', 'status': 'completed', 'output': items, 'usage': {'input_tokens': 100, 'output_tokens': 20, 'total_tokens': 120}})
        events = resp_events(items)
        if k == 1: return mev(*events[:-1])
        return mev(*events[:-1], {**events[-1], 'type': 'response.done'})
