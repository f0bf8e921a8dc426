"""messages/bash, proxies over the Claude CLI (claude-max-api-proxy): `content` that is a list of blocks becomes the text `[object Object]`; a string arrives whole, streamed or not. input_tokens counts what the model got. The model asks each time what was meant. Expected: resolved if the client sends text as a string, or a fault with a hint; never the model's answers without a command. (openclaw#74496 "reply with confused 'you sent an object' messages", GodYeh/claude-max-api-proxy#1)"""
from mock import *
TURNS = ['I look at the package.\n\n' + ASK % 'ls; cat numerals/roman.py', 'I write the function and export it.\n\n' + ASK % SOLVE, 'I run the tests.\n\n' + ASK % TEST, 'Done.\n\n' + ASK % 'proctor-submit']
class C(Case):
    api = 'messages'
    scaffold = 'bash'
    def answer(self, conv, k, body):
        got = [m['content'] if isinstance(m['content'], str) or GOOD else '[object Object]' for m in body['messages'] if m['role'] == 'user']
        system = flat(body.get('system') or '')
        p = n_of(system) + sum(n_of(flat(t)) for t in got) + 8
        if '[object Object]' in got: text = 'Your message reached me only as `[object Object]`. It looks as if an object was not serialized. What would you like me to do? Please send the text again.'
        else: text = TURNS[min(turns(body), 3)]
        return m_out(body, [{'type': 'text', 'text': text}], 'end_turn', p, n_of(text))
