"""messages/tools, limit-text with one constant message id, which also looks like a replayed response: a fault in every try, also after a resume. (openclaw#16665, claude-code#40485)"""
from mock import *
class C(Case):
    api = 'messages'
    sticky = True
    budget = 'steps = 6\nwall_seconds = 60'
    timeout = 150
    def answer(self, conv, k, body):
        if k == 0: return msg({'type': 'text', 'text': 'I look at the package.'}, tuse('ls'))
        text = "You've hit your session limit \u00b7 resets 1:40pm (Europe/Berlin)"
        zero = {'input_tokens': 0, 'output_tokens': 0, 'cache_creation_input_tokens': 0, 'cache_read_input_tokens': 0, 'service_tier': None}
        m = {'id': '7c1f0e9a-3b52-4a0e-9b8e-0d1c5f6a7e21', 'type': 'message', 'role': 'assistant', 'model': '<synthetic>', 'content': [], 'stop_reason': None, 'stop_sequence': None, 'usage': zero}
        if not body.get('stream'): return js({**m, 'content': [{'type': 'text', 'text': text}], 'stop_reason': 'stop_sequence', 'stop_sequence': ''})
        return mev({'type': 'message_start', 'message': m}, {'type': 'content_block_start', 'index': 0, 'content_block': {'type': 'text', 'text': ''}},
          {'type': 'content_block_delta', 'index': 0, 'delta': {'type': 'text_delta', 'text': text}}, {'type': 'content_block_stop', 'index': 0},
          {'type': 'message_delta', 'delta': {'stop_reason': 'stop_sequence', 'stop_sequence': ''}, 'usage': zero}, {'type': 'message_stop'})
