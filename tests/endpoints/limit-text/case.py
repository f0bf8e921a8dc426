"""messages/tools, proxies over the Claude CLI or SDK (and Copilot proxies): from step 2 on, status 200 and the subscription's limit as an ordinary text block (model `<synthetic>`, zero tokens, stop_reason stop_sequence) until the limit resets hours later. The model did not write it: a fault, never scored. (openclaw#16665, #118835, phantombot#284, claude-code#40485, #9046)"""
from mock import *
import uuid
class C(Case):
    api = 'messages'
    sticky = True
    budget = 'steps = 6\nwall_seconds = 60'
    timeout = 150
    def answer(self, conv, k, body):
        if k == 0: return msg({'type': 'text', 'text': 'I look at the package.'}, tuse('ls'))
        text = "You've hit your session limit \u00b7 resets 1:40pm (Europe/Berlin)"
        zero = {'input_tokens': 0, 'output_tokens': 0, 'cache_creation_input_tokens': 0, 'cache_read_input_tokens': 0, 'service_tier': None}
        m = {'id': str(uuid.uuid4()), 'type': 'message', 'role': 'assistant', 'model': '<synthetic>', 'content': [], 'stop_reason': None, 'stop_sequence': None, 'usage': zero}
        if not body.get('stream'): return js({**m, 'content': [{'type': 'text', 'text': text}], 'stop_reason': 'stop_sequence', 'stop_sequence': ''})
        return mev({'type': 'message_start', 'message': m}, {'type': 'content_block_start', 'index': 0, 'content_block': {'type': 'text', 'text': ''}},
          {'type': 'content_block_delta', 'index': 0, 'delta': {'type': 'text_delta', 'text': text}}, {'type': 'content_block_stop', 'index': 0},
          {'type': 'message_delta', 'delta': {'stop_reason': 'stop_sequence', 'stop_sequence': ''}, 'usage': zero}, {'type': 'message_stop'})
