"""messages/bash, LiteLLM before vLLM: streamed text arrives as an empty input_json_delta in a text block (the text is lost, 60 output tokens); without streaming it is complete. (litellm#29286)"""
from mock import *
class C(Case):
    api = 'messages'
    scaffold = 'bash'
    def answer(self, conv, k, body):
        seen = json.dumps(body['messages'])
        t = '```bash\nls\n```' if 'numerals\\ntests' not in seen and k < 1 and not body.get('stream') else ('```bash\n' + SOLVE + '\n```' if 'END' not in seen else '```bash\nproctor-submit\n```')
        if not body.get('stream'): return js({'id': 'msg_1', 'type': 'message', 'role': 'assistant', 'model': 'mock', 'content': [{'type': 'text', 'text': t}], 'stop_reason': 'end_turn', 'usage': {'input_tokens': 900, 'output_tokens': 60}})
        return mev({'type': 'message_start', 'message': {'id': 'msg_1', 'type': 'message', 'role': 'assistant', 'model': 'mock', 'content': [], 'stop_reason': None, 'usage': {'input_tokens': 0, 'output_tokens': 0}}},
          {'type': 'content_block_start', 'index': 0, 'content_block': {'type': 'text', 'text': ''}},
          *[{'type': 'content_block_delta', 'index': 0, 'delta': {'type': 'input_json_delta', 'partial_json': ''}}] * 12,
          {'type': 'content_block_stop', 'index': 0}, {'type': 'message_delta', 'delta': {'stop_reason': 'end_turn'}, 'usage': {'input_tokens': 900, 'output_tokens': 60}}, {'type': 'message_stop'})
