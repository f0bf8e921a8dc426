"""messages/tools, proxies over the Claude CLI that keep its sessions (meridian, billion-context, claude-code-hub): a request without a session header belongs to the session whose first user message has the same hash; the session is resumed, and only the last message is passed on. So the second trial of the same task (another arm, attempt or retry) continues the first one: the model sees that its work is done and submits immediately. input_tokens of its first request counts the old conversation, four times what was sent. The second trial is a fault (or resolved); never an empty patch of the model. (meridian#26 "Hashes the first user message when no header is present", meridian#992 "two conversations that begin with the same text collide", billion-context#61, claude-code-hub#793)"""
from mock import *
CMDS = ['ls -R; for i in 1 2 3 4 5 6 7 8; do cat numerals/*.py tests/*.py; done', SOLVE, TEST]
class C(Case):
    api = 'messages'
    args = ['--set', 'attempts=2', '--jobs', '1']
    def answer(self, conv, k, body):
        key = flat(body['messages'][0]['content'])
        if GOOD and turns(body) == 0: self.__dict__.setdefault('sessions', {}).pop(key, None)
        session = self.__dict__.setdefault('sessions', {}).setdefault(key, {'size': n_of(body.get('system')) + n_of(body['tools']), 'turn': 0})
        session['size'] += n_of(body['messages'][-1])
        t = session['turn']; session['turn'] += 1
        if t < 3: block = tuse(CMDS[t])
        elif t == 3: block = tuse(name='submit', input={})
        else: block = tuse(name='submit', input={})
        blocks = [block] if t < 4 else [{'type': 'text', 'text': 'This is the same task as before. `from_roman` is written and exported, and all tests pass, so I hand in.'}, block]
        r = m_out(body, blocks, 'tool_use', session['size'], 60); session['size'] += 60
        return r
