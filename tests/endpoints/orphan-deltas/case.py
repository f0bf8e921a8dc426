"""responses/bash, a third-party gateway: text deltas without output_item.added for their message; only the reasoning item is opened and closed, and completed has neither output nor usage. (cindy#4509)"""
from mock import *
class C(Case):
    api = 'responses'
    scaffold = 'bash'
    def answer(self, conv, k, body):
        text = ['I look.\n\n```bash\nls\n```', '```bash\n' + SOLVE + '\n```', '```bash\nproctor-submit\n```'][min(k, 2)]
        base = {'id': '23ba2859', 'object': 'response', 'status': 'in_progress', 'model': 'mock', 'usage': {'input_tokens': 7006, 'output_tokens': 0, 'total_tokens': 7006}}
        return mev({'type': 'response.created', 'response': base}, {'type': 'response.in_progress', 'response': base},
            {'type': 'response.output_item.added', 'item': {'id': 'rs_1', 'type': 'reasoning', 'status': 'in_progress', 'usage': {}}, 'output_index': 0},
            {'type': 'response.output_item.done', 'item': {'id': 'rs_1', 'type': 'reasoning', 'status': 'completed', 'usage': {}}, 'output_index': 0},
            *[{'type': 'response.output_text.delta', 'delta': text[i:i + 20]} for i in range(0, len(text), 20)],
            {'type': 'response.completed', 'response': {**base, 'status': 'completed', 'usage': {'input_tokens': 7006, 'output_tokens': 60, 'total_tokens': 7066}}})
