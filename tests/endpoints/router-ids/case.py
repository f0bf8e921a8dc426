"""responses/tools, a router: step 1 from vLLM (ids without prefixes, a message without content, completed with output []), from step 2 on OpenAI, which requires fc_/msg_/rs_ ids or none, and each reasoning item directly before its call. (continue#11785, vllm#29947/#36445)"""
from mock import *
class C(Case):
    api = 'responses'
    def script(self, conv):
        def vllm():
            b = {'id': 'resp_1', 'object': 'response', 'model': 'mock', 'status': 'in_progress', 'output': []}
            m = {'id': '4992e480', 'type': 'message', 'role': 'assistant', 'status': 'in_progress', 'content': [], 'phase': None}
            a = json.dumps(sh('ls')); c = {'id': '9c6a9d50fbbcf08e', 'type': 'function_call', 'call_id': 'call_b727c44f9cc79cc8', 'name': 'shell', 'arguments': '', 'status': 'in_progress', 'namespace': None}
            return mev({'type': 'response.created', 'response': b}, {'type': 'response.in_progress', 'response': b},
              {'type': 'response.output_item.added', 'output_index': 0, 'item': m}, {'type': 'response.content_part.added', 'output_index': 0, 'content_index': 0, 'item_id': m['id'], 'part': {'type': 'output_text', 'text': '', 'annotations': []}},
              {'type': 'response.output_text.delta', 'output_index': 0, 'content_index': 0, 'item_id': m['id'], 'delta': '\n\n', 'logprobs': []}, {'type': 'response.output_text.done', 'output_index': 0, 'content_index': 0, 'item_id': m['id'], 'text': '\n\n'},
              {'type': 'response.output_item.done', 'output_index': 0, 'item': {**m, 'status': 'completed'}},
              {'type': 'response.output_item.added', 'output_index': 1, 'item': c}, {'type': 'response.function_call_arguments.delta', 'output_index': 1, 'item_id': c['id'], 'delta': a[:9]}, {'type': 'response.function_call_arguments.delta', 'output_index': 1, 'item_id': c['id'], 'delta': a[9:]},
              {'type': 'response.function_call_arguments.done', 'output_index': 1, 'item_id': c['id'], 'arguments': a}, {'type': 'response.output_item.done', 'output_index': 1, 'item': {**c, 'arguments': a, 'status': 'completed'}},
              {'type': 'response.completed', 'response': {**b, 'status': 'completed', 'usage': {'input_tokens': 100, 'output_tokens': 20, 'total_tokens': 120}}})
        return [vllm, lambda: resp(rs('1'), fcall('ls', 'x1'), fcall('pwd', 'x2'))]
    def check(self, conv, k, body, h):
        inp = body['input']
        for n, i in enumerate(inp):
            t = i.get('type', 'message'); p = {'function_call': 'fc', 'message': 'msg', 'reasoning': 'rs'}.get(t)
            if p and 'id' in i and not str(i['id']).startswith(p): return err(400, f"Invalid 'input[{n}].id': '{i['id']}'. Expected an ID that begins with '{p}'.", param=f'input[{n}].id', code='invalid_value')
            if t == 'message' and i.get('role') == 'assistant' and i.get('content') == []: return err(400, f"Invalid 'input[{n}].content': empty array. Expected an array with minimum length 1, but got an empty array instead.", code='empty_array')
            if 'namespace' in i or ('phase' in i and i['phase'] is None and t == 'function_call'): return err(400, f"Unknown parameter: 'input[{n}].namespace'.", code='unknown_parameter')
            if t == 'reasoning' and inp[n+1].get('type') != 'function_call': return err(400, f"Item '{i.get('id')}' of type 'reasoning' was provided without its required following item.")
        if k >= 2 and 'reasoning' not in [i.get('type') for i in inp]: return err(400, "Item 'fc_x1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.")
        calls = [i['call_id'] for i in inp if i.get('type') == 'function_call']; outs = [i['call_id'] for i in inp if i.get('type') == 'function_call_output']
        if calls != outs: return err(400, f'No tool output found for function call {calls} {outs}.')
