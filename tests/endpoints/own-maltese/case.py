"""chat/bash, honest: the model gives up in Maltese without a command, streamed or not. Its letters `Ġ` and `Ċ` are not undecoded tokens: scored."""
from mock import *
class C(Case):
    scaffold = 'bash'
    def answer(self, conv, k, body):
        text = 'Il-Ġgantija u ċ-Ċirkewwa huma f\'Malta. Ġorġ u Ċensa ma jistgħux jiktbu l-funzjoni ' + f'({k}).'
        if body.get('stream'): return chat({'role': 'assistant', 'content': text}, fin='stop')
        return js({'id': nid('x'), 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': text}}], 'usage': USAGE})
