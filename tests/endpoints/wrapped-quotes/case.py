"""chat/tools, Rapid-MLX with Qwen 3.6: in streams, the tool parser leaves the JSON quotes and escapes of each string parameter in its value: the command arrives as `"ls -la"` with the quotes, and a newline as `\\n`; without streaming it is correct. So each command of the model fails (127). After five failures the model gives up. Expected: resolved; never scored. (Rapid-MLX#1600 "`/tmp/file` reached agents as `\\"/tmp/file\\"` ... workflows retried until timeout", openvino model_server#3727)"""
from mock import *
CMDS = ['ls; cat numerals/roman.py', SOLVE, TEST]
class C(Case):
    def answer(self, conv, k, body):
        bad = sum(m['role'] == 'tool' and '[exit status 127]' in m['content'] for m in body['messages'])
        step = steps(body) - bad
        u = use(n_of(body), 30 + n_of(CMDS[min(step, 2)]))
        if bad >= 5: return say(body, 'The shell does not find any command here, so I cannot go on. I stop.', use(n_of(body), 17))
        if step >= 3: return call(body, 'submit', {}, u)
        cmd = CMDS[step]
        return call(body, 'shell', {'command': json.dumps(cmd) if body.get('stream') else cmd, 'timeout': None}, u)
