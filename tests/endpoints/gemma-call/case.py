"""chat/tools, vLLM with Gemma 4 and thinking off: the call's delimiters `<|tool_call>`, `<tool_call|>` and `<|"|>` are special tokens, which the server strips before its parser sees them, so each call arrives as the text `call:shell{command:ls -la,timeout:null}` with `stop` and no tool_calls, streamed or not. The model made correct calls. Expected: a fault with a hint (or resolved, if the client reads the form); never the model's missing call, never scored. (vllm#45832 "the raw `call:fn{...}` body leaks into `content`, both streaming and non-streaming", #39468, #39948)"""
from mock import *
class C(Case):
    sticky = True
    def answer(self, conv, k, body):
        n = len(json.dumps(body)) // 4
        # The model's plan. A turn of the model counts as run if a tool result follows it.
        ran = sum(m['role'] == 'tool' for m in body['messages'])
        command = ['ls -la', 'cat numerals/roman.py numerals/__init__.py', SOLVE][min(ran, 2)]
        text = f'call:shell{{command:{command},timeout:null}}' if ran < 3 else 'call:submit{}'
        u = {'prompt_tokens': n, 'completion_tokens': len(text) // 4 + 9, 'total_tokens': n + len(text) // 4 + 9}
        if not body.get('stream'):
            return js({'id': f'chatcmpl-{k}', 'object': 'chat.completion', 'model': 'mock', 'choices': [{'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': text, 'tool_calls': [], 'reasoning': None, 'refusal': None}}], 'usage': u})
        return chat({'role': 'assistant', 'content': ''}, *[{'content': text[i:i+5]} for i in range(0, len(text), 5)], fin='stop', usage=u)
