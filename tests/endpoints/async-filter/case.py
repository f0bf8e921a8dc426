"""chat/bash, Azure OpenAI with the asynchronous content filter: annotation chunks without `delta` (empty id and model, content_filter_offsets) before, between and after the text and even after finish_reason; and when the filter itself times out, a choice has `content_filter_result: {"error": {"code": "content_filter_error", "message": "The contents are not filtered"}}` next to its whole text, streamed or not. Nothing was filtered and the text is complete: resolved; neither an error nor a refusal. (openai-python#1677, #2313, autogen#6465, spring-ai#7014, litellm#3811, OpenAI-DotNet#274 "content_filter_error ... The contents are not filtered")"""
from mock import *
ASK = '```bash\n%s\n```'
TURNS = ['I look at the package.\n\n' + ASK % 'ls; cat numerals/roman.py numerals/__init__.py', 'I write the function and export it.\n\n' + ASK % SOLVE, 'I run the tests.\n\n' + ASK % '/venv/bin/python -m pytest -q | tail -2', 'Done.\n\n' + ASK % 'proctor-submit']
SAFE = {c: {'filtered': False, 'severity': 'safe'} for c in ('hate', 'self_harm', 'sexual', 'violence')}
FAILED = {'error': {'code': 'content_filter_error', 'message': 'The contents are not filtered'}}
class C(Case):
    scaffold = 'bash'
    def answer(self, conv, k, body):
        step = sum(m['role'] == 'assistant' for m in body['messages'])
        text = TURNS[min(step, 3)]
        n = len(json.dumps(body)) // 4
        u = {'prompt_tokens': n, 'completion_tokens': len(text) // 4 + 1, 'total_tokens': n + len(text) // 4 + 1}
        if not body.get('stream'):
            return js({'id': f'chatcmpl-{step}', 'object': 'chat.completion', 'model': 'mock', 'prompt_filter_results': [{'prompt_index': 0, 'content_filter_result': FAILED}], 'choices': [{'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': text, 'refusal': None}, 'content_filter_result': FAILED, 'content_filter_results': {}}], 'usage': u})
        bare = lambda **more: {'id': '', 'object': '', 'created': 0, 'model': '', 'choices': [{'index': 0, 'finish_reason': None, **more}], 'usage': None}
        note = lambda a, b: bare(content_filter_results=SAFE, content_filter_offsets={'check_offset': a, 'start_offset': a, 'end_offset': b})
        say = lambda t, **more: {**chunk({'content': t}), 'usage': None, 'choices': [{'index': 0, 'delta': {'content': t}, 'finish_reason': None, 'content_filter_results': {}, **more}]}
        half = len(text) // 2
        return sse({'id': '', 'object': '', 'created': 0, 'model': '', 'choices': [], 'prompt_filter_results': [{'prompt_index': 0, 'content_filter_results': SAFE}], 'usage': None},
            chunk({'role': 'assistant', 'content': '', 'refusal': None}), note(0, 0), say(text[:half]), note(0, half), bare(content_filter_result=FAILED), say(text[half:], content_filter_result=FAILED),
            chunk({}, 'stop'), note(half, len(text)), bare(content_filter_result=FAILED), chunk(usage=u))
