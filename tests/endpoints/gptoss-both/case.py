"""chat/tools, llama.cpp with gpt-oss: a message with calls may have content or reasoning_content but not both (500 from the template), although the server sent both. (llama.cpp#17040)"""
from mock import *
class C(Case):
    tasks = 'AB'
    timeout = 170
    budget = 'steps = 12\nwall_seconds = 60'
    def script(self, conv):
        if conv == 'B': return [chat_call] * 6
        return [lambda: R([0.8] + chat_call().pieces), lambda: R([0.8] + chat({'role': 'assistant', 'reasoning_content': 'hm'}, {'content': 'I look.'}, {'tool_calls': [tcall()]}).pieces)]
    def check(self, conv, k, body, h):
        for m in body['messages']:
            if m.get('tool_calls') and m.get('content') and (m.get('reasoning_content') or m.get('reasoning') or m.get('thinking')):
                return js({'error': {'code': 500, 'message': 'Cannot pass both content and thinking in an assistant message with tool calls! Put the analysis message in one or the other, but not both. at row 290, column 178:\n            {%- if message.content and message.thinking %}\n', 'type': 'server_error'}}, 500)
