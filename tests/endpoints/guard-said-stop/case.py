"""messages/bash, the same guard behind /v1/messages: `repetition` is mapped to end_turn, always inside a fenced command, streamed or not. No client can fix it, and the partial command is not the end of the model's turn. (mlx-node#81)"""
from mock import *
class C(Case):
    api = 'messages'
    scaffold = 'bash'
    def answer(self, conv, k, body):
        if k == 0: return msg({'type': 'text', 'text': 'I look.\n\n```bash\nls\n```'}, stop='end_turn')
        text = 'I write the function, with a header.\n\n```bash\ncat >> numerals/roman.py <<\'END\'\n# ' + '=' * 16
        if body.get('stream'): return msg({'type': 'text', 'text': text}, stop='end_turn')
        return js({'id': 'msg_1', 'type': 'message', 'role': 'assistant', 'model': 'mock', 'content': [{'type': 'text', 'text': text}], 'stop_reason': 'end_turn', 'usage': {'input_tokens': 100, 'output_tokens': 43}})
