"""chat endpoint, Responses client: text, reasoning_content and two calls of one response must be sent back as one assistant message (never two assistant messages in a row), with results in order. (DeepSeek/Mistral: openai "insufficient tool messages"; zed#37021)"""
from mock import *
class C(Case):
    scaffold = '../cli/responses.toml'
    def answer(self, conv, k, body):
        c = lambda i, cmd, n='shell': {'id': i, 'type': 'function', 'function': {'name': n, 'arguments': json.dumps({'command': cmd} if cmd else {})}}
        t = {'role': 'assistant', 'content': ['I look.', '', ''][min(k, 2)], 'reasoning_content': f'think{k}', 'tool_calls': [[c('c0', 'ls'), c('c1', 'pwd')], [c('c2', SOLVE)], [c('c3', '', 'submit')]][min(k, 2)]}
        if body.get('stream'): return chat({**t, 'tool_calls': [{**x, 'index': n} for n, x in enumerate(t['tool_calls'])]})
        return js({'id': 'x', 'model': 'mock', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': t}], 'usage': USAGE})
    def check(self, conv, k, body, h):
        ms = body['messages']; need = []
        for i, m in enumerate(ms):
            if i and m['role'] == 'assistant' and ms[i-1]['role'] == 'assistant': return err(400, 'Expected last role User or Tool but got two assistant messages in a row')
            if need and m['role'] != 'tool': return err(400, f"An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. (insufficient tool messages following tool_calls message)")
            if m['role'] == 'assistant':
                need = [t['id'] for t in m.get('tool_calls') or []]
                if need and not m.get('reasoning_content'): return err(400, 'The `reasoning_content` in the thinking mode must be passed back to the API.')
                if 'c0' in need and (m.get('content') != 'I look.' or m['reasoning_content'] != 'think0' or len(need) != 2): return err(400, f'changed: {m}')
            if m['role'] == 'tool':
                if m['tool_call_id'] not in need: return err(400, 'tool id')
                need.remove(m['tool_call_id'])
