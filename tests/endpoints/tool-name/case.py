"""chat/tools, Gemini behind a chat address (Google's own, Ollama cloud): from step 2 on, each tool message must have the `name` of its function. A correct client adds it: resolved. (ollama#14214, hermes-agent#19728, #16482, hindsight#187, langflow#9437)"""
from mock import *
class C(Case):
    def script(self, conv): return [lambda: chat({'role': 'assistant', 'tool_calls': [tcall(args=sh('ls')), tcall(args=sh('pwd'), index=1)]})]
    def check(self, conv, k, body, h):
        names = {t['id']: t['function']['name'] for m in body['messages'] for t in m.get('tool_calls') or []}
        wrong = [f"* GenerateContentRequest.contents[{i}].parts[0].function_response.name: Name cannot be empty.\n" for i, m in enumerate(body['messages']) if m['role'] == 'tool' and m.get('name') != names.get(m['tool_call_id'])]
        if wrong: return js([{'error': {'code': 400, 'message': ''.join(wrong), 'status': 'INVALID_ARGUMENT'}}], 400)
