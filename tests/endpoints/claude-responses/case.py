"""Messages endpoint, Responses client: signed thinking and redacted_thinking before two parallel calls must be sent back first and unchanged, and both results in one message. Also a signature without text (display omitted). (opencode#3077, litellm#41361)"""
from mock import *
class C(Case):
    api = 'messages'
    scaffold = '../cli/responses.toml'
    model = 'extra_body = { thinking = { type = "enabled", budget_tokens = 2000 } }'
    def answer(self, conv, k, body):
        t = lambda c, i, n='shell': {'type': 'tool_use', 'id': i, 'name': n, 'input': {'command': c} if c else {}}
        b = [[{'type': 'thinking', 'thinking': 'a', 'signature': 'S1'}, {'type': 'redacted_thinking', 'data': 'R'}, {'type': 'text', 'text': 'I'}, t('ls', 'toolu_1'), t('pwd', 'toolu_2')], [{'type': 'thinking', 'thinking': '', 'signature': 'S2'}, t(SOLVE, 'toolu_3')], [{'type': 'thinking', 'thinking': '', 'signature': 'S3'}, t('', 'toolu_4', 'submit')]][min(k, 2)]
        if body.get('stream'): return msg(*b)
        return js({'id': 'm', 'type': 'message', 'role': 'assistant', 'model': 'mock', 'content': b, 'stop_reason': 'tool_use', 'usage': {'input_tokens': 100, 'output_tokens': 20}})
    def check(self, conv, k, body, h):
        want = {'toolu_1': [('thinking', 'a', 'S1'), ('redacted_thinking', 'R')], 'toolu_3': [('thinking', '', 'S2')]}
        for i, m in enumerate(body['messages']):
            if m['role'] != 'assistant' or isinstance(m['content'], str): continue
            c = m['content']; uses = [b['id'] for b in c if b['type'] == 'tool_use']
            if not uses: continue
            th = [('thinking', b['thinking'], b['signature']) if b['type'] == 'thinking' else ('redacted_thinking', b['data']) for b in c if 'thinking' in b['type']]
            if c[0]['type'] not in ('thinking', 'redacted_thinking'): return merr(400, f"messages.{i}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{c[0]['type']}`. When `thinking` is enabled, a final `assistant` message must start with a thinking block.")
            if th != want.get(uses[0]): return merr(400, f'messages.{i}.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. {th}')
            r = [b['tool_use_id'] for b in body['messages'][i+1]['content'] if b['type'] == 'tool_result']
            if r != uses: return merr(400, f'messages.{i}: `tool_use` ids were found without `tool_result` blocks immediately after: {uses}')
