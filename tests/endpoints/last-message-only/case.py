"""chat/bash, bridges from chat to a session or a web page (OpenClaw's /v1/chat/completions, several claude and gemini web bridges): only the system message and the last user message reach the model, streamed or not. From the second request on it sees an output without the task, and asks what to do with it. prompt_tokens count what the model got: they fall from 700 to 400 while the conversation grows. No client can fix it: a fault with a hint; never three answers of the model without a command. (openclaw#1147 "was only extracting the last user message from the messages array, ignoring all prior conversation turns")"""
from mock import *
class C(Case):
    scaffold = 'bash'
    timeout = 150
    def answer(self, conv, k, body):
        ms = body['messages']
        sees = [m for m in ms if m['role'] == 'system'] + [m for m in ms if m['role'] == 'user'][-1:]
        now = sees[-1]['content']
        if 'MARK-' in now: text = 'I look at the package.\n\n' + ASK % 'ls; cat numerals/*.py tests/*.py'
        elif 'Nothing was run' in now: text = 'I have no task and no earlier conversation here, only the remark that nothing was run. Please tell me which feature I should implement in the repository.'
        else: text = 'You sent me the files of a package that writes Roman numerals and tally marks. What would you like me to do with them? I see no task in this conversation yet.'
        return say(body, text, use(sum(n_of(m['content']) for m in sees) + 8, n_of(text)))
