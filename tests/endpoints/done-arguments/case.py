"""responses/tools, Codex Spark and Copilot: no argument deltas; only function_call_arguments.done has the arguments, output_item.done has none (or `{}`), and completed has no output. (litellm#27144, docker-agent#3825, LocalAI#11635)"""
from mock import *
class C(Case):
    api = 'responses'
    def answer(self, conv, k, body):
        k = sum(item.get('type') == 'function_call_output' for item in body['input'])
        name, a = [('shell', sh('ls')), ('shell', sh(SOLVE)), ('submit', {})][min(k, 2)]
        item = fcall(name=name, args=a)
        lost = {**item, 'arguments': '' if k == 0 else '{}'}
        events = [{'type': 'response.created', 'response': {'id': 'resp_1', 'object': 'response', 'model': 'mock', 'status': 'in_progress', 'output': []}},
            {'type': 'response.output_item.added', 'output_index': 0, 'item': {**item, 'arguments': '', 'status': 'in_progress'}},
            {'type': 'response.function_call_arguments.done', 'output_index': 0, 'item_id': item['id'], 'arguments': item['arguments']},
            {'type': 'response.output_item.done', 'output_index': 0, 'item': lost},
            {'type': 'response.completed', 'response': {'id': 'resp_1', 'object': 'response', 'model': 'mock', 'status': 'completed', 'output': [], 'usage': {'input_tokens': 100, 'output_tokens': 60, 'total_tokens': 160}}}]
        return mev(*events)
