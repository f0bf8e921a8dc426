"""chat/tools, Mistral: no user message after tool or user, one result per call, ids of 9 alphanumerics, valid names, no empty assistant message; tested after an unknown tool, text only, an empty response, a truncated response, a malformed call. (zed#37021, mistral-vibe#578, ironclaw#1241)"""
from mock import *
class C(Case):
    def script(self, conv):
        u = {'prompt_tokens': 100, 'completion_tokens': 20, 'total_tokens': 120}
        return [lambda: chat({'role': 'assistant', 'tool_calls': [tcall('bash', {'cmd': 'ls'}, id='aaaaaaaa1')]}),
                lambda: chat({'role': 'assistant', 'content': 'I think.'}, fin='stop'),
                lambda: chat({'role': 'assistant', 'tool_calls': [tcall(id='aaaaaaaa2')]}, {'tool_calls': [tcall(args='{"command": "l', index=1, id='aaaaaaaa3')]}),
                lambda: chat({'role': 'assistant', 'content': 'And then I was c'}, fin='length'),
                lambda: chat({'role': 'assistant', 'tool_calls': [tcall(id='aaaaaaaa4')]}, fin='stop'),
                lambda: chat({'role': 'assistant', 'tool_calls': [tcall(args=sh(SOLVE), id='aaaaaaaa5')]}),
                lambda: chat({'role': 'assistant', 'tool_calls': [tcall('submit', {}, id='aaaaaaaa6')]})]
    def check(self, conv, k, body, h):
        import re
        E = lambda m, c='3230': js({'object': 'error', 'message': m, 'type': 'invalid_request_message_order', 'param': None, 'code': c, 'raw_status_code': 400}, 400)
        ms = body['messages']; need = 0
        for i, m in enumerate(ms):
            prev = ms[i-1]['role'] if i else None
            if m['role'] in ('user', 'system') and prev == 'tool': return E(f"Unexpected role '{m['role']}' after role 'tool'")
            if m['role'] == 'system' and i: return E("Unexpected role 'system' after role '%s'" % prev)
            if m['role'] == 'user' and prev == 'user': return E("After the optional system message, conversation roles must alternate user/assistant/user/assistant/...")
            if need and m['role'] != 'tool': return E('Not the same number of function calls and responses')
            if m['role'] == 'assistant':
                if not m.get('content') and not m.get('tool_calls'): return E('Assistant message must have either content or tool_calls, but not none.', '3240')
                for t in m.get('tool_calls') or []:
                    need += 1
                    if not re.fullmatch('[a-zA-Z0-9]{9}', t['id']): return E(f"Tool call id was {t['id']} but must be a-z, A-Z, 0-9, with a length of 9.", '3280')
                    try: json.loads(t['function']['arguments'])
                    except ValueError: return E('Invalid function call arguments: not JSON')
            if m['role'] == 'tool':
                if not need: return E("Unexpected role 'tool' after role '%s'" % prev)
                need -= 1
        if ms[-1]['role'] not in ('user', 'tool'): return E(f"Expected last role User or Tool (or Assistant with prefix True) for serving but got {ms[-1]['role']}")
