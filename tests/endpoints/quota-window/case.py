"""chat/bash, LiteLLM before the Gemini API: the limit of input tokens per minute is reached twice during the trial. Google uses the words for an empty account, but names the window: 429 `You exceeded your current quota, please check your plan and billing details. ... Please retry in 9.4s.` with RetryInfo, all inside LiteLLM's message; after that time the same request is answered. Only a limit that resets has a window: resolved; never the account's end, never scored. (pi-go#177 "a 429 whose prose reuses the quota-exhaustion copy ... so IsTransient classified it terminal and the agent never retried — even though the server explicitly names its reopening window", gemini-cli#18073, lettertrace#34, Roo-Code#3883, litellm#33421)"""
from mock import *
ASK = '```bash\n%s\n```'
TURNS = ['I look at the package.\n\n' + ASK % 'ls; cat numerals/roman.py numerals/__init__.py', 'I write the function and export it.\n\n' + ASK % SOLVE, 'I run the tests.\n\n' + ASK % '/venv/bin/python -m pytest -q | tail -2', 'Done.\n\n' + ASK % 'proctor-submit']
class C(Case):
    scaffold = 'bash'
    budget = 'steps = 12\nwall_seconds = 300'
    timeout = 320
    def __init__(self):
        super().__init__(); self.until = {1: None, 2: None}
    def answer(self, conv, k, body):
        step = sum(m['role'] == 'assistant' for m in body['messages'])
        text = TURNS[min(step, 3)]
        n = len(json.dumps(body)) // 4
        u = {'prompt_tokens': n, 'completion_tokens': len(text) // 4 + 1, 'total_tokens': n + len(text) // 4 + 1}
        if body.get('stream'): return chat({'role': 'assistant', 'content': text[:40]}, {'content': text[40:]}, fin='stop', usage=u)
        return js({'id': f'chatcmpl-{step}', 'object': 'chat.completion', 'model': 'mock', 'choices': [{'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': text}}], 'usage': u})
    def check(self, conv, k, body, h):
        step = sum(m['role'] == 'assistant' for m in body['messages'])
        if step not in self.until: return
        now = time.time()
        self.until[step] = self.until[step] or now + [9.4, 4.2][step - 1]
        left = self.until[step] - now
        if left <= 0: return
        google = {'error': {'code': 429, 'message': 'You exceeded your current quota, please check your plan and billing details. For more information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits. To monitor your current usage, head to: https://ai.dev/rate-limit. \n* Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_paid_tier_input_token_count, limit: 1000000, model: gemini-2.5-pro\nPlease retry in %.9fs.' % left, 'status': 'RESOURCE_EXHAUSTED', 'details': [
            {'@type': 'type.googleapis.com/google.rpc.QuotaFailure', 'violations': [{'quotaMetric': 'generativelanguage.googleapis.com/generate_content_paid_tier_input_token_count', 'quotaId': 'GenerateContentPaidTierInputTokensPerModelPerMinute', 'quotaDimensions': {'location': 'global', 'model': 'gemini-2.5-pro'}, 'quotaValue': '1000000'}]},
            {'@type': 'type.googleapis.com/google.rpc.RetryInfo', 'retryDelay': '%ds' % left}]}}
        return js({'error': {'message': 'litellm.RateLimitError: litellm.RateLimitError: geminiException - ' + json.dumps(google, indent=2) + '\n. Received Model Group=mock\nAvailable Model Group Fallbacks=None', 'type': 'throttling_error', 'param': None, 'code': '429'}}, 429)
