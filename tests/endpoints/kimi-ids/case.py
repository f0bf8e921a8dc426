"""chat endpoint (Kimi K2), Messages client: ids functions.shell:N with a global counter and reasoning_content must be sent back unchanged, over two parallel calls. (llxprt-code#713, kimchi#1063)"""
from mock import *
class C(Case):
    scaffold = '../cli/messages.toml'
    def answer(self, conv, k, body):
        c = lambda i, cmd, n='shell': {'id': f'functions.{n}:{i}', 'type': 'function', 'function': {'name': n, 'arguments': json.dumps({'command': cmd} if cmd else {})}}
        t = {'role': 'assistant', 'content': '', 'reasoning_content': f'think{k}', 'tool_calls': [[c(0, 'ls'), c(1, 'pwd')], [c(2, SOLVE)], [c(3, '', 'submit')]][min(k, 2)]}
        if body.get('stream'): return chat({**t, 'tool_calls': [{**x, 'index': n} for n, x in enumerate(t['tool_calls'])]})
        return js({'id': 'x', 'model': 'mock', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': t}], 'usage': USAGE})
    def check(self, conv, k, body, h):
        n = 0; open_ = []
        for i, m in enumerate(body['messages']):
            if m['role'] == 'assistant' and m.get('tool_calls'):
                if open_: return err(400, f"an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: {open_}")
                if not m.get('reasoning_content'): return err(400, f'thinking is enabled but reasoning_content is missing in assistant tool call message at index {i}')
                for t in m['tool_calls']:
                    if t['id'] != f"functions.{t['function']['name']}:{n}": return err(400, f"Invalid request: tool_call_id {t['id']}")
                    n += 1; open_.append(t['id'])
            elif m['role'] == 'tool':
                if m['tool_call_id'] not in open_: return err(400, f"Invalid request: tool_call_id {m['tool_call_id']} is not found")
                open_.remove(m['tool_call_id'])
