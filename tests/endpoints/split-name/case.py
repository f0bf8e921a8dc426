"""chat/tools, Gemini and others: a stream splits the name of a call into two pieces (`sh`, `ell`); without streaming it is complete. (continue#5849, Switchyard#785)"""
from mock import *
class C(Case):
    sticky = True
    def answer(self, conv, k, body):
        call = [tcall(args=sh('ls')), tcall(args=sh(SOLVE)), tcall('submit', {})][min(k, 2)]
        if not body.get('stream'):
            call.pop('index')
            return js({'id': 'x', 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': {'role': 'assistant', 'content': None, 'tool_calls': [call]}}], 'usage': USAGE})
        name, text = call['function']['name'], call['function']['arguments']
        pieces = [{**call, 'function': {'name': name[:2], 'arguments': ''}}, {'index': 0, 'function': {'name': name[2:]}}, {'index': 0, 'function': {'arguments': text}}]
        return chat({'role': 'assistant', 'content': None}, *[{'tool_calls': [p]} for p in pieces])
