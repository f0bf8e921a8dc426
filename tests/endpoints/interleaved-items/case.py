"""responses/tools, OpenCode's console: a stream opens all calls of a turn before it closes the first one, and `completed` has no output. Each function_call_output needs its call in the input. (agenthub#218 "lost all but the last one", penguin-harness#621)"""
from mock import *
STEPS = [['ls', 'cat numerals/__init__.py'], ['cat numerals/roman.py', 'cat tests/test_tally.py'], [SOLVE, TEST]]
class C(Case):
    api = 'responses'
    def check(self, conv, k, body, h):
        ids = {i['call_id'] for i in body['input'] if i.get('type') == 'function_call'}
        outs = [i['call_id'] for i in body['input'] if i.get('type') == 'function_call_output']
        for o in outs:
            if o not in ids: return err(400, f"Error from provider (Console Go): Upstream request failed: [invalid_request_error] No function call found for function_call_output with call_id '{o}'")
        for i in ids:
            if i not in outs: return err(400, f"Error from provider (Console Go): Upstream request failed: [invalid_request_error] No tool output found for function call {i}.")
    def answer(self, conv, k, body):
        n = sum(i.get('type') == 'function_call' for i in body['input']) // 2
        items = [fcall(c) for c in STEPS[n]] if n < 3 else [fcall(name='submit', args={})]
        u = r_use(n_of(body), sum(n_of(i['arguments']) + 10 for i in items))
        if GOOD or not body.get('stream') or len(items) < 2: return r_out(body, items, u)
        ev = resp_events(items)
        head, end = ev[0], ev[-1]; groups = [ev[1:4], ev[4:7]]
        assert all(g[0]['type'].endswith('added') and g[2]['type'].endswith('done') for g in groups)
        done = lambda g: [{'type': 'response.function_call_arguments.done', 'item_id': g[2]['item']['id'], 'output_index': g[2]['output_index'], 'arguments': g[2]['item']['arguments']}, g[2]]
        end['response']['output'] = []; end['response']['usage'] = u
        return mev(head, *groups[0][:2], *groups[1][:2], *done(groups[0]), *done(groups[1]), end)
