"""chat/tools: the content of a message must be a string and not null, also in messages with calls."""
from mock import *
class C(Case):
    def script(self, conv): return [lambda: chat({'role': 'assistant', 'content': None, 'tool_calls': [tcall(args=sh('ls'))]})]
    def check(self, conv, k, body, h):
        for i, m in enumerate(body['messages']):
            if not isinstance(m.get('content'), str) or not m['content']: return err(422, f"body.messages.{i}.content: Input should be a valid string [type=string_type, input_value=None, input_type=NoneType]")
