"""responses/tools, honest: after one call, the model always thinks and stops without text; the API rejects a reasoning item that no other item of its response follows: scored."""
from mock import *
class C(Case):
    api = 'responses'
    def answer(self, conv, k, body):
        thought = rs(str(k + 1), [f'I have looked at {k + 1} files and would write the function next.'])
        events = resp_events([thought, fcall('ls')] if k == 0 else [thought])
        size = len(json.dumps(body)) // 4
        events[-1]['response']['usage'] = {'input_tokens': size, 'output_tokens': 83, 'output_tokens_details': {'reasoning_tokens': 83}, 'total_tokens': size + 83}
        return mev(*events) if body.get('stream') else js(events[-1]['response'])
    def check(self, conv, k, body, h):
        items = body['input']
        for i, item in enumerate(items):
            after = items[i + 1] if i + 1 < len(items) else {}
            if item.get('type') == 'reasoning' and not (after.get('type') in ('function_call', 'reasoning') or after.get('role') == 'assistant'):
                return err(400, f"Item '{item['id']}' of type 'reasoning' was provided without its required following item.", param='input', code=None)
