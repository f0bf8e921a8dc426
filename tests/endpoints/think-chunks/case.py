"""chat/bash, Mistral's reasoning models: content and delta.content are lists of thinking and text chunks that alternate with strings, and an empty string between two thinking bursts. A turn sent back may have at most one leading ThinkChunk and no field that Mistral does not know; the draft in the thinking must not run: resolved. (pi#9674, vercel/ai#17930, symfony/ai#2422, hermes-agent#4748, any-llm-go#162)"""
from mock import *
T = lambda t, **more: {'type': 'thinking', 'thinking': [{'type': 'text', 'text': t}], **more}
class C(Case):
    scaffold = 'bash'
    sticky = True
    def answer(self, conv, k, body):
        do = ['ls', SOLVE, 'proctor-submit'][min(k, 2)]
        a, b, text = 'At the end I hand in with\n\n```bash\nproctor-submit\n```\n\n', 'but not yet. ' if k < 2 else 'and that is now.', ['I look.', 'I write it.', 'Done.'][min(k, 2)] + '\n\n```bash\n' + do + '\n```'
        u = {'prompt_tokens': len(json.dumps(body)) // 4, 'completion_tokens': len(a + b + text) // 4 | 1}
        u['total_tokens'] = sum(u.values())
        if not body.get('stream'):
            return js({'id': '9f1', 'object': 'chat.completion', 'model': 'mock', 'choices': [{'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'tool_calls': None, 'content': [T(a + b, closed=True), {'type': 'text', 'text': text}]}}], 'usage': u})
        # The usage is in the last chunk, next to the finish reason, and there is no separate chunk for it.
        last = {**chunk({'content': ''}, 'stop'), 'usage': u}
        return sse(chunk({'role': 'assistant', 'content': ''}), chunk({'content': [T(a)]}), chunk({'content': ''}), chunk({'content': [T(b, closed=True)]}),
                   chunk({'content': [{'type': 'text', 'text': text[:9]}]}), *[chunk({'content': text[i:i+30]}) for i in range(9, len(text), 30)], last)
    def check(self, conv, k, body, h):
        for i, m in enumerate(body['messages']):
            if m['role'] != 'assistant': continue
            wrong = [{'type': 'extra_forbidden', 'loc': ['body', 'messages', i, 'assistant', f], 'msg': 'Extra inputs are not permitted', 'input': m[f]} for f in m if f not in ('role', 'content', 'tool_calls', 'prefix')]
            if wrong: return js({'object': 'error', 'message': {'detail': wrong}, 'type': 'invalid_request_error', 'param': None, 'code': None}, 422)
            c = m.get('content')
            if not c: return js({'object': 'error', 'message': 'Assistant message must have either content or tool_calls, but not none.', 'type': 'invalid_request_message_order', 'param': None, 'code': '3240'}, 400)
            if isinstance(c, str): continue
            lead = 0
            for j, p in enumerate(c):
                if p.get('type') not in ('thinking', 'text'): return js({'object': 'error', 'message': {'detail': [{'type': 'union_tag_invalid', 'loc': ['body', 'messages', i, 'assistant', 'content', j], 'msg': f"Input tag '{p.get('type')}' found using 'type' does not match any of the expected tags"}]}, 'type': 'invalid_request_error', 'param': None, 'code': None}, 422)
                if p['type'] == 'thinking': lead += 1
            if lead > 1: return js({'object': 'error', 'message': f'Expected at most one leading ThinkChunk, got {lead}', 'type': 'invalid_request_message_order', 'param': None, 'code': '3230'}, 400)
