"""responses/tools, vLLM: the last event lists the streamed call with a different id and call_id, after a reasoning item that the stream omitted. The call must run once. (vllm#47916)"""
from mock import *
ONCE = 'test ! -e .once && touch .once || echo "raise SystemExit(1)" >> numerals/__init__.py\n'
class C(Case):
    api = 'responses'
    def answer(self, conv, k, body):
        call = [fcall('ls'), fcall(ONCE + SOLVE), fcall(name='submit', args={})][min(k, 2)]
        events = resp_events([call])
        again = {**call, 'id': nid('fc_x'), 'call_id': nid('chatcmpl-tool-')}
        thought = {'type': 'reasoning', 'id': nid('rs_x'), 'summary': [], 'content': [{'type': 'reasoning_text', 'text': 'I look.'}]}
        events[-1]['response']['output'] = [thought, again]
        return mev(*events)
    def check(self, conv, k, body, h):
        calls = [i['call_id'] for i in body['input'] if i.get('type') == 'function_call']
        for i in body['input']:
            if i.get('type') == 'function_call_output' and i['call_id'] not in calls: return err(400, f"No tool call found for function call output with call_id {i['call_id']}.")
